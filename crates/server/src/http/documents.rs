//! The documents of the API, as they are serialized. Their comments are the descriptions in
//! `docs/openapi.json`.

mod checkpoints;
mod job;
mod plan;
mod tasks;

use anabranch_model::{Clock as _, Error, EventTime, Notice, Secrets, SystemClock, TaskMetrics, shown_value};
use anabranch_state::Savepoint;
use schemars::JsonSchema;
use serde::Serialize;

pub(super) use self::checkpoints::CheckpointsDocument;
pub(super) use self::job::{JobDocument, JobList, Readiness, RequestKind, Requested};
pub(super) use self::plan::PlanDocument;
pub(super) use self::tasks::TaskList;
use super::answers::Api;
use super::description::OpenObject;
use super::jobs::Reading;
use super::orders::JobOrder;
use super::security::Access;
use crate::TableOption;

/// What is wrong, where, and what to do about it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(super) struct ErrorDocument {
    /// What is wrong.
    pub(super) error: String,
    /// Where, if that is known: a line and a column of the SQL, or an option.
    pub(super) place: Option<String>,
    /// What to do, if that is known.
    pub(super) remedy: Option<String>,
}

/// The process lives.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    pub(super) healthy: bool,
}

/// A job's notices that are kept, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NoticeList {
    notices: Vec<NoticeDocument>,
}

/// A notice.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Notice")]
struct NoticeDocument {
    number: u64,
    /// When it was last reported, in milliseconds since 1970.
    at_ms: i64,
    /// How often in a row it was reported.
    times: u64,
    text: String,
}

/// All workers.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WorkerList {
    workers: Vec<Worker>,
}

/// A worker: a process that runs tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// When its last heartbeat arrived, in milliseconds since 1970. Null for the process that answers.
    pub last_heard_at_ms: Option<i64>,
    /// It gets no further tasks.
    pub drained: bool,
}

/// The counters of a job's tasks, as its processes have them.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CounterList {
    /// When they were read, by the clock of the process.
    at_ns: u64,
    /// When they were read, in milliseconds since 1970.
    wall_ms: i64,
    #[schemars(with = "Vec<OpenObject>")]
    tasks: Vec<TaskMetrics>,
}

/// The process that answers.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Server")]
pub(super) struct ServerDocument {
    version: &'static str,
    /// A hash over the files of its page.
    page: &'static str,
    /// Its time, in milliseconds since 1970.
    now_ms: i64,
    /// The token of the request may change nothing.
    reads_only: bool,
    /// It takes new jobs from this client.
    takes_jobs: bool,
    /// It can start the demonstration.
    demo: bool,
}

/// The text that a job runs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Script")]
pub(super) struct ScriptDocument {
    /// Of the plan that runs.
    version: u32,
    sql: String,
    settings: std::collections::BTreeMap<String, String>,
    options: Vec<TableOption>,
}

/// A savepoint that was taken.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Savepoint")]
pub(super) struct SavepointDocument {
    place: String,
    /// Name of the job in its checkpoints.
    job: String,
    epoch: u64,
    files: u64,
    /// Rows of state.
    rows: u64,
    /// Bytes of state.
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

impl WorkerList {
    pub(super) fn of(mut workers: Vec<Worker>, jobs: &[(String, Reading)]) -> Self {
        for worker in &mut workers {
            let running = jobs.iter().filter(|(_, reading)| !reading.status.ended);
            let tasks = running.flat_map(|(_, reading)| &reading.tasks);
            worker.tasks = tasks.filter(|task| task.worker == worker.name).count();
        }
        WorkerList { workers }
    }

    /// As an object of the names.
    pub(super) fn by_name(self) -> serde_json::Value {
        let workers = self.workers.into_iter();
        let named = workers.map(|worker| (worker.name.clone(), serde_json::json!(worker)));
        serde_json::Value::Object(named.collect())
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
