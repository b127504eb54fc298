//! The documents of Flink's REST interface that the driver reads, of 1.20 and 2.x. Members that are not named
//! here are skipped.

use std::collections::BTreeMap;

use anabranch_model::{ErrorKind, Result};
use serde::Deserialize;

use crate::http::Http;

/// States of a job that has no threads any more.
const ENDED: [&str; 4] = ["FINISHED", "CANCELED", "FAILED", "SUSPENDED"];

#[derive(Deserialize)]
struct Overview {
    jobs: Vec<JobLine>,
}

#[derive(Deserialize)]
struct JobLine {
    jid: String,
    state: String,
}

/// A job with its job graph.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Job {
    /// Its identifier, 32 hexadecimal digits.
    pub(super) jid: String,
    pub(super) name: String,
    pub(super) vertices: Vec<Vertex>,
    pub(super) plan: Plan,
}

/// A chain of operators, run by `parallelism` tasks.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Vertex {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) parallelism: usize,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Plan {
    #[serde(default)]
    pub(super) nodes: Vec<PlanNode>,
}

/// What the plan says about a vertex.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PlanNode {
    pub(super) id: String,
    /// With marks for a browser.
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) inputs: Vec<PlanInput>,
}

/// An edge to a vertex.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PlanInput {
    /// The vertex that emits.
    pub(super) id: String,
    /// `FORWARD`, `HASH`, `REBALANCE`, `BROADCAST` and others.
    #[serde(default)]
    pub(super) ship_strategy: String,
}

/// A vertex with its tasks.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct VertexDetails {
    pub(super) subtasks: Vec<Subtask>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Subtask {
    pub(super) subtask: usize,
    /// When its thread was about to be made, in milliseconds since the Unix epoch. Negative before.
    #[serde(rename = "start-time")]
    pub(super) start_ms: i64,
    #[serde(rename = "taskmanager-id", default)]
    pub(super) task_manager: String,
}

#[derive(Deserialize)]
struct TaskManagers {
    taskmanagers: Vec<TaskManager>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TaskManager {
    pub(super) id: String,
    /// `pekko.tcp://flink@HOST:PORT/user/rpc/taskmanager_0`, without host and port within one process.
    #[serde(default)]
    path: String,
    /// Where it receives rows; -1 within one process.
    #[serde(default, rename = "dataPort")]
    data_port: i64,
}

#[derive(Deserialize)]
struct Setting {
    key: String,
    value: String,
}

/// All that the driver asks of the interface at a look.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    /// Jobs that have threads, in the order of their names and identifiers.
    pub(super) jobs: Vec<Job>,
    pub(super) task_managers: Vec<TaskManager>,
    /// The cluster's configuration.
    pub(super) settings: BTreeMap<String, String>,
}

impl Cluster {
    pub(super) fn get(http: &Http, url: &str) -> Result<Cluster> {
        let mut jobs = Vec::new();
        for jid in running(http, url)? {
            match http.get_json::<Job>(&format!("{url}/jobs/{jid}")) {
                Ok(job) => jobs.push(job),
                // It has ended, and was forgotten, since it was listed.
                Err(error) if error.kind() == ErrorKind::User && error.message().contains("status 404") => {}
                Err(error) => return Err(error),
            }
        }
        jobs.sort_by(|a, b| (&a.name, &a.jid).cmp(&(&b.name, &b.jid)));
        let task_managers = http.get_json::<TaskManagers>(&format!("{url}/taskmanagers"))?.taskmanagers;
        let settings = http.get_json::<Vec<Setting>>(&format!("{url}/jobmanager/config"))?;
        let settings = settings.into_iter().map(|setting| (setting.key, setting.value)).collect();
        Ok(Cluster { jobs, task_managers, settings })
    }
}

/// Identifiers of the jobs that have not ended, in ascending order.
pub(super) fn running(http: &Http, url: &str) -> Result<Vec<String>> {
    let overview: Overview = http.get_json(&format!("{url}/jobs/overview"))?;
    let runs = overview.jobs.into_iter().filter(|job| !ENDED.contains(&job.state.as_str()));
    let mut ids: Vec<String> = runs.map(|job| job.jid).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// The tasks of one vertex.
pub(super) fn subtasks(http: &Http, url: &str, job: &str, vertex: &str) -> Result<Vec<Subtask>> {
    Ok(http.get_json::<VertexDetails>(&format!("{url}/jobs/{job}/vertices/{vertex}"))?.subtasks)
}

impl TaskManager {
    /// The ports at which its process listens, as far as the interface tells.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        let address = self.path.split_once("://").and_then(|(_, rest)| rest.split('/').next());
        let own = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        let data = u16::try_from(self.data_port).ok();
        own.into_iter().chain(data).filter(|port| *port > 0)
    }
}
