//! What goes into a worker and what comes out. Messages between worker and coordinator may be lost, repeated,
//! late and reordered.

use std::time::Duration;

use anabranch_model::{Epoch, Group, Incarnation, Nanos, PlanVersion, TaskId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::coordinator::{Checkpoint, Granted, Pace, Report, Tasks, Then};

/// The term of a coordinator: the number, from 1, of the log entry with which it began or adopted an
/// incarnation. An adoption begins a new term of the same incarnation. A restart begins a new term and a new
/// incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub u64);

/// What every message carries, so that its receiver can refuse older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// The coordinator's term.
    pub term: Term,
    /// The incarnation of the tasks.
    pub incarnation: Incarnation,
    /// The plan version of the tasks.
    pub version: PlanVersion,
}

impl Fence {
    /// Lower than the fence of any message.
    pub const NONE: Fence = Fence { term: Term(0), incarnation: Incarnation(0), version: PlanVersion(0) };

    /// Whether a message with the fence `other` must be refused, because one of its numbers is lower.
    #[must_use]
    pub fn refuses(self, other: Fence) -> bool {
        other.term < self.term || other.incarnation < self.incarnation || other.version < self.version
    }
}

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long tasks may run after the worker has sent the newest heartbeat that was answered. Then the
    /// worker cancels them. The coordinator declares a silent worker lost no earlier than that: so the tasks
    /// of a lost worker have ended.
    pub lease: Duration,
    /// How long a change that is not urgent may wait for the next summary.
    pub linger: Duration,
    /// Time after which a summary that was not acknowledged is repeated.
    pub resend: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config { lease: Duration::from_secs(5), linger: Duration::from_millis(200), resend: Duration::from_millis(500) }
    }
}

/// What a worker's driver reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<S> {
    /// A message of a coordinator has arrived.
    Message(FromCoordinator<S>),
    /// The process of the job's coordinator in this term has answered a heartbeat, which this process sent at
    /// this time by its own clock. The driver need not report each answer: it suffices to report the newest
    /// one at [`Worker::next_deadline`](super::Worker::next_deadline). An answer that arrives after the lease
    /// has expired must not extend it: before it the driver reports [`Input::Tick`].
    Heard(Term, Nanos),
    /// A task of an incarnation reports.
    Task(Incarnation, TaskId, Report<S>),
    /// Only time has passed.
    Tick,
}

/// What a worker's driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<S> {
    /// Pass the order on to the tasks of this incarnation at this worker.
    Tasks(Incarnation, Order<S>),
    /// Send the message to the coordinator of its term.
    Send(ToCoordinator<S>),
}

/// A message of a coordinator to one process of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromCoordinator<S> {
    /// The term of the coordinator that sends the message, and the incarnation and plan version of the tasks
    /// that it is for.
    pub fence: Fence,
    /// When the worker's process sent the newest heartbeat that has arrived at the coordinator, by its own
    /// clock.
    pub heard: Nanos,
    /// Number of the newest summary that has arrived at the coordinator in this term and incarnation; 0 for
    /// none.
    pub received: u64,
    /// `None`: the message only acknowledges a summary or a heartbeat, or announces a new term.
    pub order: Option<Order<S>>,
}

/// What the tasks must do. Each order states a fact that stays true, so repetitions change nothing. The
/// coordinator repeats an order until a summary shows its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order<S> {
    /// Start these tasks, each from its snapshot. Sinks first make visible what the checkpoint contains.
    Start {
        /// The tasks of this worker.
        tasks: Tasks,
        /// The checkpoint to resume from. `None`: start with epoch 1.
        from: Option<Checkpoint<S>>,
    },
    /// Sources may cut the epochs of this group.
    Grant {
        /// The epochs.
        group: Group,
        /// Whether the marker of the last epoch requests a snapshot.
        checkpoint: bool,
        /// What follows the group.
        #[serde(default)]
        then: Then,
        /// When sources cut the epochs.
        #[serde(default, skip_serializing_if = "Pace::is_steady")]
        pace: Pace,
    },
    /// Every sink of the job has written everything up to the end of this epoch. Only without checkpoints.
    EpochDone(Epoch),
    /// The checkpoint is committed: sinks make visible what they prepared, and sources may release input.
    CheckpointDone(Epoch),
    /// The checkpoint is abandoned. This order is not repeated: a later checkpoint makes it redundant.
    AbortCheckpoint(Epoch),
    /// No later epoch completes, and no later checkpoint is committed: tasks must not wait for them.
    NoneDone,
    /// End all tasks at once, and report each as gone.
    Cancel,
}

