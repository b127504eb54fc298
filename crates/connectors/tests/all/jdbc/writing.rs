//! At least once: rows are in the database when their epoch has ended.

use std::sync::Arc;

use anabranch_connectors::JdbcConnector;
use anabranch_dataflow::SinkSpec;
use anabranch_model::Epoch;
use anabranch_operators::Connector;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringViewArray, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::datatypes::{Float64Type, Int32Type};

use super::harness::{keyed, open, refusal, rows, schema, table, updates};
use crate::postgres::{Postgres, shared};
use crate::suite::context;

#[test]
fn rows_of_all_types_are_appended() {
    let server = shared();
    server.sql(
        "CREATE TABLE every (b boolean, i1 smallint, i2 smallint, i4 int, i8 bigint, f4 real, f8 double precision, d numeric(10,2),
           s text, \"Mixed Case\" varchar(20), bytes bytea, day date, at time(3), ts timestamp(3), tz timestamptz, list int[], floats float8[],
           j jsonb, u uuid, own serial, PRIMARY KEY (own))",
    );
    let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None, Some(-3)]), None]);
    let floats = ListArray::from_iter_primitive::<Float64Type, _, _>(vec![Some(vec![Some(0.5), Some(f64::NAN)]), None]);
    let decimals = Decimal128Array::from(vec![Some(-12345), None]).with_precision_and_scale(10, 2).unwrap();
    let zoned = TimestampMicrosecondArray::from(vec![Some(1_700_000_000_123_456), None]).with_timezone("UTC");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("i1", Arc::new(Int8Array::from(vec![Some(-128), None]))),
        ("i2", Arc::new(Int16Array::from(vec![Some(-32768), None]))),
        ("i4", Arc::new(Int32Array::from(vec![Some(i32::MIN), None]))),
        ("i8", Arc::new(Int64Array::from(vec![Some(i64::MIN), None]))),
        ("f4", Arc::new(Float32Array::from(vec![Some(0.1), None]))),
        ("f8", Arc::new(Float64Array::from(vec![Some(f64::INFINITY), None]))),
        ("d", Arc::new(decimals)),
        ("s", Arc::new(StringViewArray::from(vec![Some("a\tb\\N\u{e9}"), None]))),
        ("Mixed Case", Arc::new(StringViewArray::from(vec![Some(""), None]))),
        ("bytes", Arc::new(BinaryArray::from(vec![Some(b"\x00\xff\\".as_slice()), None]))),
        ("day", Arc::new(Date32Array::from(vec![Some(19_723), None]))),
        ("at", Arc::new(Time32MillisecondArray::from(vec![Some(3_723_004), None]))),
        ("ts", Arc::new(TimestampMillisecondArray::from(vec![Some(1_700_000_000_123), None]))),
        ("tz", Arc::new(zoned)),
        ("list", Arc::new(lists)),
        ("floats", Arc::new(floats)),
        ("j", Arc::new(StringViewArray::from(vec![Some("{\"a\": [1]}"), None]))),
        ("u", Arc::new(StringViewArray::from(vec![Some(uuid), None]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let spec = SinkSpec::new("t", table(server, "public.every", &[]), batch.schema());
    let traits = JdbcConnector.describe(&spec.connector, &batch.schema()).unwrap();
    assert!(traits.writable && traits.readable && traits.bounded);
    let mut sink = open(&spec);
    sink.write(&batch).unwrap();
    sink.epoch_end(Epoch(1)).unwrap();
    sink.finish().unwrap();
    let expected = format!(
        "t|-128|-32768|-2147483648|-9223372036854775808|0.1|Infinity|-123.45|a\tb\\N\u{e9}||\\x00ff5c|2024-01-01|01:02:03.004|\
         2023-11-14 22:13:20.123|2023-11-14 22:13:20.123456+00|{{1,NULL,-3}}|{{0.5,NaN}}|{{\"a\": [1]}}|{uuid}|1"
    );
    assert_eq!(server.sql("SELECT * FROM every ORDER BY own"), [expected, format!("{}2", "|".repeat(19))]);
    assert_eq!(server.sql("SELECT count(*) FROM every WHERE \"Mixed Case\" = ''"), ["1"]);
}

#[test]
fn of_a_table_with_a_key_the_latest_row_of_each_stays() {
    let server = shared();
    // Created without quotes, the names are in lower case.
    server.sql("CREATE TABLE Latest (Name text, note text DEFAULT 'kept', ID bigint PRIMARY KEY)");
    let mut sink = open(&keyed(table(server, "Latest", &[])));
    sink.write(&updates(&[(1, "a", 1), (2, "b", 1), (3, "c", 1), (1, "a", -1), (1, "d", 1)])).unwrap();
    sink.epoch_end(Epoch(1)).unwrap();
    assert_eq!(server.sql("SELECT id, name, note FROM latest ORDER BY id"), ["1|d|kept", "2|b|kept", "3|c|kept"]);
    server.sql("UPDATE latest SET note = 'changed'");
    sink.write(&updates(&[(2, "b", -1), (2, "e", 1), (3, "c", -1), (9, "x", 1), (9, "x", -1)])).unwrap();
    sink.write(&updates(&[(4, "f", 1), (4, "f", -1), (4, "g", 1)])).unwrap();
    sink.epoch_end(Epoch(2)).unwrap();
    assert_eq!(server.sql("SELECT id, name, note FROM latest ORDER BY id"), ["1|d|changed", "2|e|changed", "4|g|kept"]);
    // A table whose columns are all of the key: a row is there or not.
    server.sql("CREATE TABLE pairs (id bigint, name text, PRIMARY KEY (name, id))");
    let spec = SinkSpec { key: vec![0, 1], ..keyed(table(server, "pairs", &[])) };
    let mut sink = open(&spec);
    sink.write(&updates(&[(1, "a", 1), (1, "b", 1)])).unwrap();
    sink.epoch_end(Epoch(1)).unwrap();
    sink.write(&updates(&[(1, "a", 1), (1, "b", -1)])).unwrap();
    sink.finish().unwrap();
    assert_eq!(server.sql("SELECT * FROM pairs"), ["1|a"]);
}

#[test]
fn several_tasks_write_the_same_keys() {
    let server = shared();
    server.sql("CREATE TABLE contended (id bigint PRIMARY KEY, name text)");
    let spec = SinkSpec { updating: false, ..keyed(table(server, "contended", &[])) };
    std::thread::scope(|scope| {
        for task in 0..4_i64 {
            let spec = &spec;
            let write = move || {
                let mut sink = JdbcConnector.sink(spec, &context(task as u32, 4)).unwrap();
                for epoch in 1..=20 {
                    // Each in another order.
                    let ids = (0..500).map(|id| if task % 2 == 0 { id } else { 499 - id });
                    sink.write(&rows(ids)).unwrap();
                    sink.epoch_end(Epoch(epoch)).unwrap();
                }
            };
            std::thread::Builder::new().name(format!("task-{task}")).spawn_scoped(scope, write).unwrap();
        }
    });
    assert_eq!(server.sql("SELECT count(*), sum(id) FROM contended"), ["500|124750"]);
}

#[test]
fn rows_are_written_when_there_are_enough_or_the_input_pauses() {
    let server = shared();
    server.sql("CREATE TABLE flushed (id bigint, name text)");
    let count = || server.sql("SELECT count(*) FROM flushed").remove(0);
    let options = [("sink.buffer-flush.max-rows", "100"), ("sink.buffer-flush.interval", "0")];
    let mut sink = open(&SinkSpec::new("t", table(server, "flushed", &options), schema()));
    sink.write(&rows(0..60)).unwrap();
    assert_eq!(count(), "0");
    sink.write(&rows(60..120)).unwrap();
    assert_eq!(count(), "120");
    sink.write(&rows(120..121)).unwrap();
    assert_eq!(count(), "120");
    sink.flush().unwrap();
    assert_eq!(count(), "121");
}

#[test]
fn a_server_that_stops_or_hangs_loses_nothing() {
    let server = Postgres::start();
    server.sql("CREATE TABLE outlived (id bigint PRIMARY KEY, name text)");
    let mut sink = open(&SinkSpec { updating: false, ..keyed(table(&server, "outlived", &[])) });
    sink.write(&rows(0..10)).unwrap();
    sink.epoch_end(Epoch(1)).unwrap();
    server.stop();
    std::thread::scope(|scope| {
        let later = std::thread::Builder::new().name("restart".into());
        later.spawn_scoped(scope, || server.restart()).unwrap();
        sink.write(&rows(10..20)).unwrap();
        sink.epoch_end(Epoch(2)).unwrap();
    });
    assert_eq!(server.sql("SELECT count(*) FROM outlived"), ["20"]);
    let impatient = table(&server, "outlived", &[("sink.delivery.timeout", "300 ms")]);
    let mut sink = open(&SinkSpec { updating: false, ..keyed(impatient) });
    let paused = server.pause();
    sink.write(&rows(20..30)).unwrap();
    let error = sink.epoch_end(Epoch(1)).unwrap_err().to_string();
    assert!(error.contains("does not take the rows within 0.3 s: it does not answer"), "{error}");
    assert!(error.contains("'sink.delivery.timeout' says how long to try"), "{error}");
    drop(paused);
}

#[test]
fn of_several_hosts_one_that_only_reads_is_passed_over_and_lost_connections_are_noticed() {
    let (standby, server) = (Postgres::start(), shared());
    standby.sql(
        "CREATE TABLE primary_only (id bigint, name text); ALTER DATABASE tests SET default_transaction_read_only = on",
    );
    server.sql(
        "CREATE TABLE primary_only (id bigint, name text, idle text DEFAULT current_setting('tcp_keepalives_idle'),
           looks text DEFAULT current_setting('client_connection_check_interval'))",
    );
    let host = |server: &Postgres| server.url().replace("jdbc:postgresql://", "").replace("/tests", "");
    let url = format!("jdbc:postgresql://{},{}/tests", host(&standby), host(server));
    let spec = |url: &str, timeout| {
        let extra = [("url", url), ("connection.max-retry-timeout", timeout)];
        SinkSpec::new("t", table(server, "primary_only", &extra), schema())
    };
    let mut sink = open(&spec(&url, "60 s"));
    sink.write(&rows(1..2)).unwrap();
    sink.epoch_end(Epoch(1)).unwrap();
    assert_eq!(server.sql("SELECT * FROM primary_only"), ["1|n1|15|10s"]);
    // One that only reads may become another one.
    let error = refusal(&spec(&standby.url(), "300 ms"));
    assert!(error.contains("cannot be reached within 0.3 s"), "{error}");
}
