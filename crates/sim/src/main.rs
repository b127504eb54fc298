//! Simulates seed after seed, from the given one on, until one violates an invariant. `make sim` starts it.
//!
//! Each seed of the engine, which takes milliseconds, is followed by many seeds of the coordinator, which
//! take microseconds.

use std::process::ExitCode;

use anabranch_sim::{Options, Run, Seen, engine, run};

/// Seeds of the coordinator for one of the engine.
const COORDINATOR_SEEDS: u64 = 20;
/// Seeds of the engine between two lines of progress.
const LINE_EVERY: u64 = 500;

fn main() -> ExitCode {
    let first = std::env::args().nth(1).map_or(Ok(0), |seed| seed.parse::<u64>());
    let Ok(first) = first else {
        eprintln!("usage: anabranch-sim [SEED]\nSEED is a number, from which on seeds are simulated");
        return ExitCode::from(2);
    };
    let queries = match engine::Queries::plan() {
        Ok(queries) => queries,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("simulating from seed {first} on; stop with Ctrl-C");
    let (mut seen, mut engine_seen) = (Seen::default(), Seen::default());
    for (done, seed) in (1..).zip(first..) {
        if !simulate("the engine", seed, &mut engine_seen, |seed, options| engine::run(&queries, seed, options)) {
            return ExitCode::FAILURE;
        }
        let many = seed.saturating_mul(COORDINATOR_SEEDS);
        if !(many..many.saturating_add(COORDINATOR_SEEDS)).all(|seed| simulate("the coordinator", seed, &mut seen, run))
        {
            return ExitCode::FAILURE;
        }
        if done % LINE_EVERY == 0 {
            println!("{done} seeds of the engine: {engine_seen}");
            println!("{} of the coordinator: {seen}", done * COORDINATOR_SEEDS);
        }
    }
    ExitCode::SUCCESS
}

/// Simulates a seed, and shows what happens in it if it violates an invariant. Returns whether it does not.
fn simulate(what: &str, seed: u64, seen: &mut Seen, run: impl Fn(u64, Options) -> Run) -> bool {
    let result = run(seed, Options::default());
    seen.extend(&result.seen);
    if result.violation.is_some() {
        println!("{what}: {}", run(seed, Options { trace: true, ..Options::default() }));
    }
    result.violation.is_none()
}
