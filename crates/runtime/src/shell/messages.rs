//! What a coordinator and the workers in other processes tell each other of one job: what is to be known
//! before tasks start, what the machines of `protocol` decide and need, and what is observed. Their form on
//! the wire is JSON, and is frozen: a test compares it with fixtures.
//!
//! The messages of one connection arrive in their order. A connection that breaks ends the tasks that it was
//! for.

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
pub const MESSAGES_VERSION: u32 = 1;

/// What a coordinator tells a worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// What is to be known before the tasks of an incarnation start, or are prepared.
    Deploy(Box<Deploy>),
    /// What the coordinator has decided.
    Protocol(Box<Downward<TaskState>>),
    /// What the sources of a group at other workers have reached.
    Observed(Reached),
}

/// The sources of a group have reached an event time.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reached {
    /// Of the tasks.
    pub incarnation: Incarnation,
    /// The group.
    pub group: String,
    /// The least that all of them have reached.
    pub time: EventTime,
}

/// What a worker must know of a job to start tasks of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deploy {
    /// Of the tasks that will start.
    pub incarnation: Incarnation,
    /// The tasks are those of the next plan version: the worker will load their state ahead.
    pub prepares: bool,
    /// The plan, with the identities of its parts.
    pub plan: Plan,
    /// Where the savepoint is from which the job starts while it has no checkpoint.
    pub origin: Option<String>,
    /// If the job takes checkpoints.
    pub checkpoints: Option<DeployCheckpoints>,
    /// Whether a retry may help if a table cannot be opened.
    pub retries_opening: bool,
    /// Which worker has which task.
    pub placement: Vec<(TaskId, WorkerId)>,
    /// Where the workers listen to each other.
    pub peers: BTreeMap<WorkerId, SocketAddr>,
    /// The keys of those whose connections are encrypted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<WorkerId, PublicKey>,
}

impl Deploy {
    /// Where the workers listen to each other, and the keys that they prove.
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
    /// Names that it had before.
    pub former: FormerNames,
    /// How often a task reports that it gets further with restoring its state.
    pub progress_interval: Duration,
}

/// What a worker tells the coordinator of a job.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// The tables of all its tasks are open.
    Deployed {
        /// Of the tasks.
        incarnation: Incarnation,
        /// Names of those that restore their state.
        restoring: Vec<String>,
    },
    /// What the coordinator needs to decide.
    Protocol(Box<Upward<TaskState>>),
    /// What it shows to users, or passes on.
    Observed(Observed),
}

/// What a worker has observed.
#[derive(Debug, Serialize, Deserialize)]
pub enum Observed {
    /// Why a task has failed, before the summary that says that it has.
    Failed {
        /// Of the task.
        incarnation: Incarnation,
        /// The task.
        task: TaskId,
        /// Why.
        error: Error,
    },
    /// What the sources of a group at this worker have reached.
    Reached(Reached),
    /// What has accumulated since the last summary, before the next one. Omitted if that is nothing.
    Since(Since),
    /// Notices for the user.
    Notices(Vec<String>),
    /// A reading of every task here.
    Metrics(Vec<TaskMetrics>),
    /// The rows of each key group that tasks here have sent, if there were more since the last message.
    KeyGroups {
        /// Of the tasks.
        incarnation: Incarnation,
        /// What each has sent so far.
        rows: Vec<KeyGroupReading>,
    },
}

/// What has accumulated between two summaries.
#[derive(Debug, Serialize, Deserialize)]
pub struct Since {
    /// Of the tasks.
    pub incarnation: Incarnation,
    /// The longest time that a source waited for a grant, in nanoseconds.
    pub grant_wait_ns: u64,
    /// State files, each with the epoch of the first snapshot that no longer refers to it.
    pub dropped: Vec<(Epoch, String)>,
    /// What tasks have measured of checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<Passage>,
}

impl Since {
    /// Whether nothing has accumulated.
    pub(crate) fn is_empty(&self) -> bool {
        self.grant_wait_ns == 0 && self.dropped.is_empty() && self.passages.is_empty()
    }
}

#[cfg(test)]
pub(crate) mod tests;
