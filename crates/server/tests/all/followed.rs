//! A followed folder: its files are found in any order, and none makes the rows of another one late.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anabranch_server::{Engine, Job, Settings, Summary};

const LIMIT: Duration = Duration::from_secs(60);

fn append(folder: &Path, file: &str, seconds: i64) {
    let path = folder.join(file);
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("file");
    writeln!(file, "{{\"ms\": {}}}", seconds * 1000).expect("written");
}

fn start(folder: &Path) -> Job {
    start_with(folder, "")
}

fn start_with(folder: &Path, options: &str) -> Job {
    let at = |name: &str| folder.join(name).display().to_string();
    let sql = format!(
        "CREATE TABLE events (ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
           WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json', 'source.monitor-interval' = '10 ms'{options});
         CREATE TABLE results (start_ts TIMESTAMP_LTZ(3), n BIGINT)
           WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO results SELECT window_start, COUNT(*)
           FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;",
        at("in"),
        at("out")
    );
    let set = [("epoch-interval", "5 ms"), ("checkpoint-interval", "20 ms"), ("checkpoint-directory", &at("state"))];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let settings = Settings { parallelism: Some(1), set, ..Settings::default() };
    Engine::default().run(&sql, &settings).expect("a job")
}

fn wait_for_rows(job: &Job, rows: u64) {
    for _ in 0..LIMIT.as_millis() / 5 {
        if job.metrics().iter().filter(|task| task.is_source).map(|task| task.rows_in).sum::<u64>() >= rows {
            return;
        }
        assert!(!job.wait_timeout(Duration::from_millis(5)), "the job ended by itself");
    }
    panic!("{rows} rows have not been read");
}

fn stop(job: Job) -> Summary {
    job.stop();
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    job.wait().expect("it stops")
}

#[test]
fn files_that_came_in_another_order_keep_their_event_times_over_a_restart() {
    let folder = tempfile::tempdir().expect("folder");
    let events = folder.path().join("in");
    fs::create_dir(&events).expect("folder");
    append(&events, "b", 0);
    let job = start(folder.path());
    wait_for_rows(&job, 1);
    // By its name it is the first, but it was found second.
    append(&events, "a", 1000);
    wait_for_rows(&job, 2);
    stop(job);

    let job = start(folder.path());
    append(&events, "a", 1001);
    wait_for_rows(&job, 1);
    append(&events, "b", 5);
    wait_for_rows(&job, 2);
    let late: u64 = stop(job).tasks.iter().map(|task| task.late_rows).sum();
    assert_eq!(late, 0, "the row of the file that is behind was late");
}

#[test]
fn a_file_that_nobody_writes_to_holds_event_time_no_longer_than_the_idle_timeout() {
    let folder = tempfile::tempdir().expect("folder");
    let events = folder.path().join("in");
    fs::create_dir(&events).expect("folder");
    append(&events, "app.log", 1);
    let job = start_with(folder.path(), ", 'scan.idle-timeout' = '100 ms'");
    wait_for_rows(&job, 1);
    // A rotation: the old file stays, without further rows.
    fs::rename(events.join("app.log"), events.join("app.log.1")).expect("renamed");
    append(&events, "app.log", 100);
    wait_for_rows(&job, 2);
    let has_results = || {
        let entries = fs::read_dir(folder.path().join("out")).into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).any(|name| name.starts_with("part-"))
    };
    let mut waited = Duration::ZERO;
    while !has_results() {
        assert!(!job.wait_timeout(Duration::from_millis(10)), "the job ended by itself");
        waited += Duration::from_millis(10);
        assert!(waited < LIMIT, "the window of the rotated file never fires");
    }
    stop(job);
}
