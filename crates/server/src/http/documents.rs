//! The documents of the API, as they are serialized. `openapi.json` describes them; a test compares both,
//! field by field.

mod checkpoints;
mod plan;

use anabranch_model::{
    Clock as _, Error, EventTime, LatencySummary, LookupReading, Notice, Secrets, SystemClock, TaskMetrics, shown_value,
};
use anabranch_state::Savepoint;
use serde::Serialize;

pub(super) use self::checkpoints::CheckpointsDocument;
pub(super) use self::plan::PlanDocument;
use super::answers::Api;
use super::jobs::{Placed, Reading, ServedJob};
use super::orders::JobOrder;
use super::rates::{Rates, Shares};
use super::security::Access;
use crate::TableOption;
use crate::why::Why;

/// An error.
#[derive(Debug, Serialize)]
pub(super) struct ErrorDocument {
    pub(super) error: String,
    pub(super) place: Option<String>,
    pub(super) remedy: Option<String>,
}

/// Whether the job runs.
#[derive(Debug, Serialize)]
pub(super) struct Readiness {
    ready: bool,
    jobs: Vec<JobSummary>,
}

/// All jobs.
#[derive(Debug, Serialize)]
pub(super) struct JobList {
    jobs: Vec<JobSummary>,
}

/// A job in a list.
#[derive(Debug, Serialize)]
pub(super) struct JobSummary {
    name: String,
    state: &'static str,
    ready: bool,
    waits_for: Option<String>,
    failure: Option<String>,
    started_at_ms: i64,
}

/// A job.
#[derive(Debug, Serialize)]
pub(super) struct JobDocument {
    #[serde(flatten)]
    summary: JobSummary,
    plan_version: u32,
    incarnation: u64,
    restarts: u64,
    stages: usize,
    tasks: usize,
    epoch: u64,
    watermark_ms: Option<i64>,
    watermark_lag_ms: Option<i64>,
    rows_read: u64,
    bytes_read: u64,
    rows_written: u64,
    rows_read_per_second: f64,
    bytes_read_per_second: f64,
    rows_written_per_second: f64,
    late_rows: u64,
    malformed_rows: u64,
    rows_without_event_time: u64,
    rows_with_null: u64,
    no_results_because: Option<String>,
    group_epochs: u64,
    coordination_share: Option<f64>,
}

/// A request to a job, which may not be carried out yet.
#[derive(Debug, Serialize)]
pub(super) struct Requested {
    pub(super) name: String,
    pub(super) requested: &'static str,
}

/// All tasks.
#[derive(Debug, Serialize)]
pub(super) struct TaskList {
    tasks: Vec<TaskDocument>,
}

/// A task.
#[derive(Debug, Serialize)]
struct TaskDocument {
    stage: u32,
    stage_name: String,
    task: u32,
    worker: String,
    thread: Option<u32>,
    prepared: bool,
    reads_table: bool,
    writes_table: bool,
    rows_in: u64,
    bytes_in: u64,
    rows_out: u64,
    bytes_out: u64,
    rows_in_per_second: f64,
    rows_out_per_second: f64,
    busy_share: Option<f64>,
    idle_share: Option<f64>,
    backpressured_share: Option<f64>,
    queue_batches: u64,
    queue_rows: u64,
    queue_bytes: u64,
    queue_share: f64,
    oldest_queued_ms: f64,
    oldest_read_ms: f64,
    cpu_ms: f64,
    core_wait_ms: f64,
    nice: i32,
    watermark_ms: Option<i64>,
    epoch: u64,
    late_rows: u64,
    malformed_rows: u64,
    rows_without_event_time: u64,
    rows_with_null: u64,
    lookups: Option<LookupsDocument>,
    latency: LatencyDocument,
    result_latency: LatencyDocument,
}

/// Calls of a task to a table outside.
#[derive(Debug, Serialize)]
struct LookupsDocument {
    keys: u64,
    hits: u64,
    calls: u64,
    failures: u64,
    call_ms: f64,
}

