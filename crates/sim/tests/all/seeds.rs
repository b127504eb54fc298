//! Thousands of seeds; each failure names its own. `ANABRANCH_SEED=n` runs one and shows what happens in it.

use std::collections::BTreeSet;

use anabranch_protocol::coordinator::MACHINES;
use anabranch_protocol::{membership, worker};
use anabranch_sim::{Mutation, Options, Run, Seen, run};

/// Fixed seeds; `make sim` runs others without end.
const SEEDS: u64 = 10_000;

/// Number of seeds that no earlier run had; `ANABRANCH_FRESH_SEED` gives the first.
const FRESH: u64 = 1_000;

fn number(variable: &str) -> Option<u64> {
    let seed = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(seed.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// For `make quick`, which leaves out the tests of more seeds.
#[test]
fn a_hundred_seeds_hold() {
    for run in (0..100).map(|seed| run(seed, Options::default())) {
        assert!(run.violation.is_none(), "{run}");
    }
}

#[test]
fn every_invariant_holds_whatever_goes_wrong() {
    if let Some(seed) = number("ANABRANCH_SEED") {
        let run = run(seed, Options { trace: true, ..Options::default() });
        assert!(run.violation.is_none(), "{run}");
        println!("{run}");
        return;
    }
    let fresh = number("ANABRANCH_FRESH_SEED").map_or(0..0, |first| first..first + FRESH);
    println!("fresh seeds {fresh:?}");
    for seed in fresh {
        let run = run(seed, Options::default());
        assert!(run.violation.is_none(), "{run}");
    }
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let run = run(seed, Options::default());
        assert!(run.violation.is_none(), "{run}");
        seen.add(&run.seen);
    }
    println!("{seen:?}");
    // A fault that never happened was not tested.
    let happened = [
        seen.checkpoints,
        seen.aborted,
        seen.incarnations,
        seen.fenced,
        seen.worker_crashes,
        seen.coordinator_crashes,
        seen.refused_reports,
        seen.refused_commands,
        seen.open_answers,
        seen.torn,
        seen.repeated_commits,
        seen.removed_entries,
        seen.fulfilled_requests,
        seen.ended_jobs,
        seen.adoptions,
        seen.changes,
        seen.changes_given_up,
        seen.leases_over,
        seen.lost_workers,
        seen.drained_workers,
        seen.not_placed,
    ];
    // For a while a log may have an entry for each start after the older of its checkpoints.
    let left = seen.checkpoints + seen.incarnations + seen.ended_jobs - seen.removed_entries;
    assert!(left < 4 * SEEDS, "logs are kept short: {left} entries are left of {seen:?}");
    assert!(happened.iter().all(|times| *times > SEEDS / 10), "{seen:?}");
    transitions_are_those_of_the_tables(&seen);
}

/// Ways in a job's life that no seed takes: the simulated store answers in the end, attempts do not run out,
/// no task drops rows, and a worker reports that its tasks have ended only together with their start. The
/// coordinator's own tests take them.
const OTHERWISE_TESTED: [(&str, &str, &str); 7] = [
    ("life", "cancelling", "failed"),
    ("life", "ending", "failed"),
    ("life", "pausing", "failed"),
    ("life", "restoring", "ending"),
    ("life", "restoring", "finished"),
    ("life", "restoring", "starting"),
    ("life", "starting", "failed"),
];

/// What the machines did in all seeds together is what their tables say: every row was taken, and nothing
/// else.
fn transitions_are_those_of_the_tables(seen: &Seen) {
    let machines = MACHINES.iter().filter(|(name, ..)| ["life", "log"].contains(name));
    let rows = machines.flat_map(|(name, _, table)| table.iter().map(|row| (*name, row.state, row.next)));
    let listed: BTreeSet<_> = rows.collect();
    let unlisted: Vec<_> = seen.transitions.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in the tables: {unlisted:?}");
    let never: Vec<_> = listed.difference(&seen.transitions).copied().collect();
    assert_eq!(never, OTHERWISE_TESTED, "never taken");
    let tables = [(worker::MACHINES, &seen.worker_transitions), (membership::MACHINES, &seen.member_transitions)];
    for (machines, taken) in tables {
        let rows = machines.iter().flat_map(|(name, _, table)| table.iter().map(|row| (*name, row.state, row.next)));
        assert_eq!(rows.collect::<BTreeSet<_>>(), *taken);
    }
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    for seed in [1, 2, 3] {
        let options = Options { trace: true, ..Options::default() };
        let (first, second) = (run(seed, options), run(seed, options));
        assert_eq!(first.seen, second.seen);
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

/// The first seed that finds a planted bug.
fn found(mutation: Mutation) -> Run {
    let options = Options { mutation: Some(mutation), trace: false };
    let runs = (0..SEEDS).map(|seed| run(seed, options));
    runs.into_iter().find(|run| run.violation.is_some()).unwrap_or_else(|| panic!("{mutation:?} is not found"))
}

#[test]
fn planted_bugs_are_found() {
    let planted = [
        (Mutation::CommitBeforeAllAcknowledged, "commit"),
        (Mutation::LateWriteAccepted, "commit"),
        (Mutation::MarkerOvertakes, "prefix"),
        (Mutation::PositionOneBatchLate, "prefix"),
        (Mutation::CommittedTwice, "prefix"),
        (Mutation::FreedNumberTaken, "commit"),
        (Mutation::RequestForgotten, "request"),
        (Mutation::GrantsUnordered, "grant"),
        (Mutation::LeaseIgnored, "lease"),
        (Mutation::AdoptionUnreported, "prefix"),
        (Mutation::SwitchLate, "grant"),
    ];
    for (mutation, invariant) in planted {
        let run = found(mutation);
        println!("{mutation:?}: {run}");
        assert_eq!(run.violation.as_ref().map(|v| v.invariant), Some(invariant), "{mutation:?}: {run}");
    }
}
