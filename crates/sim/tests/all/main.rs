//! Simulated runs of the protocol and of the engine as one program, which links once.

mod engine;
mod seeds;

use anabranch_sim::{Mutation, Options, Run, Seen};

const TRACED: Options = Options { mutation: None, trace: true };

/// The number in an environment variable, if it has one.
fn number(variable: &str) -> Option<u64> {
    let seed = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(seed.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Shows what has happened in a run.
fn show(run: &Run) {
    run.trace.iter().for_each(|line| println!("{line}"));
    assert!(run.violation.is_none(), "{run}");
    println!("{run}");
}

/// A fault that never happened was not tested: each of these must have happened more often than this.
fn assert_happened(seen: &Seen, more_than: u64, what: &str) {
    let missing: Vec<_> = what.split(", ").filter(|what| seen.times(what) <= more_than).collect();
    assert!(missing.is_empty(), "{missing:?} happened at most {more_than} times: {seen}");
}

/// One of these seeds must find the planted bug, as one of these invariants.
fn assert_found(
    mutation: Mutation,
    invariants: &[&str],
    seeds: impl IntoIterator<Item = u64>,
    run: impl Fn(u64, Options) -> Run,
) {
    let options = Options { mutation: Some(mutation), trace: false };
    let found = seeds.into_iter().map(|seed| run(seed, options)).find(|run| run.violation.is_some());
    let run = found.unwrap_or_else(|| panic!("{mutation:?} is not found"));
    println!("{mutation:?}: {run}");
    let invariant = run.violation.as_ref().map_or("none", |violation| violation.invariant);
    assert!(invariants.contains(&invariant), "{mutation:?}: {run}");
}

/// These seeds give the same run each time.
fn assert_repeated(seeds: &[u64], run: impl Fn(u64, Options) -> Run) {
    for seed in seeds {
        let (first, second) = (run(*seed, TRACED), run(*seed, TRACED));
        assert_eq!(first.seen, second.seen, "seed {seed}");
        assert_eq!(first.trace, second.trace, "seed {seed}");
    }
}
