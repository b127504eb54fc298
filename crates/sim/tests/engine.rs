//! Hundreds of seeds of the real engine; each failure names its own. `ANABRANCH_SEED=n` runs one and shows what happens in it.

use anabranch_runtime::stepped::Fault;
use anabranch_sim::engine::{Mutation, Options, Queries, Run, Seen, run};

const SEEDS: u64 = 400;

fn one_seed() -> Option<u64> {
    let seed = std::env::var("ANABRANCH_SEED").ok()?;
    Some(seed.parse().expect("ANABRANCH_SEED is a number"))
}

fn queries() -> Queries {
    Queries::plan().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_invariant_holds_whatever_goes_wrong() {
    let traced = Options { trace: true, ..Options::default() };
    if let Some(seed) = one_seed() {
        println!("seed {seed}");
        let run = run(&queries(), seed, traced);
        run.trace.iter().for_each(|line| println!("{line}"));
        assert!(run.violation.is_none(), "{run}");
        println!("{run}");
        return;
    }
    println!("seeds 0 to {}", SEEDS - 1);
    let queries = queries();
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let result = run(&queries, seed, Options::default());
        assert!(result.violation.is_none(), "{}", run(&queries, seed, traced));
        seen.add(&result.seen);
    }
    println!("{seen:?}");
    // What never happened was not tested.
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
    ];
    assert!(often.iter().all(|times| *times > SEEDS), "{seen:?}");
    let now_and_then = [
        seen.fenced,
        seen.restarts,
        seen.stops,
        seen.torn,
        seen.late_writes,
        seen.had_ended,
        seen.inherited_savepoints,
    ];
    assert!(now_and_then.iter().all(|times| *times > SEEDS / 100), "{seen:?}");
}

#[test]
fn a_seed_gives_the_same_run_each_time() {
    let queries = queries();
    for seed in [1, 2, 3] {
        let options = Options { trace: true, ..Options::default() };
        let (first, second) = (run(&queries, seed, options), run(&queries, seed, options));
        assert_eq!(first.seen, second.seen, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}

/// The first seed that finds a planted bug.
fn found(queries: &Queries, mutation: Mutation) -> Run {
    let options = Options { mutation: Some(mutation), trace: false };
    let runs = (0..SEEDS).map(|seed| run(queries, seed, options));
    runs.into_iter().find(|run| run.violation.is_some()).unwrap_or_else(|| panic!("{mutation:?} is not found"))
}

#[test]
fn planted_bugs_are_found() {
    let queries = queries();
    let planted = [
        (Mutation::Runtime(Fault::CommitBeforeAllAcknowledged), &["commit", "prefix"][..]),
        (Mutation::LateWriteAccepted, &["commit"]),
        (Mutation::Runtime(Fault::MarkerOvertakes), &["prefix"]),
        (Mutation::PositionOneBatchLate, &["prefix"]),
        (Mutation::PreparedForgotten, &["restore"]),
        (Mutation::Runtime(Fault::DeltaLost), &["prefix"]),
        (Mutation::Runtime(Fault::DeltaTwice), &["prefix"]),
        (Mutation::Runtime(Fault::RunLost), &["prefix"]),
    ];
    for (mutation, invariants) in planted {
        let run = found(&queries, mutation);
        println!("{mutation:?}: {run}");
        let invariant = run.violation.as_ref().map_or("none", |violation| violation.invariant);
        assert!(invariants.contains(&invariant), "{mutation:?}: {run}");
    }
}
