//! What goes into a coordinator and what comes out: the whole interface between decision and execution.
//!
//! Reports and commands may be repeated and reordered: each states a fact that stays true. The driver must
//! deliver each at least once while its incarnation lives, or report the task as failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Epoch, Group, Incarnation, PlanVersion, TaskId};
use serde::{Deserialize, Serialize};

/// The tasks of a plan version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    /// Which version.
    pub version: PlanVersion,
    /// Every task, sources and sinks among them.
    pub all: BTreeSet<TaskId>,
    /// Those that read a source and cut epochs.
    pub sources: BTreeSet<TaskId>,
    /// Those that write a sink. A task may be source and sink.
    pub sinks: BTreeSet<TaskId>,
}

/// A committed checkpoint: every task's snapshot at the end of one epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint<S> {
    /// The epoch that ended.
    pub epoch: Epoch,
    /// The incarnation that committed it.
    pub incarnation: Incarnation,
    /// The plan version whose tasks these are.
    pub version: PlanVersion,
    /// What each task acknowledged the checkpoint with.
    #[serde(with = "pairs", bound(serialize = "S: Serialize", deserialize = "S: Deserialize<'de>"))]
    pub tasks: BTreeMap<TaskId, S>,
}

/// A map whose keys are not text, as a list of pairs.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, T: Serializer>(
        map: &BTreeMap<K, V>,
        to: T,
    ) -> Result<T::Ok, T::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'a, K: Deserialize<'a> + Ord, V: Deserialize<'a>, D: Deserializer<'a>>(
        from: D,
    ) -> Result<BTreeMap<K, V>, D::Error> {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}

/// Identifies one coordinator process among all that ever serve the job: a number that the driver draws at
/// random. It distinguishes a coordinator's own entry from that of a rival with the same incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(pub u64);

/// A numbered entry of the job's durable log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<S> {
    /// From here on this incarnation owns the job, by this version of its plan; no entry of an older one
    /// follows.
    Begins(Incarnation, Owner, PlanVersion),
    /// From here on this coordinator owns the incarnation, whose tasks go on; no entry of its predecessor
    /// follows.
    Adopts(Incarnation, Owner),
    /// A committed checkpoint: the entry is the commit.
    Checkpoint(Checkpoint<S>),
    /// The job has ended by itself, with the last checkpoint before this entry: there is nothing to resume.
    Ended(Incarnation),
    /// What its writer committed cannot be read, so no job can resume from it. Never written, only found.
    Unusable(Incarnation),
}

impl<S> Entry<S> {
    /// The incarnation that wrote the entry.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        match self {
            Entry::Begins(incarnation, ..)
            | Entry::Adopts(incarnation, _)
            | Entry::Ended(incarnation)
            | Entry::Unusable(incarnation) => *incarnation,
            Entry::Checkpoint(checkpoint) => checkpoint.incarnation,
        }
    }
}

/// What the driver reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<S> {
    /// A task of an incarnation reports.
    Task(Incarnation, TaskId, Report<S>),
    /// What the tasks of a worker report together.
    Tasks(Incarnation, Vec<(TaskId, Report<S>)>),
    /// Groups that the coordinator before has granted to an incarnation.
    Granted(Incarnation, Vec<Granted>),
    /// The store's answer to [`Command::Append`] or [`Command::Read`] of this sequence number.
    Store(u64, Answer<S>),
    /// A group was coordinated: the time that took, and the time of the whole group.
    Overhead {
        /// Time in which the coordination kept workers from processing.
        coordinating: Duration,
        /// Time from the group's first marker to its last.
        group: Duration,
    },
    /// A request: a checkpoint is taken at once, whatever the interval.
    Checkpoint,
    /// A request: the job stops, with a last checkpoint.
    Stop,
    /// A request: at the end of an epoch the job goes on with these tasks, of a newer plan version. A
    /// checkpoint that was requested before is taken first: the one at the switch then has less to write.
    Change(Tasks),
    /// Only time has passed.
    Tick,
}

/// What a task reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report<S> {
    /// It is created, or restores its state and has got further with it.
    Restoring,
    /// It is restored and ready.
    Started,
    /// A source cut this epoch.
    EpochCut(Epoch),
    /// A source has passed something on in this epoch: rows, or progress of event time. It reports that with
    /// its cuts, and for an epoch without a grant when its time is over.
    Active(Epoch),
    /// A source has cut its last epoch: it no longer takes grants.
    SourceFinished,
    /// A sink has written or prepared everything up to the end of this epoch.
    EpochEnded(Epoch),
    /// A sink has written or prepared everything that it will ever get.
    SinkFinished,
    /// The task's state at the end of the epoch is durable.
    Acknowledged {
        /// Which epoch.
        epoch: Epoch,
        /// The handle of the state.
        snapshot: S,
        /// Nothing changes any more: this snapshot counts for every later checkpoint too.
        finished: bool,
    },
    /// The task cannot snapshot this epoch, but continues.
    Declined(Epoch),
    /// The job stops, and the task drops rows that it cannot process: from here on it acknowledges nothing.
    Dropped,
    /// The task has failed.
    Failed {
        /// Whether a retry may succeed. It may not after an error of the user's query or data.
        retry: bool,
    },
    /// The worker of the task is lost.
    Lost,
    /// The task has ended, by itself after its last snapshot or because it was cancelled. It does nothing any
    /// more.
    Gone,
}

