//! Tier 2 of the simulation: the real engine, stepped on one thread.
//!
//! Queries are planned from SQL. The tasks, operators, channels, snapshots, the recorder and the takeover are
//! those of the product, driven by `anabranch_runtime::stepped`. The surroundings are simulated: an object
//! store, partitioned logs to read, tables to write, and processes that crash, are suspended, and are
//! followed by others at another parallelism. One seed decides which task does its next step, how much a
//! source returns, on which channel something arrives, and what fails.
//!
//! * `query`: the queries, and the contents of their tables.
//! * `outside`: what outlives processes, and the faults of accessing it; `store` and `tables` access it.
//! * `savepoint`: a client that requests savepoints, and checks whether they are kept until copied.
//! * `damage`: objects of a checkpoint that are lost or changed after they were written.
//! * `scenario`: what a seed decides.
//! * `cluster`: workers in other processes, and their connections.
//! * `world`: the processes and the scheduler.
//! * `planted`: bugs, to verify that they are found.
//! * `truth`: the checks, against the same query run without failures.

mod cluster;
mod damage;
mod outside;
mod planted;
mod query;
mod savepoint;
mod scenario;
mod store;
mod tables;
mod truth;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use planted::Mutation;
pub use query::{Queries, UPDATING_FROM};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Turns of the scheduler.
    pub turns: u64,
    /// Checkpoints committed.
    pub checkpoints: u64,
    /// Incarnations begun.
    pub incarnations: u64,
    /// Starts at another parallelism than before.
    pub rescaled: u64,
    /// Changes of the plan while the job ran.
    pub changes: u64,
    /// Of these, those whose state was loaded ahead.
    pub prepared: u64,
    /// Changes to the plan that ran already.
    pub unchanged: u64,
    /// Changes that were given up or refused.
    pub changes_given_up: u64,
    /// Crashes of processes.
    pub crashes: u64,
    /// Processes that ended with an error.
    pub failures: u64,
    /// Of these, those that had lost the job to another.
    pub fenced: u64,
    /// Restarts within a process.
    pub restarts: u64,
    /// Starts of a job that had ended.
    pub had_ended: u64,
    /// Calls to the outside that failed or were not answered.
    pub failed_calls: u64,
    /// Objects that were written in part.
    pub torn: u64,
    /// Writes that arrived late.
    pub late_writes: u64,
    /// Commits repeated by sinks, without effect.
    pub repeated_commits: u64,
    /// Stops on request.
    pub stops: u64,
    /// Runs of state on disk that checkpoints contained.
    pub runs: u64,
    /// Savepoints taken of the job while it ran.
    pub savepoints: u64,
    /// Of these, those copied after another process than the one that answered had taken the job over.
    pub inherited_savepoints: u64,
    /// Jobs that started from a savepoint of another running job.
    pub begun_with_savepoint: u64,
    /// Objects that the store refused because it was full.
    pub refused: u64,
    /// Steps that a hung task did not do.
    pub hung: u64,
    /// Objects that were damaged.
    pub damaged: u64,
    /// Of these, entries of the log in front of the newest checkpoint.
    pub damaged_before: u64,
    /// Jobs without checkpoints.
    pub without_checkpoints: u64,
    /// Of these, those that ended by themselves.
    pub without_checkpoints_ended: u64,
    /// Checkpoints with results of event time that an idle partition would have held back.
    pub past_idle: u64,
    /// Checkpoints of results that were updated.
    pub updated: u64,
    /// Rows that were late.
    pub late_rows: u64,
    /// Steps of the wall clock.
    pub wall_steps: u64,
    /// Times that a coordinator adopted running tasks.
    pub adoptions: u64,
    /// Of these, those of a plan that had changed.
    pub adoptions_changed: u64,
    /// Times that a coordinator's process stopped and continued.
    pub stopped_coordinators: u64,
    /// Jobs with workers in other processes.
    pub with_workers: u64,
    /// Processes of workers.
    pub workers: u64,
    /// Of these, those that crashed.
    pub worker_crashes: u64,
    /// Times that a worker's process stopped and continued.
    pub stopped_workers: u64,
    /// Workers that were lost because they were silent.
    pub silent_workers: u64,
    /// Links that were cut, in one direction or both.
    pub cuts: u64,
    /// Connections that were reset.
    pub resets: u64,
    /// Connections between workers.
    pub connections: u64,
    /// Bytes that they have carried.
    pub exchanged: u64,
}

