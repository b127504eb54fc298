//! Commands that change running jobs, and coordinators that die while they do.

use std::path::Path;

use super::{rows, script};
use crate::harness::{Cluster, file, text};

const EVENTS: usize = 24_000;

/// The script with another text: each row says so.
fn changed(script: &str) -> String {
    let changed = script.replace("SELECT ad_id,", "SELECT CONCAT('new-', ad_id),");
    assert_ne!(changed, script);
    changed
}

/// All rows that are visible in the files of a job.
pub(crate) fn lines(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("out")).into_iter().flatten().flatten().map(|file| file.path());
    let parts = files.filter(|path| path.extension().is_some_and(|extension| extension == "csv"));
    parts
        .flat_map(|path| std::fs::read_to_string(path).expect("text").lines().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

fn is_new(line: &str) -> bool {
    line.starts_with("new-")
}

/// The objects in a folder of the store, as one text.
fn stored(folder: &Path, of: &str) -> String {
    let files =
        std::fs::read_dir(folder.join("store").join(of)).into_iter().flatten().flatten().map(|file| file.path());
    // A coordinator that is killed may leave a file that it has not renamed yet.
    let objects = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    objects.filter_map(|path| std::fs::read_to_string(path).ok()).collect()
}

fn is_at(cluster: &Cluster, task: &str, worker: &str) -> bool {
    let shown = cluster.ok(&["show", "job"]);
    shown.lines().any(|line| line.starts_with(task) && line.contains(worker))
}

#[test]
fn a_running_job_is_altered_rescaled_and_moved_by_commands() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 3);
    cluster.worker("second", 3);
    cluster.until("both workers", || cluster.ok(&["jobs"]).contains("second"));
    let text_of = script(folder.path(), None, 2000);
    let job = file(folder.path(), "job.sql", &text_of);
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
    assert!(cluster.ok(&["changes", "job"]).contains("no changes"));

    let new = file(folder.path(), "new.sql", &changed(&text_of));
    let rehearsed = cluster.ok(&["alter", "job", &new, "--dry-run"]);
    assert!(rehearsed.contains("kept  source") && rehearsed.contains("nothing was changed"), "{rehearsed}");
    let altered = cluster.ok(&["alter", "job", &new]);
    assert!(altered.contains("kept  source") && altered.contains("version 2 of its plan runs"), "{altered}");
    cluster.until("rows of the new text", || lines(folder.path()).iter().any(|line| is_new(line)));
    let rescaled = cluster.ok(&["rescale", "job", "3"]);
    assert!(rescaled.contains("version 3 of its plan runs; the change took"), "{rescaled}");
    cluster.until("a third task", || cluster.ok(&["show", "job"]).contains("0 source events  2"));
    let again = cluster.ok(&["alter", "job", &new]);
    assert!(again.contains("is as it was: version 3"), "the parallelism stays: {again}");

    for worker in ["first", "second"] {
        let moved = cluster.ok(&["migrate", "job", "--task", "0.0", "--to", worker]);
        assert!(moved.contains("of its plan runs"), "{moved}");
        cluster.until("the task there", || is_at(&cluster, "0 source events  0", worker));
    }
    let drained = cluster.ok(&["drain", "second"]);
    assert!(drained.contains("job job has no tasks at second"), "{drained}");
    cluster.until("no task there", || !cluster.ok(&["show", "job"]).contains("second"));
    assert!(cluster.ok(&["jobs"]).contains("(drained)"));
    cluster.refused(&["migrate", "job", "--task", "0.0", "--to", "second"], 2, "anabranch drain second --undo");
    assert!(cluster.ok(&["drain", "second", "--undo"]).contains("worker second gets tasks again"));
    assert!(!cluster.ok(&["jobs"]).contains("(drained)"));
    cluster.ok(&["migrate", "job", "--task", "0.0", "--to", "second"]);
    cluster.until("the task there", || is_at(&cluster, "0 source events  0", "second"));
    cluster.ok(&["drain", "second"]);
    a_refused_drain_keeps_the_former_one(&cluster, folder.path());
    let listed = cluster.ok(&["changes", "job"]);
    for part in ["new text", "parallelism 3", "task 0.0 to first", "away from second", "settled"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(!cluster.ok(&["show", "job"]).contains("restarted after"), "nothing has failed");

    // A restarted coordinator has the job with all changes.
    cluster.kill_coordinator(0);
    cluster.start_coordinator(0);
    cluster.until("it runs", || cluster.state("job") == "running");
    cluster.until("its tasks", || cluster.ok(&["show", "job"]).contains("0 source events  2"));
    assert!(cluster.ok(&["show", "job"]).contains("new-"));
    let total = rows(folder.path());
    cluster.until("further rows", || rows(folder.path()) > total + 1000);
}

