//! What a coordinator and the workers in other processes tell each other of one job. Their form on the wire is JSON, and is frozen: a
//! test compares it with fixtures.
//!
//! The messages of one connection arrive in their order. A connection that breaks ends the tasks that it was for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Epoch, Error, EventTime, Incarnation, KeyGroupReading, PlanVersion, TaskId, TaskMetrics};
use anabranch_protocol::coordinator::Checkpoint;
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::worker::{FromCoordinator, ToCoordinator};
use anabranch_state::TaskState;
use serde::{Deserialize, Serialize};

use crate::durable::takeover::FormerNames;
use crate::network::{Peer, PublicKey};
use crate::task::phases::Passage;

/// Version of these messages. Processes with another one refuse each other.
pub const MESSAGES_VERSION: u32 = 7;

/// What a coordinator tells a worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// What is to be known before the tasks of an incarnation start.
    Deploy(Box<Deploy>),
    /// A message of the protocol.
    Protocol(Box<FromCoordinator<TaskState>>),
    /// Tasks of the next plan version are to be at the worker, which loads their state ahead.
    Prepare(Box<Deploy>),
    /// What a checkpoint of the present version adds to that.
    Load {
        /// The next one.
        version: PlanVersion,
        /// The checkpoint.
        from: Box<Checkpoint<TaskState>>,
    },
    /// The plan is about to change: until then no snapshot is complete only because the state has grown.
    AddOnly,
    /// The present plan version goes on.
    GiveUp,
    /// A sink at another worker is full, or none is any more.
    Hold {
        /// Of the tasks.
        incarnation: Incarnation,
        /// Whether sources are held back.
        held: bool,
    },
    /// The sources of a group at other workers have reached this event time.
    Align {
        /// Of the tasks.
        incarnation: Incarnation,
        /// The group.
        group: String,
        /// The least that all of them have reached.
        time: EventTime,
    },
    /// The answer to [`FromWorker::Agree`].
    Agreed {
        /// Of the tasks.
        incarnation: Incarnation,
        /// What was asked for.
        key: String,
        /// What the first task found that asked.
        list: Vec<String>,
    },
}

/// What a worker must know of a job to start tasks of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deploy {
    /// Of the tasks that will start.
    pub incarnation: Incarnation,
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
    /// A message of the protocol, and what has accumulated since the one before.
    Summary(Box<Summary>),
    /// Why a task has failed, before the summary that says that it has.
    Failed {
        /// Of the task.
        incarnation: Incarnation,
        /// The task.
        task: TaskId,
        /// Why.
        error: Error,
    },
    /// The tables of all its tasks are open.
    Opened {
        /// Of the tasks.
        incarnation: Incarnation,
        /// Names of those that restore their state.
        restoring: Vec<String>,
    },
    /// A sink requests a checkpoint.
    Checkpoint,
    /// A sink is full, or none is any more.
    Full {
        /// Of the tasks.
        incarnation: Incarnation,
        /// Whether one is.
        full: bool,
    },
    /// The sources of a group at this worker have reached this event time.
    Reached {
        /// Of the tasks.
        incarnation: Incarnation,
        /// The group.
        group: String,
        /// The least that all of them have reached.
        time: EventTime,
    },
    /// A task has found this list, and uses the one of the first task that found one.
    Agree {
        /// Of the task.
        incarnation: Incarnation,
        /// What it is a list of.
        key: String,
        /// The list.
        list: Vec<String>,
    },
    /// The state of a checkpoint is loaded for the next plan version.
    Loaded {
        /// The next one.
        version: PlanVersion,
        /// Why it is not.
        error: Option<Error>,
    },
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

/// A message of the protocol, and what has accumulated since the one before.
#[derive(Debug, Serialize, Deserialize)]
pub struct Summary {
    /// The message.
    pub message: ToCoordinator<TaskState>,
    /// The longest time that a source waited for a grant, in nanoseconds.
    pub grant_wait_ns: u64,
    /// State files, each with the epoch of the first snapshot that no longer refers to it.
    pub dropped: Vec<(Epoch, String)>,
    /// What tasks have measured of checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<Passage>,
}

#[cfg(test)]
pub(crate) mod tests;
