//! The messages of one job between a coordinator and the workers in other processes: the deployment of tasks,
//! the inputs and decisions of the machines of `protocol`, and observations. Their form on the wire is JSON,
//! and is frozen: a test compares it with fixtures.
//!
//! The messages of one connection arrive in order. When a connection breaks, the tasks that used it fail.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Epoch, Error, EventTime, Incarnation, KeyGroupReading, TaskId, TaskMetrics};
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::message::{Downward, Upward};
use anabranch_state::TaskState;
use serde::{Deserialize, Serialize};

use crate::durable::takeover::FormerNames;
use crate::network::{Peer, PublicKey};
use crate::task::phases::Passage;

/// Version of these messages. Processes with another one refuse each other.
pub const MESSAGES_VERSION: u32 = 2;

/// A message from a coordinator to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// What the worker must know before the tasks of an incarnation start, or are prepared.
    Deploy(Box<Deploy>),
    /// A decision of the coordinator.
    Protocol(Box<Downward<TaskState>>),
    /// The event time that the sources of an alignment group at other workers have reached.
    Observed(Reached),
}

/// The event time that the sources of an alignment group have reached.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reached {
    /// The incarnation of the sources.
    pub incarnation: Incarnation,
    /// The group.
    pub group: String,
    /// The minimum over the sources.
    pub time: EventTime,
}

/// What a worker must know of a job to start tasks of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deploy {
    /// The incarnation of the tasks that will start.
    pub incarnation: Incarnation,
    /// The tasks belong to the next plan version: the worker will load their state ahead.
    pub prepares: bool,
    /// The plan, with the identities of its parts.
    pub plan: Plan,
    /// The place of the savepoint that the job starts from while it has no checkpoint.
    pub origin: Option<String>,
    /// `None`: the job takes no checkpoints.
    pub checkpoints: Option<DeployCheckpoints>,
    /// Whether a retry may help if a table cannot be opened.
    pub retries_opening: bool,
    /// The worker of each task.
    pub placement: Vec<(TaskId, WorkerId)>,
    /// Where the workers listen to each other.
    pub peers: BTreeMap<WorkerId, SocketAddr>,
    /// The keys of the workers with encrypted connections.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<WorkerId, PublicKey>,
}

impl Deploy {
    /// The addresses and keys of the workers.
    pub(crate) fn peers(&self) -> BTreeMap<WorkerId, Peer> {
        let peer = |(worker, address): (&WorkerId, &SocketAddr)| {
            (*worker, Peer { address: *address, key: self.keys.get(worker).copied() })
        };
        self.peers.iter().map(peer).collect()
    }
}

/// What a worker must know of a job that takes checkpoints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeployCheckpoints {
    /// Name of the job.
    pub job: String,
    /// Its former names.
    pub former: FormerNames,
    /// How often a task reports progress while it restores its state.
    pub progress_interval: Duration,
}

/// A message from a worker to the coordinator of a job.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// The tables of all its tasks are open.
    Deployed {
        /// The incarnation of the tasks.
        incarnation: Incarnation,
        /// Names of the tasks that restore their state.
        restoring: Vec<String>,
    },
    /// An input of the coordinator's machines.
    Protocol(Box<Upward<TaskState>>),
    /// An observation, to be shown to users or passed on.
    Observed(Observed),
}

/// An observation of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum Observed {
    /// Why a task has failed. Sent before the summary that reports the failure.
    Failed {
        /// The incarnation of the task.
        incarnation: Incarnation,
        /// The task.
        task: TaskId,
        /// The error.
        error: Error,
    },
    /// The event time that the sources of an alignment group at this worker have reached.
    Reached(Reached),
    /// Measurements since the last summary, sent before the next one. Omitted if there are none.
    Since(Since),
    /// Notices for the user.
    Notices(Vec<String>),
    /// The metrics of every task here.
    Metrics(Vec<TaskMetrics>),
    /// The rows of each key group that tasks here have sent, if there were more since the last message.
    KeyGroups {
        /// The incarnation of the tasks.
        incarnation: Incarnation,
        /// The numbers of rows so far.
        rows: Vec<KeyGroupReading>,
    },
}

/// Measurements between two summaries.
#[derive(Debug, Serialize, Deserialize)]
pub struct Since {
    /// The incarnation of the tasks.
    pub incarnation: Incarnation,
    /// The longest time that a source waited for a grant, in nanoseconds.
    pub grant_wait_ns: u64,
    /// State files, each with the epoch of the first snapshot that no longer refers to it.
    pub dropped: Vec<(Epoch, String)>,
    /// Measurements of checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<Passage>,
}

impl Since {
    /// Whether there are no measurements.
    pub(crate) fn is_empty(&self) -> bool {
        self.grant_wait_ns == 0 && self.dropped.is_empty() && self.passages.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests;
