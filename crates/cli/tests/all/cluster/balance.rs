//! Key groups that follow the load of their stage.

use std::collections::BTreeMap;
use std::path::Path;

use super::changes::lines;
use crate::harness::{Cluster, file};

const EVENTS: u64 = 120_000;

/// Distinct users of each key in windows of a second. Some keys have far more rows than others.
fn script(folder: &Path) -> String {
    let by = "CASE WHEN MOD(event_time, 4) < 3 THEN event_type ELSE SUBSTRING(ad_id, 1, 2) END";
    format!(
        "CREATE TABLE events (ad_id STRING, event_type STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
           WATERMARK FOR ts AS ts - INTERVAL '0.1' SECOND)
           WITH ('connector' = 'ad_events', 'seed' = '1', 'start-time' = '2026-01-01 00:00:00', 'rows-per-second' = '6000',
                 'number-of-rows' = '{EVENTS}');
         CREATE TABLE counts (at TIMESTAMP_LTZ(3), k STRING, n BIGINT, ads BIGINT)
           WITH ('connector' = 'filesystem', 'path' = '{}/out', 'format' = 'csv');
         INSERT INTO counts SELECT window_start, {by}, COUNT(*), COUNT(DISTINCT ad_id)
           FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
           GROUP BY window_start, window_end, {by};",
        folder.display()
    )
}

/// Results by window and key.
fn results(folder: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut results = BTreeMap::new();
    for line in lines(folder) {
        let cells: Vec<&str> = line.split(',').collect();
        let [at, key, rows, ads] = cells[..] else { panic!("{line}") };
        let of = (rows.parse().expect("a number"), ads.parse().expect("a number"));
        assert_eq!(results.insert(format!("{at},{key}"), of), None, "{at},{key} is there twice");
    }
    results
}

#[test]
fn keys_of_hot_tasks_go_to_others_and_stay_there_with_another_coordinator() {
    let (folder, alone) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 2);
    cluster.worker("second", 2);
    cluster.until("both workers", || cluster.has("first") && cluster.has("second"));
    // The same job without changes.
    let straight = file(folder.path(), "straight.sql", &script(alone.path()));
    cluster.ok(&["submit", &straight, "--parallelism", "1"]);
    let job = file(folder.path(), "job.sql", &script(folder.path()));
    cluster.ok(&["submit", &job, "--parallelism", "3", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("rows", || !results(folder.path()).is_empty());

    let rehearsed = cluster.ok(&["balance", "job", "--over", "2s", "--dry-run"]);
    assert!(
        rehearsed.contains("stage 1 (aggregate): ") && rehearsed.contains("rows/s, measured for 2."),
        "{rehearsed}"
    );
    assert!(rehearsed.contains(" go from task ") && rehearsed.ends_with("this was a dry run\n"), "{rehearsed}");
    let balanced = cluster.ok(&["balance", "job", "--over", "2s", "--stage", "1"]);
    assert!(balanced.contains("version 2 of its plan runs; the change took"), "{balanced}");
    let changes = cluster.ok(&["changes", "job"]);
    assert!(changes.contains("balance: aggregate="), "{changes}");

    // A coordinator that takes the job over divides the key groups in the same way.
    cluster.kill_coordinator(0);
    cluster.start_coordinator(0);
    cluster.until("it runs", || cluster.state("job") == "running");
    let again = cluster.ok(&["balance", "job", "--over", "2s"]);
    assert!(again.contains("is left as it is") && again.contains("is as it was: version 2"), "{again}");
    cluster.refused(&["balance", "job", "--stage", "0"], 2, "such stages are: 1 (aggregate)");
    cluster.refused(&["balance", "other"], 2, "there is no job 'other'");
    cluster.until("both ends", || ["job", "straight"].iter().all(|job| cluster.state(job) == "ended"));
    let results = results(folder.path());
    assert_eq!(results.values().map(|(rows, _)| rows).sum::<u64>(), EVENTS);
    assert!(results == self::results(alone.path()), "other results than without changes");
}
