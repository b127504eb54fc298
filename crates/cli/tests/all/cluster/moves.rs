//! State that moves to other workers while its job runs, and workers that are killed meanwhile.

use std::collections::BTreeMap;
use std::path::Path;

use super::changes::lines;
use crate::harness::{Cluster, file, text};

const EVENTS: u64 = 500_000;

/// A count for each of nearly as many keys as events, in one window.
fn script(folder: &Path) -> String {
    format!(
        "CREATE TABLE events (ad_id STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts)
           WITH ('connector' = 'ad_events', 'seed' = '1', 'start-time' = '2026-01-01 00:00:00', 'rows-per-second' = '20000',
                 'number-of-rows' = '{EVENTS}');
         CREATE TABLE counts (ad_id STRING, event_time BIGINT, n BIGINT)
           WITH ('connector' = 'filesystem', 'path' = '{}/out', 'format' = 'csv');
         INSERT INTO counts SELECT ad_id, event_time, COUNT(*)
           FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR))
           GROUP BY window_start, window_end, ad_id, event_time;",
        folder.display()
    )
}

/// Waits until state is loaded for a change, or its command has ended.
fn until_prepares(cluster: &Cluster, command: &crate::process::Process) {
    let prepares = || cluster.ok(&["changes", "job"]).contains("is being carried out: preparing");
    cluster.until("its preparation", || command.has_ended() || prepares());
}

#[test]
fn state_is_where_it_is_needed_before_its_task_moves_and_nothing_is_lost_with_a_worker() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    for name in ["first", "second", "third"] {
        cluster.worker(name, 2);
    }
    cluster.until("the workers", || cluster.ok(&["jobs"]).contains("third"));
    let job = file(folder.path(), "job.sql", &script(folder.path()));
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=300 ms"]);
    cluster.until("a checkpoint", || cluster.ok(&["show", "job"]).contains("the last one, of epoch"));
    let mut copied = 0;
    for worker in ["first", "second", "third"].into_iter().cycle() {
        let moved = cluster.ok(&["migrate", "job", "--task", "1.0", "--to", worker]);
        copied += u32::from(moved.contains("of state were copied ahead"));
        if copied == 2 {
            break;
        }
    }
    // A worker is killed while state is loaded: the job continues unchanged, or by the new plan.
    let rescaling = cluster.begin(&["rescale", "job", "3"]);
    until_prepares(&cluster, &rescaling);
    cluster.kill_worker(1);
    let (code, said) = rescaling.end_with_said();
    assert!(code == Some(0) || said.contains("the change was abandoned, and the job continues unchanged"), "{said}");
    cluster.until("it runs", || cluster.state("job") == "running");
    cluster.worker("fourth", 2);
    cluster.until("the worker", || cluster.ok(&["jobs"]).contains("fourth"));
    // The user thinks better of a change.
    let rescaling = cluster.begin(&["rescale", "job", "4"]);
    until_prepares(&cluster, &rescaling);
    let aborted = cluster.command(&["changes", "job", "--abort"]).output().expect("runs");
    let (told, (code, said)) = (text(&aborted.stderr), rescaling.end_with_said());
    match aborted.status.code() {
        Some(0) => assert!(code != Some(0) && said.contains("the change was aborted"), "{said}"),
        _ => assert!(told.contains("its tasks are switching") || told.contains("no change"), "{told}"),
    }
    cluster.until("the job's end", || cluster.state("job") == "ended");
    let mut counts = BTreeMap::new();
    for line in lines(folder.path()) {
        let (key, count) = line.rsplit_once(',').expect("columns");
        let count: u64 = count.parse().expect("a number");
        assert_eq!(counts.insert(key.to_owned(), count), None, "{key} is there twice");
    }
    assert_eq!(counts.values().sum::<u64>(), EVENTS);
}

#[test]
fn a_dry_run_says_which_worker_would_load_what() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    for name in ["first", "second"] {
        cluster.worker(name, 2);
    }
    cluster.until("the workers", || cluster.ok(&["jobs"]).contains("second"));
    let job = file(folder.path(), "job.sql", &script(folder.path()));
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=300 ms"]);
    cluster.until("a checkpoint", || cluster.ok(&["show", "job"]).contains("the last one, of epoch"));
    let migrate = |worker: &str, more: &[&str]| {
        cluster.ok(&[&["migrate", "job", "--task", "1.0", "--to", worker][..], more].concat())
    };
    let would = |worker: &str| migrate(worker, &["--dry-run"]);
    let stays = |said: &str| !said.contains("loaded by") && !said.contains("opened again");
    // The task is at one of them: there nothing moves.
    let (here, there) = if stays(&would("first")) { ("first", "second") } else { ("second", "first") };
    assert!(stays(&would(here)), "{}", would(here));
    let said = would(there);
    let of_part = |part: &str| said.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{said}"));
    assert!(of_part("kept  state of").ends_with(&format!(" loaded by 1 task at {there}")), "{said}");
    assert!(of_part("kept  sink counts").ends_with(&format!("; opened again by 1 task at {there}")), "{said}");
    assert!(stays(of_part("kept  source events")), "its tasks are of another stage: {said}");
    // So it is.
    migrate(there, &[]);
    assert!(stays(&would(there)) && !stays(&would(here)), "{} {}", would(there), would(here));
    cluster.ok(&["cancel", "job"]);
}
