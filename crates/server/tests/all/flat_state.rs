//! State of operators that are bounded stays as large as it is, however long the stream: what watermarks,
//! bounds and times to live free is measured by the files of checkpoints. Keys are always new ones where a
//! key has an end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::live::{settings, wait_for};
use anabranch_dataflow::StateBackendKind;
use anabranch_server::{Engine, Job};

/// For one part of a query's time: one to 32 seconds, with ten checkpoints a second.
const CHECKPOINTS_MAX: usize = 1000;

/// Rows in the state of what is looked at are those of 200 to 400 of these milliseconds of event time.
const TABLES: &str = "
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE a (id BIGINT, fresh AS id / 20, few AS id % 10, ts AS TO_TIMESTAMP_LTZ(id, 3),
  WATERMARK FOR ts AS ts - INTERVAL '0.05' SECOND)
  WITH ('connector' = 'datagen', 'rows-per-second' = '4000', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0',
        'fields.id.end' = '100000000');
CREATE TABLE b (id BIGINT, fresh AS id / 20, few AS id % 10, ts AS TO_TIMESTAMP_LTZ(id, 3),
  WATERMARK FOR ts AS ts - INTERVAL '0.05' SECOND)
  WITH ('connector' = 'datagen', 'rows-per-second' = '4000', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0',
        'fields.id.end' = '100000000');
CREATE TABLE results (x BIGINT, y BIGINT) WITH ('connector' = 'blackhole');
";

