//! Events at a point of virtual time.

use std::collections::BTreeMap;

use anabranch_model::{Epoch, Incarnation, Nanos, TaskId};
use anabranch_protocol::coordinator::{Answer, Entry};
use anabranch_protocol::membership::{Member, Process};
use anabranch_protocol::worker::{Command, FromCoordinator, Hosting, Term, ToCoordinator};

use crate::store::Committable;
use crate::task::State;

/// Identifies a task's snapshot: the number of an object.
pub(crate) type Handle = u64;

/// The index of a process's worker.
pub(crate) fn index(process: Process) -> usize {
    process.worker.0 as usize
}

/// A task of an incarnation in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) process: Process,
    pub(crate) incarnation: Incarnation,
    pub(crate) task: TaskId,
}

/// How a write of an object ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Written,
    /// Written in part, with a failure as the answer.
    Torn,
    /// Written, without an answer.
    Unanswered,
}

/// Rows that a sink has prepared.
pub(crate) type Prepared = (Committable, Vec<(u8, u64)>);

/// A snapshot that is being stored.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) place: Place,
    pub(crate) epoch: Epoch,
    pub(crate) finished: bool,
    pub(crate) state: State,
    /// A sink's rows that the state contains and that may not be durable yet.
    pub(crate) prepared: Vec<Prepared>,
}

/// A sink's commit in progress.
#[derive(Clone, Debug)]
pub(crate) struct Publish {
    pub(crate) place: Place,
    /// The checkpoint that allows it.
    pub(crate) checkpoint: (Incarnation, Epoch),
    pub(crate) committables: Vec<Committable>,
    pub(crate) restoring: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    ToWorker {
        process: Process,
        host: usize,
        message: FromCoordinator<Handle>,
    },
    ToHost {
        host: usize,
        process: Process,
        message: Box<ToCoordinator<Handle>>,
    },
    /// A coordinator of this term has answered the heartbeat that was sent then.
    Heard {
        process: Process,
        host: usize,
        term: Term,
        sent: Nanos,
    },
    Beat(Process),
    BeatArrives {
        host: usize,
        member: Member,
        sent: Nanos,
    },
    Leaves {
        host: usize,
        process: Process,
    },
    WorkerTick(Process),
    /// A planted bug: a worker carries a command out too late.
    LateCommand(Process, Box<Command<Handle>>),
    /// A cancelled task does nothing any more.
    Ended(Place),
    HostTick(usize),
    /// The tasks of an incarnation could not be placed.
    NotPlaced {
        host: usize,
        incarnation: Incarnation,
    },
    HostReady {
        host: usize,
        log: BTreeMap<u64, Entry<Handle>>,
        /// What workers hosted when it asked them.
        hosted: Vec<(Process, Hosting)>,
    },
    Supervise,
    LogPut {
        host: usize,
        sequence: u64,
        entry: Entry<Handle>,
        answered: bool,
    },
    LogRead {
        host: usize,
        sequence: u64,
    },
    LogRemove(u64),
    Forget(Epoch, Incarnation),
    LogAnswer {
        host: usize,
        sequence: u64,
        answer: Answer<Handle>,
    },
    Source(Place),
    Deliver {
        incarnation: Incarnation,
        from: TaskId,
        to: TaskId,
    },
    Restored {
        place: Place,
        snapshot: Option<Handle>,
        checkpoint: Option<(Incarnation, Epoch)>,
    },
    Upload(Box<Upload>, Fate),
    Uploaded(Box<Upload>, Option<Handle>),
    Publish(Publish),
    Published(Publish),
    Fault,
    WorkerUp(usize),
    WorkerLeaves(Process),
    Request,
    Stop,
    Change,
}

/// Events in the order of their times; those of the same time in the order of their creation.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    events: BTreeMap<(Nanos, u64), Event>,
    made: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Nanos, event: Event) {
        self.made += 1;
        self.events.insert((at, self.made), event);
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, Event)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}
