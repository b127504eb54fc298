//! Jobs whose results are updated, while they are rescaled and changed: nothing is counted twice, and nothing
//! is missing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::live::{EVENTS, Gate, finish, plan_of, settings};
use anabranch_connectors::MemorySink;
use anabranch_dataflow::{StateBackendKind, WEIGHT};
use anabranch_server::{Engine, Fate, Moves, Plan, Reconfigure};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::display::{ArrayFormatter, FormatOptions};

type Batches = Arc<Mutex<Vec<RecordBatch>>>;

fn engine() -> (Engine, Batches) {
    collecting(Engine::default())
}

fn collecting(mut engine: Engine) -> (Engine, Batches) {
    let (sink, batches) = MemorySink::collected();
    engine.register("collect", Arc::new(sink));
    (engine, batches)
}

/// The rows that count, by their text, each with the sum of its weights.
fn rows(batches: &Batches) -> BTreeMap<String, i64> {
    let mut rows: BTreeMap<String, i64> = BTreeMap::new();
    for batch in batches.lock().expect("no panic").iter() {
        let weights = batch.column_by_name(WEIGHT).map(|weights| weights.as_primitive::<Int64Type>());
        let columns = batch.columns().iter().take(batch.num_columns() - usize::from(weights.is_some()));
        let options = FormatOptions::default();
        let shown: Vec<_> = columns.map(|column| ArrayFormatter::try_new(column, &options).expect("format")).collect();
        for row in 0..batch.num_rows() {
            let text = shown.iter().map(|cell| cell.value(row).to_string()).collect::<Vec<_>>().join(" | ");
            *rows.entry(text).or_default() += weights.map_or(1, |weights| weights.value(row));
        }
    }
    rows.retain(|_, weight| *weight != 0);
    rows
}

/// Groups that move, with the values that a function keeps of each, and groups of these.
fn text(filter: &str) -> String {
    format!(
        "{EVENTS}
         CREATE TABLE results (what STRING, k STRING, n BIGINT, m BIGINT) WITH ('connector' = 'collect');
         INSERT INTO results SELECT 'by ad', ad_id, COUNT(*), COUNT(DISTINCT event_type) FROM events WHERE {filter} GROUP BY ad_id;
         INSERT INTO results SELECT 'by number', CAST(n AS STRING), COUNT(*), MAX(last) FROM
           (SELECT ad_id, COUNT(*) AS n, MAX(event_time) AS last FROM events GROUP BY ad_id) GROUP BY n;"
    )
}

fn plan(engine: &Engine, text: &str, mode: &str, checkpoints: Option<&std::path::Path>, parallelism: u32) -> Plan {
    let mut settings = settings(checkpoints, parallelism);
    settings.set.push(("execution.runtime-mode".to_owned(), mode.to_owned()));
    let mut plan = plan_of(engine, text, &settings);
    plan.options.thresholds.little_bytes = 0;
    plan.options.thresholds.snapshot_changed_rows = 500;
    plan
}

/// The final results, emitted once.
fn straight(text: &str) -> BTreeMap<String, i64> {
    let (engine, batches) = engine();
    finish(engine.start(&plan(&engine, text, "batch", None, 1)).expect("a job"));
    rows(&batches)
}

#[test]
fn groups_move_while_a_job_runs_and_each_row_is_counted_once() {
    groups_move(&text("TRUE"), &[3, 1], None);
}

#[test]
fn groups_on_disk_move_while_a_job_runs_and_each_row_is_counted_once() {
    // Lookups take time where nothing is optimized.
    let slowly = text("TRUE").replace("'rows-per-second' = '5000'", "'rows-per-second' = '2000'");
    groups_move(&slowly, &[3], Some(2_000_000));
}

/// Beyond so many bytes, state is on disk.
fn groups_move(text: &str, parallelisms: &[u32], disk_bytes: Option<usize>) {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let (engine, batches) = collecting(gate.engine());
    let plan = |parallelism| {
        let mut plan = plan(&engine, text, "streaming", Some(folder.path()), parallelism);
        if let Some(bytes) = disk_bytes {
            (plan.options.state_backend, plan.options.state_bytes) = (StateBackendKind::Disk, bytes);
        }
        plan
    };
    let job = engine.start(&plan(2)).expect("a job");
    let mut copied_bytes = 0;
    for parallelism in parallelisms.iter().copied() {
        let seen = batches.lock().expect("no panic").len();
        gate.wait_for(&|| batches.lock().expect("no panic").len() > seen + 20);
        let reconfigure = Reconfigure {
            plan: plan(parallelism),
            moves: Moves::default(),
            allow_lost_state: false,
            allow_late: false,
            dry_run: false,
        };
        let done = job.reconfigure(reconfigure).expect("changed");
        assert_eq!(done.changes.iter().filter(|change| change.fate != Fate::Kept).count(), 0, "{done:?}");
        copied_bytes += done.copied_bytes;
    }
    // An early change finds no checkpoint: its groups move when it is carried out.
    assert!(copied_bytes > 0 || parallelisms.len() == 1, "groups have moved");
    assert_eq!(job.restarts(), [""; 0], "nothing has failed");
    gate.finish(job);
    assert_eq!(rows(&batches), straight(text));
}

#[test]
fn a_changed_filter_keeps_the_groups_in_memory() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let (engine, batches) = collecting(gate.engine());
    let plan = |filter| plan(&engine, &text(filter), "streaming", Some(folder.path()), 2);
    let job = engine.start(&plan("TRUE")).expect("a job");
    gate.wait_for(&|| batches.lock().expect("no panic").len() > 20);
    let reconfigure = Reconfigure {
        plan: plan("event_type <> 'click' AND ad_id <> ''"),
        moves: Moves::default(),
        allow_lost_state: false,
        allow_late: false,
        dry_run: false,
    };
    let done = job.reconfigure(reconfigure).expect("changed");
    assert!(done.changes.iter().all(|change| change.fate == Fate::Kept), "{done:?}");
    assert_eq!(done.copied_bytes, 0, "state that stays is passed on in memory");
    gate.finish(job);
    let (found, all) = (rows(&batches), straight(&text("TRUE")));
    let count = |rows: &BTreeMap<String, i64>| -> i64 {
        let of_ad = |row: &&String| row.starts_with("by ad");
        rows.keys()
            .filter(of_ad)
            .map(|row| row.split(" | ").nth(2).and_then(|n| n.parse::<i64>().ok()).expect("n"))
            .sum()
    };
    let few = count(&straight(&text("event_type <> 'click' AND ad_id <> ''")));
    assert!((few + 1..count(&all)).contains(&count(&found)), "{few} {} {}", count(&found), count(&all));
    assert!(found.values().all(|weight| *weight == 1), "each group has one row");
    let of_numbers = |rows: &BTreeMap<String, i64>| {
        rows.keys().filter(|row| row.starts_with("by number")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(of_numbers(&found), of_numbers(&all), "what the change does not concern is as it would be without");
}
