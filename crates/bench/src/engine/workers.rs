//! The keyed count over worker processes. The worker is this program itself, with its command `worker`.

use std::path::Path;
use std::time::{Duration, Instant};

use anabranch_dataflow::{CheckpointOptions, Plan};
use anabranch_model::{Error, LatencySummary, Result, TaskMetrics};
use anabranch_server::Engine;
use anabranch_server::cluster::{TOKEN, WorkerOptions, run_worker};
use clap::Args;

use super::pace::Lags;
use super::worker_tables::{KeysTable, engine, sums};
use crate::contestant::{Contestant, RunResult, program};
use crate::folder;

/// Time between two readings of counters. Workers send theirs twice per second.
const LOOK: Duration = Duration::from_millis(20);

/// The command line of a worker, as the engine writes it.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkerArguments {
    #[arg(long)]
    coordinator: String,
    #[arg(long)]
    slots: u32,
    #[arg(long)]
    name: String,
    #[arg(long)]
    once: bool,
}

/// Runs this process as a worker, until its coordinator ends it.
pub(crate) fn worker(arguments: &WorkerArguments) -> Result<()> {
    let missing = || Error::internal("a worker of a benchmark is started by the benchmark only");
    let options = WorkerOptions {
        state: None,
        coordinators: vec![arguments.coordinator.clone()],
        token: std::env::var(TOKEN).map_err(|_| missing())?.into_bytes(),
        authority: None,
        name: arguments.name.clone(),
        slots: arguments.slots,
        labels: Vec::new(),
        listen: None,
        advertise: None,
        once: arguments.once,
        wait: std::time::Duration::ZERO,
    };
    run_worker(&engine(), &options)
}

/// A keyed count with checkpoints, over this number of worker processes or in this process.
#[derive(Clone)]
pub(crate) struct Count {
    engine: Engine,
    plan: Plan,
}

impl Count {
    fn new(table: &KeysTable, results: &Path, workers: Option<u32>, set: &[(&str, &str)]) -> Result<Count> {
        let mut engine = engine();
        workers.into_iter().for_each(|count| engine.set_workers(Some(count)));
        let sql = super::grouping::SQL
            .replace("'connector' = 'bench_keys'", &table.options())
            .replace("'bench_results'", &format!("'bench_sums', 'path' = '{}'", results.display()));
        let plan = super::plan(&engine, &sql, table.readers, set)?;
        Ok(Count { engine, plan })
    }

    /// Runs to the end of the keys. `read` is given each reading of the tasks.
    fn run(&self, mut read: impl FnMut(Vec<TaskMetrics>)) -> Result<()> {
        let folder = folder()?;
        let mut plan = self.plan.clone();
        let checkpoints = CheckpointOptions::new(folder.path().display().to_string());
        plan.options.checkpoints = Some(CheckpointOptions { interval: Duration::from_secs(1), ..checkpoints });
        let job = self.engine.start(&plan)?;
        while !job.wait_timeout(LOOK) {
            read(job.metrics());
        }
        let restarts = job.restarts();
        job.wait()?;
        match restarts.first() {
            Some(failure) => Err(Error::outside(format!("the job restarted: {failure}"))),
            None => Ok(()),
        }
    }
}

/// The keyed count as a contestant, with checkpoints.
pub(crate) fn count_at(name: &str, table: &KeysTable, workers: Option<u32>) -> Result<Contestant> {
    let results = folder()?;
    let count = Count::new(table, results.path(), workers, &[])?;
    Ok(program(name, move || {
        count.run(|_| {})?;
        sums(results.path())
    }))
}

/// The highest rate that the keyed count over worker processes holds for this time, in rows per second: the
/// readers do not fall behind more and more. It is found to a tenth.
pub(crate) fn rate_at(table: &KeysTable, workers: u32, duration: Duration) -> Result<f64> {
    // With start and end this is less than the rate.
    let (results, started) = (folder()?, Instant::now());
    Count::new(table, results.path(), Some(workers), &LATENCY)?.run(|_| {})?;
    let mut rate = sums(results.path())?.events as f64 / started.elapsed().as_secs_f64();
    let (mut held, mut failed) = (None::<f64>, None::<f64>);
    for _ in 0..TRIALS_MAX {
        match holds(table, workers, rate, duration)? {
            true => held = Some(rate),
            false => failed = Some(rate),
        }
        rate = match (held, failed) {
            (Some(held), Some(failed)) if failed < held * RATE_STEP => return Ok(held),
            (Some(held), Some(failed)) => (held * failed).sqrt(),
            (Some(held), None) => held * RATE_FACTOR,
            (None, _) => rate / RATE_FACTOR,
        };
    }
    held.ok_or_else(|| Error::outside(format!("no rate is held, down to {rate:.0} rows per second")))
}

/// Rates that are tried; by how much one differs from the next while all are held or none is; the exactness
/// of the result.
const TRIALS_MAX: u32 = 12;
const RATE_FACTOR: f64 = 1.5;
const RATE_STEP: f64 = 1.1;
/// The lag may grow by so much of the time in which it is observed: a checkpoint may fall into it.
const LAG_SHARE: f64 = 0.02;

/// Whether the lag of the readers does not grow in the second half of the time.
fn holds(table: &KeysTable, workers: u32, rate: f64, duration: Duration) -> Result<bool> {
    let (results, lags) = (folder()?, folder()?);
    let rows = (rate * duration.as_secs_f64()) as u64;
    let table = KeysTable { rows_per_s: rate as u64, rows, slow_ms: 0, lags: lags.path().to_owned(), ..table.clone() };
    Count::new(&table, results.path(), Some(workers), &LATENCY)?.run(|_| {})?;
    let Lags { half_ms, end_ms } = Lags::latest(lags.path())?;
    Ok(end_ms - half_ms <= duration.as_secs_f64() / 2.0 * 1e3 * LAG_SHARE)
}

/// Settings where latency is measured.
const LATENCY: [(&str, &str); 1] = [("buffer-timeout", "0")];

/// The latency from a key's reading to its counting at a worker, from the start on.
pub(crate) fn latency_at(table: &KeysTable, workers: u32) -> Result<LatencySummary> {
    let results = folder()?;
    let count = Count::new(table, results.path(), Some(workers), &LATENCY)?;
    let mut latency = LatencySummary::default();
    count.run(|tasks| {
        let counting = tasks.iter().filter(|task| !task.is_source && task.latency.p99_us > 0);
        latency = counting.map(|task| task.latency).max_by_key(|latency| latency.p99_us).unwrap_or(latency);
    })?;
    let RunResult { events, .. } = sums(results.path())?;
    match events + u64::from(table.readers) >= table.rows {
        true => Ok(latency),
        false => Err(Error::internal(format!("{events} keys were counted of {}", table.rows))),
    }
}