impl Seen {
    /// Adds the numbers of another run.
    pub fn add(&mut self, other: &Seen) {
        self.turns += other.turns;
        self.checkpoints += other.checkpoints;
        self.incarnations += other.incarnations;
        self.rescaled += other.rescaled;
        self.changes += other.changes;
        self.unchanged += other.unchanged;
        self.changes_given_up += other.changes_given_up;
        self.prepared += other.prepared;
        self.crashes += other.crashes;
        self.failures += other.failures;
        self.fenced += other.fenced;
        self.restarts += other.restarts;
        self.had_ended += other.had_ended;
        self.failed_calls += other.failed_calls;
        self.torn += other.torn;
        self.late_writes += other.late_writes;
        self.repeated_commits += other.repeated_commits;
        self.stops += other.stops;
        self.runs += other.runs;
        self.savepoints += other.savepoints;
        self.inherited_savepoints += other.inherited_savepoints;
        self.begun_with_savepoint += other.begun_with_savepoint;
        self.refused += other.refused;
        self.hung += other.hung;
        self.damaged += other.damaged;
        self.damaged_before += other.damaged_before;
        self.without_checkpoints += other.without_checkpoints;
        self.without_checkpoints_ended += other.without_checkpoints_ended;
        self.past_idle += other.past_idle;
        self.updated += other.updated;
        self.late_rows += other.late_rows;
        self.wall_steps += other.wall_steps;
        self.adoptions += other.adoptions;
        self.adoptions_changed += other.adoptions_changed;
        self.stopped_coordinators += other.stopped_coordinators;
        self.with_workers += other.with_workers;
        self.workers += other.workers;
        self.worker_crashes += other.worker_crashes;
        self.stopped_workers += other.stopped_workers;
        self.silent_workers += other.silent_workers;
        self.cuts += other.cuts;
        self.resets += other.resets;
        self.connections += other.connections;
        self.exchanged += other.exchanged;
    }
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its name: `prefix`, `commit`, `fencing`, `adoption`, `restore`, `give-up`, `savepoint`, `late`,
    /// `error`, `progress`, `panic`, `straight`.
    pub invariant: &'static str,
    /// What was wrong.
    pub message: String,
    /// The turn in which it happened.
    pub turn: u64,
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
        for line in &self.trace[self.trace.len().saturating_sub(TAIL)..] {
            writeln!(f, "{line}")?;
        }
        match &self.violation {
            None => write!(f, "seed {}: {:?}", self.seed, self.seen),
            Some(Violation { invariant, message, turn }) => {
                writeln!(f, "seed {}: {invariant} violated in turn {turn}: {message}", self.seed)?;
                write!(f, "again: ANABRANCH_SEED={}", self.seed)
            }
        }
    }
}

/// Simulates one seed.
#[must_use]
pub fn run(queries: &Queries, seed: u64, options: Options) -> Run {
    let simulate = || world::World::new(queries, seed, options).map(world::World::run);
    let (invariant, message) = match catch_unwind(AssertUnwindSafe(simulate)) {
        Ok(Ok(run)) => return run,
        Ok(Err(error)) => ("error", error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            ("panic", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message").to_owned())
        }
    };
    let violation = Some(Violation { invariant, message, turn: 0 });
    Run { seed, seen: Seen::default(), violation, trace: Vec::new() }
}
