//! Numbers of 64 bits as state files have them: in as few bytes as the columns of a file need.
//!
//! Most bits of such a column say nothing: counts are small, the times of a window are the same, keys are numbered. Bits above the highest
//! one in which any two values differ are the same in all rows. They are noted once, with the field, and the rows have the others, in one,
//! two or four bytes. A column with one value is a single run. So what a checkpoint writes, and what a restart reads, is a fraction.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int32Array, PrimitiveArray, RecordBatch, RecordBatchOptions,
    RunArray, UInt64Array, make_array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowNativeType, DataType, Field, FieldRef, Int32Type, Schema, SchemaRef, UInt8Type, UInt16Type, UInt32Type,
};

/// The type that values of a narrow column have, in the metadata of its field.
const TYPE: &str = "type";
/// The bits that are the same in all of them, as a number.
const BASE: &str = "base";
/// Fewer rows do not pay for a field's metadata.
const ROWS_MIN: usize = 64;

/// How a column is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// As it is.
    Whole,
    /// All rows have the same value.
    OneRun,
    /// In so many bytes a row, with these bits in all of them.
    Bytes(usize, u64),
}

/// Batches of this schema with narrow columns, and their schema.
pub(crate) fn narrow(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let of_column = |column| width(batches.iter().map(|batch| batch.column(column)));
    let widths = (0..schema.fields().len()).map(of_column).collect::<Result<Vec<Width>>>()?;
    if widths.iter().all(|width| *width == Width::Whole) {
        return Ok((Arc::clone(schema), batches.to_vec()));
    }
    let fields = schema.fields().iter().zip(&widths).map(|(field, width)| narrow_field(field, *width));
    let narrow_schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()));
    let of_batch = |batch: &RecordBatch| {
        let columns = batch.columns().iter().zip(&widths).map(|(column, width)| narrow_column(column, *width));
        with_columns(&narrow_schema, columns.collect::<Result<_>>()?, batch.num_rows())
    };
    let narrow = batches.iter().map(of_batch).collect::<Result<_>>()?;
    Ok((narrow_schema, narrow))
}

/// The batch that [`narrow`] was given, or one that was never narrow.
pub(crate) fn widen(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema_ref();
    if !schema.fields().iter().any(is_narrow) {
        return Ok(batch);
    }
    let wide = schema.fields().iter().zip(batch.columns()).map(|(field, column)| match is_narrow(field) {
        true => widen_column(field, column),
        false => Ok((Arc::clone(field), Arc::clone(column))),
    });
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = wide.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    with_columns(&schema, columns, batch.num_rows())
}

fn with_columns(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn is_narrow(field: &FieldRef) -> bool {
    field.metadata().contains_key(TYPE)
}

/// How a column of all batches of a file is written.
fn width<'a>(columns: impl Iterator<Item = &'a ArrayRef> + Clone) -> Result<Width> {
    let rows: usize = columns.clone().map(|column| column.len()).sum();
    let Some(first) = columns.clone().find(|column| !column.is_empty()) else { return Ok(Width::Whole) };
    if rows < ROWS_MIN || !has_64_bits(first.data_type()) {
        return Ok(Width::Whole);
    }
    let base = bits(first)?.value(0);
    let (mut differ, mut nulls) = (0, 0);
    for column in columns {
        differ = bits(column)?.values().iter().fold(differ, |differ, value| differ | (value ^ base));
        nulls += column.null_count();
    }
    Ok(match differ.checked_ilog2().map_or(0, |highest| highest / 8 + 1) {
        0 if nulls == 0 => Width::OneRun,
        bytes @ 0..=4 => {
            let bytes = bytes.next_power_of_two() as usize;
            Width::Bytes(bytes, base >> (8 * bytes) << (8 * bytes))
        }
        _ => Width::Whole,
    })
}