/// Each by its name, with what stands before it.
const QUERIES: [(&str, &str, &str); 26] = [
    (
        "groups with a time to live",
        "SET 'table.exec.state.ttl' = '200 ms';",
        "SELECT fresh, COUNT(*) FROM a GROUP BY fresh",
    ),
    (
        "tumble",
        "",
        "SELECT fresh, MAX(id) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.2' SECOND)) GROUP BY window_start, window_end, fresh",
    ),
    (
        "hop",
        "",
        "SELECT fresh, SUM(id) FROM TABLE(HOP(TABLE a, DESCRIPTOR(ts), INTERVAL '0.1' SECOND, INTERVAL '0.3' SECOND)) GROUP BY window_start, window_end, fresh",
    ),
    (
        "cumulate",
        "",
        "SELECT fresh, COUNT(*) FROM TABLE(CUMULATE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.1' SECOND, INTERVAL '0.3' SECOND)) GROUP BY window_start, window_end, fresh",
    ),
    (
        "session",
        "",
        "SELECT fresh, COUNT(*) FROM TABLE(SESSION(TABLE a PARTITION BY fresh, DESCRIPTOR(ts), INTERVAL '0.2' SECOND)) GROUP BY window_start, window_end, fresh",
    ),
    (
        "window of processing time",
        "CREATE VIEW p AS SELECT *, PROCTIME() AS pt FROM a;",
        "SELECT fresh, COUNT(*) FROM TABLE(TUMBLE(TABLE p, DESCRIPTOR(pt), INTERVAL '0.1' SECOND)) GROUP BY window_start, window_end, fresh",
    ),
    (
        "distinct values of windows",
        "",
        "SELECT COUNT(DISTINCT fresh), COUNT(*) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.2' SECOND)) GROUP BY window_start, window_end",
    ),
    (
        "distinct rows of windows",
        "",
        "SELECT fresh, few FROM (SELECT DISTINCT window_start, window_end, fresh, few FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.2' SECOND)))",
    ),
    (
        "early results of windows",
        "SET 'table.exec.emit.early-fire.enabled' = 'true'; SET 'table.exec.emit.early-fire.delay' = '50 ms';",
        "SELECT fresh, COUNT(*) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.2' SECOND)) GROUP BY window_start, window_end, fresh",
    ),
    (
        "late rows of windows",
        "SET 'table.exec.emit.allow-lateness' = '100 ms';",
        "SELECT fresh, COUNT(*) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.2' SECOND)) GROUP BY window_start, window_end, fresh",
    ),
    (
        "windows of windows",
        "CREATE VIEW w AS SELECT fresh, window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.1' SECOND)) GROUP BY window_start, window_end, fresh, window_time;",
        "SELECT fresh, SUM(n) FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(wt), INTERVAL '0.2' SECOND)) GROUP BY window_start, window_end, fresh",
    ),
    (
        "first rows of windows",
        "",
        "SELECT id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, fresh ORDER BY id DESC) AS n FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.2' SECOND))) WHERE n <= 2",
    ),
    (
        "latest row of windows",
        "",
        "SELECT id, fresh FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, fresh ORDER BY ts DESC) AS n FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.2' SECOND))) WHERE n = 1",
    ),
    (
        "first rows of few keys",
        "",
        "SELECT id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY few ORDER BY id DESC) AS n FROM a) WHERE n <= 3",
    ),
    (
        "interval join",
        "",
        "SELECT a.id, b.id FROM a JOIN b ON a.fresh = b.fresh AND b.ts BETWEEN a.ts - INTERVAL '0.1' SECOND AND a.ts + INTERVAL '0.1' SECOND",
    ),
    (
        "interval join, full",
        "",
        "SELECT a.id, b.id FROM a FULL JOIN b ON a.id = b.id * 2 AND b.ts BETWEEN a.ts - INTERVAL '0.1' SECOND AND a.ts + INTERVAL '0.1' SECOND",
    ),
    (
        "window join",
        "",
        "SELECT l.id, r.id FROM (SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '0.2' SECOND))) l LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '0.2' SECOND))) r ON l.id = r.id AND l.window_start = r.window_start AND l.window_end = r.window_end",
    ),
    (
        "rows before each",
        "",
        "SELECT SUM(id) OVER (PARTITION BY few ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW), LAG(id) OVER (PARTITION BY few ORDER BY ts) FROM a",
    ),
    (
        "time before each",
        "",
        "SELECT id, COUNT(*) OVER (PARTITION BY fresh ORDER BY ts RANGE BETWEEN INTERVAL '0.2' SECOND PRECEDING AND CURRENT ROW) FROM a",
    ),
    ("order of event time", "", "SELECT id, fresh FROM a ORDER BY ts"),
    (
        "versions of few keys",
        "CREATE VIEW v AS SELECT few, id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY few ORDER BY ts DESC) AS n FROM b) WHERE n = 1;",
        "SELECT a.id, v.id FROM a LEFT JOIN v FOR SYSTEM_TIME AS OF a.ts ON a.few = v.few",
    ),
    (
        "join with a time to live",
        "SET 'table.exec.state.ttl' = '200 ms';",
        "SELECT a.id, b.id FROM a JOIN b ON a.id = b.id",
    ),
    (
        "outer join with a time to live",
        "SET 'table.exec.state.ttl' = '200 ms';",
        "SELECT a.id, b.id FROM a FULL JOIN b ON a.id = b.id * 2",
    ),
    (
        "join of three with a time to live",
        "SET 'table.exec.state.ttl' = '200 ms';",
        "SELECT a.id, b.few + c.few FROM a JOIN b ON a.id = b.id JOIN b AS c ON a.id = c.id",
    ),
    (
        "first rows with a time to live",
        "SET 'table.exec.state.ttl' = '200 ms';",
        "SELECT id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY fresh ORDER BY id DESC) AS n FROM a) WHERE n <= 2",
    ),
    (
        "latest rows with a time to live",
        "SET 'table.exec.state.ttl' = '200 ms';",
        "SELECT id, fresh FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY fresh ORDER BY ts) AS n FROM a) WHERE n = 1",
    ),
];

/// Those whose state is kept on a disk too.
const ON_DISK: [&str; 6] = [
    "groups with a time to live",
    "session",
    "first rows of windows",
    "interval join, full",
    "time before each",
    "outer join with a time to live",
];
/// So that state does not fit into memory.
const DISK_BYTES: usize = 75_000;
/// Where nothing is optimized, state on a disk does not keep up with more rows per second.
const DISK_ROWS_PER_SECOND: &str = "'rows-per-second' = '2500'";

/// State that nothing bounds, which the test must notice. In memory it has so many keys that what each file
/// takes beside its rows does not count; a disk would not keep up with them.
const UNBOUNDED: [(&str, &str, &str); 2] = [
    ("groups for ever", "", "SELECT id, COUNT(*) FROM a GROUP BY id"),
    ("groups for ever", "", "SELECT fresh, COUNT(*) FROM a GROUP BY fresh"),
];

/// Whether the least checkpoint at the end is much larger than the largest one at the beginning. Much comes
/// and goes with the moment: how far two sources are apart, and how many changes have come since the last
/// complete snapshot.
fn has_grown((first, last): (u64, u64)) -> bool {
    last > first * 3 / 2 + 8192
}

/// Rows that a job has read.
fn rows_read(job: &Job) -> u64 {
    job.metrics().iter().filter(|task| task.is_source).map(|task| task.rows_in).sum()
}

