//! Arrays of every type that a plan can have, and of types that it cannot have yet, with random contents.

use std::sync::Arc;

use anabranch_model::Rng;
use arrow::array::{
    Array, ArrayData, ArrayRef, BinaryViewBuilder, BooleanArray, NullArray, RecordBatch, StringViewArray,
    StringViewBuilder, layout, make_array,
};
use arrow::array::{BufferSpec, RecordBatchOptions};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode};

use super::super::arrays::check_type;
use super::super::frame::encode;
use super::{INCARNATION, rows, sent};

fn field(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, true))
}

fn map() -> DataType {
    let fields = [Field::new("key", DataType::Utf8View, false), Field::new("value", DataType::Int32, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields.into_iter().collect()), false)), false)
}

fn structure() -> DataType {
    let nested = DataType::List(field(DataType::Struct([field(DataType::Utf8View)].into_iter().collect())));
    DataType::Struct(Fields::from(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", nested, true),
        Field::new("c", DataType::Boolean, true),
    ]))
}

fn types() -> Vec<DataType> {
    let timestamps = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond]
        .into_iter()
        .flat_map(|unit| [None, Some("UTC".into())].map(|zone| DataType::Timestamp(unit, zone)));
    let dictionary = |keys, values| DataType::Dictionary(Box::new(keys), Box::new(values));
    timestamps
        .chain([
            DataType::Null,
            DataType::Boolean,
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Float16,
            DataType::Float32,
            DataType::Float64,
            DataType::Decimal128(38, 2),
            DataType::Decimal256(60, 3),
            DataType::Date32,
            DataType::Date64,
            DataType::Time32(TimeUnit::Second),
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Microsecond),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Duration(TimeUnit::Nanosecond),
            DataType::Interval(IntervalUnit::YearMonth),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::FixedSizeBinary(5),
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::BinaryView,
            DataType::List(field(DataType::Utf8View)),
            DataType::List(field(DataType::List(field(DataType::Boolean)))),
            DataType::LargeList(field(DataType::Decimal128(10, 0))),
            DataType::FixedSizeList(field(DataType::Int16), 3),
            dictionary(DataType::Int32, DataType::Utf8View),
            dictionary(DataType::UInt8, DataType::Int64),
            map(),
            structure(),
            DataType::List(field(structure())),
        ])
        .collect()
}

/// Letters of one to four bytes.
fn text(rng: &mut Rng) -> String {
    let ascii_only = rng.below(3) > 0;
    let letters = if ascii_only { ['a', 'Z', '7', ' '] } else { ['a', 'é', '€', '𝄞'] };
    (0..rng.below(40)).map(|_| letters[rng.below(4) as usize]).collect()
}

fn random_bytes(rng: &mut Rng, bytes: usize) -> Buffer {
    Buffer::from_vec((0..bytes).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>())
}

fn random(data_type: &DataType, rows: usize, is_nullable: bool, rng: &mut Rng) -> ArrayRef {
    let values = |data: &ArrayRef| data.to_data();
    let offsets = |rng: &mut Rng| -> Vec<i32> {
        let lengths = (0..rows).map(|_| rng.below(4) as i32);
        std::iter::once(0).chain(lengths.scan(0, |end, len| Some(std::mem::replace(end, *end + len) + len))).collect()
    };
    let plain = ArrayData::builder(data_type.clone()).len(rows);
    let data = match data_type {
        DataType::Null => return Arc::new(NullArray::new(rows)),
        DataType::Boolean => plain.add_buffer(random_bytes(rng, rows.div_ceil(8))),
        DataType::Utf8View => {
            // Small blocks, so that there are several buffers.
            let mut builder = StringViewBuilder::new().with_fixed_block_size(256);
            (0..rows).for_each(|_| builder.append_value(text(rng)));
            values(&(Arc::new(builder.finish()) as ArrayRef)).into_builder()
        }
        DataType::BinaryView => {
            let mut builder = BinaryViewBuilder::new().with_fixed_block_size(256);
            for _ in 0..rows {
                let bytes = rng.below(30) as usize;
                builder.append_value(random_bytes(rng, bytes).as_slice());
            }
            values(&(Arc::new(builder.finish()) as ArrayRef)).into_builder()
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            let views = random(&DataType::Utf8View, rows, false, rng);
            values(&cast(&views, data_type).unwrap()).into_builder()
        }
        DataType::List(item) | DataType::Map(item, _) => {
            let offsets = offsets(rng);
            let child = random(item.data_type(), offsets[rows] as usize, item.is_nullable(), rng);
            plain.add_buffer(Buffer::from_vec(offsets)).add_child_data(child.to_data())
        }
        DataType::LargeList(item) => {
            let offsets: Vec<i64> = offsets(rng).into_iter().map(i64::from).collect();
            let child = random(item.data_type(), offsets[rows] as usize, item.is_nullable(), rng);
            plain.add_buffer(Buffer::from_vec(offsets)).add_child_data(child.to_data())
        }
        DataType::FixedSizeList(item, size) => {
            plain.add_child_data(random(item.data_type(), rows * *size as usize, true, rng).to_data())
        }
        DataType::Struct(fields) => plain.child_data(
            fields.iter().map(|field| random(field.data_type(), rows, field.is_nullable(), rng).to_data()).collect(),
        ),
        DataType::Dictionary(keys, values) => {
            let count = 1 + rng.below(20) as usize;
            let data = random(&DataType::UInt8, rows, false, rng).to_data();
            let bytes: Vec<i32> = data.buffers()[0].iter().map(|byte| i32::from(*byte) % count as i32).collect();
            let indices = cast(&arrow::array::Int32Array::from(bytes), keys).unwrap();
            plain
                .add_buffer(indices.to_data().buffers()[0].clone())
                .add_child_data(random(values, count, true, rng).to_data())
        }
        other => match layout(other).buffers[0] {
            BufferSpec::FixedWidth { byte_width, .. } => {
                let words = rows * byte_width / 8 + 1;
                plain.add_buffer(Buffer::from_vec((0..words).map(|_| rng.next_u64()).collect::<Vec<_>>()))
            }
            _ => panic!("{other}"),
        },
    };
    let nulls = match (is_nullable, rng.below(3)) {
        (false, _) | (_, 0) => None,
        (_, 1) => Some(NullBuffer::new_null(rows)),
        _ => Some(NullBuffer::from_iter((0..rows).map(|_| rng.below(4) > 0))),
    };
    make_array(data.nulls(nulls).build().unwrap())
}