/// A message of a worker to its coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToCoordinator<S> {
    /// The term of the coordinator that it is for, and the incarnation and plan version of the tasks that it
    /// reports on.
    pub fence: Fence,
    /// What the worker reports.
    pub summary: Summary<S>,
}

/// What all tasks of one incarnation at a worker have done together. It replaces every summary with a lower
/// number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary<S> {
    /// Each new summary has the next number. A repetition keeps its number.
    pub number: u64,
    /// The orders that the worker has taken. The coordinator repeats newer ones.
    pub taken: Orders,
    /// How often tasks have reported [`Report::Restoring`]: it grows while they make progress.
    pub restoring: u64,
    /// Every task has started.
    pub started: bool,
    /// Every source that has not finished has cut this epoch.
    pub cut: Epoch,
    /// The newest epoch of which a source has reported [`Report::Active`]. 0: none.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub active: Epoch,
    /// Every source has finished.
    pub sources_finished: bool,
    /// Every sink that has not finished has ended this epoch.
    pub ended: Epoch,
    /// Every sink has finished.
    pub sinks_finished: bool,
    /// Checkpoints that every task has acknowledged, or that one task has declined. A checkpoint is omitted
    /// once the coordinator has acknowledged a summary with it.
    pub checkpoints: Vec<Snapshots<S>>,
    /// The last snapshot of each task, once all tasks have finished. They are omitted once the coordinator
    /// has acknowledged a summary with them.
    pub last: Vec<LastSnapshot<S>>,
    /// The newest groups that were passed on to tasks, at most three. They are omitted once the coordinator
    /// of this term has acknowledged a summary.
    ///
    /// A coordinator that adopts the tasks needs the groups that another worker lacks. These are at most the
    /// next regular group, one for a requested checkpoint, and one for the stop: all sources must reach the
    /// [turn](crate::coordinator::turn) of a group before the next regular one is granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Granted>,
    /// A task drops rows because the job stops. It acknowledges nothing any more.
    pub dropped: bool,
    /// The tasks were cancelled. Sinks that had finished may have ended without making visible what they
    /// prepared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// A task that has failed, and whether a retry may succeed: the first one without a retry, else the first
    /// one.
    pub failed: Option<(TaskId, bool)>,
    /// All tasks have ended.
    pub gone: bool,
}

/// The last snapshot of a task. It is serialized as an array of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSnapshot<S> {
    /// The task.
    pub task: TaskId,
    /// The epoch at whose end the snapshot was taken.
    pub epoch: Epoch,
    /// What the task has saved.
    pub snapshot: S,
}

impl<'de, S: Deserialize<'de>> Deserialize<'de> for LastSnapshot<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (task, epoch, snapshot) = Deserialize::deserialize(deserializer)?;
        Ok(LastSnapshot { task, epoch, snapshot })
    }
}

impl<S: Serialize> Serialize for LastSnapshot<S> {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        (self.task, self.epoch, &self.snapshot).serialize(serializer)
    }
}

fn none() -> Epoch {
    Epoch(0)
}

fn is_none(epoch: &Epoch) -> bool {
    *epoch == Epoch(0)
}

/// The newest order of each cumulative kind: it implies all earlier orders of its kind. These are the orders
/// that a worker has taken, that it was sent, or that the coordinator has commanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// The last epoch of the newest group. A worker takes a group when it passes it on to the tasks.
    pub granted: Epoch,
    /// The newest epoch that is done.
    pub epoch_done: Epoch,
    /// The newest checkpoint that is committed.
    pub checkpoint_done: Epoch,
    /// Whether there is [`Order::NoneDone`].
    pub none_done: bool,
}

impl Orders {
    /// The orders that count as taken when tasks start after the checkpoint of this epoch.
    pub(crate) const fn at(epoch: Epoch) -> Orders {
        Orders { granted: epoch, epoch_done: epoch, checkpoint_done: epoch, none_done: false }
    }
}

/// The running tasks of a worker, for a coordinator that may adopt them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosting {
    /// Their incarnation.
    pub incarnation: Incarnation,
    /// The tasks, every one of which has started.
    pub tasks: Tasks,
}

/// The snapshots of a worker's tasks for one checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshots<S> {
    /// The epoch that ended.
    pub epoch: Epoch,
    /// The snapshot of each task. `None`: a task has declined the checkpoint.
    pub tasks: Option<Vec<(TaskId, S)>>,
}
