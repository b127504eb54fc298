//! What goes into a worker and what comes out. Messages between worker and coordinator may be lost, repeated,
//! late and reordered.

use std::time::Duration;

use anabranch_model::{Epoch, Group, Incarnation, Nanos, PlanVersion, TaskId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::coordinator::{Checkpoint, Granted, Pace, Report, Tasks, Then};

/// One reign of a coordinator over a job: the number, from 1, of the log's entry with which it took the job.
/// A new term may adopt a running incarnation, or begin a newer one.
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
    /// Older than any message.
    pub const NONE: Fence = Fence { term: Term(0), incarnation: Incarnation(0), version: PlanVersion(0) };

    /// Whether a message with the fence `other` is older in any respect.
    #[must_use]
    pub fn refuses(self, other: Fence) -> bool {
        other.term < self.term || other.incarnation < self.incarnation || other.version < self.version
    }
}

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long its tasks may run after it sent the last heartbeat that its coordinator has answered. At most
    /// the time after which the coordinator declares a silent worker lost, so that the tasks of a lost worker
    /// have ended.
    pub lease: Duration,
    /// How long a change may wait for the next report of a group.
    pub linger: Duration,
    /// Time after which a report that was not acknowledged is repeated.
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
    /// The process that has the job's coordinator in this term has answered the heartbeat that this process
    /// sent then, by its own clock. The driver need not report each answer: the newest one suffices, at
    /// [`Worker::next_deadline`](super::Worker::next_deadline). But it reports none that has come after the
    /// lease that the answers before it extended was over, unless it has handled the time in between.
    Heard(Term, Nanos),
    /// A task of an incarnation reports.
    Task(Incarnation, TaskId, Report<S>),
    /// Only time has passed.
    Tick,
}

/// What a worker's driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<S> {
    /// For the tasks of this incarnation at this worker.
    Tasks(Incarnation, Order<S>),
    /// To the coordinator of the message's term.
    Send(ToCoordinator<S>),
}

/// A message of a coordinator to one process of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromCoordinator<S> {
    /// Who sends it, and for which tasks.
    pub fence: Fence,
    /// When this process sent the newest heartbeat that has arrived at the coordinator, by the worker's
    /// clock.
    pub heard: Nanos,
    /// Number of the newest summary that has arrived at the coordinator in this term and incarnation; 0 for
    /// none.
    pub received: u64,
    /// `None`: it only answers a heartbeat or a summary.
    pub order: Option<Order<S>>,
}

/// What the tasks must do. Each order states a fact that stays true, so repetitions change nothing. The
/// coordinator repeats an order until a summary shows its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order<S> {
    /// Start these tasks, each from its snapshot; sinks first make visible what the checkpoint holds.
    Start {
        /// The tasks of this worker.
        tasks: Tasks,
        /// The checkpoint to resume from, with the snapshots that these tasks need; `None`: start with epoch
        /// 1.
        from: Option<Checkpoint<S>>,
    },
    /// Sources may cut the epochs of this group.
    Grant {
        /// The epochs.
        group: Group,
        /// Whether the marker of the last one requests a snapshot.
        checkpoint: bool,
        /// What follows the group.
        #[serde(default)]
        then: Then,
        /// When sources cut the epochs.
        #[serde(default, skip_serializing_if = "Pace::is_steady")]
        pace: Pace,
    },
    /// Every sink of the job has written or prepared everything up to the end of this epoch.
    EpochDone(Epoch),
    /// The checkpoint is committed: sinks make visible what they prepared, sources may release input.
    CheckpointDone(Epoch),
    /// The checkpoint is abandoned. It is not repeated: a later checkpoint makes it redundant.
    AbortCheckpoint(Epoch),
    /// No later epoch will be done, and no checkpoint committed: tasks must not wait for one.
    NoneDone,
    /// End all tasks at once, and report each as gone.
    Cancel,
}

/// A message of a worker to its coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToCoordinator<S> {
    /// To whom, and of which tasks.
    pub fence: Fence,
    /// What the worker reports.
    pub summary: Summary<S>,
}

/// What all tasks of a worker together have done. It replaces every summary with a lower number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary<S> {
    /// Grows with each summary; a repetition has the number of what it repeats.
    pub number: u64,
    /// The orders whose effect the coordinator waits for.
    pub taken: Orders,
    /// How often a task has reported that it gets further with restoring its state.
    pub restoring: u64,
    /// Every task has started.
    pub started: bool,
    /// Every source that has not finished has cut this epoch.
    pub cut: Epoch,
    /// The newest epoch in which a source has passed something on, as far as sources have reported that.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub active: Epoch,
    /// Every source has finished.
    pub sources_finished: bool,
    /// Every sink that has not finished has ended this epoch.
    pub ended: Epoch,
    /// Every sink has finished.
    pub sinks_finished: bool,
    /// Checkpoints that every task has acknowledged or one has declined, and whose receipt was not
    /// acknowledged.
    pub checkpoints: Vec<Snapshots<S>>,
    /// The last snapshot of each task, once all have finished. Empty before, and when its receipt was
    /// acknowledged.
    pub last: Vec<LastSnapshot<S>>,
    /// The newest three groups that were passed on to tasks, until the first summary of the term was
    /// acknowledged. No worker whose sources run can lack more: a group is granted when all of them are in
    /// the middle of the one before, then perhaps one for a checkpoint that was requested, and one for the
    /// stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Granted>,
    /// A task drops rows: from here on it acknowledges nothing.
    pub dropped: bool,
    /// The tasks were cancelled: sinks that had finished may have left without making visible what they
    /// prepared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// A task has failed, and whether a retry may succeed.
    pub failed: Option<(TaskId, bool)>,
    /// No task is there any more.
    pub gone: bool,
}

/// The last snapshot of a task. A message has it as an array of its members.
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

/// The orders that a worker has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// The last epoch of the last group that was passed on to tasks.
    pub granted: Epoch,
    /// The newest epoch that is done.
    pub epoch_done: Epoch,
    /// The newest checkpoint that is committed.
    pub checkpoint_done: Epoch,
    /// [`Order::NoneDone`] has arrived.
    pub none_done: bool,
}

/// The tasks of a worker that run, for a coordinator that may adopt them.
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
    /// Of each task; `None`: a task has declined the checkpoint.
    pub tasks: Option<Vec<(TaskId, S)>>,
}
