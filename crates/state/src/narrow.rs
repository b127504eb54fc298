//! Numbers of 64 bits as state files have them: in as few bytes as the columns of a file need.
//!
//! Most bits of such a column say nothing: counts are small, times of a window are near each other, keys are
//! numbered. The least of the values is noted once, with the field, and the rows have the differences from
//! it, in one, two or four bytes. A column with one value is a single run. So what a checkpoint writes, and
//! what a restart reads, is a fraction.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int32Array, Int64Array, PrimitiveArray, RecordBatch,
    RecordBatchOptions, RunArray, UInt32Array, make_array, new_empty_array,
};
use arrow::compute::{max, min, take};
use arrow::datatypes::{
    ArrowNativeType, DataType, Field, FieldRef, Int32Type, Schema, SchemaRef, UInt8Type, UInt16Type, UInt32Type,
};

/// The type that values of a narrow column have, in the metadata of its field.
const TYPE: &str = "anabranch.type";
/// What must be added to each of them.
const BASE: &str = "anabranch.base";
/// Fewer rows do not pay for a field's metadata.
const ROWS_MIN: usize = 64;

/// How a column is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// As it is.
    Whole,
    /// All rows have the same value.
    OneRun,
    /// In so many bytes a row, less this number.
    Bytes(usize, i64),
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
    let batches = batches.iter().map(of_batch).collect::<Result<_>>()?;
    Ok((narrow_schema, batches))
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
    let Some(first) = columns.clone().next() else { return Ok(Width::Whole) };
    if rows < ROWS_MIN || !can_be_narrow(first.data_type()) {
        return Ok(Width::Whole);
    }
    let (mut least, mut most, mut nulls) = (None, None, 0);
    for column in columns {
        let numbers = numbers(column)?;
        if let (Some(low), Some(high)) = (min(&numbers), max(&numbers)) {
            (least, most) = (Some(least.map_or(low, |of: i64| of.min(low))), most.max(Some(high)));
        }
        nulls += column.null_count();
    }
    let (base, most) = (least.unwrap_or(0), most.unwrap_or(0));
    Ok(match most.wrapping_sub(base).cast_unsigned() {
        0 if nulls == 0 => Width::OneRun,
        0..=0xff => Width::Bytes(1, base),
        0x100..=0xffff => Width::Bytes(2, base),
        0x1_0000..=0xffff_ffff => Width::Bytes(4, base),
        _ => Width::Whole,
    })
}

/// Whether values of a type are 64 bits, and its name says all of it.
fn can_be_narrow(data_type: &DataType) -> bool {
    use DataType::{Date64, Duration, Int64, Time64, Timestamp, UInt64};
    matches!(data_type, Int64 | UInt64 | Date64 | Time64(_) | Timestamp(..) | Duration(_))
        && data_type.to_string().parse::<DataType>().is_ok_and(|parsed| parsed == *data_type)
}

/// The values of a column of 64 bits as numbers. Which of them are the greater ones only decides how narrow a
/// column is.
fn numbers(column: &ArrayRef) -> Result<Int64Array> {
    let data = column.to_data().into_builder().data_type(DataType::Int64).build()?;
    Ok(Int64Array::from(data))
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
            // A slice would keep all of the column.
            let (ends, value) = match end {
                0 => (Vec::new(), new_empty_array(column.data_type())),
                end => (vec![end], take(column, &UInt32Array::from(vec![0]), None)?),
            };
            Ok(Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(ends), &value)?))
        }
        Width::Bytes(1, base) => narrowed::<UInt8Type>(column, |number| number.wrapping_sub(base) as u8),
        Width::Bytes(2, base) => narrowed::<UInt16Type>(column, |number| number.wrapping_sub(base) as u16),
        Width::Bytes(_, base) => narrowed::<UInt32Type>(column, |number| number.wrapping_sub(base) as u32),
    }
}

