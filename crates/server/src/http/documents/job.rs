//! The documents of jobs.

use anabranch_model::TaskMetrics;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::jobs::{JobState, Reading, ServedJob};
use super::super::rates::Rates;
use super::known_ms;
use crate::why::Why;

/// Whether all tasks of all jobs run.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct Readiness {
    ready: bool,
    jobs: Vec<JobSummary>,
}

/// All jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct JobList {
    jobs: Vec<JobSummary>,
}

/// A job in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct JobSummary {
    name: String,
    state: JobState,
    /// Whether all of its tasks run: state is restored, static tables are read.
    ready: bool,
    /// The slots of workers that it needs before its tasks can be placed.
    waits_for: Option<String>,
    /// Why it has failed.
    failure: Option<String>,
    /// When it started in this process, in milliseconds since 1970.
    started_at_ms: i64,
}

/// A job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub(in crate::http) struct JobDocument {
    #[serde(flatten)]
    summary: JobSummary,
    plan_version: u32,
    /// The present life of its tasks.
    incarnation: u64,
    /// How often its tasks were started again.
    restarts: u64,
    /// Number of stages.
    stages: usize,
    /// Number of tasks.
    tasks: usize,
    /// The last epoch that every sink has ended.
    epoch: u64,
    /// Event time of the slowest sink, in milliseconds since 1970. Null before the first watermark and after
    /// the end.
    watermark_ms: Option<i64>,
    /// How far it is behind the wall clock.
    watermark_lag_ms: Option<i64>,
    /// Rows that sources have read.
    rows_read: u64,
    /// Bytes of these rows.
    bytes_read: u64,
    /// Rows that sinks have written.
    rows_written: u64,
    /// Over the last five seconds.
    rows_read_per_second: f64,
    /// Over the last five seconds.
    bytes_read_per_second: f64,
    /// Over the last five seconds.
    rows_written_per_second: f64,
    /// Late rows, which are dropped or go to a table of their own.
    late_rows: u64,
    /// Records that could not be decoded.
    malformed_rows: u64,
    /// Rows dropped because they have no event time.
    rows_without_event_time: u64,
    /// Rows dropped for NULL in a NOT NULL column.
    rows_with_null: u64,
    /// Why there are no results, if there are none.
    no_results_because: Option<String>,
    /// Epochs of the next group.
    group_epochs: u64,
    /// Share of the time that coordination takes, 0 to 1.
    coordination_share: Option<f64>,
}

/// A request to a job, which may not be carried out yet.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct Requested {
    pub(in crate::http) name: String,
    pub(in crate::http) requested: RequestKind,
}

/// What is requested of a job.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(in crate::http) enum RequestKind {
    Stop,
    Cancel,
    Abort,
}

impl Readiness {
    pub(in crate::http) fn of(jobs: &[(String, Reading)], takes_jobs: bool) -> Self {
        let jobs = JobList::of(jobs).jobs;
        Readiness { ready: takes_jobs || !jobs.is_empty() && jobs.iter().all(|job| job.ready), jobs }
    }

    pub(in crate::http) fn is_ready(&self) -> bool {
        self.ready
    }

    /// For requests without the token.
    pub(in crate::http) fn without_jobs(self) -> Self {
        Readiness { jobs: Vec::new(), ..self }
    }
}

impl JobList {
    pub(in crate::http) fn of(jobs: &[(String, Reading)]) -> Self {
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
    pub(in crate::http) fn of(job: &dyn ServedJob, reading: &Reading, rates: &Rates, why: &Why) -> Self {
        let plan = job.plan();
        let tasks: Vec<_> = reading.tasks.iter().map(|task| &task.metrics).collect();
        let sum = |of: fn(&TaskMetrics) -> u64| tasks.iter().map(|task| of(task)).sum();
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
