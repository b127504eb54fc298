//! Compares workloads with the limits of the machine (hand-written programs) and with peers. All programs of
//! a workload must give the same answer, which every run checks. The result is a table of processor time per
//! million records, and its ratio to the limit.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod answer;
mod arrivals;
#[path = "../../connectors/tests/support/broker.rs"]
mod broker;
mod comparison;
mod contestant;
mod coordination;
mod engine;
mod limit;
mod measure;
mod peer;
mod pingpong;
mod processes;
mod report;
#[path = "../../connectors/tests/support/runner.rs"]
mod runner;
mod trace;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use anabranch_model::{Error, Result};
use clap::{Parser, Subcommand};

use comparison::Scale;
use report::{Report, Section};

#[derive(Debug, Parser)]
#[command(name = "anabranch-bench", about = "Measures workloads against limit programs and peers.")]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Smaller workloads and fewer runs: a quick look, not a result.
    #[arg(long, global = true)]
    quick: bool,
    /// Measured runs of each program.
    #[arg(long, global = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Seed of the workloads.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Also writes the report to this file, a section as soon as it is measured.
    #[arg(long, global = true, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// All of the following.
    All,
    /// JSON events: filter, join, windowed count.
    MainJob,
    /// The main job over columns.
    Typed,
    /// Records of many shapes, JSON and CSV: count per page, kind and window.
    Shapes,
    /// Reading from a Kafka broker, which is started for it.
    Kafka,
    /// Lines that match a pattern.
    Grep,
    /// Count per key, with few and with many keys.
    Grouping,
    /// The exchange between workers, over a local socket.
    Network,
    /// Grouping at half of its rate, and the noise floor of the machine.
    Latency,
    /// Count per key over worker processes, compared with one process.
    Workers,
    /// Grouping over worker processes at half of its rate.
    WorkerLatency,
    /// The coordination of a job with many workers, simulated.
    Coordination,
    /// Processes of a cluster are killed while its job writes to Kafka.
    Kills,
    /// A running job is changed, beside a stop and a start.
    Changes,
    /// A running job over worker processes is changed: its state moves between them.
    Moves,
    /// Many small jobs of a cluster: how soon they run, and what they cost.
    Jobs,
    /// Workloads with and without checkpoints.
    Checkpoints,
    /// State on disk, checkpoints of much state, and recovery.
    State,
    /// State on disk of groups with many values, all of which every batch touches.
    ManyValues,
    /// From SQL text to a running job.
    Startup,
    /// Resident memory: of the main job, and of state that is larger.
    Memory,
    /// A worker's process of another run of this program.
    #[command(hide = true)]
    Worker(engine::WorkerArguments),
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if let Command::Worker(arguments) = &args.command {
        return engine::worker(arguments);
    }
    let mut scale = if args.quick { Scale::quick(args.seed) } else { Scale::full(args.seed) };
    scale.repetitions = args.repetitions.unwrap_or(scale.repetitions);
    let mut report = Report::begin(args.markdown.as_deref())?;
    sections(&args.command, scale, &mut |section| report.add(&section))
}

/// A folder that is removed with its value.
fn folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|error| Error::outside(error.to_string()))
}

/// Measures what is wanted, and hands each section over as soon as it is complete.
fn sections(command: &Command, scale: Scale, add: &mut dyn FnMut(Section) -> Result<()>) -> Result<()> {
    let wanted = |one: Command| {
        matches!(command, Command::All) || std::mem::discriminant(command) == std::mem::discriminant(&one)
    };
    if wanted(Command::Memory) {
        // First, before other work has filled the process's memory.
        add(comparison::memory(scale)?)?;
        add(comparison::state::memory(scale)?)?;
    }
    if wanted(Command::MainJob) {
        add(comparison::main_job(scale)?)?;
    }
    if wanted(Command::Typed) {
        add(comparison::typed(scale)?)?;
    }
    if wanted(Command::Shapes) {
        comparison::shapes::shapes(scale).try_for_each(|section| add(section?))?;
    }
    if wanted(Command::Kafka) {
        comparison::kafka::kafka(scale)?.into_iter().try_for_each(&mut *add)?;
    }
    if wanted(Command::Grep) {
        add(comparison::grep(scale)?)?;
    }
    if wanted(Command::Grouping) {
        comparison::grouping(scale)?.into_iter().try_for_each(&mut *add)?;
    }
    if wanted(Command::Network) {
        comparison::network::network(scale)?.into_iter().try_for_each(&mut *add)?;
    }
    if wanted(Command::Latency) {
        add(comparison::latency(scale)?)?;
        add(comparison::grouping_latency(scale)?)?;
    }
    if wanted(Command::Workers) {
        comparison::workers::workers(scale)?.into_iter().try_for_each(&mut *add)?;
    }
    if wanted(Command::WorkerLatency) {
        add(comparison::workers::latency(scale)?)?;
    }
    if wanted(Command::Coordination) {
        add(comparison::coordination::coordination(scale)?)?;
    }
    if wanted(Command::Kills) {
        add(comparison::kills::kills(scale)?)?;
    }
    if wanted(Command::Changes) {
        comparison::changes::changes(scale).try_for_each(|section| add(section?))?;
    }
    if wanted(Command::Moves) {
        comparison::moves::moves(scale).try_for_each(|section| add(section?))?;
        add(comparison::moves::memory(scale)?)?;
    }
    if wanted(Command::Jobs) {
        add(comparison::cluster::jobs(scale)?)?;
    }
    if wanted(Command::Checkpoints) {
        comparison::checkpoints(scale)?.into_iter().try_for_each(&mut *add)?;
    }
    if wanted(Command::State) {
        comparison::state::state(scale, add)?;
    }
    if wanted(Command::ManyValues) {
        add(comparison::state::many_values(scale)?)?;
    }
    if wanted(Command::Startup) {
        comparison::starts(scale, add)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
