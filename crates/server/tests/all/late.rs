//! Changes after which rows of a source may only be late: they are shown, and refused unless the user allows
//! them.

use std::ffi::OsStr;
use std::fs;

use anabranch_model::Error;
use anabranch_server::{Engine, Moves, Plan, Reconfigure};

use crate::live::{EVENTS, Gate, counts, plan_of, rows, settings, wait_for};

fn request(plan: &Plan, allow_late: bool, dry_run: bool) -> Reconfigure {
    Reconfigure { plan: plan.clone(), moves: Moves::default(), allow_lost_state: false, allow_late, dry_run }
}

const RIGHT: &str = "TO_TIMESTAMP_LTZ(event_time, 3)";
const A_DAY_TOO_LATE: &str = "TO_TIMESTAMP_LTZ(event_time + 86400000, 3)";

#[test]
fn another_event_time_is_refused_once_windows_have_fired_and_begins_anew_if_that_is_allowed() {
    let folder = tempfile::tempdir().expect("folder");
    let (engine, settings) = (Engine::default(), settings(Some(&folder.path().join("checkpoints")), 2));
    let right = format!("{EVENTS}{}", counts(folder.path(), "results", "event_type", "TRUE"));
    let wrong = right.replace(RIGHT, A_DAY_TOO_LATE);
    let job = engine.run(&wrong, &settings).expect("a job");
    wait_for("waited for results", &|| !rows(folder.path(), "results").is_empty());
    let plan = plan_of(&engine, &right, &settings);
    let why = "its event time has changed, and event time has passed 2026-01-02T";
    let rehearsed = job.reconfigure(request(&plan, false, true)).expect("only shown");
    assert!(rehearsed.changes.iter().any(|change| change.what.contains(why)), "{:?}", rehearsed.changes);
    let error: Error = job.reconfigure(request(&plan, false, false)).expect_err("refused");
    let error = error.to_string();
    assert!(error.contains(why) && error.contains("--allow-late"), "{error}");
    // A changed filter reads other columns, and does not change event time.
    let filtered = wrong.replace("WHERE TRUE", "WHERE ad_id <> ''");
    job.reconfigure(request(&plan_of(&engine, &filtered, &settings), false, false)).expect("the same event time");
    job.reconfigure(request(&plan, true, false)).expect("allowed");
    let late = |job: &anabranch_server::Job| job.metrics().iter().map(|task| task.late_rows).sum::<u64>();
    wait_for("waited for late rows", &|| late(&job) > 0);
    let watermarks = job.metrics();
    let sources = watermarks.iter().filter(|task| task.is_source);
    let reached = sources.map(|task| task.watermark).max().expect("a source");
    // 2 January 2026.
    assert!(reached.0 < 1_767_312_000_000, "the partitions begin anew: {reached}");
    job.stop();
    job.wait().expect("stopped");
}

/// Rows of a table of [`counts`], by the sum of its counts.
fn counted(folder: &std::path::Path, table: &str) -> u64 {
    let count = |line: &String| {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        row["n"].as_u64().expect("a count")
    };
    rows(folder, table).iter().map(count).sum()
}

/// The refusal names two remedies. With permission, each row is counted or late. A new job counts all rows.
#[test]
fn each_row_of_an_allowed_change_is_counted_or_late_and_a_new_job_counts_all() {
    let folder = tempfile::tempdir().expect("folder");
    let (gate, own) = (Gate::default(), settings(Some(&folder.path().join("checkpoints")), 2));
    let engine = gate.engine();
    let right = format!("{EVENTS}{}", counts(folder.path(), "results", "event_type", "TRUE"));
    let job = engine.run(&right.replace(RIGHT, A_DAY_TOO_LATE), &own).expect("a job");
    gate.wait_for_rows(folder.path(), "results", 0);
    job.reconfigure(request(&plan_of(&engine, &right, &own), true, false)).expect("allowed");
    let late = gate.finish_with_late_rows(job);
    assert!(late > 0);
    assert_eq!(counted(folder.path(), "results") + late, 30_000);

    let (gate, own) = (Gate::default(), settings(Some(&folder.path().join("of its own")), 2));
    let new = right
        .replace("TABLE results", "TABLE anew")
        .replace("/results'", "/anew'")
        .replace("INTO results", "INTO anew");
    gate.finish(gate.engine().run(&new, &own).expect("a new job"));
    assert_eq!(counted(folder.path(), "anew"), 30_000);
}

/// Queries that leave out late rows, or join them with fewer rows, over the view `all_events`.
const BY_EVENT_TIME: [(&str, &str); 6] = [
    (
        "windows",
        "SELECT window_start, event_type FROM TABLE(TUMBLE(TABLE all_events, DESCRIPTOR(ts), INTERVAL '0.2' SECOND))
         GROUP BY window_start, window_end, event_type",
    ),
    (
        "first rows of windows",
        "SELECT window_start, ad_id FROM (
           SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY ts) AS place
           FROM TABLE(TUMBLE(TABLE all_events, DESCRIPTOR(ts), INTERVAL '0.2' SECOND))) WHERE place <= 2",
    ),
    (
        "the first row of each key",
        "SELECT ts, ad_id FROM (
           SELECT *, ROW_NUMBER() OVER (PARTITION BY ad_id ORDER BY ts) AS place FROM all_events) WHERE place = 1",
    ),
    ("OVER", "SELECT ts, FIRST_VALUE(ad_id) OVER (PARTITION BY event_type ORDER BY ts) FROM all_events"),
    (
        "a join in time",
        "SELECT a.ts, a.ad_id FROM all_events a JOIN events b
         ON a.ad_id = b.ad_id AND b.ts BETWEEN a.ts - INTERVAL '0.1' SECOND AND a.ts",
    ),
    (
        "an outer join in time",
        "SELECT a.ts, a.ad_id FROM all_events a LEFT JOIN events b
         ON a.ad_id = b.ad_id AND b.ts BETWEEN a.ts - INTERVAL '0.1' SECOND AND a.ts",
    ),
];

