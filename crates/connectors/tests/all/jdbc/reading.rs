//! A table is read once.

use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::JdbcConnector;
use anabranch_model::ManualClock;
use anabranch_operators::{Connector, Polled, Positions, TaskContext};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};

use super::harness::{schema, table};
use crate::postgres::{Postgres, shared};
use crate::suite::{context, row_texts, source_spec};

/// All rows of some columns, with what was malformed, and where the reader stands in the end.
fn read(
    server: &Postgres,
    name: &str,
    columns: &SchemaRef,
    projection: &[usize],
) -> (Option<RecordBatch>, Vec<String>) {
    let spec = source_spec(&table(server, name, &[]), columns, projection);
    let mut source = JdbcConnector.source(&spec, &context(0, 1), None).unwrap();
    let mut idle = JdbcConnector.source(&spec, &context(1, 2), None).unwrap();
    assert!(matches!(idle.poll(Duration::ZERO).unwrap(), Polled::End) && idle.positions().unwrap().is_empty());
    let (mut batches, mut malformed, mut closed) = (Vec::new(), Vec::new(), 0);
    loop {
        match source.poll(Duration::from_millis(20)).unwrap() {
            Polled::Rows(rows) => {
                malformed.extend(rows.malformed.into_iter().map(|bad| format!("{}: {}", bad.place, bad.error)));
                batches.push(rows.batch);
            }
            Polled::Closed(_) => closed += 1,
            Polled::End => break,
            Polled::Opened { .. } | Polled::Pending => {}
        }
    }
    assert_eq!(closed, 1);
    let end = Positions::from([("table".to_owned(), "end".to_owned())]);
    assert_eq!(source.positions().unwrap(), end);
    let mut again = JdbcConnector.source(&spec, &context(0, 1), Some(&end)).unwrap();
    assert!(matches!(again.poll(Duration::ZERO).unwrap(), Polled::End));
    let all = batches.first().map(|first| concat_batches(&first.schema(), &batches).unwrap());
    (all, malformed)
}

#[test]
fn values_of_all_types_are_read() {
    let server = shared();
    server.sql(
        "CREATE TABLE kinds (b boolean, i smallint, big bigint, f real, d double precision, n numeric(10, 2), s text, u uuid, bytes bytea,
           day date, at time(3), ts timestamp, tz timestamptz, list int[], texts text[]);
         INSERT INTO kinds VALUES (true, -7, 9007199254740993, 0.1, 'NaN', 1234567.89, E'a\"\\\\\\n\\u00e9', 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6',
           decode(repeat('00ff', 100), 'hex'), '2024-02-29', '01:02:03.004', '2024-01-01 00:00:00.123456', '2024-01-01 02:00:00+02',
           '{1,NULL,3}', '{a,\"b,c\"}');
         INSERT INTO kinds (s) VALUES ('');",
    );
    let list = |data_type| DataType::List(Arc::new(Field::new("item", data_type, true)));
    let columns: Vec<(&str, DataType)> = vec![
        ("b", DataType::Boolean),
        ("i", DataType::Int16),
        ("big", DataType::Int64),
        ("f", DataType::Float32),
        ("d", DataType::Float64),
        ("n", DataType::Decimal128(10, 2)),
        ("S", DataType::Utf8View),
        ("u", DataType::Utf8View),
        ("bytes", DataType::Binary),
        ("day", DataType::Date32),
        ("at", DataType::Time32(TimeUnit::Millisecond)),
        ("ts", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("tz", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))),
        ("list", list(DataType::Int32)),
        ("texts", list(DataType::Utf8View)),
    ];
    let fields: Vec<Field> = columns.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect();
    let columns: SchemaRef = Arc::new(Schema::new(fields));
    let (rows, malformed) = read(server, "kinds", &columns, &(0..15).collect::<Vec<_>>());
    assert!(malformed.is_empty(), "{malformed:?}");
    let bytes = "00ff".repeat(100);
    let expected = format!(
        "true|-7|9007199254740993|0.1|NaN|1234567.89|a\"\\\n\u{e9}|f81d4fae-7dec-11d0-a765-00a0c91e6bf6|{bytes}|2024-02-29|01:02:03.004|\
         2024-01-01T00:00:00.123456|2024-01-01T00:00:00Z|[1, \u{2205}, 3]|[a, b,c]"
    );
    let null = "\u{2205}|".repeat(6) + "|" + &"\u{2205}|".repeat(8);
    assert_eq!(row_texts(&rows.unwrap()), [expected.as_str(), null.trim_end_matches('|')]);
}

