//! Tier 1 of the simulation: the real coordinator, workers, membership and placement, with everything around
//! them simulated on one thread in virtual time.
//!
//! Tasks, channels with aligned markers, an object store, a network and whole processes are small models
//! here; their faults are drawn from one seed. The models of tasks follow the contract that the runtime has:
//! they show what the protocol and this contract guarantee together, not that the runtime keeps the contract.
//!
//! * `world`: the queue of events, the processes, and their faults.
//! * `scenario`: what a seed decides.
//! * `host`: a process with a coordinator.
//! * `worker`: a process with tasks; `task`: what one task does.
//! * `store`: the log with put-if-absent, and the objects; also the sink's external table.
//! * `check`: the truth about a run, and the checks against it.
//!
//! [`engine`] is tier 2: there the tasks and their work are real too.
//!
//! A run depends only on its seed and options: no hash map with a random order, no clock, no thread.

mod check;
pub mod engine;
mod event;
mod host;
mod scenario;
mod store;
mod task;
mod worker;
mod world;

use std::collections::BTreeSet;
use std::fmt;

pub use check::Violation;

/// A bug that is planted on purpose, to verify that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The driver reports every task's acknowledgement when the first one has arrived.
    CommitBeforeAllAcknowledged,
    /// The store writes an entry of the log even if there is one.
    LateWriteAccepted,
    /// On a channel, a marker passes the last records that were sent before it.
    MarkerOvertakes,
    /// A source saves the position that it had one batch before.
    PositionOneBatchLate,
    /// A sink makes visible again, after a restore, what is visible already.
    CommittedTwice,
    /// The store writes an entry of the log under a number whose entry was removed.
    FreedNumberTaken,
    /// The driver loses a request for a checkpoint.
    RequestForgotten,
    /// A worker's driver gives grants to its tasks as they arrive.
    GrantsUnordered,
    /// A worker's tasks continue for a while when its lease is over.
    LeaseIgnored,
    /// When a coordinator adopts the tasks of a worker, all that they have reported before counts as
    /// acknowledged.
    AdoptionUnreported,
    /// When the plan changes, the sources of a worker end one epoch after the one that was granted.
    SwitchLate,
}

/// How to run a seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A planted bug.
    pub mutation: Option<Mutation>,
    /// Whether to record what happens.
    pub trace: bool,
}

/// A transition that was taken: machine, from, to.
type Taken = (&'static str, &'static str, &'static str);

/// What has happened in runs: a simulator whose faults never occur proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Events handled.
    pub events: u64,
    /// Checkpoints committed.
    pub checkpoints: u64,
    /// Checkpoints aborted.
    pub aborted: u64,
    /// Incarnations begun.
    pub incarnations: u64,
    /// Coordinators that were fenced.
    pub fenced: u64,
    /// Crashes of workers.
    pub worker_crashes: u64,
    /// Crashes of coordinators.
    pub coordinator_crashes: u64,
    /// Reports of other incarnations that coordinators refused.
    pub refused_reports: u64,
    /// Messages of older incarnations or terms, and reports of tasks that have ended, that workers refused.
    pub refused_commands: u64,
    /// Entries that took effect although no answer said so.
    pub open_answers: u64,
    /// Objects that were written in part.
    pub torn: u64,
    /// Commits repeated by a sink, without effect.
    pub repeated_commits: u64,
    /// Entries removed from logs.
    pub removed_entries: u64,
    /// Checkpoints taken because of a request.
    pub fulfilled_requests: u64,
    /// Jobs whose log records that they have ended.
    pub ended_jobs: u64,
    /// Tasks that a coordinator adopted from another process.
    pub adoptions: u64,
    /// Changes to another version of the plan that were carried out, and that were given up.
    pub changes: u64,
    #[expect(missing_docs, reason = "see above")]
    pub changes_given_up: u64,
    /// Leases that were over.
    pub leases_over: u64,
    /// Workers that coordinators have declared lost.
    pub lost_workers: u64,
    /// Workers that were drained and left.
    pub drained_workers: u64,
    /// Starts without enough slots.
    pub not_placed: u64,
    /// Virtual milliseconds until the job ended.
    pub ended_ms: u64,
    /// Transitions that the machines of coordinators have taken: machine, from, to.
    pub transitions: BTreeSet<Taken>,
    /// The same of workers.
    pub worker_transitions: BTreeSet<Taken>,
    /// The same of memberships.
    pub member_transitions: BTreeSet<Taken>,
}

impl Seen {
    /// Adds the numbers of another run.
    pub fn add(&mut self, other: &Seen) {
        self.events += other.events;
        self.checkpoints += other.checkpoints;
        self.aborted += other.aborted;
        self.incarnations += other.incarnations;
        self.fenced += other.fenced;
        self.worker_crashes += other.worker_crashes;
        self.coordinator_crashes += other.coordinator_crashes;
        self.refused_reports += other.refused_reports;
        self.refused_commands += other.refused_commands;
        self.open_answers += other.open_answers;
        self.torn += other.torn;
        self.repeated_commits += other.repeated_commits;
        self.removed_entries += other.removed_entries;
        self.fulfilled_requests += other.fulfilled_requests;
        self.ended_jobs += other.ended_jobs;
        self.adoptions += other.adoptions;
        self.changes += other.changes;
        self.changes_given_up += other.changes_given_up;
        self.leases_over += other.leases_over;
        self.lost_workers += other.lost_workers;
        self.drained_workers += other.drained_workers;
        self.not_placed += other.not_placed;
        self.ended_ms = self.ended_ms.max(other.ended_ms);
        self.transitions.extend(&other.transitions);
        self.worker_transitions.extend(&other.worker_transitions);
        self.member_transitions.extend(&other.member_transitions);
    }
}

/// A run and its result.
#[derive(Clone, Debug)]
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
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        match &self.violation {
            None => write!(f, "seed {}: {:?}", self.seed, self.seen),
            Some(violation) => write!(f, "seed {}: {violation}\nagain: ANABRANCH_SEED={}", self.seed, self.seed),
        }
    }
}

/// Simulates one seed.
#[must_use]
pub fn run(seed: u64, options: Options) -> Run {
    world::World::new(seed, options).run()
}