/// A batch with a column of each of some types.
pub(super) fn random_batch(types: &[DataType], rows: usize, rng: &mut Rng) -> RecordBatch {
    let columns = types.iter().map(|data_type| random(data_type, rows, true, rng)).collect();
    let field = |(index, data_type): (usize, &DataType)| Field::new(format!("c{index}"), data_type.clone(), true);
    let schema = Schema::new(types.iter().enumerate().map(field).collect::<Vec<_>>());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).unwrap()
}

/// Random columns of random types.
pub(super) fn any_batch(rng: &mut Rng, rows_max: u64) -> RecordBatch {
    let types = types();
    let chosen: Vec<_> = (0..rng.below(6)).map(|_| types[rng.below(types.len() as u64) as usize].clone()).collect();
    let rows = rng.below(rows_max) as usize;
    random_batch(&chosen, rows, rng)
}

fn check(batch: &RecordBatch) {
    let received = sent(batch).unwrap();
    received.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
    assert!(received == *batch, "{:?}", batch.schema());
}

#[test]
fn every_type_arrives_as_it_was() {
    for data_type in types() {
        check_type(&data_type).unwrap();
        for seed in 0..6 {
            for rows in [0, 1, 7, 8, 9, 300] {
                check(&random_batch(std::slice::from_ref(&data_type), rows, &mut Rng::new(seed)));
            }
        }
    }
}

#[test]
fn slices_arrive_as_they_were() {
    for data_type in types() {
        let batch = random_batch(&[data_type], 200, &mut Rng::new(5));
        for (start, rows) in [(0, 0), (0, 8), (1, 7), (8, 64), (13, 150), (199, 1), (200, 0)] {
            check(&batch.slice(start, rows));
            check(&batch.slice(3, 190).slice(start.min(190), rows.min(190 - start.min(190))));
        }
    }
}

#[test]
fn random_batches_arrive_as_they_were() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let batch = any_batch(&mut rng, 500);
        let start = rng.below(batch.num_rows() as u64 + 1) as usize;
        let rows = rng.below((batch.num_rows() - start) as u64 + 1) as usize;
        check(&batch);
        check(&batch.slice(start, rows));
    }
}

#[test]
fn rows_without_columns_arrive() {
    check(&random_batch(&[], 8192, &mut Rng::new(0)));
}

/// Only the rows of a slice are sent, and no string buffer that they hardly use.
#[test]
fn a_slice_costs_its_rows() {
    for data_type in types() {
        if matches!(data_type, DataType::Dictionary(..)) {
            continue; // its values are sent whole
        }
        let batch = random_batch(&[data_type], 20_000, &mut Rng::new(5));
        let bytes = |batch: &RecordBatch| super::bytes_of(&super::rows(batch), anabranch_model::Nanos(0)).len();
        let (whole, part) = (bytes(&batch), bytes(&batch.slice(7000, 100)));
        assert!(part < whole / 50 + 2048, "{:?}: {part} of {whole} bytes", batch.schema());
    }
}

#[test]
fn types_without_a_format_are_refused_before_rows_are_sent() {
    let union = DataType::Union(UnionFields::empty(), UnionMode::Sparse);
    let run_ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
    let runs = DataType::RunEndEncoded(run_ends, field(DataType::Int64));
    for data_type in [union, runs.clone(), DataType::ListView(field(DataType::Int64)), DataType::List(field(runs))] {
        assert!(check_type(&data_type).unwrap_err().to_string().contains("a column of type"), "{data_type}");
    }
}

/// Bytes of the frame with strings of 40 bytes, of which every n-th is kept.
fn bytes_of_every(step: usize) -> u64 {
    let strings: StringViewArray = (0..20_000).map(|row| Some(format!("{row:040}"))).collect();
    let kept: BooleanArray = (0..strings.len()).map(|row| Some(row % step == 0)).collect();
    let kept = filter(&strings, &kept).unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8View, true)]));
    let batch = RecordBatch::try_new(schema, vec![kept]).unwrap();
    encode(&rows(&batch), 0, INCARNATION, usize::MAX).unwrap()[0].frame().bytes()
}

#[test]
fn strings_that_a_filter_has_dropped_are_not_sent() {
    assert!(bytes_of_every(1) >= 20_000 * 56);
    let third = bytes_of_every(3);
    assert!((6_000 * 56..7_000 * 56).contains(&third), "{third} bytes");
    let few = bytes_of_every(100);
    assert!((200 * 56..210 * 56).contains(&few), "{few} bytes");
}
