//! The surroundings of all processes, and the faults of accessing them.
//!
//! The only generator of random numbers for faults is here: every access of a process to a store, a log or a
//! table calls [`Outside::fate`]. A process that has crashed in the middle of a step reaches nothing any
//! more, whatever the rest of the step tries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_model::{Epoch, Error, Rng};
use anabranch_state::Entry;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{PutMode, PutPayload};

use crate::Seen;

/// A process by its number.
pub(crate) type ProcessId = u64;

/// Identifies a sink's committable: scope, task, epoch.
pub(crate) type Name = (String, u32, Epoch);

/// A sink of a job without checkpoints: table and task.
pub(crate) type SinkId = (String, u32);

/// Number of failures per 1000 calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) fails: u64,
    pub(crate) crashes: u64,
}

/// Failures of a sick process per 1000 calls, in addition.
const SICK: u64 = 60;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Good,
    /// It has no effect.
    Fails,
    /// It takes effect, but the caller gets an error.
    Unanswered,
    /// It takes effect later, perhaps after its process has ended.
    Late,
    /// It takes effect in part.
    Torn,
}

/// A write of an object.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) by: ProcessId,
    pub(crate) path: Path,
    pub(crate) payload: PutPayload,
    pub(crate) mode: PutMode,
}

/// What the checks learn of.
#[derive(Clone, Debug)]
pub(crate) enum Happened {
    /// An object of the job's log was written.
    Logged { by: ProcessId, name: String, content: Vec<u8>, replaced: bool },
    /// A sink has made rows visible.
    Committed { name: Name, content: Vec<u8> },
    /// A source was notified that it may release what it read up to here.
    MayGiveUp(Epoch),
    /// A sink of a job without checkpoints has written its rows of an epoch, or has failed to.
    HandedOver { sink: SinkId, epoch: Epoch, done: bool },
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Happened::Logged { by, name, content, .. } => {
                write!(f, "process {by} writes {name}: ")?;
                match serde_json::from_slice(content) {
                    Ok(Entry::Begins { incarnation, owner, .. }) => {
                        write!(f, "incarnation {} begins, owner {owner:x}", incarnation.0)
                    }
                    Ok(Entry::Adopts { incarnation, owner }) => {
                        write!(f, "incarnation {} is adopted, owner {owner:x}", incarnation.0)
                    }
                    Ok(Entry::Checkpoint { incarnation, epoch, .. }) => {
                        write!(f, "checkpoint of {epoch} by incarnation {}", incarnation.0)
                    }
                    Ok(Entry::Ended { incarnation }) => write!(f, "incarnation {} has ended the job", incarnation.0),
                    Err(error) => write!(f, "{error}"),
                }
            }
            Happened::Committed { name, content } => {
                let lines = String::from_utf8_lossy(content).lines().count();
                write!(f, "{} task {} shows {lines} rows of {}", name.0, name.1, name.2)
            }
            Happened::MayGiveUp(epoch) => write!(f, "a source may give up {epoch}"),
            Happened::HandedOver { sink, epoch, done } => {
                let what = if *done { "writes" } else { "fails to write" };
                write!(f, "{} task {} {what} {epoch}", sink.0, sink.1)
            }
        }
    }
}

/// The surroundings of all processes.
#[derive(Debug)]
pub(crate) struct Outside {
    rng: Rng,
    pub(crate) objects: Arc<InMemory>,
    pub(crate) late: Vec<Write>,
    dead: BTreeSet<ProcessId>,
    /// Processes that reach little: their calls fail often.
    pub(crate) sick: BTreeSet<ProcessId>,
    pub(crate) rates: Rates,
    pub(crate) happened: Vec<Happened>,
    /// What readers of the written tables see.
    pub(crate) visible: BTreeMap<Name, Vec<u8>>,
    /// Rows of sinks of jobs without checkpoints.
    pub(crate) written: Vec<String>,
    /// Number of rows that the next poll of a source may return.
    pub(crate) poll_rows: usize,
    /// Readers, by table and task, that have no rows at the moment.
    pub(crate) dry: BTreeSet<(String, u32)>,
    /// The store takes no object at present.
    pub(crate) is_full: bool,
    /// The partition that stays open without rows has been closed by its writer.
    pub(crate) quiet_is_over: bool,
    /// What has happened there.
    pub(crate) seen: Seen,
}

/// Shared by everything that accesses the surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Outside>>);

impl Shared {
    pub(crate) fn new(seed: u64) -> Self {
        Shared(Arc::new(Mutex::new(Outside {
            rng: Rng::new(seed ^ 0x7e57),
            objects: Arc::new(InMemory::new()),
            late: Vec::new(),
            dead: BTreeSet::new(),
            sick: BTreeSet::new(),
            rates: Rates::default(),
            happened: Vec::new(),
            visible: BTreeMap::new(),
            written: Vec::new(),
            poll_rows: 1,
            dry: BTreeSet::new(),
            is_full: false,
            quiet_is_over: false,
            seen: Seen::default(),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Outside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call that either takes effect or does not. `effect` is its effect on the surroundings.
    pub(crate) fn call<T>(&self, process: ProcessId, effect: impl FnOnce(&mut Outside) -> T) -> Result<T, Error> {
        let outside = &mut *self.lock();
        match outside.fate(process, 1, &[Fate::Fails, Fate::Unanswered]) {
            Fate::Good => Ok(effect(outside)),
            Fate::Unanswered => {
                effect(outside);
                Err(no_answer())
            }
            _ => Err(no_answer()),
        }
    }
}

fn no_answer() -> Error {
    Error::outside("there is no answer")
}

impl Outside {
    /// Decides the fate of a call of this process. It fails `often` times as often as others, with one of the
    /// outcomes in `wrong`. A crash looks like a failure to the process, and ends it.
    pub(crate) fn fate(&mut self, process: ProcessId, often: u64, wrong: &[Fate]) -> Fate {
        if self.dead.contains(&process) {
            return Fate::Fails;
        }
        let crashes = self.rng.below(1000) < self.rates.crashes * often;
        let sick = if self.sick.contains(&process) { SICK } else { 0 };
        let fails = self.rng.below(1000) < (self.rates.fails + sick) * often;
        if !crashes && !fails {
            return Fate::Good;
        }
        self.seen.add("failed calls", 1);
        if crashes {
            self.seen.add("crashes", 1);
            self.dead.insert(process);
        }
        let fate = wrong[self.rng.below(wrong.len() as u64) as usize];
        self.seen.add("torn objects", u64::from(fate == Fate::Torn));
        fate
    }

    /// Nothing goes wrong any more.
    pub(crate) fn calm(&mut self) {
        self.rates = Rates::default();
        self.sick.clear();
    }

    /// Whether the store refuses an object because it is full.
    pub(crate) fn refuses(&mut self) -> bool {
        self.seen.add("refused objects", u64::from(self.is_full));
        self.is_full
    }

    pub(crate) fn is_dead(&self, process: ProcessId) -> bool {
        self.dead.contains(&process)
    }

    pub(crate) fn kill(&mut self, process: ProcessId) {
        self.dead.insert(process);
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound.max(1) as u64) as usize
    }
}
