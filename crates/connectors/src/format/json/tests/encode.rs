//! Rows to records.

use arrow::array::{Int64Array, StructArray};
use arrow::datatypes::TimeUnit;

use super::super::TimestampFormat;
use super::*;

fn encoded(encoder: &mut JsonEncoder, batch: &RecordBatch) -> Vec<String> {
    let array = encoder.encode(batch).unwrap();
    array.iter().map(|row| String::from_utf8(row.unwrap().to_vec()).unwrap()).collect()
}

#[test]
fn text_is_as_expected() {
    let columns = [
        ("id", DataType::Int64),
        ("a \"name\"", DataType::Utf8View),
        ("time", DataType::Timestamp(TimeUnit::Millisecond, None)),
        ("price", DataType::Decimal128(10, 2)),
        ("list", list(DataType::Boolean)),
        ("object", DataType::Struct(fields(&[("x", DataType::Float64)]))),
    ];
    let input = [
        r#"{"id":1,"a \"name\"":"tab\t\u0001","time":0,"price":1.5,"list":[true,null],"object":{"x":1}}"#,
        r#"{"object":{}}"#,
    ];
    let decoded = decode(&schema(&columns), &records(&input), &JsonOptions::default());
    let mut encoder = JsonEncoder::new(&schema(&columns)).unwrap();
    let expected = [
        r#"{"id":1,"a \"name\"":"tab\t\u0001","time":"1970-01-01 00:00:00.000","price":1.50,"list":[true,null],"object":{"x":1.0}}"#,
        r#"{"id":null,"a \"name\"":null,"time":null,"price":null,"list":null,"object":{"x":null}}"#,
    ];
    assert_eq!(encoded(&mut encoder, &decoded.batch), expected);
    let mut encoder = encoder.with_timestamp_format(TimestampFormat::Iso8601);
    assert!(encoded(&mut encoder, &decoded.batch)[0].contains("\"1970-01-01T00:00:00.000\""));
    // For a part of a batch, the same rows.
    assert_eq!(encoded(&mut encoder, &decoded.batch.slice(1, 1)), &expected[1..]);
    assert_eq!(encoded(&mut encoder, &decoded.batch.slice(0, 0)), [""; 0]);
}

#[test]
fn no_columns_are_empty_objects() {
    let batch = decode(&schema(&[]), &records(&["{}", "{}"]), &JsonOptions::default()).batch;
    assert_eq!(encoded(&mut JsonEncoder::new(&schema(&[])).unwrap(), &batch), ["{}", "{}"]);
    let empty = StructArray::new_empty_fields(2, None);
    let columns = schema(&[("s", empty.data_type().clone())]);
    let batch = RecordBatch::try_new(columns.clone(), vec![Arc::new(empty)]).unwrap();
    assert_eq!(encoded(&mut JsonEncoder::new(&columns).unwrap(), &batch), ["{\"s\":{}}", "{\"s\":{}}"]);
}

#[test]
fn a_batch_of_another_schema_is_refused() {
    let batch =
        RecordBatch::try_new(schema(&[("a", DataType::Int64)]), vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let mut encoder = JsonEncoder::new(&schema(&[("a", DataType::Utf8)])).unwrap();
    assert!(encoder.encode(&batch).is_err());
}
