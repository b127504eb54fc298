//! Thousands of seeds of the real engine; each failure names its own. `ANABRANCH_SEED=n` runs one and shows
//! what happens in it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use anabranch_sim::engine::{Queries, UPDATING_FROM, run};
use anabranch_sim::{Mutation, Options, Seen};

use crate::{TRACED, assert_found, assert_happened, assert_repeated, number, show};

/// Fixed seeds; `make sim` runs others without end.
const SEEDS: u64 = 600;
/// Fixed seeds of results that are updated.
const UPDATING_SEEDS: u64 = 300;
/// Number of seeds that no earlier run had; `ANABRANCH_FRESH_SEED` gives the first.
const FRESH: u64 = 200;
/// A planted bug is found within this number of seeds.
const PLANTED_SEEDS: u64 = 600;

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
                panic!("{}", run(queries, seed, TRACED));
            }
            seen.extend(&result.seen);
        }
    };
    let mut seen = Seen::default();
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let named = |number| thread::Builder::new().name(format!("seeds {number}")).spawn_scoped(scope, work);
        let threads: Vec<_> = (0..threads).map(|number| named(number).expect("a thread")).collect();
        for thread in threads {
            seen.extend(&thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    println!("{seen}");
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
        return show(&run(&queries, seed, TRACED));
    }
    if let Some(first) = number("ANABRANCH_FRESH_SEED") {
        run_all(&queries, first..first + FRESH, 1);
    }
    let seen = run_all(&queries, 0..SEEDS, 1);
    let often = "checkpoints, incarnations, starts at another parallelism, crashes, failures, failed calls, \
        repeated commits, runs of state on disk, savepoints, steps of the wall clock, jobs with workers, \
        workers, worker crashes, cut links, reset connections, connections";
    assert_happened(&seen, SEEDS / 5, often);
    let now_and_then = "changes, changes given up, changes loaded ahead, fenced, restarts, stops, torn objects, \
        late writes, starts after the end, inherited savepoints, starts from a savepoint, refused objects, \
        steps not done by a hung task, damaged objects, jobs without checkpoints, ends without checkpoints, \
        results past an idle partition, late rows, suspended workers, silent workers, adoptions, \
        suspended coordinators";
    assert_happened(&seen, SEEDS / 100, now_and_then);
    assert_happened(&seen, 0, "damaged entries before the newest, adoptions of a changed plan");
}

#[test]
fn updated_results_are_those_of_tables_that_end_where_a_checkpoint_is() {
    let seen = run_all(&queries(), UPDATING_FROM..UPDATING_FROM + 2 * UPDATING_SEEDS, 2);
    let often = "checkpoints, starts at another parallelism, changes, restarts, crashes, starts from a savepoint, \
        runs of state on disk, updated results";
    assert_happened(&seen, UPDATING_SEEDS / 20, often);
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    let queries = queries();
    assert_repeated(&[1, 2, 3, UPDATING_FROM, UPDATING_FROM + 2], |seed, options| run(&queries, seed, options));
}

/// Planted bugs that few seeds find, and one of these seeds, which is tried first.
const RARELY_FOUND: [(Mutation, u64); 4] = [
    (Mutation::LateWriteAccepted, 26),
    (Mutation::RunLost, 24),
    (Mutation::HandedOverTooSoon, 61),
    (Mutation::AdoptionUnreported, 464),
];

#[test]
fn planted_bugs_are_found() {
    let queries = queries();
    let planted = [
        (Mutation::CommitBeforeAllAcknowledged, &["commit", "prefix"][..]),
        (Mutation::LateWriteAccepted, &["commit"]),
        (Mutation::MarkerOvertakes, &["prefix"]),
        (Mutation::PositionOneBatchLate, &["prefix"]),
        (Mutation::PreparedForgotten, &["restore"]),
        (Mutation::CommittedTwice, &["prefix"]),
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
        let seed = |number| if mutation == Mutation::TakenBackForgotten { UPDATING_FROM + 2 * number } else { number };
        let first = RARELY_FOUND.iter().find(|(rare, _)| *rare == mutation).map(|(_, seed)| *seed);
        let seeds = first.into_iter().chain(0..PLANTED_SEEDS).map(seed);
        assert_found(mutation, invariants, seeds, |seed, options| run(&queries, seed, options));
    }
}
