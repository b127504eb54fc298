//! A query over events that take six seconds, whose results are files, for tests that interfere with it while it runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anabranch_server::{Engine, Job, Plan, Settings};

const LIMIT: Duration = Duration::from_secs(60);

/// Events for six seconds of event time and of the clock; the same in every run, and none is late.
pub(crate) const EVENTS: &str = "
CREATE TABLE events (ad_id STRING, event_type STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
  WATERMARK FOR ts AS ts - INTERVAL '0.01' SECOND)
  WITH ('connector' = 'ad_events', 'rows-per-second' = '5000', 'number-of-rows' = '30000', 'seed' = '1',
        'start-time' = '2026-01-01 00:00:00');";

/// Counts of windows of 200 ms by a column, into files of a folder.
pub(crate) fn counts(folder: &Path, table: &str, by: &str, filter: &str) -> String {
    format!(
        "CREATE TABLE {table} (start_ts TIMESTAMP_LTZ(3), k STRING, n BIGINT)
           WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO {table} SELECT window_start, {by}, COUNT(*)
           FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.2' SECOND))
           WHERE {filter} GROUP BY window_start, window_end, {by};",
        folder.join(table).display()
    )
}

pub(crate) fn settings(checkpoints: Option<&Path>, parallelism: u32) -> Settings {
    let mut set = vec![("epoch-interval".to_owned(), "5 ms".to_owned())];
    if let Some(directory) = checkpoints {
        set.push(("checkpoint-directory".to_owned(), directory.display().to_string()));
        set.push(("checkpoint-interval".to_owned(), "50 ms".to_owned()));
    }
    Settings { parallelism: Some(parallelism), set, ..Settings::default() }
}

/// The visible rows in a table's folder; none appears twice.
pub(crate) fn rows(folder: &Path, table: &str) -> BTreeSet<String> {
    let files = fs::read_dir(folder.join(table)).into_iter().flatten().map(|entry| entry.expect("entry").path());
    let visible = files.filter(|path| !path.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with('.')));
    let mut rows = BTreeSet::new();
    for line in
        visible.flat_map(|path| fs::read_to_string(path).expect("text").lines().map(str::to_owned).collect::<Vec<_>>())
    {
        assert!(rows.insert(line.clone()), "{line} is there twice");
    }
    rows
}

pub(crate) fn finish(job: Job) {
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    let summary = job.wait().expect("it ends well");
    let late: u64 = summary.tasks.iter().map(|task| task.late_rows).sum();
    assert_eq!(late, 0, "rows were late");
}

pub(crate) fn plan_of(engine: &Engine, sql: &str, settings: &Settings) -> Plan {
    engine.plan(sql, settings).expect("planned").plan.expect("a plan")
}

pub(crate) fn wait_for(what: &str, condition: &dyn Fn() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{what} in vain");
}
