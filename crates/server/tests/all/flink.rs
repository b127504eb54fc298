//! Expressions and queries against the answers of real Flink, in `tests/flink`.

mod expressions;
mod queries;
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anabranch_plan::split_statements;
use anabranch_server::{Reply, Session};

/// A file of `tests/flink`.
fn file(name: &str) -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../tests/flink").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(file(name)).expect(name)
}

fn execute(session: &mut Session, sql: &str) -> Result<Reply, String> {
    let statements = split_statements(sql).map_err(|e| e.to_string())?;
    let mut replies = statements.iter().map(|statement| session.execute(statement).map_err(|e| e.to_string()));
    replies.next().unwrap_or_else(|| Err("no statement".into()))
}

/// The reasons of a list, by expression.
fn reasons(list: &str) -> BTreeMap<&str, &str> {
    list.lines().filter_map(|line| line.split_once('\t')).collect()
}
