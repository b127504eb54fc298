//! Golden queries: every `tests/golden/*.sql` is planned and run in several ways, and must give the same rows
//! in all.
//!
//! A file inserts into tables of the connector `collect`. Its rows, sorted, are in `NAME.out`, its plan at
//! parallelism 2 in `NAME.plan`; `UPDATE_GOLDEN=1` writes both. A first line `-- error: text` says that
//! planning or running fails with an error that contains the text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::MemorySink;
use anabranch_dataflow::{OperatorSpec, WEIGHT};
use anabranch_server::{Engine, Plan, Result, Settings};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Ways of running that must not change a result: parallelism and options.
const WAYS: &[(u32, &[(&str, &str)])] = &[
    (1, &[]),
    (1, &[("batch-rows", "7"), ("epoch-interval", "1 ms")]),
    (2, &[]),
    (2, &[("buffer-timeout", "0"), ("batch-rows", "3"), ("epoch-interval", "1 ms")]),
    (3, &[("channel-bytes", "200"), ("batch-rows", "64"), ("epoch-interval", "2 ms")]),
    (2, &[("state-backend", "disk"), ("state-bytes", LITTLE), ("batch-rows", "5")]),
];

/// So little memory that no group stays in it. Not for queries with static tables, which must fit.
const LITTLE: &str = "3 kb";

const STREAMING: &str = "'execution.runtime-mode' = 'streaming'";

fn golden() -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../tests/golden")
}

fn settings(parallelism: u32, set: &[(&str, &str)]) -> Settings {
    let set = set.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    Settings { parallelism: Some(parallelism), set, ..Settings::default() }
}

/// Runs a script and returns its rows as sorted lines. Rows of an updating result are added up by their
/// weights.
fn run(sql: &str, settings: &Settings) -> Result<String> {
    let mut engine = Engine::default();
    let (sink, batches) = MemorySink::collected();
    engine.register("collect", Arc::new(sink));
    let job = engine.run(sql, settings)?;
    assert!(job.wait_timeout(Duration::from_secs(480)), "the job hangs");
    job.wait()?;
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for (line, weight) in batches.lock().expect("no panic").iter().flat_map(lines_of) {
        *counts.entry(line).or_default() += weight;
    }
    assert!(counts.values().all(|count| *count >= 0), "rows were taken back that were not there: {counts:?}");
    let lines = counts.into_iter().flat_map(|(line, count)| vec![line; usize::try_from(count).expect("checked")]);
    Ok(lines.map(|line| line + "\n").collect())
}

/// The rows, and how often each counts.
fn lines_of(batch: &RecordBatch) -> Vec<(String, i64)> {
    let options = FormatOptions::default().with_null("NULL");
    let schema = batch.schema();
    let weights = batch.column_by_name(WEIGHT).map(|weights| weights.as_primitive::<Int64Type>());
    let shown = schema.fields().iter().zip(batch.columns()).filter(|(field, _)| field.name() != WEIGHT);
    let columns: Vec<_> = shown.map(|(_, c)| ArrayFormatter::try_new(c, &options).expect("format")).collect();
    let line = |row: usize| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join(" | ");
    (0..batch.num_rows()).map(|row| (line(row), weights.map_or(1, |weights| weights.value(row)))).collect()
}

/// The plan at parallelism 2.
fn plan(sql: &str) -> Result<Option<Plan>> {
    let mut engine = Engine::default();
    engine.register("collect", Arc::new(MemorySink::collected().0));
    Ok(engine.plan(sql, &settings(2, &[]))?.plan)
}

/// Whether a plan has tables that are in memory with any backend.
fn must_fit(plan: &Plan) -> bool {
    let is_held = |of: &OperatorSpec| matches!(of, OperatorSpec::StaticJoin(_));
    plan.stages.iter().any(|stage| stage.operators.iter().any(is_held))
}

/// Compares a text with its golden file, or writes the file if requested.
fn compare(path: &Path, actual: &str) -> Option<String> {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, actual).expect("writable");
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    (expected != actual).then(|| format!("-- expected in {}\n{expected}-- actual\n{actual}", path.display()))
}

/// The failures of a golden query, one text per way of running it.
fn check(path: &Path) -> Vec<String> {
    let data = golden().join("data");
    let sql = fs::read_to_string(path).expect("readable").replace("$DATA", &data.display().to_string());
    if let Some(expected) = sql.lines().next().and_then(|line| line.strip_prefix("-- error: ")) {
        let error = run(&sql, &settings(2, &[])).err().map(|e| e.to_string()).unwrap_or_default();
        let wrong = !error.contains(expected);
        return wrong.then(|| format!("-- expected error\n{expected}\n-- actual\n{error}")).into_iter().collect();
    }
    let mut failures = Vec::new();
    let plan = match plan(&sql) {
        Ok(plan) => plan,
        Err(error) => return vec![error.to_string()],
    };
    let text = plan.as_ref().map(ToString::to_string).unwrap_or_default();
    failures.extend(compare(&path.with_extension("plan"), &text));
    for (way, (parallelism, set)) in WAYS.iter().enumerate() {
        if set.contains(&("state-bytes", LITTLE)) && plan.as_ref().is_some_and(must_fit) {
            continue;
        }
        let failure = match run(&sql, &settings(*parallelism, set)) {
            // The first way may write the golden file; the others are compared with it.
            Ok(rows) if way == 0 => compare(&path.with_extension("out"), &rows),
            Ok(rows) => {
                let expected = fs::read_to_string(path.with_extension("out")).unwrap_or_default();
                (rows != expected).then(|| format!("-- other rows\n{rows}"))
            }
            Err(error) => Some(error.to_string()),
        };
        failures.extend(failure.map(|f| format!("at parallelism {parallelism} with {set:?}\n{f}")));
    }
    // Results that are updated come to those that are emitted once.
    if sql.contains(STREAMING) {
        let expected = fs::read_to_string(path.with_extension("out")).unwrap_or_default();
        let rows = run(&sql.replace(STREAMING, "'execution.runtime-mode' = 'batch'"), &settings(2, &[]));
        let rows = rows.unwrap_or_else(|error| error.to_string());
        failures.extend((rows != expected).then(|| format!("-- other final rows\n{rows}")));
    }
    failures
}

/// Tests take the golden queries in so many parts, which run at the same time.
const PARTS: usize = 8;

/// The golden queries of a part; only those whose names contain `GOLDEN`, if it is set.
pub(crate) fn queries(part: usize) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(golden())
        .expect("tests/golden exists")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "sql"))
        .collect();
    paths.sort();
    assert!(paths.len() > 10, "the golden queries are there");
    let only = std::env::var("GOLDEN").unwrap_or_default();
    paths.into_iter().skip(part).step_by(PARTS).filter(|path| path.to_string_lossy().contains(&only)).collect()
}

/// One test for each part.
macro_rules! in_parts {
    ($check:path: $($name:ident $part:literal)*) => {
        $(#[test]
        fn $name() {
            $check($part);
        })*
    };
    ($check:path) => {
        crate::golden::in_parts! { $check: part_0 0 part_1 1 part_2 2 part_3 3 part_4 4 part_5 5 part_6 6 part_7 7 }
    };
}
pub(crate) use in_parts;

fn check_part(part: usize) {
    let failed = queries(part)
        .into_iter()
        .flat_map(|path| check(&path).into_iter().map(move |failure| format!("== {}\n{failure}", path.display())));
    let failed: Vec<String> = failed.collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

mod golden_queries_give_the_same_rows_in_every_way {
    crate::golden::in_parts!(super::check_part);
}
