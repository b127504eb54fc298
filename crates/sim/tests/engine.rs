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
    let queries = queries();
    if let Some(seed) = one_seed() {
        println!("seed {seed}");
        let run = run(&queries, seed, Options { trace: true, ..Options::default() });
        run.trace.iter().for_each(|line| println!("{line}"));
        assert!(run.violation.is_none(), "{run}");
        println!("{run}");
        return;
    }
    println!("seeds 0 to {}", SEEDS - 1);
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let result = run(&queries, seed, Options::default());
        if result.violation.is_some() {
            panic!("{}", run(&queries, seed, Options { trace: true, ..Options::default() }));
        }
        seen.add(&result.seen);
    }
    println!("{seen:?}");
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
        (Mutation::LateWriteAccepted, &["commit", "fencing"]),
        (Mutation::Runtime(Fault::MarkerOvertakes), &["prefix"]),
        (Mutation::PositionOneBatchLate, &["prefix"]),
        (Mutation::PreparedForgotten, &["restore"]),
        (Mutation::Runtime(Fault::DeltaLost), &["prefix"]),
        (Mutation::Runtime(Fault::DeltaTwice), &["prefix"]),
    ];
    for (mutation, invariants) in planted {
        let run = found(&queries, mutation);
        println!("{mutation:?}: {run}");
        let invariant = run.violation.as_ref().map_or("none", |v| v.invariant);
        assert!(invariants.contains(&invariant), "{mutation:?}: {run}");
    }
}