fn has_64_bits(data_type: &DataType) -> bool {
    use DataType::{Date64, Duration, Int64, Time64, Timestamp, UInt64};
    matches!(data_type, Int64 | UInt64 | Date64 | Time64(_) | Timestamp(..) | Duration(_))
}

/// The values of a column of 64 bits as unsigned numbers.
fn bits(column: &ArrayRef) -> Result<UInt64Array> {
    let data = column.to_data().into_builder().data_type(DataType::UInt64).build()?;
    Ok(UInt64Array::from(data))
}

fn narrow_field(field: &FieldRef, width: Width) -> FieldRef {
    let (narrow, base) = match width {
        Width::Whole => return Arc::clone(field),
        Width::OneRun => {
            let ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
            let values = Arc::new(Field::new("values", field.data_type().clone(), true));
            (DataType::RunEndEncoded(ends, values), 0)
        }
        Width::Bytes(1, base) => (DataType::UInt8, base),
        Width::Bytes(2, base) => (DataType::UInt16, base),
        Width::Bytes(_, base) => (DataType::UInt32, base),
    };
    let mut metadata = field.metadata().clone();
    metadata.insert(TYPE.into(), field.data_type().to_string());
    metadata.insert(BASE.into(), base.to_string());
    Arc::new(field.as_ref().clone().with_data_type(narrow).with_metadata(metadata))
}

fn narrow_column(column: &ArrayRef, width: Width) -> Result<ArrayRef> {
    match width {
        Width::Whole => Ok(Arc::clone(column)),
        Width::OneRun => {
            let end =
                i32::try_from(column.len()).map_err(|_| Error::internal("a batch of state with too many rows"))?;
            let ends: Int32Array = (end > 0).then_some(end).into_iter().collect();
            Ok(Arc::new(RunArray::<Int32Type>::try_new(&ends, &column.slice(0, ends.len()))?))
        }
        Width::Bytes(1, _) => narrowed::<UInt8Type>(column, |bits| bits as u8),
        Width::Bytes(2, _) => narrowed::<UInt16Type>(column, |bits| bits as u16),
        Width::Bytes(..) => narrowed::<UInt32Type>(column, |bits| bits as u32),
    }
}

fn narrowed<T: ArrowPrimitiveType>(column: &ArrayRef, low: fn(u64) -> T::Native) -> Result<ArrayRef> {
    let bits = bits(column)?;
    let values: Vec<T::Native> = bits.values().iter().map(|bits| low(*bits)).collect();
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), bits.nulls().cloned())))
}

fn widen_column(field: &FieldRef, column: &ArrayRef) -> Result<(FieldRef, ArrayRef)> {
    let mut metadata = field.metadata().clone();
    let data_type = metadata.remove(TYPE).and_then(|text| text.parse::<DataType>().ok()).filter(has_64_bits);
    let base = metadata.remove(BASE).and_then(|text| text.parse::<u64>().ok());
    let (Some(data_type), Some(base)) = (data_type, base) else {
        return Err(Error::outside(format!("column '{}' of a state file has a type that is not known", field.name()))
            .remedy("read the checkpoint with the version of Anabranch that wrote it"));
    };
    let wide = match column.data_type() {
        DataType::UInt8 => widened::<UInt8Type>(column, base, &data_type)?,
        DataType::UInt16 => widened::<UInt16Type>(column, base, &data_type)?,
        DataType::UInt32 => widened::<UInt32Type>(column, base, &data_type)?,
        _ => cast(column, &data_type)?,
    };
    Ok((Arc::new(field.as_ref().clone().with_data_type(data_type).with_metadata(metadata)), wide))
}

fn widened<T: ArrowPrimitiveType>(column: &ArrayRef, base: u64, data_type: &DataType) -> Result<ArrayRef> {
    let column = column.as_primitive::<T>();
    let wide = column.values().iter().map(|low| low.as_usize() as u64 | base).collect::<Vec<u64>>();
    let wide = UInt64Array::new(wide.into(), column.nulls().cloned());
    Ok(make_array(wide.into_data().into_builder().data_type(data_type.clone()).build()?))
}