#[test]
fn only_the_columns_that_are_needed_are_read() {
    let server = shared();
    server.sql("CREATE TABLE many (id bigint, name text); INSERT INTO many SELECT i, 'n' || i FROM generate_series(1, 10000) i");
    let (rows, _) = read(server, "many", &schema(), &[0]);
    let rows = rows.unwrap();
    let ids = rows.column(0).as_primitive::<Int64Type>();
    assert_eq!((rows.num_columns(), ids.len(), ids.values().iter().sum::<i64>()), (1, 10_000, 50_005_000));
    let (rows, _) = read(server, "many", &schema(), &[]);
    assert_eq!(rows.unwrap().num_rows(), 10_000);
    server.sql("CREATE TABLE nothing (id bigint, name text)");
    assert!(read(server, "nothing", &schema(), &[0, 1]).0.is_none());
    // A value that does not fit its column.
    server.sql("CREATE TABLE wide (id bigint, name text); INSERT INTO wide VALUES (1, 'a'), (NULL, 'b'), (3, 'c')");
    let (rows, malformed) = read(server, "wide", &schema(), &[0, 1]);
    assert_eq!((rows.unwrap().num_rows(), malformed.len()), (2, 1));
    assert!(malformed[0].contains("row 1: "), "{malformed:?}");
    // Times of day that are none, beside another bad row.
    server.sql(
        "CREATE TABLE clocks (id bigint, at time);
         INSERT INTO clocks VALUES (NULL, '01:00'), (2, '24:00'), (3, '02:00'), (4, NULL), (5, '24:00'), (6, '03:00')",
    );
    let time = Field::new("at", DataType::Time32(TimeUnit::Millisecond), true);
    let columns = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), time]));
    let (rows, malformed) = read(server, "clocks", &columns, &[0, 1]);
    assert_eq!(row_texts(&rows.unwrap()), ["3|02:00:00", "4|\u{2205}", "6|03:00:00"]);
    let places: Vec<bool> =
        [0, 1, 4].iter().zip(&malformed).map(|(row, bad)| bad.contains(&format!("row {row}: "))).collect();
    assert_eq!(places, [true; 3], "{malformed:?}");
    let message = "column 'at': expected a time like \"10:20:30\", found \"24:00:00\"";
    assert!(malformed[2].contains(message), "{malformed:?}");
}

#[test]
fn a_database_that_gives_no_row_for_an_hour_fails_the_job() {
    let server = shared();
    server.sql(
        "CREATE VIEW held AS SELECT i AS id, 'n'::text AS name FROM generate_series(1::bigint, 10000) i
           UNION ALL SELECT 1, s::text FROM (SELECT pg_sleep(600) AS s OFFSET 0) q WHERE s::text = ''",
    );
    let clock = Arc::new(ManualClock::default());
    let context = TaskContext { clock: clock.clone(), ..context(0, 1) };
    let spec = source_spec(&table(server, "held", &[]), &schema(), &[0]);
    let mut source = JdbcConnector.source(&spec, &context, None).unwrap();
    let (mut rows, mut idle) = (0, 0);
    while rows < 5000 || idle < 3 {
        match source.poll(Duration::from_millis(100)).unwrap() {
            Polled::Rows(more) => (rows, idle) = (rows + more.batch.num_rows(), 0),
            Polled::Pending => idle += 1,
            _ => {}
        }
    }
    clock.advance(Duration::from_secs(59 * 60));
    assert!(matches!(source.poll(Duration::ZERO).unwrap(), Polled::Pending));
    clock.advance(Duration::from_secs(60));
    let error = source.poll(Duration::ZERO).err().unwrap().to_string();
    assert!(
        error.contains("table held") && error.contains("cannot be read any further: it does not answer"),
        "{error}"
    );
}

