//! The coordinator's effects for a user's job: groups of epochs, checkpoints on request, the recorded end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SinkSpec, TableTraits};
use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::{Connector, Sink, TaskContext};
use anabranch_server::{Engine, Job, Phase, Settings, Summary};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// Nothing that works takes this long.
const LIMIT: Duration = Duration::from_secs(120);

/// Events that do not end, or end after a number of rows.
fn events(rows: Option<u32>) -> String {
    let rows = rows.map(|rows| format!(", 'number-of-rows' = '{rows}'")).unwrap_or_default();
    format!(
        "CREATE TABLE events (ad_id STRING, event_time BIGINT) WITH ('connector' = 'ad_events',
           'rows-per-second' = '5000', 'start-time' = '2026-01-01 00:00:00'{rows});
         CREATE TABLE results (ad_id STRING) WITH ('connector' = 'blackhole');
         INSERT INTO results SELECT ad_id FROM events;"
    )
}

fn start(sql: &str, set: &[(&str, &str)]) -> Job {
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Engine::default().run(sql, &Settings { parallelism: Some(2), set, ..Settings::default() }).expect("a job")
}

/// A table that refuses every write.
#[derive(Clone, Default)]
struct Broken {
    tried: Arc<AtomicU32>,
}

impl Connector for Broken {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits {
            bounded: true,
            readable: false,
            writable: true,
            max_readers: None,
            schema: None,
            ..TableTraits::default()
        })
    }

    fn sink(&self, _: &SinkSpec, _: &TaskContext) -> Result<Box<dyn Sink>> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Broken {
    fn write(&mut self, _: &RecordBatch) -> Result<()> {
        self.tried.fetch_add(1, SeqCst);
        Err(Error::outside("the disk is full"))
    }

    fn epoch_end(&mut self, _: Epoch) -> Result<()> {
        Ok(())
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Waits for a condition.
fn wait_for(job: &Job, what: &str, so: impl Fn(&Job) -> bool) {
    let slice = Duration::from_millis(5);
    for _ in 0..LIMIT.as_millis() / slice.as_millis() {
        if so(job) {
            return;
        }
        assert!(!job.wait_timeout(slice), "the job has ended before {what}");
    }
    panic!("{what} did not happen: {:?}", job.coordination());
}

fn finish(job: Job) -> Result<Summary> {
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    job.wait()
}

fn log_entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("log")).expect("a log");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn a_job_that_has_ended_is_not_started_again() {
    let folder = tempfile::tempdir().expect("folder");
    let set = [("checkpoint-directory", text(folder.path())), ("epoch-interval", "5 ms")];
    let first = finish(start(&events(Some(100)), &set)).expect("the end");
    let rows: u64 = first.tasks.iter().filter(|task| task.is_source).map(|task| task.rows_out).sum();
    assert_eq!((first.had_ended, rows), (false, 100));
    let log = log_entries(folder.path());
    let job = start(&events(Some(100)), &set);
    assert!(job.had_ended() && job.wait_timeout(Duration::ZERO) && job.metrics().is_empty());
    job.stop();
    let error = job.checkpoint_now().expect_err("no job takes one").to_string();
    assert!(error.contains("the job ended before"), "{error}");
    assert!(finish(job).expect("nothing is wrong").had_ended);
    assert_eq!(log_entries(folder.path()), log);
}

#[test]
fn a_job_that_was_stopped_resumes() {
    let folder = tempfile::tempdir().expect("folder");
    let set = [("checkpoint-directory", text(folder.path())), ("epoch-interval", "5 ms")];
    let mut epochs = Vec::new();
    for _ in 0..3 {
        let job = start(&events(None), &set);
        wait_for(&job, "a group", |job| job.coordination().groups > 2);
        job.stop();
        let summary = finish(job).expect("a stop is not a failure");
        assert!(!summary.had_ended);
        epochs.extend(summary.tasks.iter().map(|task| task.epoch).max());
        assert!(log_entries(folder.path()).len() <= 4, "{:?}", log_entries(folder.path()));
    }
    assert!(epochs.is_sorted_by(|a, b| a < b), "each resumes after the one before: {epochs:?}");
}

#[test]
fn a_checkpoint_is_taken_on_request() {
    let folder = tempfile::tempdir().expect("folder");
    let directory = ("checkpoint-directory", text(folder.path()));
    let job = start(&events(None), &[directory, ("checkpoint-interval", "1 h"), ("epoch-interval", "10 ms")]);
    let (first, second) = (job.checkpoint_now().expect("committed"), job.checkpoint_now().expect("another one"));
    assert!(first.epoch < second.epoch && Epoch(0) < first.epoch, "{first:?} {second:?}");
    for committed in [first, second] {
        let manifest = format!("{}-{}-", committed.incarnation.0, committed.epoch.0);
        let manifests = std::fs::read_dir(folder.path().join("manifests")).expect("a folder").flatten();
        let names: Vec<_> = manifests.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        assert!(names.iter().any(|name| name.starts_with(&manifest)), "{manifest}: {names:?}");
    }
    let status = job.status();
    assert_eq!((status.phase, status.incarnation, status.restarts), (Phase::Running, second.incarnation, 0));
    assert_eq!((status.checkpoints_completed, status.checkpoints_abandoned), (2, 0));
    let last = status.last_checkpoint.expect("the second one");
    assert!(last.committed == second && !last.took.is_zero(), "{last:?}");
    job.stop();
    finish(job).expect("a stop is not a failure");
    let job = start(&events(None), &[]);
    let error = job.checkpoint_now().expect_err("it keeps none").to_string();
    assert!(error.contains("keeps no checkpoints") && error.contains("checkpoint-directory"), "{error}");
}

/// The epochs of the group that runs would take years.
#[test]
fn a_checkpoint_that_is_requested_does_not_wait_for_the_group_that_runs() {
    let folder = tempfile::tempdir().expect("folder");
    let directory = ("checkpoint-directory", text(folder.path()));
    let intervals = [("checkpoint-interval", "1 h"), ("epoch-interval", "1 h"), ("group-epochs", "10000")];
    let job = Arc::new(start(&events(None), &[&intervals[..], &[directory]].concat()));
    let (answer, committed) = std::sync::mpsc::channel();
    let requesting = Arc::clone(&job);
    let request = move || {
        // Nobody may wait for it.
        while answer.send(requesting.checkpoint_now()).is_ok() {}
    };
    std::thread::Builder::new().name("requests".into()).spawn(request).expect("a thread");
    let epochs: Vec<Epoch> = (0..3)
        .map(|_| committed.recv_timeout(LIMIT).expect("it does not wait").expect("it is committed").epoch)
        .collect();
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
    job.stop();
}

#[test]
fn groups_have_the_requested_size_or_as_few_epochs_as_the_bounds_allow() {
    let fixed = start(&events(None), &[("group-epochs", "7"), ("epoch-interval", "2 ms")]);
    wait_for(&fixed, "a measured group", |job| job.coordination().overhead.is_some());
    assert_eq!(fixed.coordination().group_epochs, 7);
    // Any coordination at all is too much, so groups grow. Each epoch has rows: otherwise sources would wait
    // for them, and nothing is measured.
    let bounds = [("coordination-percent-min", "0"), ("coordination-percent-max", "0")];
    let growing = start(&events(None), &[&bounds[..], &[("epoch-interval", "20 ms")]].concat());
    wait_for(&growing, "a large group", |job| job.coordination().group_epochs >= 16);
    // No coordination is too much, so groups keep their first size.
    let bounds = [("coordination-percent-max", "100"), ("coordination-percent-min", "100")];
    let small = start(&events(None), &[&bounds[..], &[("epoch-interval", "20 ms")]].concat());
    wait_for(&small, "some groups", |job| job.coordination().groups > 20);
    assert_eq!(small.coordination().group_epochs, 1);
    for job in [fixed, growing, small] {
        job.stop();
        finish(job).expect("a stop is not a failure");
    }
}

#[test]
fn a_store_that_cannot_be_written_for_too_long_ends_the_job_with_its_error() {
    let folder = tempfile::tempdir().expect("folder");
    let set = [
        ("checkpoint-directory", text(folder.path())),
        ("checkpoint-interval", "10 ms"),
        ("checkpoint-timeout", "700 ms"),
        ("epoch-interval", "5 ms"),
    ];
    let job = start(&events(None), &set);
    job.checkpoint_now().expect("committed");
    std::fs::rename(folder.path().join("log"), folder.path().join("gone")).expect("moved");
    std::fs::write(folder.path().join("log"), "in the way").expect("written");
    let error = finish(job).expect_err("no checkpoint can be committed").to_string();
    // The write or the listing after it fails first.
    assert!(error.contains("/log") && error.contains("cannot be"), "{error}");
    assert!(!error.contains("taken the job over"), "{error}");
}

#[test]
fn a_failing_job_that_is_stopped_does_not_wait_for_its_next_attempt() {
    let folder = tempfile::tempdir().expect("folder");
    let mut engine = Engine::default();
    let broken = Broken::default();
    engine.register("results", Arc::new(broken.clone()));
    let sql = events(None).replace("'blackhole'", "'results'");
    let set = [("checkpoint-directory", text(folder.path())), ("restart-attempts", "1000000")];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let job = engine.run(&sql, &Settings { parallelism: Some(1), set, ..Settings::default() }).expect("a job");
    wait_for(&job, "a third attempt", |_| broken.tried.load(SeqCst) >= 3);
    job.stop();
    let error = finish(job).expect_err("why it failed").to_string();
    assert!(error.contains("the disk is full"), "{error}");
    assert!(broken.tried.load(SeqCst) < 10, "pauses grow");
}

/// A scheduler finds each task by the identifier of its thread.
#[test]
#[cfg(target_os = "linux")]
fn each_task_shows_its_thread_while_it_runs() {
    let job = start(&events(None), &[]);
    wait_for(&job, "prepared tasks", |job| job.metrics().iter().all(|task| task.thread.is_some() && task.is_prepared));
    let tasks = job.metrics();
    for task in &tasks {
        let thread = task.thread.expect("a thread");
        let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm")).expect("a thread of this process");
        let place = format!("{}.{} ", task.task.stage.0, task.task.index);
        assert!(name.starts_with(&place), "{name:?} is {place}");
    }
    assert_eq!(tasks.len(), 2);
    job.stop();
    let ended = job.wait().expect("stopped").tasks;
    assert!(ended.iter().all(|task| task.thread.is_none()), "identifiers are used again: {ended:?}");
}
