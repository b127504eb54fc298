//! Simulates seed after seed, from the given one on, until one violates an invariant. `make sim` starts it.
//!
//! Each seed of the engine, which takes milliseconds, is followed by many seeds of the coordinator, which
//! take microseconds.

use std::process::ExitCode;

use anabranch_sim::{Options, Seen, engine, run};

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
    let (mut seen, mut engine_seen) = (Seen::default(), engine::Seen::default());
    for (done, seed) in (1..).zip(first..) {
        let result = engine::run(&queries, seed, engine::Options::default());
        if result.violation.is_some() {
            let traced = engine::Options { trace: true, ..engine::Options::default() };
            println!("the engine: {}", engine::run(&queries, seed, traced));
            return ExitCode::FAILURE;
        }
        engine_seen.add(&result.seen);
        let many = seed.saturating_mul(COORDINATOR_SEEDS);
        for seed in many..many.saturating_add(COORDINATOR_SEEDS) {
            let result = run(seed, Options::default());
            if result.violation.is_some() {
                println!("the coordinator: {}", run(seed, Options { trace: true, ..Options::default() }));
                return ExitCode::FAILURE;
            }
            seen.add(&result.seen);
        }
        if done % LINE_EVERY == 0 {
            println!(
                "{done} seeds of the engine: {engine_seen:?}\n{} of the coordinator: {seen:?}",
                done * COORDINATOR_SEEDS
            );
        }
    }
    ExitCode::SUCCESS
}
