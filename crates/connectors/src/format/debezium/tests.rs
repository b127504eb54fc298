//! Changes as Debezium writes them, and as Flink does.

use std::collections::BTreeMap;

use anabranch_dataflow::ConnectorSpec;
use arrow::array::{Int64Array, StringViewArray};
use arrow::datatypes::TimeUnit;
use arrow::util::display::array_value_to_string;
use serde_json::Value;

use super::*;

fn columns() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8View, true)]))
}

fn options(given: &[(&str, &str)]) -> DebeziumOptions {
    let spec = ConnectorSpec::new("kafka", given);
    let mut options = Options::new(&spec);
    let read = DebeziumOptions::read(&mut options, "format").unwrap();
    options.finish().unwrap();
    read
}

/// Each row with the number of its record and its weight, and the malformed records.
fn decode(
    with: &DebeziumOptions,
    projection: &[usize],
    records: &[Option<&str>],
) -> (Vec<String>, Vec<(usize, String)>) {
    let records = BinaryArray::from_iter(records.iter().map(|record| record.map(str::as_bytes)));
    let changes = with.decoder(&columns(), projection, Vec::new(), false).unwrap().decode(&records).unwrap();
    let row = |row: usize| {
        let values = changes.columns.iter().map(|column| array_value_to_string(column, row).unwrap());
        format!("{} {:+} {}", changes.records[row], changes.weights[row], values.collect::<Vec<_>>().join(","))
    };
    ((0..changes.weights.len()).map(row).collect(), changes.malformed)
}

const CREATED: &str = r#"{"before":null,"after":{"id":1,"name":"a"},"source":{"table":"t"},"op":"c","ts_ms":1}"#;
const READ: &str = r#"{"before":null,"after":{"id":2,"name":null},"op":"r"}"#;
const UPDATED: &str = r#"{"op":"u","before":{"id":1,"name":"a"},"after":{"id":1,"name":"b"}}"#;
const DELETED: &str = r#"{"before":{"id":2,"name":null},"after":null,"op":"d"}"#;

#[test]
fn changes_are_rows_with_weights() {
    let records = [Some(CREATED), Some(READ), Some(UPDATED), None, Some(DELETED)];
    let (rows, malformed) = decode(&options(&[]), &[0, 1], &records);
    assert_eq!(rows, ["0 +1 1,a", "1 +1 2,", "2 -1 1,a", "2 +1 1,b", "4 -1 2,"]);
    assert!(malformed.is_empty(), "{malformed:?}");
    let (names, _) = decode(&options(&[]), &[1], &records);
    assert_eq!(names, ["0 +1 a", "1 +1 ", "2 -1 a", "2 +1 b", "4 -1 "]);
    let (none, _) = decode(&options(&[]), &[], &records);
    assert_eq!(none, ["0 +1 ", "1 +1 ", "2 -1 ", "2 +1 ", "4 -1 "]);
}