fn narrowed<T: ArrowPrimitiveType>(column: &ArrayRef, narrow: impl Fn(i64) -> T::Native) -> Result<ArrayRef> {
    let numbers = numbers(column)?;
    let values: Vec<T::Native> = numbers.values().iter().map(|number| narrow(*number)).collect();
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), numbers.nulls().cloned())))
}

fn widen_column(field: &FieldRef, column: &ArrayRef) -> Result<(FieldRef, ArrayRef)> {
    let unknown = || {
        Error::outside(format!("column '{}' of a state file has a type that is not known", field.name()))
            .remedy("read the checkpoint with the version of Anabranch that wrote it")
    };
    let mut metadata = field.metadata().clone();
    let data_type = metadata.remove(TYPE).and_then(|text| text.parse::<DataType>().ok()).filter(can_be_narrow);
    let base = metadata.remove(BASE).and_then(|text| text.parse::<i64>().ok());
    let (data_type, base) = data_type.zip(base).ok_or_else(unknown)?;
    let wide = match column.data_type() {
        DataType::UInt8 => widened::<UInt8Type>(column, base),
        DataType::UInt16 => widened::<UInt16Type>(column, base),
        DataType::UInt32 => widened::<UInt32Type>(column, base),
        _ => {
            let run = column.as_run_opt::<Int32Type>().ok_or_else(unknown)?;
            let value = numbers(run.values())?.values().first().copied().unwrap_or(0);
            Int64Array::from(vec![value; run.len()])
        }
    };
    let wide = make_array(wide.into_data().into_builder().data_type(data_type.clone()).build()?);
    Ok((Arc::new(field.as_ref().clone().with_data_type(data_type).with_metadata(metadata)), wide))
}

fn widened<T: ArrowPrimitiveType>(column: &ArrayRef, base: i64) -> Int64Array {
    let column = column.as_primitive::<T>();
    let wide = column.values().iter().map(|narrow| base.wrapping_add(narrow.as_usize() as i64)).collect::<Vec<i64>>();
    Int64Array::new(wide.into(), column.nulls().cloned())
}

#[cfg(test)]
mod tests {
    use anabranch_model::Rng;
    use arrow::array::StringArray;
    use arrow::datatypes::TimeUnit;

    use super::*;
    use crate::{decode_rows, encode_rows};

    fn columns(types: &[DataType], values: &Int64Array) -> Vec<(Field, ArrayRef)> {
        let column = |of: &DataType| {
            let data = values.to_data().into_builder().data_type(of.clone()).build().expect("a column");
            (Field::new(of.to_string(), of.clone(), values.null_count() > 0), make_array(data))
        };
        types.iter().map(column).collect()
    }

    fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("rows")
    }

    fn types(batches: &[RecordBatch]) -> Vec<DataType> {
        let (schema, _) = narrow(&batches[0].schema(), batches).expect("narrow");
        schema.fields().iter().map(|field| field.data_type().clone()).collect()
    }

    #[test]
    fn columns_have_the_bytes_that_they_need_and_come_back() {
        let mut rng = Rng::new(1);
        let zone = Some("Europe/Zurich".into());
        let all = [
            DataType::Int64,
            DataType::UInt64,
            DataType::Date64,
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Duration(TimeUnit::Millisecond),
            DataType::Timestamp(TimeUnit::Millisecond, None),
            DataType::Timestamp(TimeUnit::Nanosecond, zone),
        ];
        for bits in 0..=64 {
            let rows = 64 + rng.below(40) as usize;
            let range = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            // Somewhere, also on both sides of 0, and at an end of what there is.
            let base =
                [rng.next_u64() as i64, -3, i64::MIN][rng.below(3) as usize].min(i64::MAX.wrapping_sub(range as i64));
            let base = if bits > 62 { i64::MIN } else { base };
            let mut value = |row: usize| match row {
                0 => base,
                1 => base.wrapping_add(range as i64),
                _ => base.wrapping_add((rng.next_u64() & range) as i64),
            };
            let values: Int64Array = (0..rows).map(&mut value).map(Some).collect();
            // NULL has another number beneath it.
            let some: Int64Array = (0..rows).map(|row| (row < 2 || row % 3 > 0).then(|| value(row))).collect();
            let mut of = columns(&all, &values);
            of.extend(columns(&all, &some));
            of.push((Field::new("text", DataType::Utf8, false), Arc::new(StringArray::from(vec!["a text"; rows]))));
            let rows_of = batch(of);
            let batches = [rows_of.slice(0, 10), rows_of.slice(10, 0), rows_of.slice(10, rows - 10)];
            let expected = |has_nulls: bool| match bits {
                0 if !has_nulls => None,
                0..=8 => Some(DataType::UInt8),
                9..=16 => Some(DataType::UInt16),
                17..=32 => Some(DataType::UInt32),
                _ => Some(DataType::Int64),
            };
            let narrow = types(&batches);
            for (column, has_nulls) in [(0, false), (all.len(), true)] {
                match expected(has_nulls) {
                    None => assert!(matches!(narrow[column], DataType::RunEndEncoded(..))),
                    Some(expected) => assert_eq!(narrow[column], expected, "{bits} bits, NULL: {has_nulls}"),
                }
            }
            let content = encode_rows(&rows_of.schema(), &batches).expect("encoded");
            assert_eq!(decode_rows(content.into()).expect("decoded"), batches, "{bits} bits from {base}");
        }
    }

    /// Rows of the fixtures.
    fn counts() -> RecordBatch {
        let window = DataType::Timestamp(TimeUnit::Millisecond, None);
        let starts = columns(&[window], &Int64Array::from(vec![1_700_000_000_000; 100]));
        let numbers = columns(
            &[DataType::Int64],
            &Int64Array::from_iter((0..100).map(|of| (of % 7 > 0).then_some(of * 1000 - 5))),
        );
        let texts: StringArray = (0..100).map(|of| Some(format!("key {of}"))).collect();
        let texts = (Field::new("key", DataType::Utf8, false), Arc::new(texts) as ArrayRef);
        batch(starts.into_iter().chain([texts]).chain(numbers).collect())
    }

    #[test]
    fn files_of_each_version_are_read_forever() {
        for file in
            [&include_bytes!("../fixtures/state-whole.arrow")[..], include_bytes!("../fixtures/state-narrow.arrow")]
        {
            assert_eq!(decode_rows(file.into()).expect("readable"), [counts()]);
        }
    }

    #[test]
    fn few_rows_and_types_that_their_names_do_not_tell_stay_as_they_are() {
        let of = |rows: i64, data_type: DataType| batch(columns(&[data_type], &Int64Array::from_iter_values(0..rows)));
        let few = of(63, DataType::Int64);
        assert_eq!(types(std::slice::from_ref(&few)), [DataType::Int64]);
        assert_eq!(types(&[few.slice(0, 0)]), [DataType::Int64]);
        assert_eq!(types(&[few.clone(), few]), [DataType::UInt8], "those of a file count together");
        let odd = DataType::Timestamp(TimeUnit::Second, Some("\"".into()));
        assert_eq!(types(&[of(100, odd.clone())]), [odd]);
        let nothing = batch(columns(&[DataType::Int64], &Int64Array::new_null(100)));
        let content = encode_rows(&nothing.schema(), std::slice::from_ref(&nothing)).expect("encoded");
        assert_eq!(decode_rows(content.into()).expect("decoded"), [nothing]);
    }

    #[test]
    fn a_type_that_is_not_known_is_an_error() {
        let metadata = [(TYPE.to_owned(), "Int65".to_owned()), (BASE.to_owned(), "0".to_owned())].into();
        let field = Field::new("n", DataType::UInt8, true).with_metadata(metadata);
        let column = Arc::new(PrimitiveArray::<UInt8Type>::from_iter_values(0..9));
        let error = widen(batch(vec![(field, column)])).expect_err("an unknown type").to_string();
        assert!(error.contains("column 'n' of a state file"), "{error}");
    }
}