/// What follows a group of epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    /// The next group.
    #[default]
    Next,
    /// Nothing: the job stops. Sources cut at once up to the end of the group, and end there.
    Stop,
    /// The next incarnation, by another plan version. The tasks end as for a stop; their workers may keep
    /// what the next ones need.
    Switch,
}

impl Then {
    /// Whether the tasks end after the group.
    #[must_use]
    pub fn ends(self) -> bool {
        self != Then::Next
    }
}

/// When sources cut the epochs of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pace {
    /// One in each epoch interval.
    #[default]
    Steady,
    /// Without delay, and so all epochs that were granted before: somebody waits for the end of the group.
    AtOnce,
}

impl Pace {
    /// Whether it is the usual one, which messages omit.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        *self == Pace::Steady
    }
}

/// A group of epochs that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The epochs.
    pub group: Group,
    /// Whether the marker of the last one requests a snapshot.
    pub checkpoint: bool,
    /// What follows the group.
    #[serde(default)]
    pub then: Then,
    /// When sources cut the epochs.
    #[serde(default, skip_serializing_if = "Pace::is_steady")]
    pub pace: Pace,
    /// The checkpoint was abandoned since.
    #[serde(default)]
    pub aborted: bool,
}

/// What the store answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<S> {
    /// The put-if-absent wrote the entry.
    Appended,
    /// The put-if-absent found an entry under this number.
    Taken,
    /// The log has gone past this number: later entries are there. An entry under this number may have
    /// arrived late.
    Passed,
    /// Unknown: after a timeout or an error the entry may be there, or may still arrive.
    Unknown,
    /// What was read: nothing, or an entry.
    Entry(Option<Entry<S>>),
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<S> {
    /// Put the entry under this number if there is none yet, and answer.
    Append(u64, Entry<S>),
    /// Read the entry of this number, and answer.
    Read(u64),
    /// Remove the entry of this number: the remaining entries make it redundant. No answer is due.
    Remove(u64),
    /// Start every task, each from its snapshot; sinks first make visible what the checkpoint holds.
    Start {
        /// The incarnation of all that follows.
        incarnation: Incarnation,
        /// The checkpoint to resume from; `None`: start with epoch 1.
        from: Option<Checkpoint<S>>,
    },
    /// The tasks of this incarnation go on under this coordinator: each worker must report all that they have
    /// done.
    Adopt {
        /// The incarnation.
        incarnation: Incarnation,
        /// Its newest checkpoint, or the one that it resumed from.
        newest: Option<Checkpoint<S>>,
    },
    /// Sources may cut the epochs of this group.
    Grant {
        /// For tasks of this incarnation.
        incarnation: Incarnation,
        /// The epochs; they follow those granted before.
        group: Group,
        /// Whether the marker of the last one asks for a snapshot.
        checkpoint: bool,
        /// What follows the group.
        then: Then,
        /// When sources cut the epochs.
        pace: Pace,
    },
    /// The job has changed to this plan version: the first checkpoint by it is committed.
    Changed(PlanVersion),
    /// The job does not change to this plan version, and goes on as it was, at most after a restart.
    NotChanged(PlanVersion),
    /// Every sink has written everything up to the end of this epoch. Only without checkpoints: else tasks
    /// wait for those.
    EpochDone(Incarnation, Epoch),
    /// The checkpoint is committed: sinks make visible what they prepared, sources may release input.
    CheckpointDone(Incarnation, Epoch),
    /// The checkpoint is abandoned. What sinks prepared for it stays for the next one, and a snapshot that
    /// was acknowledged as finished stays for all.
    AbortCheckpoint(Incarnation, Epoch),
    /// No later epoch of this incarnation will be done, and no checkpoint committed: tasks must not wait for
    /// one.
    NoneDone(Incarnation),
    /// A committed checkpoint that will not be needed again: files to which no later one refers may be
    /// deleted.
    Forget(Epoch, Incarnation),
    /// End all tasks of this incarnation at once, and report each as gone.
    Cancel(Incarnation),
    /// The job has ended; the last command. Of incarnation 0: it had ended before this coordinator started.
    Finish(Incarnation),
    /// The job has failed for good; the last command.
    Fail(Incarnation, Cause),
    /// Another coordinator has taken over, perhaps with the tasks as they run; the last command.
    Fenced(Incarnation),
}

/// Why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A task failed; whether its failure could have been retried.
    Task(TaskId),
    /// Tasks that restore their state made no progress for too long.
    StartTimeout,
    /// Too many checkpoints in a row failed, or the last one did.
    Checkpoints,
    /// The store has not accepted an entry of the log for too long.
    Store,
}