/// The bytes of checkpoints until so many rows were read.
fn checkpoints_until(name: &str, job: &mut Option<Job>, rows: u64) -> Vec<u64> {
    let mut bytes = Vec::new();
    for _ in 0..CHECKPOINTS_MAX {
        let running = job.as_ref().expect("a job");
        if let Err(error) = running.checkpoint_now() {
            let outcome = job.take().map(Job::wait);
            panic!("{name}: {error}: {outcome:?}");
        }
        let job = job.as_ref().expect("a job");
        bytes.extend(job.status().last_checkpoint.map(|newest| newest.bytes));
        if rows_read(job) >= rows {
            return bytes;
        }
        anabranch_model::pause(Duration::from_millis(100));
    }
    panic!("{name}: {rows} rows were not read");
}

/// The largest checkpoint of a query in the first quarter or sixth of its time, and the least one in the
/// last.
fn first_and_last(on_disk: bool, (name, before, query): (&str, &str, &str)) -> (u64, u64) {
    let (engine, folder) = (Engine::default(), tempfile::tempdir().expect("folder"));
    let settings = settings(Some(folder.path()), 2);
    let mut sql = format!("{TABLES}{before} INSERT INTO results {query};");
    if on_disk {
        sql = sql.replace("'rows-per-second' = '4000'", DISK_ROWS_PER_SECOND);
    }
    let planned = engine.plan(&sql, &settings).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut plan = planned.plan.expect("a plan");
    // Otherwise checkpoints of changes would be much longer than the state.
    plan.options.thresholds.snapshot_changed_rows = 16;
    if on_disk {
        (plan.options.state_backend, plan.options.state_bytes) = (StateBackendKind::Disk, DISK_BYTES);
    }
    let mut job = Some(engine.start(&plan).expect("a job"));
    let started = job.as_ref().expect("a job");
    wait_for(&format!("{name}: waited for rows"), &|| rows_read(started) > 2_000);
    // A time to live lasts two seconds longer: processing time may be behind by so much. Versions are
    // forgotten a thousand at a time, and their complete snapshots are seconds apart. Rows on a disk are
    // there several times until their runs are merged.
    let sources = if query.contains("JOIN") { 2 } else { 1 };
    let is_timed = before.contains("ttl") || query.contains("SYSTEM_TIME") || name == UNBOUNDED[0].0;
    let first = sources
        * match on_disk {
            true => 10_000,
            false if is_timed => 16_000,
            false => 4_000,
        };
    let parts = match (on_disk, name == UNBOUNDED[0].0) {
        (true, _) => 6,
        (false, true) => 8,
        (false, false) => 4,
    };
    let largest = checkpoints_until(name, &mut job, first).into_iter().max().unwrap_or_default();
    checkpoints_until(name, &mut job, (parts - 1) * first);
    let least = checkpoints_until(name, &mut job, parts * first).into_iter().min().unwrap_or_default();
    println!("{name}, on disk {on_disk}: at first up to {largest} bytes, then from {least} on");
    (largest, least)
}

fn check(on_disk: bool, queries: &[(&'static str, &str, &str)]) {
    let next = AtomicUsize::new(0);
    let suspects = Mutex::new(Vec::new());
    let work = || {
        while let Some(query) = queries.get(next.fetch_add(1, Relaxed)) {
            if has_grown(first_and_last(on_disk, *query)) {
                suspects.lock().expect("no panic").push(*query);
            }
        }
    };
    thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(work)));
    });
    // On a machine with much else to do, two sources may come apart, and a time to live may begin late: once
    // more, alone.
    let suspects = suspects.into_inner().expect("no panic").into_iter();
    let again = suspects.filter(|query| has_grown(first_and_last(on_disk, *query)));
    let grown: Vec<&str> = again.map(|query| query.0).collect();
    assert!(grown.is_empty(), "{grown:?}");
    assert!(
        (0..3).any(|_| has_grown(first_and_last(on_disk, UNBOUNDED[usize::from(on_disk)]))),
        "the test notices nothing"
    );
}

#[test]
fn state_of_bounded_operators_stays_flat() {
    check(false, &QUERIES);
}

#[test]
fn so_does_state_on_disk() {
    let of_disk: Vec<_> = QUERIES.into_iter().filter(|query| ON_DISK.contains(&query.0)).collect();
    assert_eq!(of_disk.len(), ON_DISK.len());
    check(true, &of_disk);
}