/// A job that waits for slots needs the worker.
fn a_refused_drain_keeps_the_former_one(cluster: &Cluster, folder: &Path) {
    let other = file(folder, "other.sql", &script(&folder.join("other"), None, 500));
    cluster.ok(&["submit", &other, "--parallelism", "9", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("it waits", || cluster.state("other") == "waiting");
    cluster.refused(&["drain", "second"], 1, "it gets none, as before");
    assert!(cluster.ok(&["jobs"]).contains("(drained)"));
    cluster.ok(&["cancel", "other"]);
}

#[test]
fn a_change_that_cannot_be_made_is_told_with_place_and_remedy() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("only", 2);
    let text_of = script(folder.path(), None, 500);
    let job = file(folder.path(), "job.sql", &text_of);
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
    let wrong = file(folder.path(), "wrong.sql", &text_of.replace("SELECT ad_id", "SELECT adid"));
    let [told, by_run] = [&["alter", "job", &wrong][..], &["run", &wrong]]
        .map(|arguments| cluster.command(arguments).output().expect("runs"));
    assert_eq!((told.status.code(), text(&told.stderr)), (Some(2), text(&by_run.stderr)), "as `run` shows it");
    cluster.refused(&["alter", "other", &job], 2, "there is no job 'other'");
    cluster.refused(&["alter", "job", "/nowhere.sql"], 2, "cannot read");
    cluster.refused(&["rescale", "job", "4"], 2, "2 slots would be left, and the job needs 4");
    cluster.refused(&["migrate", "job", "--task", "0.0", "--to", "away"], 2, "the workers are: 'only'");
    cluster.refused(&["migrate", "job", "--task", "7.0", "--to", "only"], 2, "no task 0 of stage 7");
    cluster.refused(&["migrate", "job", "--task", "7", "--to", "only"], 2, "give STAGE.TASK");
    cluster.refused(&["drain", "away"], 2, "there is no worker 'away'");
    cluster.refused(&["alter", "job", &job, "--set", "epoch-interval=7 ms"], 2, "changes epoch-interval");
    cluster.refused(&["drain", "only"], 1, "worker only was not drained: job needs it");
    assert!(!cluster.ok(&["jobs"]).contains("(drained)"), "a drain that is refused changes nothing");
    assert!(cluster.ok(&["changes", "job"]).contains("refused"));
    assert_eq!(cluster.state("job"), "running");
}

/// When the leading coordinator is killed, or what happens to it instead.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// The record has the change.
    Noted,
    /// The new version has begun, and its first checkpoint cannot be completed.
    Begun,
    /// The new version has a checkpoint.
    Settled,
    /// It is frozen when the new version has begun, and goes on while another one takes over.
    Frozen,
}

