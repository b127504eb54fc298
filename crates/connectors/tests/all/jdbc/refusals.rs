//! What cannot be is refused with what to do, and without the password.

use std::sync::Arc;

use anabranch_connectors::JdbcConnector;
use anabranch_dataflow::SinkSpec;
use anabranch_model::Epoch;
use anabranch_operators::{Connector, Former};
use arrow::datatypes::{DataType, Field, Schema};

use super::harness::{exactly, keyed, open, refusal, rows, schema, table, updates};
use crate::postgres::{PASSWORD, shared};

fn check(error: &str, expected: &[&str]) {
    assert!(expected.iter().all(|text| error.contains(text)) && !error.contains(PASSWORD), "{error}");
}

#[test]
fn tables_that_do_not_fit_are_refused_at_the_start() {
    let server = shared();
    server.sql("CREATE TABLE no_key (id bigint, title text)");
    server.sql("CREATE TABLE unkeyed (id bigint, name text)");
    let plain = |name: &str, extra: &[(&str, &str)]| SinkSpec::new("t", table(server, name, extra), schema());
    check(
        &refusal(&plain("missing", &[])),
        &["there is no table 'missing' in the database", "table t", "'schema.table'"],
    );
    check(&refusal(&plain("no_key", &[])), &["has no column 'name'", "its columns are: id, title"]);
    check(&refusal(&keyed(table(server, "unkeyed", &[]))), &["no unique index of the columns of the primary key"]);
    check(
        &refusal(&plain("unkeyed", &[("password", "wrong")])),
        &["refuses the login", "give 'username' and 'password'"],
    );
    let database = server.url().replace("/tests", "/nowhere");
    check(&refusal(&plain("unkeyed", &[("url", &database)])), &["database \"nowhere\" does not exist"]);
    let nobody = [("url", "jdbc:postgresql://127.0.0.1:1/tests"), ("connection.max-retry-timeout", "300 ms")];
    check(&refusal(&plain("unkeyed", &nobody)), &["cannot be reached within 0.3 s", "127.0.0.1:1/tests"]);
    let exactly = [("sink.delivery-guarantee", "exactly-once")];
    check(&refusal(&plain("unkeyed", &exactly)), &["the job keeps no checkpoints"]);
}

#[test]
fn rows_that_the_database_refuses_stop_the_job() {
    let server = shared();
    server.sql("CREATE TABLE strict (id bigint CHECK (id < 10), name varchar(3))");
    let spec = SinkSpec::new("t", table(server, "strict", &[]), schema());
    let write = |ids: std::ops::Range<i64>| {
        let mut sink = open(&spec);
        sink.write(&rows(ids)).unwrap();
        sink.epoch_end(Epoch(1)).map_err(|error| error.to_string())
    };
    assert_eq!(write(0..3), Ok(()));
    check(
        &write(8..12).unwrap_err(),
        &["the database refuses a row", "violates check constraint", "filter such rows out"],
    );
    check(&write(-100..0).unwrap_err(), &["value too long for type character varying(3)"]);
    assert_eq!(server.sql("SELECT count(*) FROM strict"), ["3"]);
}

#[test]
fn what_the_database_never_takes_is_refused_before_the_checkpoint_and_what_a_table_refuses_names_the_table() {
    let server = shared();
    server.sql("CREATE TABLE zero (id bigint PRIMARY KEY, name varchar(3))");
    let spec = keyed(table(server, "zero", &[]));
    let mut sink = JdbcConnector.sink(&spec, &exactly("zero", Former::default())).unwrap();
    let error = sink.write(&updates(&[(1, "a\0b", 1)])).unwrap_err().to_string();
    check(&error, &["column 'name': a text has a zero byte", "filter such rows out in the query"]);
    sink.write(&updates(&[(1, "long", 1)])).unwrap();
    let committable = sink.prepare_commit(Epoch(1)).unwrap().unwrap();
    let error = sink.commit(&committable).unwrap_err().to_string();
    check(&error, &["epoch 1 of sink task 0", "value too long", "part of the checkpoint, so change the table"]);
    server.sql("ALTER TABLE zero ALTER name TYPE text");
    sink.commit(&committable).unwrap();
    assert_eq!(server.sql("SELECT * FROM zero"), ["1|long"]);
}

#[test]
fn options_and_types_that_do_not_fit_are_refused() {
    let server = shared();
    let refused = |extra: &[(&str, &str)], schema| {
        JdbcConnector.describe(&table(server, "t", extra), &schema).unwrap_err().to_string()
    };
    check(
        &refused(&[("sink.max-rows", "1")], schema()),
        &["unknown option 'sink.max-rows'", "sink.buffer-flush.max-rows"],
    );
    check(&refused(&[("driver", "org.h2.Driver")], schema()), &["option 'driver' is 'org.h2.Driver'"]);
    check(&refused(&[("url", "jdbc:mysql://h/d")], schema()), &["which is no PostgreSQL"]);
    let row = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
    let nested = Arc::new(Schema::new(vec![Field::new("r", row, true)]));
    check(&refused(&[], nested), &["cannot hold ROW<x BIGINT> in column 'r'"]);
}