#[test]
fn a_table_that_was_read_in_part_is_not_resumed() {
    let server = shared();
    server.sql(
        "CREATE TABLE part (id bigint, name text); INSERT INTO part SELECT i, 'x' FROM generate_series(1, 1000) i",
    );
    let spec = source_spec(&table(server, "part", &[]), &schema(), &[0]);
    let mut source = JdbcConnector.source(&spec, &context(0, 1), None).unwrap();
    let begin = source.positions().unwrap();
    assert!(JdbcConnector.source(&spec, &context(0, 1), Some(&begin)).is_ok());
    while !matches!(source.poll(Duration::from_millis(20)).unwrap(), Polled::Rows(_)) {}
    let from = source.positions().unwrap();
    let error = JdbcConnector.source(&spec, &context(0, 1), Some(&from)).err().unwrap().to_string();
    assert!(error.contains("64 rows of the table were read, and its rows have no order"), "{error}");
    for (wrong, expected) in [(("table", "half"), "the position 'half' cannot be read"), (("other", "end"), "'other'")]
    {
        let from = Positions::from([(wrong.0.to_owned(), wrong.1.to_owned())]);
        let error = JdbcConnector.source(&spec, &context(0, 1), Some(&from)).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn tasks_share_the_ranges_of_a_column() {
    let server = shared();
    server.sql(
        "CREATE TABLE ranged (\"Id\" bigint, name text);
         INSERT INTO ranged SELECT i, 'n' || i FROM generate_series(1, 1000) i;
         INSERT INTO ranged VALUES (NULL, 'none'), (-1, 'before'), (1001, 'after')",
    );
    let options = |more: &[(&str, &str)]| {
        let ranges =
            [("scan.partition.column", "Id"), ("scan.partition.num", "7"), ("scan.partition.lower-bound", "1")];
        table(server, "ranged", &[&ranges[..], &[("scan.partition.upper-bound", "1000")], more].concat())
    };
    let traits = JdbcConnector.describe(&options(&[]), &schema()).unwrap();
    assert_eq!(traits.max_readers, Some(7));
    // The column of the ranges need not be read.
    let columns: SchemaRef = Arc::new(Schema::new(vec![Field::new("name", DataType::Utf8View, true)]));
    let spec = source_spec(&options(&[]), &columns, &[0]);
    let mut from = None;
    let mut names = Vec::new();
    // The second time, everything has been read.
    for parallelism in [3, 2] {
        let mut positions = Positions::new();
        for index in 0..parallelism {
            let mut source = JdbcConnector.source(&spec, &context(index, parallelism), from.as_ref()).unwrap();
            let (mut opened, mut closed) = (0, 0);
            loop {
                match source.poll(Duration::from_millis(20)).unwrap() {
                    Polled::Rows(rows) => names.extend(row_texts(&rows.batch)),
                    Polled::Opened { .. } => opened += 1,
                    Polled::Closed(_) => closed += 1,
                    Polled::End => break,
                    Polled::Pending => {}
                }
            }
            assert_eq!(opened, closed);
            positions.extend(source.positions().unwrap());
        }
        assert_eq!(positions.len(), 7);
        assert!(positions.iter().all(|(name, at)| name.ends_with(" of 7") && at == "end"), "{positions:?}");
        from = Some(positions);
    }
    names.sort();
    let mut expected: Vec<String> = (1..=1000).map(|id| format!("n{id}")).collect();
    expected.sort();
    assert_eq!(names, expected, "rows outside of the bounds and without a value are not read, as in Flink");
    let other = source_spec(&table(server, "ranged", &[]), &columns, &[0]);
    let error = JdbcConnector.source(&other, &context(0, 1), from.as_ref()).err().unwrap().to_string();
    assert!(error.contains("'partition 0 of 7'") && error.contains("it is read as a whole"), "{error}");
    for (given, expected) in [
        (("scan.partition.num", "0"), "option 'scan.partition.num' is 0"),
        (("scan.partition.lower-bound", "2000"), "above the upper one, 1000"),
    ] {
        let error = JdbcConnector.describe(&options(&[given]), &schema()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let some = table(server, "ranged", &[("scan.partition.column", "Id")]);
    let error = JdbcConnector.describe(&some, &schema()).unwrap_err().to_string();
    assert!(error.contains("some of the options 'scan.partition.*', but not all"), "{error}");
}