#[test]
fn a_coordinator_that_is_gone_while_it_changes_a_job_leaves_it_with_one_text() {
    for moment in [Moment::Noted, Moment::Begun, Moment::Settled, Moment::Frozen] {
        let folder = tempfile::tempdir().expect("folder");
        let mut cluster = Cluster::of(folder.path(), 2);
        cluster.worker("first", 1);
        cluster.worker("second", 1);
        let text_of = script(folder.path(), Some(EVENTS as u64), 3000);
        let job = file(folder.path(), "job.sql", &text_of);
        let new = file(folder.path(), "new.sql", &changed(&text_of));
        cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
        cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
        let leader = cluster.http().split(',').next().expect("one").to_owned();
        if moment == Moment::Noted {
            // The change is noted, and cannot be made.
            cluster.signal_worker(0, "STOP");
        }
        // A client of both would send the change again to the other one.
        let altering = cluster.begin(&["alter", "job", &new, "--coordinator", &leader]);
        let log = || stored(folder.path(), "jobs/job/log");
        match moment {
            Moment::Noted => cluster.until("the record", || stored(folder.path(), "submitted").contains("\"next\"")),
            Moment::Begun => {
                cluster.until("the new version", || log().contains("\"version\":2"));
                cluster.signal_worker(0, "STOP");
            }
            Moment::Settled => assert_eq!(altering.end(), Some(0)),
            Moment::Frozen => cluster.until("the new version", || log().contains("\"version\":2")),
        }
        match moment {
            Moment::Frozen => cluster.signal(0, "STOP"),
            _ => cluster.kill_coordinator(0),
        }
        let is_settled = log().lines().any(|entry| {
            entry.split("{\"format\"").any(|entry| entry.contains("\"checkpoint\"") && entry.contains("\"version\":2"))
        });
        if matches!(moment, Moment::Noted | Moment::Begun) {
            cluster.signal_worker(0, "CONT");
        }
        cluster.until("the new leader", || cluster.has_said(1, "warn leader does not answer"));
        if moment == Moment::Frozen {
            cluster.signal(0, "CONT");
            cluster.until("the old leader's insight", || cluster.has_said(0, "warn another coordinator leads"));
        }
        cluster.until("the job's end", || cluster.state("job") == "ended");
        assert_eq!(rows(folder.path()), EVENTS, "{moment:?}");
        let (submitted, shown) = (stored(folder.path(), "submitted"), cluster.ok(&["show", "job"]));
        assert!(!submitted.contains("\"next\""), "{moment:?}: {submitted}");
        let has_new_text = submitted.contains("CONCAT('new-'");
        assert_eq!(has_new_text, shown.contains("new-"), "{moment:?}: {shown}");
        assert_eq!(has_new_text, lines(folder.path()).iter().any(|line| is_new(line)), "{moment:?}");
        // A coordinator that goes on may settle the change before another one has taken the job.
        assert!(has_new_text == is_settled || moment == Moment::Frozen, "{moment:?}");
        assert!(has_new_text || moment != Moment::Settled);
    }
}

#[test]
fn the_job_of_a_process_at_the_terminal_is_changed_by_the_same_commands() {
    for workers in [None, Some("3")] {
        let folder = tempfile::tempdir().expect("folder");
        let cluster = Cluster::start(folder.path());
        let durable = format!(
            "SET 'job-name' = 'ads';\nSET 'checkpoint-directory' = '{}/checkpoints';\nSET 'checkpoint-interval' = '100 ms';\n",
            folder.path().display()
        );
        let text_of = format!("{durable}{}", script(folder.path(), Some(EVENTS as u64), 3000));
        let job = file(folder.path(), "job.sql", &text_of);
        let new = file(folder.path(), "new.sql", &changed(&text_of));
        let mut arguments = vec!["run", &job, "-p", "2", "--listen", "127.0.0.1:0"];
        arguments.extend(workers.iter().flat_map(|workers| ["--workers", workers]));
        let run = cluster.begin(&arguments);
        let mut url = String::new();
        cluster.until("the address", || {
            let said = run.said();
            let line = said.lines().find_map(|line| line.split_once("listening at ").map(|(_, url)| url.to_owned()));
            url = line.unwrap_or_default();
            !url.is_empty()
        });
        cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
        let at = ["--coordinator", &url];
        let altered = cluster.ok(&[&["alter", "ads", &new][..], &at].concat());
        assert!(altered.contains("version 2 of its plan runs"), "{altered}");
        let rescaled = cluster.ok(&[&["rescale", "ads", "3"][..], &at].concat());
        assert!(rescaled.contains("version 3 of its plan runs"), "{rescaled}");
        match workers {
            None => {
                cluster.refused(
                    &[&["drain", "local"][..], &at].concat(),
                    2,
                    "all tasks of this job are in one process",
                );
            }
            Some(_) => {
                let moved = cluster.ok(&[&["migrate", "ads", "--task", "0.0", "--to", "local-2"][..], &at].concat());
                assert!(moved.contains("of its plan runs"), "{moved}");
            }
        }
        assert!(cluster.ok(&[&["changes", "ads"][..], &at].concat()).contains("settled"));
        assert_eq!(run.end(), Some(0));
        assert_eq!(rows(folder.path()), EVENTS);
        assert!(lines(folder.path()).iter().any(|line| is_new(line)));
    }
}

