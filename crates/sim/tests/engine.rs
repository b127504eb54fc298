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
        eprintln!("{seed} {} turns", result.seen.turns);
    }
    println!("{seen:?}");
}
