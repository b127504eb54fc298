//! Columns with what records have beside their values.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_connectors::kafka::KafkaConnector;
use anabranch_dataflow::{OnMalformed, SinkSpec, SourceSpec};
use anabranch_model::Epoch;
use anabranch_operators::{Connector as _, Delivery, Former, TaskContext};
use arrow::array::{
    Array, AsArray, BinaryBuilder, Int64Array, MapBuilder, RecordBatch, StringViewBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, TimeUnit, TimestampMillisecondType};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _};

use super::harness::{BOUNDED, Outside, PATIENCE, context, read_to_end, table};

/// A record with these headers, written at this time.
fn produce(outside: &Outside, topic: &str, partition: i32, value: &str, ms: i64, headers: &[(&str, Option<&str>)]) {
    let owned = headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: *value }));
    let record = BaseRecord::<(), str>::to(topic).partition(partition).payload(value).timestamp(ms).headers(owned);
    outside.producer.send(record).map_err(|(error, _)| error).unwrap();
    outside.producer.flush(PATIENCE).unwrap();
}

/// Reads a bounded table to its end: all rows of each partition, and how many records were malformed.
fn read(topic: &str, columns: &[(Field, Option<&str>)], projection: &[usize]) -> (Vec<RecordBatch>, usize) {
    let fields: Vec<Field> = columns.iter().map(|(field, _)| field.clone()).collect();
    let keys = columns.iter().enumerate().filter_map(|(column, (_, key))| Some((column, (*key)?.to_owned())));
    let spec = SourceSpec {
        projection: projection.to_vec(),
        metadata: keys.collect::<BTreeMap<_, _>>(),
        on_malformed: OnMalformed::Skip,
        ..SourceSpec::new("events", table(topic, &[BOUNDED]), Arc::new(Schema::new(fields)))
    };
    read_to_end(&spec)
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8View, true)
}

