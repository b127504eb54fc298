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

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use query::{Queries, UPDATING_FROM};

use crate::{Options, Run, Violation};

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
    let violation = Some(Violation { invariant, message, when: "at an unknown time".into() });
    Run { seed, violation, ..Run::default() }
}
