//! Jobs whose number of tasks follows their load.

use super::{rows, script};
use crate::harness::{Cluster, file, text};

/// Settings with which decisions come soon.
const SOON: [&str; 14] = [
    "--set",
    "autoscale=on",
    "--set",
    "autoscale-tasks-max=3",
    "--set",
    "autoscale-interval=500 ms",
    "--set",
    "autoscale-intervals=2",
    "--set",
    "autoscale-quiet=1 s",
    "--set",
    "checkpoint-interval=200 ms",
    "--set",
    "batch-rows=64",
];

fn tasks(cluster: &Cluster, job: &str) -> usize {
    cluster.ok(&["show", job]).lines().filter(|line| line.starts_with("0 source events  ")).count()
}

#[test]
fn a_job_gets_more_tasks_when_one_cannot_keep_up_and_fewer_when_they_are_not_needed() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 2);
    cluster.worker("second", 2);
    cluster.until("both workers", || cluster.has("first") && cluster.has("second"));
    let cheap = script(folder.path(), None, 10_000);
    // Several hundred microseconds for each row: one task cannot keep up.
    let costly = cheap.replace("SELECT ad_id,", "SELECT SHA512(REPEAT(ad_id, 100)),");
    let job = file(folder.path(), "job.sql", &costly);
    cluster.ok(&[&["submit", &job, "--parallelism", "1"][..], &SOON].concat());
    cluster.until("three tasks", || tasks(&cluster, "job") == 3);
    let listed = cluster.ok(&["changes", "job"]);
    assert!(listed.contains("autoscale: parallelism ") && listed.lines().all(|line| line.len() < 130), "{listed}");
    let shown = cluster.ok(&["show", "job"]);
    assert!(shown.contains("the number of tasks follows the load: 1 to 3 tasks"), "{shown}");
    let before = rows(folder.path());
    cluster.until("rows of three tasks", || rows(folder.path()) > before);

    // The same rows cost little from here on.
    cluster.ok(&["alter", "job", &file(folder.path(), "cheap.sql", &cheap)]);
    cluster.until("one task", || tasks(&cluster, "job") == 1);
    assert!(!cluster.ok(&["show", "job"]).contains("restarted after"), "nothing has failed");

    let decided = cluster.ok(&["autoscale", "job"]);
    assert!(decided.contains("stage 0: ") && decided.contains("rows/s per task; needs "), "{decided}");
    let record = cluster.ok(&["autoscale", "job", "--record"]);
    let record = file(folder.path(), "record.jsonl", &record);
    let soon: Vec<&str> = SOON[2..10].to_vec();
    let again = cluster.ok(&[&["autoscale", "--file", &record][..], &soon].concat());
    assert!(again.starts_with("+0.0 s: ") && again.contains("stage 0: 3 tasks"), "{again}");
    let fewer = cluster.ok(&["autoscale", "job", "--rehearse", "--set", "autoscale-tasks-max=1"]);
    assert!(!fewer.contains("grows"), "{fewer}");
    cluster.refused(&["autoscale", "job", "--rehearse", "--set", "parallelism=1"], 2, "begin with 'autoscale-'");
}

#[test]
fn a_job_that_is_only_observed_keeps_its_tasks() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 2);
    let job = file(folder.path(), "job.sql", &script(folder.path(), None, 100));
    let by_run = cluster.command(&["run", &job, "--set", "autoscale=on"]).output().expect("runs");
    assert!(!by_run.status.success());
    assert!(text(&by_run.stderr).contains("submit the job to a coordinator"), "{by_run:?}");
    let observes = ["submit", &job, "--parallelism", "2", "--set", "autoscale=observe"];
    cluster.ok(&[&observes[..], &SOON[4..]].concat());
    cluster.until("a decision", || cluster.ok(&["autoscale", "job"]).contains("stage 0: 1 tasks\n"));
    assert!(cluster.ok(&["show", "job"]).contains("(observed only): 1 to 128 tasks"));
    assert!(cluster.ok(&["changes", "job"]).contains("no changes"));
    assert_eq!(tasks(&cluster, "job"), 2);
}
