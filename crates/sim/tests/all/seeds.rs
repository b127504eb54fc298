//! Thousands of seeds; each failure names its own. `ANABRANCH_SEED=n` runs one and shows what happens in it.

use std::collections::BTreeSet;

use anabranch_protocol::coordinator::{self, Transition};
use anabranch_protocol::{membership, worker};
use anabranch_sim::{Mutation, Options, Seen, run};

use crate::{TRACED, assert_found, assert_happened, assert_repeated, number, show};

/// Fixed seeds; `make sim` runs others without end.
const SEEDS: u64 = 10_000;

/// Number of seeds that no earlier run had; `ANABRANCH_FRESH_SEED` gives the first.
const FRESH: u64 = 1_000;

fn run_all(seeds: std::ops::Range<u64>) -> Seen {
    println!("seeds {seeds:?}");
    let mut seen = Seen::default();
    for seed in seeds {
        let run = run(seed, Options::default());
        assert!(run.violation.is_none(), "{run}");
        seen.extend(&run.seen);
    }
    println!("{seen}");
    seen
}

/// For `make quick`, which leaves out the tests of more seeds.
#[test]
fn a_hundred_seeds_hold() {
    run_all(0..100);
}

#[test]
fn every_invariant_holds_whatever_goes_wrong() {
    if let Some(seed) = number("ANABRANCH_SEED") {
        return show(&run(seed, TRACED));
    }
    if let Some(first) = number("ANABRANCH_FRESH_SEED") {
        run_all(first..first + FRESH);
    }
    let seen = run_all(0..SEEDS);
    let happened = "checkpoints, aborted checkpoints, incarnations, fenced, worker crashes, coordinator crashes, \
        refused reports, refused commands, open answers, removed entries, fulfilled requests, ended jobs, \
        adoptions, changes, changes given up, leases over, lost workers, drained workers, not placed";
    assert_happened(&seen, SEEDS / 10, happened);
    // For a while a log may have an entry for each start after the older of its checkpoints.
    let written = seen.times("checkpoints") + seen.times("incarnations") + seen.times("ended jobs");
    assert!(written - seen.times("removed entries") < 4 * SEEDS, "logs are kept short: {seen}");
    transitions_are_those_of_the_tables(&seen);
}

/// Ways in a job's life that no seed takes: the simulated store answers in the end, attempts do not run out,
/// no task drops rows, and a worker reports that its tasks have ended only together with their start. The
/// coordinator's own tests take them.
const OTHERWISE_TESTED: [[&str; 4]; 7] = [
    ["coordinator", "life", "cancelling", "failed"],
    ["coordinator", "life", "ending", "failed"],
    ["coordinator", "life", "pausing", "failed"],
    ["coordinator", "life", "restoring", "ending"],
    ["coordinator", "life", "restoring", "finished"],
    ["coordinator", "life", "restoring", "starting"],
    ["coordinator", "life", "starting", "failed"],
];

/// What the machines did in all seeds together is what their tables say: every row was taken, and nothing
/// else.
fn transitions_are_those_of_the_tables(seen: &Seen) {
    let machines = coordinator::MACHINES.iter().filter(|(name, ..)| ["life", "log"].contains(name));
    let mut listed = BTreeSet::new();
    let mut list = |part, machine, table: &[Transition]| {
        listed.extend(table.iter().map(|row| [part, machine, row.state, row.next]));
    };
    machines.for_each(|(name, _, table)| list("coordinator", *name, table));
    worker::MACHINES.iter().for_each(|(name, _, table)| list("worker", *name, table));
    membership::MACHINES.iter().for_each(|(name, _, table)| list("membership", *name, table));
    let unlisted: Vec<_> = seen.transitions.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in the tables: {unlisted:?}");
    let never: Vec<_> = listed.difference(&seen.transitions).copied().collect();
    assert_eq!(never, OTHERWISE_TESTED, "never taken");
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    assert_repeated(&[1, 2, 3], run);
}

#[test]
fn planted_bugs_are_found() {
    let planted = [
        (Mutation::CommitBeforeAllAcknowledged, "commit"),
        (Mutation::LateWriteAccepted, "commit"),
        (Mutation::FreedNumberTaken, "commit"),
        (Mutation::RequestForgotten, "request"),
        (Mutation::GrantsUnordered, "grant"),
        (Mutation::LeaseIgnored, "lease"),
        (Mutation::AdoptionUnreported, "prefix"),
        (Mutation::SwitchLate, "grant"),
    ];
    for (mutation, invariant) in planted {
        assert_found(mutation, &[invariant], 0..SEEDS, run);
    }
}
