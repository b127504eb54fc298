//! Tier 1 of the simulation: the real machines of `protocol` as values, on one thread in virtual time.
//!
//! Coordinators, their side of the messages, memberships, placement and workers are real. The network between
//! them loses, repeats, delays and reorders messages. Processes crash, are suspended, leave and come back.
//! The log answers late or not at all. A task is no more than what the protocol sees of one: it ends epochs
//! as far as it may, and reports that. What tasks do with rows, channels, files and tables is tier 2.
//!
//! * `world`: the queue of events, the network, and the faults.
//! * `scenario`: what a seed decides.
//! * `host`: a process with a coordinator.
//! * `worker`: a process with tasks; `task`: how far one task is.
//! * `log`: the job's log with put-if-absent.
//! * `check`: the truth about a run, and the checks against it.
//! * `planted`: bugs, to verify that they are found.
//!
//! [`engine`] is tier 2: there the tasks and their work are real too.
//!
//! A run depends only on its seed and options: no hash map with a random order, no clock, no thread.

mod check;
pub mod engine;
mod host;
mod log;
mod planted;
mod scenario;
mod task;
mod worker;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use planted::Mutation;

/// Steps of a run that are shown when it fails.
const TAIL: usize = 60;

/// How to run a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A planted bug.
    pub mutation: Option<Mutation>,
    /// Whether to record what happens.
    pub trace: bool,
}

/// What has happened in runs: a simulator whose faults never occur proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    times: BTreeMap<&'static str, u64>,
    /// Transitions that machines of tier 1 have taken: part, machine, from, to.
    pub transitions: BTreeSet<[&'static str; 4]>,
}

impl Seen {
    /// How often something has happened; 0 if it is unknown.
    #[must_use]
    pub fn times(&self, what: &str) -> u64 {
        self.times.get(what).copied().unwrap_or(0)
    }

    /// Something has happened so many times more.
    fn add(&mut self, what: &'static str, times: u64) {
        *self.times.entry(what).or_default() += times;
    }

    /// Adds what has happened in another run.
    pub fn extend(&mut self, other: &Seen) {
        other.times.iter().for_each(|(what, times)| self.add(what, *times));
        self.transitions.extend(&other.transitions);
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.times)
    }
}

/// An invariant by name, and how it was broken.
type Checked<T = ()> = Result<T, (&'static str, String)>;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name, as in `docs/simulation.md`; or `panic`, or `straight`: the run without failures has failed.
    pub invariant: &'static str,
    /// What was wrong.
    pub message: String,
    /// In which turn of the scheduler, or at which virtual time.
    pub when: String,
}

/// A run and its result.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The seed that determines everything.
    pub seed: u64,
    /// What has happened in numbers.
    pub seen: Seen,
    /// The violated invariant, if any.
    pub violation: Option<Violation>,
    /// What has happened in words, if requested.
    pub trace: Vec<String>,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first line says what the seed has drawn.
        let omitted = 1..self.trace.len().saturating_sub(TAIL);
        for (_, line) in self.trace.iter().enumerate().filter(|(at, _)| !omitted.contains(at)) {
            writeln!(f, "{line}")?;
        }
        match &self.violation {
            None => write!(f, "seed {}: {}", self.seed, self.seen),
            Some(Violation { invariant, message, when }) => {
                writeln!(f, "seed {}: {invariant} violated {when}: {message}", self.seed)?;
                write!(f, "again: ANABRANCH_SEED={}", self.seed)
            }
        }
    }
}

/// Simulates one seed of tier 1.
#[must_use]
pub fn run(seed: u64, options: Options) -> Run {
    world::World::new(seed, options).run()
}