#[test]
fn a_stage_gets_a_number_of_tasks_of_its_own_and_keeps_it() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 4);
    let counted = script(folder.path(), None, 1000)
        .replace("event_time BIGINT) WITH ('connector' = 'ad_events'", "event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'ad_events'")
        .replace("SELECT ad_id, event_time FROM events", "SELECT ad_id, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.1' SECOND)) GROUP BY ad_id, window_start, window_end");
    let job = file(folder.path(), "job.sql", &counted);
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
    let tasks = |stage: &str| cluster.ok(&["show", "job"]).lines().filter(|line| line.starts_with(stage)).count();
    cluster.ok(&["rescale", "job", "4", "--stage", "1"]);
    cluster.until("four tasks of the stage", || (tasks("0 source events  "), tasks("1 aggregate  ")) == (2, 4));
    assert!(cluster.ok(&["changes", "job"]).contains("stage 1: parallelism 4"));
    let other = file(folder.path(), "other.sql", &counted.replace("COUNT(*)", "COUNT(*) + 1"));
    cluster.ok(&["alter", "job", &other]);
    cluster.until("the same tasks", || (tasks("0 source events  "), tasks("1 aggregate  ")) == (2, 4));
    cluster.refused(&["rescale", "job", "4", "--stage", "3"], 2, "the plan has no stage 3");
    cluster.refused(&["rescale", "job", "5", "--stage", "0"], 2, "its table has 4 partitions");
    cluster.ok(&["rescale", "job", "3"]);
    cluster.until("three tasks of both", || (tasks("0 source events  "), tasks("1 aggregate  ")) == (3, 3));
}

#[test]
fn a_job_that_waits_for_slots_is_not_changed() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 2);
    cluster.worker("second", 2);
    let job = file(folder.path(), "job.sql", &script(folder.path(), Some(EVENTS as u64), 3000));
    cluster.ok(&["submit", &job, "--parallelism", "4", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
    cluster.kill_worker(1);
    cluster.until("the wait for slots", || cluster.state("job") == "waiting");
    cluster.refused(&["rescale", "job", "2"], 2, "the job waits for workers (2 more slots are needed");
    cluster.ok(&["stop", "job"]);
    cluster.until("the stop", || cluster.state("job") == "stopped");
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("the job's end", || cluster.state("job") == "ended");
    assert_eq!(rows(folder.path()), EVENTS);
}

#[test]
fn a_drained_worker_that_starts_again_gets_tasks() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::start(folder.path());
    cluster.worker("first", 2);
    cluster.worker("second", 2);
    cluster.until("both workers", || cluster.has("first") && cluster.has("second"));
    let job = file(folder.path(), "job.sql", &script(folder.path(), None, 500));
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
    cluster.ok(&["drain", "second"]);
    cluster.refused(&["migrate", "job", "--task", "0.0", "--to", "second"], 2, "is being drained");
    let other = file(folder.path(), "other.sql", &script(&folder.path().join("other"), None, 500));
    cluster.ok(&["submit", &other, "--parallelism", "3"]);
    cluster.until("its wait", || cluster.state("other") == "waiting");
    cluster.kill_worker(1);
    cluster.until("its loss", || !cluster.has("second"));
    cluster.start_worker(1, "second", 2);
    cluster.until("the other job", || cluster.state("other") == "running");
    let moved = cluster.ok(&["migrate", "job", "--task", "0.0", "--to", "second"]);
    assert!(moved.contains("of its plan runs"), "{moved}");
}

#[test]
fn the_tasks_of_a_job_that_was_changed_are_adopted_by_another_coordinator() {
    let folder = tempfile::tempdir().expect("folder");
    let mut cluster = Cluster::of(folder.path(), 2);
    cluster.worker("first", 1);
    cluster.worker("second", 1);
    let text_of = script(folder.path(), Some(24_000), 3000);
    let job = file(folder.path(), "job.sql", &text_of);
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("rows of a checkpoint", || rows(folder.path()) > 0);
    cluster.ok(&["alter", "job", &file(folder.path(), "new.sql", &changed(&text_of))]);
    cluster.kill_coordinator(0);
    let before = rows(folder.path());
    cluster.until("further checkpoints", || rows(folder.path()) > before + 1000);
    let notices = cluster.ok(&["logs", "job"]);
    assert!(notices.contains("this coordinator has adopted the tasks of incarnation 2"), "{notices}");
    cluster.until("the job's end", || cluster.state("job") == "ended");
    assert_eq!(rows(folder.path()), 24_000);
}
