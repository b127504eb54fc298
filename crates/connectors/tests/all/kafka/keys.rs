//! Columns that are in the keys of records alone.

use std::sync::Arc;

use anabranch_connectors::kafka::KafkaConnector;
use anabranch_dataflow::{SinkSpec, SourceSpec};
use anabranch_operators::Connector as _;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::harness::{BOUNDED, Outside, context, read_to_end, source_spec, table};

/// What a table writes, as it reads it.
fn written_and_read(topic: &str, options: &[(&str, &str)], rows: &RecordBatch) -> (RecordBatch, usize) {
    let spec = table(topic, &[options, &[BOUNDED]].concat());
    let schema: SchemaRef = rows.schema();
    let mut sink =
        KafkaConnector.sink(&SinkSpec::new("results", spec.clone(), schema.clone()), &context(0, 1)).unwrap();
    sink.write(rows).unwrap();
    sink.finish().unwrap();
    let spec = SourceSpec { declared: schema.clone(), ..source_spec(spec) };
    let (batches, malformed) = read_to_end(&spec);
    (concat_batches(&schema, &batches).unwrap(), malformed)
}

/// A key that is NULL is written as Kafka's null key, so such a record has NULL in the columns of its key.
#[test]
fn keys_that_are_null_are_read_as_they_are_written() {
    let outside = Outside::shared();
    let names: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("b,c"), None, Some("")]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(-1), None, Some(0)]));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5));
    for (format, key, options) in [
        ("raw", &names, &[][..]),
        ("csv", &names, &[][..]),
        ("json", &names, &[][..]),
        ("raw", &numbers, &[][..]),
        ("raw", &numbers, &[("key.raw.endianness", "little-endian")][..]),
        ("csv", &numbers, &[][..]),
        ("json", &numbers, &[][..]),
    ] {
        let kind = if options.is_empty() { key.data_type().to_string() } else { "little".to_owned() };
        let topic = format!("null-keys-{format}-{}", kind.to_lowercase());
        outside.create_topic(&topic, 1);
        let schema = Arc::new(Schema::new(vec![
            Field::new("k", key.data_type().clone(), true),
            Field::new("v", DataType::Int64, true),
        ]));
        let rows = RecordBatch::try_new(schema, vec![Arc::clone(key), Arc::clone(&values)]).unwrap();
        let of_key = [("key.fields", "k"), ("key.format", format), ("value.fields-include", "EXCEPT_KEY")];
        let (read, malformed) = written_and_read(&topic, &[&of_key, options].concat(), &rows);
        assert_eq!((&read, malformed), (&rows, 0), "{topic}");
    }
}
