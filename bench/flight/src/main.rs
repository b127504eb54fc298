//! Arrow Flight, with the batches and the limit program of `anabranch-bench network`: the same measure, so
//! that its rows can be compared with those of that section.
//!
//! `make bench-flight`, or with numbers of rows and of repetitions: `anabranch-bench-flight 10000000 7`.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[allow(dead_code, reason = "shared with the benchmarks of the workspace")]
#[path = "../../../crates/bench/src/contestant.rs"]
mod contestant;
mod flight;
#[allow(dead_code, reason = "shared with the benchmarks of the workspace")]
#[path = "../../../crates/bench/src/measure.rs"]
mod measure;
#[path = "../../../crates/bench/src/limit/network.rs"]
mod network;
mod workload;

use std::process::ExitCode;
use std::sync::Arc;

use anabranch_model::{Error, Result};

use contestant::program;
use flight::Flight;
use measure::measure;
use workload::Columns;

const ROWS: u64 = 10_000_000;
const REPETITIONS: u64 = 7;
const SEED: u64 = 1;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| match arguments.next() {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| {
            Error::user(format!("'{text}' is no number")).remedy("give the number of rows, and that of repetitions")
        }),
    };
    let (rows, repetitions) = (number(ROWS)?, number(REPETITIONS)?);
    let shapes = [
        ("4 columns of numbers", Columns::numbers(rows, SEED)?),
        ("2 columns of numbers and 2 of strings of 20 to 40 bytes", Columns::strings(rows, SEED)?),
    ];
    for (shape, columns) in shapes {
        let columns = Arc::new(columns);
        let (bare, flight) = (Arc::clone(&columns), Flight::start()?);
        let mut programs = [
            program("limit: bare sender and receiver", move || network::pair(&bare)),
            program("peer: Arrow Flight, DoPut", move || flight.put(&columns)),
        ];
        let comparison = measure(&mut programs, u32::try_from(repetitions).unwrap_or(u32::MAX))?;
        println!("## Exchange between workers: {shape}\n");
        println!("| program | CPU-s per million | best | records/s (wall) | CPU / limit |");
        println!("|---------|------------------:|-----:|-----------------:|------------:|");
        for measured in &comparison.measurements {
            println!(
                "| {} | {:.4} | {:.4} | {:.0} | {:.2} |",
                measured.name,
                measured.cpu_s_per_million_median(),
                measured.cpu_s_per_million_min(),
                measured.events_per_s(),
                measured.cpu_ratio_median(&comparison.measurements[0]),
            );
        }
        println!(
            "\nFixed work took {:.2} times as long in the slowest round as in the fastest.\n",
            comparison.machine_spread
        );
    }
    Ok(())
}