#[cfg(test)]
mod tests {
    use anabranch_model::Rng;
    use arrow::array::{Int64Array, StringArray, TimestampMillisecondArray};
    use arrow::datatypes::TimeUnit;

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .expect("rows")
    }

    fn bytes(batches: &[RecordBatch]) -> Vec<DataType> {
        let (schema, _) = narrow(&batches[0].schema(), batches).expect("narrow");
        schema.fields().iter().map(|field| field.data_type().clone()).collect()
    }

    #[test]
    fn columns_have_the_bytes_that_they_need_and_come_back() {
        let mut rng = Rng::new(1);
        for most_bits in 0..=64 {
            let rows = 64 + rng.below(40) as usize;
            // Bits that are the same everywhere, also the sign.
            let base = rng.next_u64();
            let mask = if most_bits == 64 { u64::MAX } else { (1 << most_bits) - 1 };
            let mut of = |nulls: bool| -> Int64Array {
                let mut value = || (base & !mask | rng.next_u64() & mask) as i64;
                let values = (0..rows).map(|row| (row == 0 || !nulls || value() % 3 != 0).then(&mut value));
                values.collect()
            };
            let times: TimestampMillisecondArray = of(false).values().iter().copied().map(Some).collect();
            let columns: Vec<(&str, ArrayRef)> = vec![
                ("numbers", Arc::new(of(false))),
                ("some", Arc::new(of(true))),
                ("times", Arc::new(times.with_timezone("Europe/Zurich"))),
                ("texts", Arc::new((0..rows).map(|row| Some(row.to_string())).collect::<StringArray>())),
            ];
            let all = batch(columns);
            let batches = [all.slice(0, 10), all.slice(10, 0), all.slice(10, rows - 10)];
            let (schema, narrow) = narrow(&all.schema(), &batches).expect("narrow");
            let is_expected = match (most_bits, schema.field(0).data_type()) {
                (0, is) => matches!(is, DataType::RunEndEncoded(..)),
                (1..=8, is) => *is == DataType::UInt8,
                (9..=16, is) => *is == DataType::UInt16,
                (17..=32, is) => *is == DataType::UInt32,
                (_, is) => *is == DataType::Int64,
            };
            assert!(is_expected, "{most_bits} bits: {}", schema.field(0));
            assert_eq!(schema.field(3).data_type(), &DataType::Utf8);
            for (narrow, batch) in narrow.into_iter().zip(batches) {
                assert_eq!(widen(narrow).expect("wide"), batch, "{most_bits} bits");
            }
        }
    }

    #[test]
    fn few_rows_and_nothing_stay_as_they_are() {
        let few = batch(vec![("n", Arc::new(Int64Array::from_iter_values(0..63)))]);
        assert_eq!(bytes(std::slice::from_ref(&few)), [DataType::Int64]);
        assert_eq!(bytes(&[few.slice(0, 0)]), [DataType::Int64]);
        assert_eq!(bytes(&[few.clone(), few]), [DataType::UInt8], "those of a file count together");
    }

    #[test]
    fn a_type_that_is_not_known_is_an_error() {
        let metadata = [(TYPE.to_owned(), "Int65".to_owned()), (BASE.to_owned(), "0".to_owned())].into();
        let field = Field::new("n", DataType::UInt8, true).with_metadata(metadata);
        let column = Arc::new(PrimitiveArray::<UInt8Type>::from_iter_values(0..9));
        let rows = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]).expect("rows");
        let error = widen(rows).expect_err("an unknown type").to_string();
        assert!(error.contains("column 'n' of a state file"), "{error}");
        let time = DataType::Timestamp(TimeUnit::Millisecond, Some("Europe/Zurich".into()));
        assert_eq!(time.to_string().parse::<DataType>().expect("a type"), time);
    }
}
