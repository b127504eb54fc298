//! Thousands of seeds of the real engine; each failure names its own. `ANABRANCH_SEED=n` runs one and shows
//! what happens in it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use anabranch_sim::engine::{Mutation, Options, Queries, Run, Seen, UPDATING_FROM, run};

/// Fixed seeds; `make sim` runs others without end.
const SEEDS: u64 = 600;
/// Fixed seeds of results that are updated.
const UPDATING_SEEDS: u64 = 300;
/// Number of seeds that no earlier run had; `ANABRANCH_FRESH_SEED` gives the first.
const FRESH: u64 = 200;
/// A planted bug is found within this number of seeds.
const PLANTED_SEEDS: u64 = 600;

fn number(variable: &str) -> Option<u64> {
    let seed = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(seed.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn queries() -> Queries {
    Queries::plan().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs seeds on all processors, each on one thread. The first that fails is run again, to show what happens
/// in it.
fn run_all(queries: &Queries, seeds: std::ops::Range<u64>, step: u64) -> Seen {
    println!("seeds {} to {}, each {step}.", seeds.start, seeds.end - 1);
    let (next, failed) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let work = || {
        let mut seen = Seen::default();
        loop {
            let seed = next.fetch_add(step, Relaxed);
            if seed >= seeds.end || failed.load(Relaxed) {
                return seen;
            }
            let result = run(queries, seed, Options::default());
            if result.violation.is_some() {
                failed.store(true, Relaxed);
                panic!("{}", run(queries, seed, Options { trace: true, ..Options::default() }));
            }
            seen.add(&result.seen);
        }
    };
    let mut seen = Seen::default();
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let named = |number| thread::Builder::new().name(format!("seeds {number}")).spawn_scoped(scope, work);
        let threads: Vec<_> = (0..threads).map(|number| named(number).expect("a thread")).collect();
        for thread in threads {
            seen.add(&thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    println!("{seen:?}");
    seen
}

/// For `make quick`, which leaves out the tests of more seeds.
#[test]
fn a_hundred_seeds_hold() {
    let queries = queries();
    run_all(&queries, 0..50, 1);
    run_all(&queries, UPDATING_FROM..UPDATING_FROM + 100, 2);
}

#[test]
fn every_invariant_holds_whatever_goes_wrong() {
    let queries = queries();
    if let Some(seed) = number("ANABRANCH_SEED") {
        println!("seed {seed}");
        let run = run(&queries, seed, Options { trace: true, ..Options::default() });
        run.trace.iter().for_each(|line| println!("{line}"));
        assert!(run.violation.is_none(), "{run}");
        println!("{run}");
        return;
    }
    if let Some(first) = number("ANABRANCH_FRESH_SEED") {
        run_all(&queries, first..first + FRESH, 1);
    }
    let seen = run_all(&queries, 0..SEEDS, 1);
    // A fault that never happened was not tested.
    let often = [
        seen.checkpoints,
        seen.incarnations,
        seen.rescaled,
        seen.crashes,
        seen.failures,
        seen.failed_calls,
        seen.repeated_commits,
        seen.runs,
        seen.savepoints,
        seen.wall_steps,
        seen.with_workers,
        seen.workers,
        seen.worker_crashes,
        seen.cuts,
        seen.resets,
        seen.connections,
    ];
    assert!(often.iter().all(|times| *times > SEEDS / 5), "{seen:?}");
    let now_and_then = [
        seen.changes,
        seen.changes_given_up,
        seen.prepared,
        seen.fenced,
        seen.restarts,
        seen.stops,
        seen.torn,
        seen.late_writes,
        seen.had_ended,
        seen.inherited_savepoints,
        seen.begun_with_savepoint,
        seen.refused,
        seen.hung,
        seen.damaged,
        seen.without_checkpoints,
        seen.without_checkpoints_ended,
        seen.past_idle,
        seen.late_rows,
        seen.stopped_workers,
        seen.silent_workers,
        seen.adoptions,
        seen.stopped_coordinators,
    ];
    assert!(now_and_then.iter().all(|times| *times > SEEDS / 100) && seen.damaged_before > 0, "{seen:?}");
    assert!(seen.adoptions_changed > 0, "{seen:?}");
}

#[test]
fn updated_results_are_those_of_tables_that_end_where_a_checkpoint_is() {
    let seen = run_all(&queries(), UPDATING_FROM..UPDATING_FROM + 2 * UPDATING_SEEDS, 2);
    let often = [seen.checkpoints, seen.rescaled, seen.changes, seen.restarts, seen.crashes, seen.begun_with_savepoint];
    assert!(often.into_iter().chain([seen.runs, seen.updated]).all(|count| count > UPDATING_SEEDS / 20), "{seen:?}");
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    let queries = queries();
    for seed in [1, 2, 3, UPDATING_FROM, UPDATING_FROM + 2] {
        let options = Options { trace: true, ..Options::default() };
        let (first, second) = (run(&queries, seed, options), run(&queries, seed, options));
        assert_eq!(first.seen, second.seen, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

/// Planted bugs that few seeds find, and one of these seeds, which is tried first.
const RARELY_FOUND: [(Mutation, u64); 4] = [
    (Mutation::LateWriteAccepted, 26),
    (Mutation::RunLost, 24),
    (Mutation::HandedOverTooSoon, 61),
    (Mutation::AdoptionUnreported, 371),
];

/// A seed that finds a planted bug.
fn found(queries: &Queries, mutation: Mutation) -> Run {
    let options = Options { mutation: Some(mutation), trace: false };
    let seed = |number| if mutation == Mutation::TakenBackForgotten { UPDATING_FROM + 2 * number } else { number };
    let first = RARELY_FOUND.iter().find(|(rare, _)| *rare == mutation).map(|(_, seed)| *seed);
    let runs = first.into_iter().chain(0..PLANTED_SEEDS).map(|number| run(queries, seed(number), options));
    runs.into_iter().find(|run| run.violation.is_some()).unwrap_or_else(|| panic!("{mutation:?} is not found"))
}

#[test]
fn planted_bugs_are_found() {
    let queries = queries();
    let planted = [
        (Mutation::CommitBeforeAllAcknowledged, &["commit", "prefix"][..]),
        (Mutation::LateWriteAccepted, &["commit"]),
        (Mutation::MarkerOvertakes, &["prefix"]),
        (Mutation::PositionOneBatchLate, &["prefix"]),
        (Mutation::PreparedForgotten, &["restore"]),
        (Mutation::DeltaLost, &["prefix"]),
        (Mutation::DeltaTwice, &["prefix"]),
        (Mutation::RunLost, &["prefix"]),
        (Mutation::TakenBackForgotten, &["prefix"]),
        (Mutation::HandedOverTooSoon, &["give-up"]),
        (Mutation::NewerByWallClock, &["prefix"]),
        (Mutation::CreditTwice, &["exchange", "bound"]),
        (Mutation::FrameTwice, &["prefix", "exchange"]),
        (Mutation::FrameOvertaken, &["prefix", "progress", "error"]),
        (Mutation::OlderOrderTaken, &["prefix", "progress"]),
        (Mutation::OlderReportTaken, &["prefix", "commit"]),
        (Mutation::SummaryLost, &["progress"]),
        (Mutation::ClaimedTwice, &["error"]),
        (Mutation::AdoptionUnreported, &["adoption", "prefix", "commit", "error"]),
        (Mutation::StateBeforeLastRows, &["prefix"]),
        (Mutation::KeyGroupsTwice, &["prefix", "error"]),
        (Mutation::ChannelLeft, &["exchange"]),
        (Mutation::OlderTermTaken, &["fencing", "prefix", "adoption", "progress"]),
    ];
    for (mutation, invariants) in planted {
        let run = found(&queries, mutation);
        println!("{mutation:?}: {run}");
        let invariant = run.violation.as_ref().map_or("none", |violation| violation.invariant);
        assert!(invariants.contains(&invariant), "{mutation:?}: {run}");
    }
}