#[test]
fn records_may_have_a_schema() {
    let record = format!(r#"{{"schema":{{"type":"struct"}},"payload":{UPDATED}}}"#);
    let with = options(&[("debezium-json.schema-include", "true")]);
    let (rows, malformed) = decode(&with, &[0, 1], &[Some(&record), Some(CREATED)]);
    assert_eq!(rows, ["0 -1 1,a", "0 +1 1,b"]);
    assert!(malformed[0].1.contains("it has no \"op\""), "{malformed:?}");
    let error = with.encoder(&columns()).err().unwrap().to_string();
    assert!(error.contains("without a schema"), "{error}");
}

#[test]
fn what_is_no_change_is_malformed() {
    let partial = r#"{"before":null,"after":{"id":1,"name":"b"},"op":"u"}"#;
    let without = r#"{"before":null,"after":null,"op":"c"}"#;
    let truncated = r#"{"op":"t"}"#;
    let records = [Some("no"), Some(CREATED), Some(partial), Some(r#"{"id":1}"#), None, Some(truncated), Some(without)];
    let (rows, malformed) = decode(&options(&[]), &[0, 1], &records);
    assert_eq!(rows, ["1 +1 1,a"]);
    let places: Vec<usize> = malformed.iter().map(|(place, _)| *place).collect();
    assert_eq!(places, [0, 2, 3, 5, 6]);
    assert!(malformed[1].1.contains("REPLICA IDENTITY FULL"), "{malformed:?}");
    assert!(malformed[3].1.contains("\"op\" is \"t\""), "{malformed:?}");
}

#[test]
fn rows_are_written_as_flink_writes_them() {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 1, 2]));
    let names: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), Some("b"), None]));
    let rows = RecordBatch::try_new(columns(), vec![ids, names]).unwrap();
    let mut encoder = options(&[]).encoder(&columns()).unwrap();
    let text = |records: BinaryArray| {
        records.iter().flatten().map(|record| String::from_utf8(record.to_vec()).unwrap()).collect::<Vec<_>>()
    };
    let written = text(encoder.encode(&rows, Some(&[-1, 1, 1])).unwrap());
    let expected = [
        r#"{"before":{"id":1,"name":"a"},"after":null,"op":"d"}"#,
        r#"{"before":null,"after":{"id":1,"name":"b"},"op":"c"}"#,
        r#"{"before":null,"after":{"id":2,"name":null},"op":"c"}"#,
    ];
    assert_eq!(written, expected);
    let all_come = text(encoder.encode(&rows, None).unwrap());
    assert!(all_come.iter().all(|record| record.ends_with(r#""op":"c"}"#)), "{all_come:?}");
    let (read, _) = decode(&options(&[]), &[0, 1], &expected.map(Some));
    assert_eq!(read, ["0 -1 1,a", "1 +1 1,b", "2 +1 2,"]);
}

/// The columns of the records that Flink has read and written.
fn columns_of_flink() -> SchemaRef {
    let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    let tag = Arc::new(field("item", DataType::Utf8View));
    let r = Fields::from(vec![field("x", DataType::Int32), field("y", DataType::Utf8View)]);
    Arc::new(Schema::new(vec![
        field("id", DataType::Int32),
        field("name", DataType::Utf8View),
        field("price", DataType::Decimal128(10, 2)),
        field("weight", DataType::Float64),
        field("ok", DataType::Boolean),
        field("day", DataType::Date32),
        field("at", DataType::Timestamp(TimeUnit::Millisecond, None)),
        field("tags", DataType::List(tag)),
        field("r", DataType::Struct(r)),
    ]))
}

/// A record, with numbers as their values and without zeros at the end of times: `1.50` and `1.5E0` are one
/// number.
fn record_of(text: &str) -> Value {
    fn settle(value: &mut Value) {
        match value {
            Value::Number(number) => *value = number.as_f64().unwrap().into(),
            Value::Array(items) => items.iter_mut().for_each(settle),
            Value::Object(fields) => fields.values_mut().for_each(settle),
            Value::String(text) => *text = text.trim_end_matches(".000").to_owned(),
            _ => {}
        }
    }
    let mut value: Value = serde_json::from_str(text).unwrap();
    settle(&mut value);
    value
}

#[test]
fn records_that_are_read_and_written_are_those_of_flink() {
    let changes = include_str!("../../../../../tests/flink/debezium/changes.json");
    let flink = include_str!("../../../../../tests/flink/debezium/written.json");
    let (with, columns) = (options(&[]), columns_of_flink());
    let projection: Vec<usize> = (0..columns.fields().len()).collect();
    let records = BinaryArray::from_iter_values(changes.lines().collect::<Vec<_>>());
    let read = with.decoder(&columns, &projection, Vec::new(), false).unwrap().decode(&records).unwrap();
    assert!(read.malformed.is_empty(), "{:?}", read.malformed);
    let rows = RecordBatch::try_new(Arc::clone(&columns), read.columns).unwrap();
    let written = with.encoder(&columns).unwrap().encode(&rows, Some(&read.weights)).unwrap();
    let written: Vec<&str> = written.iter().flatten().map(|record| str::from_utf8(record).unwrap()).collect();
    assert_eq!(written.len(), flink.lines().count());
    for (ours, flink) in written.into_iter().zip(flink.lines()) {
        assert_eq!(record_of(ours), record_of(flink), "{ours}");
    }
}

#[test]
fn a_row_that_changes_replaces_the_version_before_unless_its_key_changes() {
    let moved = r#"{"op":"u","before":{"id":1,"name":"b"},"after":{"id":3,"name":"b"}}"#;
    let without_before = r#"{"op":"u","before":null,"after":{"id":3,"name":"c"}}"#;
    let key_alone = r#"{"op":"d","before":{"id":3},"after":null}"#;
    let records = [CREATED, UPDATED, moved, without_before, key_alone];
    let records = BinaryArray::from_iter_values(records.iter().map(|record| record.as_bytes()));
    let changes = options(&[]).decoder(&columns(), &[1, 0], vec![1], false).unwrap().decode(&records).unwrap();
    let ids = changes.columns[1].as_primitive::<arrow::datatypes::Int64Type>();
    let rows = changes.records.iter().zip(&changes.weights).zip(ids.values());
    let rows: Vec<(usize, i64, i64)> = rows.map(|((record, weight), id)| (*record, *weight, *id)).collect();
    assert_eq!(rows, [(0, 1, 1), (1, 1, 1), (2, -1, 1), (2, 1, 3), (3, 1, 3), (4, -1, 3)]);
    assert!(changes.malformed.is_empty(), "{:?}", changes.malformed);
}

#[test]
fn records_say_when_and_of_which_table_they_are() {
    let known = r#"{"before":null,"after":{"id":1},"op":"c","ts_ms":1700000000123,
        "source":{"ts_ms":1700000000001,"db":"shop","schema":null,"table":"orders","lsn":17,"snapshot":"true"}}"#;
    let unknown = r#"{"before":null,"after":{"id":2},"op":"c"}"#;
    let moved = r#"{"before":{"id":1},"after":{"id":2},"op":"u","ts_ms":2000,"source":{"ts_ms":1000,"table":"t"}}"#;
    let plain = [known, unknown, moved].map(str::to_owned);
    let with_schema = plain.clone().map(|record| format!(r#"{{"schema":{{}},"payload":{record}}}"#));
    for (has_schema, records) in [("false", plain), ("true", with_schema)] {
        let records = BinaryArray::from_iter_values(records.iter().map(|record| record.as_bytes()));
        let options = options(&[("debezium-json.schema-include", has_schema)]);
        let changes = options.decoder(&columns(), &[0], Vec::new(), true).unwrap().decode(&records).unwrap();
        assert!(changes.malformed.is_empty(), "{:?}", changes.malformed);
        let described = changes.described.unwrap();
        let column = |what| {
            let column = described.column(what).unwrap();
            assert_eq!(*column.data_type(), what.data_type());
            (0..column.len()).map(|row| array_value_to_string(&column, row).unwrap()).collect::<Vec<_>>()
        };
        let read: BTreeMap<&str, Vec<String>> =
            Description::NAMES.into_iter().map(|(name, what)| (name, column(what))).collect();
        let (first, second) = ("2023-11-14T22:13:20.123Z", "1970-01-01T00:00:02Z");
        assert_eq!(read["ingestion-timestamp"], [first, "", second, second]);
        assert_eq!(read["source.timestamp"][0], "2023-11-14T22:13:20.001Z");
        assert_eq!(read["source.database"], ["shop", "", "", ""]);
        assert_eq!(read["source.schema"], ["", "", "", ""]);
        assert_eq!(read["source.table"], ["orders", "", "t", "t"]);
        assert_eq!(
            read["source.properties"][0],
            "{ts_ms: 1700000000001, db: shop, schema: , table: orders, lsn: 17, snapshot: true}"
        );
    }
}

/// Records whose schema gives `at` this type.
fn timed(type_name: &str, before: &str, after: &str, op: &str) -> String {
    let row = |side: &str| {
        format!(
            r#"{{"type":"struct","fields":[{{"type":"int64","field":"id"}},{{"type":"int64","name":"{type_name}","field":"at"}}],"field":"{side}"}}"#
        )
    };
    format!(
        r#"{{"schema":{{"type":"struct","fields":[{},{}]}},"payload":{{"before":{before},"after":{after},"op":"{op}"}}}}"#,
        row("before"),
        row("after")
    )
}

#[test]
fn numbers_of_times_have_the_unit_of_their_schema() {
    const MICRO: &str = "io.debezium.time.MicroTimestamp";
    let to_ms = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Millisecond, zone.map(Into::into));
    for data_type in [to_ms(None), to_ms(Some("UTC"))] {
        let columns: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("at", data_type.clone(), true),
        ]));
        let with = options(&[("debezium-json.schema-include", "true")]);
        let mut decoder = with.decoder(&columns, &[0, 1], Vec::new(), false).unwrap();
        let row = |id: u32, at: &str| format!(r#"{{"id":{id},"at":{at}}}"#);
        let texts = [
            timed(MICRO, "null", &row(1, "1700000000123456"), "c"),
            timed(MICRO, &row(1, "1700000000123456"), &row(1, "-1"), "u"),
            timed("io.debezium.time.Timestamp", "null", &row(2, "1700000000123"), "c"),
            timed("io.debezium.time.NanoTimestamp", "null", &row(3, "1700000000123456789"), "c"),
            timed(MICRO, "null", &row(4, "null"), "c"),
            timed(MICRO, "null", &row(5, "1700000000123456789"), "c"),
            timed("io.debezium.time.Timestamp", "null", &row(6, "1700000000123456"), "c"),
            timed(MICRO, "null", "no JSON", "c"),
            // The schema comes last.
            format!(
                r#"{{"payload":{{"after":{},"op":"c"}},"schema":{{"fields":[{{"field":"after","fields":[{{"field":"at","name":"{MICRO}"}}]}}]}}}}"#,
                row(9, "1700000000123456")
            ),
        ];
        let records = BinaryArray::from_iter_values(texts.iter().map(String::as_bytes));
        let changes = decoder.decode(&records).unwrap();
        assert_eq!(changes.columns[1].data_type(), &data_type);
        let at = cast(&changes.columns[1], &DataType::Int64).unwrap();
        let at: Vec<Option<i64>> = at.as_primitive::<arrow::datatypes::Int64Type>().iter().collect();
        let ms = Some(1_700_000_000_123);
        assert_eq!(at, [ms, ms, Some(-1), ms, ms, None, ms]);
        assert_eq!(changes.records, [0, 1, 1, 2, 3, 4, 8]);
        assert_eq!(changes.weights, [1, -1, 1, 1, 1, 1, 1]);
        let malformed: Vec<(usize, &str)> = changes.malformed.iter().map(|(n, text)| (*n, text.as_str())).collect();
        assert!(
            malformed[0].0 == 5 && malformed[0].1.contains("column 'at': 1700000000123456789 microseconds"),
            "{malformed:?}"
        );
        assert!(malformed[1].0 == 6 && malformed[1].1.contains("out of the range"), "{malformed:?}");
        assert!(malformed[2].0 == 7 && malformed.len() == 3, "{malformed:?}");
    }
}
