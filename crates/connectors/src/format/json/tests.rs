//! Tests of the whole format. Every check runs with every set of instructions, with and without layouts, and
//! with the general parser alone: all must give the same rows and the same malformed records.

mod differential;
mod encode;
mod fuzz;
mod malformed;
mod speculation;
mod types;

use std::sync::Arc;

use arrow::array::{Array, BinaryArray, RecordBatch};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use serde_json::Value;

use super::decoder::Instructions;
use super::{JsonDecoder, JsonEncoder, JsonOptions};
use crate::format::{Decode, Decoded, Encode};

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(fields(columns)))
}

fn fields(columns: &[(&str, DataType)]) -> Fields {
    columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect()
}

fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

fn map(key: DataType, value: DataType) -> DataType {
    let entry = vec![Field::new("key", key, false), Field::new("value", value, true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry.into()), false)), false)
}

/// Records stored consecutively in a buffer without a spare byte.
fn records<T: AsRef<[u8]>>(records: &[T]) -> BinaryArray {
    let bytes: Vec<u8> = records.iter().flat_map(|record| record.as_ref().iter().copied()).collect();
    let bytes: Box<[u8]> = bytes.into();
    let offsets = OffsetBuffer::from_lengths(records.iter().map(|record| record.as_ref().len()));
    BinaryArray::new(offsets, Buffer::from_vec(bytes.into_vec()), None)
}

/// Every set of instructions, with and without layouts.
fn all_ways() -> Vec<(Instructions, bool)> {
    let best = Instructions::detect();
    vec![(best, true), (best, false), (Instructions::Baseline, true), (Instructions::Portable, false)]
}

/// Decodes in every way, in one batch and in two, and returns the common result.
fn decode(schema: &SchemaRef, records: &BinaryArray, options: &JsonOptions) -> Decoded {
    let decoder = |instructions| JsonDecoder::new(schema.clone(), options).unwrap().with_instructions(instructions);
    let expected = decoder(Instructions::None).decode(records).unwrap();
    validate(&expected.batch);
    for way in all_ways() {
        let mut decoder = match way {
            (instructions, true) => decoder(instructions),
            (instructions, false) => decoder(instructions).without_layouts(),
        };
        for _ in 0..2 {
            let found = decoder.decode(records).unwrap();
            validate(&found.batch);
            assert_eq!(found.batch, expected.batch, "{way:?}");
            assert_eq!(found.malformed, expected.malformed, "{way:?}");
        }
        let half = records.len() / 2;
        let first = decoder.decode(&records.slice(0, half)).unwrap();
        let second = decoder.decode(&records.slice(half, records.len() - half)).unwrap();
        let rows = first.batch.num_rows();
        assert_eq!(first.batch, expected.batch.slice(0, rows), "{way:?}");
        assert_eq!(second.batch, expected.batch.slice(rows, expected.batch.num_rows() - rows), "{way:?}");
    }
    expected
}

/// Verifies the guarantees that the decoder gives to Arrow without Arrow's own checks.
fn validate(batch: &RecordBatch) {
    for column in batch.columns() {
        column.to_data().validate_full().unwrap();
    }
}

/// The rows of a batch, through the encoder.
fn rows(batch: &RecordBatch) -> Vec<Value> {
    let encoded = JsonEncoder::new(&batch.schema()).unwrap().encode(batch).unwrap();
    encoded.iter().map(|row| serde_json::from_slice(row.unwrap()).unwrap()).collect()
}

/// All records are good and give these rows.
fn check(columns: &[(&str, DataType)], input: &[&str], expected: &[&str]) {
    let decoded = decode(&schema(columns), &records(input), &JsonOptions::default());
    assert_eq!(decoded.malformed, []);
    let expected: Vec<Value> = expected.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows(&decoded.batch), expected);
}
