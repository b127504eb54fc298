//! What goes into the machine of changes and what comes out.

use std::collections::BTreeSet;
use std::fmt;

use anabranch_model::{Epoch, PlanVersion};

use crate::membership::Process;

/// Identifies a request: a number that the driver has not used before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A user's request for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub ticket: Ticket,
    /// It only asks what a change would do, so it need not wait until the tasks run.
    pub dry_run: bool,
}

/// What the job does, as far as changes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Every task runs.
    Runs,
    /// It stops by a request.
    Stops,
    /// Its tasks start, restart or switch.
    Waits,
}

/// What the driver reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A user requests a change.
    Requested(Request),
    /// The answer to [`Command::Check`].
    Checked(Checked),
    /// A checkpoint of the present version is committed.
    Committed(Epoch),
    /// The answer to [`Command::Load`]: bytes of the files that were not loaded in an earlier round.
    Loads(u64),
    /// A process has loaded state for this version, or cannot.
    Loaded {
        /// Which process.
        process: Process,
        /// The version that it loads state for.
        version: PlanVersion,
        /// Whether it has.
        succeeded: bool,
    },
    /// A process is lost, with what it has loaded. It may have had no task.
    Lost(Process),
    /// A user does not want the change any more.
    Abort,
    /// An incarnation begins, by this version of the plan. The driver has given its workers that plan.
    Begins(PlanVersion),
    /// The coordinator says that the job has changed to this version, or that it does not.
    Settled {
        /// The version.
        version: PlanVersion,
        /// Whether the job has changed to it.
        changed: bool,
    },
    /// What the job does may have changed.
    Tick,
}

/// What has become of a request when it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The driver has answered it: it is refused, or nothing is to change.
    Answered,
    /// It is carried out.
    Next(Next),
}

/// What the machine must know of a change to carry it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// Bytes of state that other workers or tasks will have.
    pub moved_bytes: u64,
    /// The processes with those tasks.
    pub loading: BTreeSet<Process>,
    /// The processes with tasks of the present version, which have the state.
    pub present: BTreeSet<Process>,
    /// The last epoch that is granted.
    pub granted: Epoch,
    /// Bytes of the last checkpoint; `None`: unknown.
    pub checkpoint_bytes: Option<u64>,
    /// At most as many bytes are little: they may be loaded or written while no row is processed.
    pub little_bytes: u64,
}

impl Next {
    /// Whether state is loaded before the tasks switch.
    #[must_use]
    pub fn moves_much(&self) -> bool {
        self.moved_bytes > self.little_bytes && !self.loading.is_empty()
    }
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Compare the request with the present plan, and answer with [`Input::Checked`]. A job that stops
    /// refuses it.
    Check(Ticket),
    /// Tell these processes which tasks of the next version they will have. From now on their snapshots only
    /// add to those before, so that what is loaded stays valid.
    Prepare(Ticket, BTreeSet<Process>),
    /// Snapshots only add to those before: a complete one of much state takes long to write, and the switch
    /// waits for it.
    AddOnly,
    /// Take a checkpoint at once.
    Checkpoint,
    /// Let these processes load what the newest checkpoint adds, and answer with [`Input::Loads`].
    Load(Ticket, BTreeSet<Process>),
    /// Give the coordinator the tasks of the next version, for which state was loaded ahead.
    Switch(Ticket, Copied),
    /// These processes drop what they have prepared.
    GiveUp(BTreeSet<Process>),
    /// Answer the request.
    Answer(Ticket, Answer),
    /// Answer the request to abort.
    Aborted(Result<(), NotAborted>),
}

/// What has become of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The job has changed.
    Changed(Copied),
    /// The job goes on as it was, at most after a restart.
    NotChanged {
        /// The tasks of the next version have begun: those of the version before begin under the next number.
        undoes: bool,
    },
}

/// State that was loaded before the tasks switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Rounds of loading that have begun.
    pub rounds: u32,
    /// Bytes of all rounds.
    pub bytes: u64,
}

/// Why no change was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAborted {
    /// The tasks are switching already.
    Switches,
    /// There is no change to abort.
    NoChange,
}

/// How far a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changing {
    /// It waits until all tasks run.
    Waiting,
    /// State is loaded where the next version needs it.
    Preparing(Copied),
    /// The tasks end, or those of the next version have begun.
    Switching,
}

impl fmt::Display for Changing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Changing::Waiting => f.write_str("waiting until all tasks of the job run"),
            Changing::Preparing(Copied { rounds: 0, .. }) => f.write_str("preparing"),
            Changing::Preparing(Copied { rounds, bytes }) => {
                write!(f, "preparing: {bytes} bytes of state, round {rounds}")
            }
            Changing::Switching => f.write_str("switching"),
        }
    }
}