/// Percentiles and the mean of a latency.
#[derive(Debug, Serialize)]
struct LatencyDocument {
    rows: u64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    mean_ms: f64,
}

/// A job's notices.
#[derive(Debug, Serialize)]
pub(super) struct NoticeList {
    notices: Vec<NoticeDocument>,
}

/// A notice.
#[derive(Debug, Serialize)]
struct NoticeDocument {
    number: u64,
    at_ms: i64,
    times: u64,
    text: String,
}

/// All workers.
#[derive(Debug, Serialize)]
pub(super) struct WorkerList {
    workers: Vec<Worker>,
}

/// A worker: a process that runs tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Worker {
    /// Its name.
    pub name: String,
    /// Identifier of its process.
    pub pid: u32,
    /// How many tasks it can run at the same time: its cores.
    pub slots: usize,
    /// Where it listens: host and port.
    pub address: String,
    /// What distinguishes it.
    pub labels: Vec<String>,
    /// How many tasks of all jobs it has.
    pub tasks: usize,
    /// When its last heartbeat arrived, in milliseconds since 1970; `None` for the process itself.
    pub last_heard_at_ms: Option<i64>,
    /// It gets no further tasks.
    pub drained: bool,
}

/// A job's counters, as its processes have them.
#[derive(Debug, Serialize)]
pub(super) struct CounterList {
    at_ns: u64,
    wall_ms: i64,
    tasks: Vec<TaskMetrics>,
}

/// The process that answers.
#[derive(Debug, Serialize)]
pub(super) struct ServerDocument {
    version: &'static str,
    page: &'static str,
    now_ms: i64,
    reads_only: bool,
    takes_jobs: bool,
    demo: bool,
}

/// The text that a job runs.
#[derive(Debug, Serialize)]
pub(super) struct ScriptDocument {
    /// Of the plan that runs.
    version: u32,
    sql: String,
    settings: std::collections::BTreeMap<String, String>,
    options: Vec<TableOption>,
}

/// A savepoint that was taken.
#[derive(Debug, Serialize)]
pub(super) struct SavepointDocument {
    place: String,
    job: String,
    epoch: u64,
    files: u64,
    rows: u64,
    bytes: u64,
}

impl From<&Error> for ErrorDocument {
    fn from(error: &Error) -> Self {
        let remedy = error.help().map(str::to_owned);
        ErrorDocument { error: error.message().to_owned(), place: error.place(), remedy }
    }
}

impl From<&Reading> for CounterList {
    fn from(reading: &Reading) -> Self {
        let tasks = reading.tasks.iter().map(|task| task.metrics.clone()).collect();
        CounterList { at_ns: reading.at.0, wall_ms: reading.wall_ms, tasks }
    }
}

