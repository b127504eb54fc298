//! Simulates seed after seed, from the one given on, until one breaks an invariant. `make sim` starts it.

use std::process::ExitCode;

use anabranch_sim::{Options, Seen, run};

/// Seeds between two lines of progress.
const LINE_EVERY: u64 = 10_000;

fn main() -> ExitCode {
    let first = std::env::args().nth(1).map_or(Ok(0), |seed| seed.parse::<u64>());
    let Ok(first) = first else {
        eprintln!("usage: anabranch-sim [SEED]\nSEED is a number, from which on seeds are simulated");
        return ExitCode::from(2);
    };
    println!("simulating from seed {first} on; stop with Ctrl-C");
    let mut seen = Seen::default();
    for seed in first.. {
        let result = run(seed, Options::default());
        if result.violation.is_some() {
            println!("{}", run(seed, Options { trace: true, ..Options::default() }));
            return ExitCode::FAILURE;
        }
        seen.add(&result.seen);
        if (seed - first + 1).is_multiple_of(LINE_EVERY) {
            println!("{} seeds: {seen:?}", seed - first + 1);
        }
    }
    ExitCode::SUCCESS
}
