//! The keyed count over worker processes. The worker is this program itself, with its command `worker`.

use std::path::Path;
use std::time::{Duration, Instant};

use anabranch_dataflow::{CheckpointOptions, Plan};
use anabranch_model::{Error, LatencySummary, Result, TaskMetrics};
use anabranch_server::cluster::{TOKEN, WorkerOptions, run_worker};
use anabranch_server::{Engine, Settings};
use clap::Args;

use super::worker_tables::{KeysTable, engine, sums};
use crate::contestant::{Contestant, RunResult, program};

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
        workers.into_iter().for_each(|count| engine.set_workers(count));
        let sql = super::grouping::SQL
            .replace("'connector' = 'bench_keys'", &table.options())
            .replace("'bench_results'", &format!("'bench_sums', 'path' = '{}'", results.display()));
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let settings = Settings { parallelism: Some(table.readers), set, ..Settings::default() };
        let plan = engine.plan(&sql, &settings)?.plan;
        let plan = plan.ok_or_else(|| Error::internal("the script of a benchmark inserts nothing"))?;
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

    fn rows_read(&self, tasks: &[TaskMetrics]) -> u64 {
        tasks.iter().filter(|task| task.is_source).map(|task| task.rows_in).sum()
    }
}

fn folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|error| Error::outside(error.to_string()))
}

/// The keyed count as a contestant, with checkpoints.
pub(crate) fn count_at(name: &str, table: KeysTable, workers: Option<u32>) -> Result<Box<dyn Contestant>> {
    let results = folder()?;
    let count = Count::new(&table, results.path(), workers, &[])?;
    Ok(program(name, move || {
        count.run(|_| {})?;
        sums(results.path())
    }))
}

/// The rate that the keyed count reaches over worker processes, in rows per second, without their start and end.
pub(crate) fn rate_at(table: KeysTable, workers: u32) -> Result<f64> {
    let results = folder()?;
    let count = Count::new(&table, results.path(), Some(workers), &LATENCY)?;
    let mut readings: Vec<(Instant, u64)> = Vec::new();
    let started = Instant::now();
    count.run(|tasks| {
        let rows = count.rows_read(&tasks);
        if rows > readings.last().map_or(0, |(_, rows)| *rows) {
            readings.push((Instant::now(), rows));
        }
    })?;
    let elapsed = started.elapsed();
    let RunResult { events, .. } = sums(results.path())?;
    let between = readings.first().zip(readings.last()).filter(|(first, last)| last.0 - first.0 > elapsed / 4);
    Ok(match between {
        Some((first, last)) => (last.1 - first.1) as f64 / (last.0 - first.0).as_secs_f64(),
        None => events as f64 / elapsed.as_secs_f64(),
    })
}

/// Settings where latency is measured.
const LATENCY: [(&str, &str); 1] = [("buffer-timeout", "0")];

/// The latency from a key's reading to its counting at a worker, from the start on.
pub(crate) fn latency_at(table: KeysTable, workers: u32) -> Result<LatencySummary> {
    let results = folder()?;
    let count = Count::new(&table, results.path(), Some(workers), &LATENCY)?;
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