impl Readiness {
    pub(super) fn of(jobs: &[(String, Reading)], takes_jobs: bool) -> Self {
        let jobs = JobList::of(jobs).jobs;
        Readiness { ready: takes_jobs || !jobs.is_empty() && jobs.iter().all(|job| job.ready), jobs }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    /// For requests without the token.
    pub(super) fn without_jobs(self) -> Self {
        Readiness { jobs: Vec::new(), ..self }
    }
}

impl WorkerList {
    pub(super) fn of(mut workers: Vec<Worker>, jobs: &[(String, Reading)]) -> Self {
        for worker in &mut workers {
            let running = jobs.iter().filter(|(_, reading)| !reading.status.ended);
            let tasks = running.flat_map(|(_, reading)| &reading.tasks);
            worker.tasks = tasks.filter(|task| task.worker == worker.name).count();
        }
        WorkerList { workers }
    }
}

impl WorkerList {
    /// As an object of the names.
    pub(super) fn by_name(self) -> serde_json::Value {
        let workers = self.workers.into_iter();
        let named = workers.map(|worker| (worker.name.clone(), serde_json::json!(worker)));
        serde_json::Value::Object(named.collect())
    }
}

impl JobList {
    pub(super) fn of(jobs: &[(String, Reading)]) -> Self {
        JobList { jobs: jobs.iter().map(|(name, reading)| JobSummary::of(name, reading)).collect() }
    }
}

impl JobSummary {
    fn of(name: &str, reading: &Reading) -> Self {
        let (state, ready) = (reading.state(), reading.is_ready());
        let (waits_for, failure) = (reading.status.waits_for.clone(), reading.status.failure.clone());
        JobSummary { name: name.to_owned(), state, ready, waits_for, failure, started_at_ms: reading.started_ms }
    }
}

impl JobDocument {
    pub(super) fn of(job: &dyn ServedJob, reading: &Reading, rates: &Rates, why: &Why) -> Self {
        let plan = job.plan();
        let tasks: Vec<_> = reading.tasks.iter().map(|task| &task.metrics).collect();
        let sum = |of: fn(&anabranch_model::TaskMetrics) -> u64| tasks.iter().map(|task| of(task)).sum();
        let sources = || tasks.iter().filter(|task| task.is_source);
        let sinks = || tasks.iter().filter(|task| task.is_sink);
        let watermark_ms = sinks().map(|task| task.watermark).min().and_then(known_ms);
        JobDocument {
            summary: JobSummary::of(job.name(), reading),
            plan_version: plan.version.0,
            incarnation: reading.status.incarnation.0,
            restarts: reading.status.restarts,
            stages: plan.stages.len(),
            tasks: tasks.len(),
            epoch: sinks().map(|task| task.epoch).min().unwrap_or(0),
            watermark_ms,
            watermark_lag_ms: watermark_ms.map(|ms| reading.wall_ms.saturating_sub(ms)),
            rows_read: sources().map(|task| task.rows_in).sum(),
            bytes_read: sources().map(|task| task.bytes_in).sum(),
            rows_written: sinks().map(|task| task.rows_out).sum(),
            rows_read_per_second: sources().fold(0.0, |sum, task| sum + rates.of(task).rows_in),
            bytes_read_per_second: sources().fold(0.0, |sum, task| sum + rates.of(task).bytes_in),
            rows_written_per_second: sinks().fold(0.0, |sum, task| sum + rates.of(task).rows_out),
            late_rows: sum(|task| task.late_rows),
            malformed_rows: sum(|task| task.malformed_rows),
            rows_without_event_time: sum(|task| task.rows_without_event_time),
            rows_with_null: sum(|task| task.rows_with_null),
            no_results_because: (!why.text.is_empty()).then(|| why.text.clone()),
            group_epochs: reading.coordination.group_epochs,
            coordination_share: reading.coordination.overhead,
        }
    }
}

impl TaskList {
    pub(super) fn of(reading: &Reading, rates: &Rates) -> Self {
        TaskList { tasks: reading.tasks.iter().map(|task| TaskDocument::of(task, rates)).collect() }
    }
}

impl TaskDocument {
    fn of(placed: &Placed, rates: &Rates) -> Self {
        let Placed { worker, metrics: task } = placed;
        let rate = rates.of(task);
        let share = |of: fn(&Shares) -> f64| rate.shares.as_ref().map(of);
        TaskDocument {
            stage: task.task.stage.0,
            stage_name: task.stage_name.clone(),
            task: task.task.index,
            worker: worker.clone(),
            thread: task.thread,
            prepared: task.is_prepared,
            reads_table: task.is_source,
            writes_table: task.is_sink,
            rows_in: task.rows_in,
            bytes_in: task.bytes_in,
            rows_out: task.rows_out,
            bytes_out: task.bytes_out,
            rows_in_per_second: rate.rows_in,
            rows_out_per_second: rate.rows_out,
            busy_share: share(|shares| shares.busy),
            idle_share: share(|shares| shares.idle),
            backpressured_share: share(|shares| shares.backpressured),
            queue_batches: task.queue_batches,
            queue_rows: task.queue_rows,
            queue_bytes: task.queue_bytes,
            queue_share: task.queue_share,
            oldest_queued_ms: task.oldest_queued_ns as f64 / 1e6,
            oldest_read_ms: task.oldest_read_ns as f64 / 1e6,
            cpu_ms: task.cpu_ns as f64 / 1e6,
            core_wait_ms: task.core_wait_ns as f64 / 1e6,
            nice: task.nice,
            watermark_ms: known_ms(task.watermark),
            epoch: task.epoch,
            late_rows: task.late_rows,
            malformed_rows: task.malformed_rows,
            rows_without_event_time: task.rows_without_event_time,
            rows_with_null: task.rows_with_null,
            lookups: task.lookups.map(LookupsDocument::from),
            latency: LatencyDocument::from(&task.latency),
            result_latency: LatencyDocument::from(&task.result_latency),
        }
    }
}

impl From<LookupReading> for LookupsDocument {
    fn from(lookups: LookupReading) -> Self {
        let LookupReading { keys, hits, calls, failures, call_ns } = lookups;
        LookupsDocument { keys, hits, calls, failures, call_ms: call_ns as f64 / 1e6 }
    }
}

impl From<&LatencySummary> for LatencyDocument {
    fn from(of: &LatencySummary) -> Self {
        let [p50_ms, p99_ms, p999_ms, max_ms] = [of.p50_us, of.p99_us, of.p999_us, of.max_us].map(|us| us as f64 / 1e3);
        LatencyDocument { rows: of.rows, p50_ms, p99_ms, p999_ms, max_ms, mean_ms: of.mean_us() / 1e3 }
    }
}

impl NoticeList {
    pub(super) fn of(notices: Vec<Notice>, reading: &Reading) -> Self {
        let document = |notice: Notice| {
            let Notice { number, at, times, text } = notice;
            NoticeDocument { number, at_ms: reading.wall_ms_of(at), times, text }
        };
        NoticeList { notices: notices.into_iter().map(document).collect() }
    }
}

impl ServerDocument {
    pub(super) fn of(api: &Api, access: Access) -> Self {
        ServerDocument {
            version: env!("CARGO_PKG_VERSION"),
            page: super::page::BUILD,
            now_ms: SystemClock::new().wall_ms(),
            reads_only: access == Access::Reads,
            takes_jobs: access == Access::Changes && api.jobs.takes_jobs(),
            demo: access == Access::Changes && api.jobs.demo().is_some(),
        }
    }
}

impl ScriptDocument {
    /// Without the secrets of the text.
    pub(super) fn of(order: JobOrder, version: u32) -> Self {
        let JobOrder { sql, mut settings, mut options, .. } = order;
        for option in &mut options {
            option.value = shown_value(&option.name, &option.value);
        }
        for (name, value) in &mut settings {
            *value = shown_value(name, value);
        }
        ScriptDocument { version, sql: Secrets::of_sql(&sql).marked(&sql).text, settings, options }
    }
}

impl SavepointDocument {
    pub(super) fn of(savepoint: &Savepoint, place: &str) -> Self {
        let manifest = &savepoint.manifest;
        let files = || manifest.state_files(|_| true);
        SavepointDocument {
            place: place.to_owned(),
            job: manifest.job.clone(),
            epoch: manifest.epoch.0,
            files: files().count() as u64,
            rows: files().map(|file| file.rows).sum(),
            bytes: files().map(|file| file.blob.bytes).sum(),
        }
    }
}

/// Event time, unless there is none yet or it has ended.
pub(super) fn known_ms(watermark: EventTime) -> Option<i64> {
    Some(watermark.0).filter(|_| watermark != EventTime::MIN && watermark != EventTime::MAX)
}