#[test]
fn rows_have_the_metadata_of_their_records_though_others_are_malformed() {
    let outside = Outside::shared();
    outside.create_topic("beside", 2);
    produce(&outside, "beside", 1, r#"{"id": 7}"#, 1_700_000_000_123, &[]);
    produce(&outside, "beside", 1, r#"{"id": "many"}"#, 1_700_000_000_124, &[]);
    produce(&outside, "beside", 1, r#"{"id": 8}"#, 1_700_000_000_125, &[]);
    let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let columns = [
        (Field::new("ts", time, false), Some("timestamp")),
        (Field::new("id", DataType::Int64, true), None),
        (Field::new("part", DataType::Int64, true), Some("partition")),
        (Field::new("place", DataType::Int64, false), Some("offset")),
        (text("from"), Some("topic")),
        (text("kind"), Some("timestamp-type")),
        (text("unused"), None),
    ];
    let (batches, malformed) = read("beside", &columns, &[0, 1, 2, 3, 4, 5]);
    assert_eq!((batches.len(), malformed), (1, 1));
    let ints = |column: usize| batches[0].column(column).as_primitive::<Int64Type>().values().to_vec();
    let times = batches[0].column(0).as_primitive::<TimestampMillisecondType>();
    assert_eq!(times.values().to_vec(), [1_700_000_000_123, 1_700_000_000_125]);
    assert_eq!((ints(1), ints(2), ints(3)), (vec![7, 8], vec![1, 1], vec![0, 2]));
    let texts = |column: usize| batches[0].column(column).as_string_view().iter().flatten().collect::<Vec<_>>();
    assert_eq!((texts(4), texts(5)), (vec!["beside"; 2], vec!["CreateTime"; 2]));

    let (batches, _) = read("beside", &columns, &[3]);
    assert_eq!(batches[0].num_columns(), 1, "no column of the content is needed");
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().values().to_vec(), [0, 1, 2]);
}

#[test]
fn headers_are_a_map_in_which_the_later_of_one_name_counts() {
    let outside = Outside::shared();
    outside.create_topic("headers", 1);
    let value = r#"{"id": 1}"#;
    produce(&outside, "headers", 0, value, 1, &[("a", Some("1")), ("b", None), ("a", Some("2"))]);
    produce(&outside, "headers", 0, value, 1, &[]);
    let (key, bytes) = (Field::new("key", DataType::Utf8View, false), Field::new("value", DataType::Binary, true));
    let entries = Field::new("entries", DataType::Struct(vec![key, bytes].into()), false);
    let columns = [
        (Field::new("id", DataType::Int64, true), None),
        (Field::new("headers", DataType::Map(Arc::new(entries), false), false), Some("headers")),
        (Field::new("epoch", DataType::Int32, true), Some("leader-epoch")),
    ];
    let (batches, _) = read("headers", &columns, &[0, 1, 2]);
    let maps = batches[0].column(1).as_map();
    assert_eq!((maps.value_length(0), maps.value_length(1)), (2, 0));
    let first = maps.value(0);
    let (names, values) = (first.column(0).as_string_view(), first.column(1).as_binary::<i32>());
    assert_eq!(names.iter().flatten().collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!((values.is_null(0), values.value(1)), (true, b"2".as_slice()));
    assert_eq!(batches[0].column(2).as_primitive::<Int32Type>().value(0), 0, "its first leader");
}

#[test]
fn times_and_headers_are_written_with_either_guarantee() {
    let outside = Outside::shared();
    outside.create_topic("attached", 1);
    let (key, bytes) = (Field::new("key", DataType::Utf8View, false), Field::new("value", DataType::Binary, true));
    let entries = Arc::new(Field::new("entries", DataType::Struct(vec![key, bytes].into()), false));
    let schema = Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("id", DataType::Int64, false),
        Field::new("headers", DataType::Map(Arc::clone(&entries), false), true),
    ]));
    let of = [(0, "timestamp"), (2, "headers")].map(|(column, key)| (column, key.to_owned()));
    let spec = SinkSpec { metadata: of.into(), ..SinkSpec::new("t", table("attached", &[]), Arc::clone(&schema)) };
    let rows = |first: i64| {
        let mut headers = MapBuilder::new(None, StringViewBuilder::new(), BinaryBuilder::new())
            .with_keys_field(Field::new("key", DataType::Utf8View, false))
            .with_values_field(Field::new("value", DataType::Binary, true));
        headers.keys().append_value("trace");
        headers.values().append_value(first.to_string());
        headers.keys().append_value("empty");
        headers.values().append_value("");
        headers.keys().append_value("none");
        headers.values().append_null();
        headers.append(true).unwrap();
        headers.append(true).unwrap();
        headers.append(false).unwrap();
        let times = TimestampMicrosecondArray::from(vec![Some(1_700_000_000_123_456), Some(1_000), None]);
        let headers = arrow::compute::cast(&headers.finish(), schema.field(2).data_type()).unwrap();
        let ids = Int64Array::from_iter_values(first..first + 3);
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(times), Arc::new(ids), headers]).unwrap()
    };
    let mut sink = KafkaConnector.sink(&spec, &context(0, 1)).unwrap();
    sink.write(&rows(1)).unwrap();
    sink.finish().unwrap();
    let exactly = Delivery::ExactlyOnce { scope: "attached".into(), former: Former::default() };
    let mut sink = KafkaConnector.sink(&spec, &TaskContext { delivery: exactly, ..context(0, 1) }).unwrap();
    sink.write(&rows(4)).unwrap();
    let committable = sink.prepare_commit(Epoch(1)).unwrap().unwrap();
    sink.commit(&committable).unwrap();
    outside.settle("attached");

    let columns = [
        (Field::new("id", DataType::Int64, true), None),
        (Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true), Some("timestamp")),
        (Field::new("headers", DataType::Map(entries, false), false), Some("headers")),
    ];
    let (batches, malformed) = read("attached", &columns, &[0, 1, 2]);
    assert_eq!(malformed, 0);
    let read = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
    let ids = read.column(0).as_primitive::<Int64Type>();
    assert_eq!(ids.values().to_vec(), [1, 2, 3, 4, 5, 6]);
    let times = read.column(1).as_primitive::<TimestampMillisecondType>().values();
    let maps = read.column(2).as_map();
    for first in [0, 3] {
        assert_eq!(times[first..first + 2], [1_700_000_000_123, 1]);
        assert!(times[first + 2] > 1_700_000_000_123, "the time of writing");
        let sizes: Vec<i32> = (first..first + 3).map(|row| maps.value_length(row)).collect();
        assert_eq!(sizes, [3, 0, 0]);
        let map = maps.value(first);
        let values = map.column(1).as_binary::<i32>();
        assert_eq!(map.column(0).as_string_view().iter().flatten().collect::<Vec<_>>(), ["trace", "empty", "none"]);
        assert_eq!((values.value(0), values.value(1)), ((first + 1).to_string().as_bytes(), b"".as_slice()));
        assert!(values.is_null(2));
    }
}
