//! Exactly once: rows are in the database when their checkpoint is complete, once.

use std::sync::Arc;

use anabranch_connectors::JdbcConnector;
use anabranch_dataflow::SinkSpec;
use anabranch_model::{Epoch, Incarnation};
use anabranch_operators::testing::TestHost;
use anabranch_operators::{Connector, Former, TaskContext};

use super::harness::{exactly, keyed, rows, schema, table, updates};
use crate::postgres::shared;
use crate::suite::commit::{CommitCase, check_commits, check_late_commits};

/// A job that resumes from the checkpoint of an epoch.
fn resumed_after(epoch: u64) -> Arc<TestHost> {
    let (incarnation, resumed_after) = (Incarnation(2), Some(Epoch(epoch)));
    Arc::new(TestHost { incarnation, resumed_after, ..TestHost::default() })
}

#[test]
fn a_commit_is_made_once_by_whichever_task() {
    let server = shared();
    for (name, check) in [("commits", check_commits as fn(&CommitCase<'_>)), ("late_commits", check_late_commits)] {
        server.sql(&format!("CREATE TABLE {name} (id bigint, name text)"));
        let read = || server.sql(&format!("SELECT id || '|' || name FROM {name}"));
        let case = CommitCase {
            connector: &JdbcConnector,
            spec: table(server, name, &[]),
            scope: name,
            batches: (0..5).map(|batch| rows(batch * 10..batch * 10 + 7)).collect(),
            read: &read,
        };
        check(&case);
    }
}

#[test]
fn the_rows_of_a_checkpoint_are_one_change_of_each_key() {
    let server = shared();
    server.sql("CREATE TABLE once (id bigint PRIMARY KEY, name text)");
    let spec = keyed(table(server, "once", &[]));
    let mut sink = JdbcConnector.sink(&spec, &exactly("once", Former::default())).unwrap();
    sink.write(&updates(&[(1, "a", 1), (2, "b", 1), (3, "c", 1)])).unwrap();
    sink.epoch_end(Epoch(1)).unwrap();
    sink.write(&updates(&[(1, "a", -1), (1, "d", 1), (3, "c", -1)])).unwrap();
    let first = sink.prepare_commit(Epoch(2)).unwrap().unwrap();
    sink.write(&updates(&[(2, "b", -1)])).unwrap();
    let second = sink.prepare_commit(Epoch(3)).unwrap().unwrap();
    assert!(server.sql("SELECT * FROM once").is_empty());
    sink.commit(&first).unwrap();
    assert_eq!(server.sql("SELECT * FROM once ORDER BY id"), ["1|d", "2|b"]);
    sink.commit(&second).unwrap();
    // Again, after a restart: the older one would bring back what is gone.
    let host = resumed_after(3);
    let resumed = TaskContext { host, ..exactly("once", Former::default()) };
    let mut sink = JdbcConnector.sink(&spec, &resumed).unwrap();
    sink.commit(&first).unwrap();
    sink.commit(&second).unwrap();
    assert_eq!(server.sql("SELECT * FROM once ORDER BY id"), ["1|d"]);
    let marks = "SELECT scope, sink, task, epoch FROM anabranch_commits WHERE scope = 'once'";
    assert_eq!(server.sql(marks), ["once|t|0|3"]);
}

#[test]
fn a_job_that_goes_back_is_refused_unless_it_has_a_new_scope() {
    let server = shared();
    server.sql("CREATE TABLE back (id bigint, name text)");
    let spec = SinkSpec::new("t", table(server, "back", &[]), schema());
    let mut sink = JdbcConnector.sink(&spec, &exactly("back-1", Former::default())).unwrap();
    let mut committables = Vec::new();
    for epoch in 1..=3 {
        sink.write(&rows(epoch..epoch + 1)).unwrap();
        committables.push(sink.prepare_commit(Epoch(epoch as u64)).unwrap().unwrap());
        sink.commit(&committables[epoch as usize - 1]).unwrap();
    }
    let at = |scope: &str, former: Former| TaskContext { host: resumed_after(2), ..exactly(scope, former) };
    let error = JdbcConnector.sink(&spec, &at("back-1", Former::default())).err().unwrap().to_string();
    assert!(error.contains("has results up to epoch 3, but the job resumes after epoch 2"), "{error}");
    // With a new scope, what was prepared under the former one is not written again, and epochs come again.
    let former = Former { scopes: vec!["back-1".into()], tasks: 1 };
    let mut sink = JdbcConnector.sink(&spec, &at("back-2", former)).unwrap();
    sink.commit(&committables[1]).unwrap();
    sink.write(&rows(7..8)).unwrap();
    let again = sink.prepare_commit(Epoch(3)).unwrap().unwrap();
    sink.commit(&again).unwrap();
    assert_eq!(server.sql("SELECT id FROM back ORDER BY id"), ["1", "2", "3", "7"]);
}

#[test]
fn commits_are_noted_beside_the_table_and_are_on_the_disk() {
    let server = shared();
    server.sql(
        "CREATE SCHEMA \"Beside\"; CREATE TABLE \"Beside\".t (id bigint, name text, how text DEFAULT current_setting('synchronous_commit'));
         ALTER DATABASE tests SET synchronous_commit = off",
    );
    let url = format!("{}?currentSchema=public", server.url());
    let spec = SinkSpec::new("t", table(server, "\"Beside\".t", &[("url", &url)]), schema());
    let mut sink = JdbcConnector.sink(&spec, &exactly("beside", Former::default())).unwrap();
    server.sql("ALTER DATABASE tests RESET synchronous_commit");
    sink.write(&rows(1..2)).unwrap();
    let committable = sink.prepare_commit(Epoch(1)).unwrap().unwrap();
    sink.commit(&committable).unwrap();
    sink.commit(&committable).unwrap();
    assert_eq!(server.sql("SELECT * FROM \"Beside\".t"), ["1|n1|on"]);
    assert_eq!(server.sql("SELECT scope, epoch FROM \"Beside\".anabranch_commits"), ["beside|1"]);
}