#[test]
fn a_source_that_is_added_behind_event_time_is_refused_unless_that_is_allowed() {
    let more = EVENTS.replace("TABLE events", "TABLE more").replace("2026-01-01", "2025-12-01");
    for (name, query) in BY_EVENT_TIME {
        let folder = tempfile::tempdir().expect("folder");
        let gate = Gate::default();
        let (engine, settings) = (gate.engine(), settings(Some(&folder.path().join("checkpoints")), 2));
        let text = |union: &str| {
            format!(
                "SET 'execution.runtime-mode' = 'streaming';{more}{EVENTS}
                 CREATE TABLE results (at TIMESTAMP_LTZ(3), k STRING)
                   WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
                 CREATE VIEW all_events AS SELECT event_type, ad_id, ts FROM events{union};
                 INSERT INTO results {query};",
                folder.path().join("results").display()
            )
        };
        let job = engine.run(&text(""), &settings).expect("a job");
        let is_visible = |name: &OsStr| !name.to_string_lossy().starts_with('.');
        gate.wait_for(&|| {
            let mut files = fs::read_dir(folder.path().join("results")).into_iter().flatten();
            files.any(|file| is_visible(&file.expect("entry").file_name()))
        });
        let both = text(" UNION ALL SELECT event_type, ad_id, ts FROM more");
        let plan = plan_of(&engine, &both, &settings);
        let error = job.reconfigure(request(&plan, false, false)).expect_err(name).to_string();
        assert!(error.contains("it is new, and event time has passed 2026-01-01T"), "{name}: {error}");
        job.reconfigure(request(&plan, true, false)).unwrap_or_else(|error| panic!("{name}: {error}"));
        job.stop();
        job.wait().expect("stopped");
    }
}

#[test]
fn a_source_is_added_behind_windows_of_processing_time() {
    let folder = tempfile::tempdir().expect("folder");
    let gate = Gate::default();
    let (engine, settings) = (gate.engine(), settings(Some(&folder.path().join("checkpoints")), 2));
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name} (ad_id STRING, event_type STRING, event_time BIGINT, at AS PROCTIME())
               WITH ('connector' = 'ad_events', 'rows-per-second' = '5000', 'number-of-rows' = '30000', 'seed' = '1');"
        )
    };
    let text = |union: &str| {
        format!(
            "{}{}
             CREATE TABLE results (at TIMESTAMP_LTZ(3), k STRING, n BIGINT)
               WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
             CREATE VIEW all_events AS SELECT event_type, at FROM events{union};
             INSERT INTO results SELECT window_start, event_type, COUNT(*)
               FROM TABLE(TUMBLE(TABLE all_events, DESCRIPTOR(at), INTERVAL '0.2' SECOND))
               GROUP BY window_start, window_end, event_type;",
            table("events"),
            table("more"),
            folder.path().join("results").display()
        )
    };
    let job = engine.run(&text(""), &settings).expect("a job");
    gate.wait_for_rows(folder.path(), "results", 0);
    let plan = plan_of(&engine, &text(" UNION ALL SELECT event_type, at FROM more"), &settings);
    job.reconfigure(request(&plan, false, false)).expect("no row is late by the clock");
    job.stop();
    job.wait().expect("stopped");
}

/// A table of [`EVENTS`] whose column `ts` is the clock's time.
fn events_by_the_clock() -> String {
    let (table, options) = EVENTS.split_once("TO_TIMESTAMP_LTZ").expect("its event time");
    let (_, options) = options.split_once("SECOND)").expect("its watermark");
    format!("{table}PROCTIME()){options}")
}

#[test]
fn windows_go_on_from_the_clock_by_event_time_if_late_rows_are_allowed() {
    let folder = tempfile::tempdir().expect("folder");
    let (gate, settings) = (Gate::default(), settings(Some(&folder.path().join("checkpoints")), 2));
    let engine = gate.engine();
    let counts = counts(folder.path(), "results", "event_type", "TRUE");
    let job = engine.run(&format!("{}{counts}", events_by_the_clock()), &settings).expect("a job");
    gate.wait_for_rows(folder.path(), "results", 0);
    let plan = plan_of(&engine, &format!("{EVENTS}{counts}"), &settings);
    let error = job.reconfigure(request(&plan, false, false)).expect_err("refused").to_string();
    assert!(error.contains("its event time has changed, and event time has passed"), "{error}");
    job.reconfigure(request(&plan, true, false)).expect("allowed");
    let late = gate.finish_with_late_rows(job);
    assert!(late > 0);
    assert_eq!(counted(folder.path(), "results") + late, 30_000);
}

#[test]
fn windows_go_on_from_event_time_by_the_clock_without_late_rows() {
    let folder = tempfile::tempdir().expect("folder");
    let (gate, settings) = (Gate::default(), settings(Some(&folder.path().join("checkpoints")), 2));
    let engine = gate.engine();
    let counts = counts(folder.path(), "results", "event_type", "TRUE");
    let job = engine.run(&format!("{EVENTS}{counts}"), &settings).expect("a job");
    gate.wait_for_rows(folder.path(), "results", 0);
    let plan = plan_of(&engine, &format!("{}{counts}", events_by_the_clock()), &settings);
    job.reconfigure(request(&plan, false, false)).expect("no row is late by the clock");
    gate.finish(job);
    assert_eq!(counted(folder.path(), "results"), 30_000);
}
