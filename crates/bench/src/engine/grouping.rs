//! The keyed count as a user writes it, over a bounded table; and over a table with a steady rate, for
//! latency.

use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::MemorySource;
use anabranch_model::Result;
use anabranch_server::{Job, LatencySummary};
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use super::pace::PacedSource;
use super::{Query, Table, column};
use crate::answer::Answer;
use crate::contestant::{Contestant, RunResult, program};
use crate::workload::Keys;

pub(super) const SQL: &str = "
CREATE TABLE events (id BIGINT) WITH ('connector' = 'bench_keys');
CREATE TABLE results (id BIGINT, occurrences BIGINT) WITH ('connector' = 'bench_results');
INSERT INTO results SELECT id, COUNT(*) AS occurrences FROM events GROUP BY id;";

/// Count per key over the whole workload.
pub(crate) fn grouping(keys: &Arc<Keys>, parallelism: u32) -> Result<Contestant> {
    grouping_as(format!("engine: SQL, parallelism {parallelism}"), keys, parallelism, &[])
}

/// The same with options of the job.
pub(crate) fn grouping_as(
    name: impl Into<String>,
    keys: &Arc<Keys>,
    parallelism: u32,
    set: &[(&str, &str)],
) -> Result<Contestant> {
    let source = MemorySource::batches(batches(keys)?).partitions(parallelism);
    let tables: Vec<Table> = vec![("bench_keys", Arc::new(source))];
    let query = Query::new(SQL, tables.clone(), parallelism, set)?;
    Ok(program(name, move || {
        let (read, rows) = query.run(tables.clone())?;
        let mut answer = Answer::default();
        for batch in &rows {
            add_counts(batch, &mut answer)?;
        }
        Ok(RunResult { events: read, result_hash: Some(answer.hash()) })
    }))
}

/// Adds the keys and counts of a result to its answer. Returns the sum of the counts.
pub(super) fn add_counts(batch: &RecordBatch, answer: &mut Answer) -> Result<u64> {
    let (keys, counts) = (column(batch, 0, &DataType::Int64)?, column(batch, 1, &DataType::Int64)?);
    let (keys, counts) = (keys.as_primitive::<Int64Type>(), counts.as_primitive::<Int64Type>());
    let mut sum = 0;
    for (key, count) in keys.values().iter().zip(counts.values()) {
        answer.add_key(*key, count.cast_unsigned());
        sum += count.cast_unsigned();
    }
    Ok(sum)
}

/// What [`latency`] measured.
pub(crate) struct Paced {
    /// From a key's reading to its counting after the exchange.
    pub(crate) latency: LatencySummary,
    /// The 99th percentile of how late rows were read, in microseconds. It comes on top of the latency.
    pub(crate) read_late_p99_us: u64,
    /// Rows per second.
    pub(crate) rows_per_s: f64,
}

/// Counts keys that arrive at `rows_per_s` rows per second for `duration`. The first third is warm-up.
pub(crate) fn latency(
    keys: &Keys,
    parallelism: u32,
    buffer_timeout: &str,
    rows_per_s: u64,
    duration: Duration,
) -> Result<Paced> {
    let rows = (rows_per_s as f64 * duration.as_secs_f64()) as u64;
    let source = Arc::new(PacedSource::new(batches(keys)?, rows_per_s, rows, parallelism));
    let tables: Vec<Table> = vec![("bench_keys", Arc::clone(&source) as _)];
    let query = Query::new(SQL, tables.clone(), parallelism, &[("buffer-timeout", buffer_timeout)])?;
    let mut engine = query.engine.clone();
    super::register(&mut engine, tables);
    let job = engine.start(&query.plan)?;
    if !job.wait_timeout(duration / 3) {
        job.reset_latencies();
        source.take_late_ns();
    }
    let _ = job.wait_timeout(duration / 2);
    let latency = counting_latency(&job);
    let mut late_ns = source.take_late_ns();
    late_ns.sort_unstable();
    let read_late_p99_us = late_ns.get(late_ns.len() * 99 / 100).map_or(0, |ns| ns / 1000);
    let summary = job.wait()?;
    let rows_per_s = query.events_read(&summary.tasks) as f64 / summary.elapsed.as_secs_f64();
    Ok(Paced { latency, read_late_p99_us, rows_per_s })
}

/// From a key's reading to its counting: that of the slowest task.
pub(super) fn counting_latency(job: &Job) -> LatencySummary {
    let tasks = job.metrics();
    let counting = tasks.iter().filter(|task| !task.is_source).max_by_key(|task| task.latency.p99_us);
    counting.map(|task| task.latency).unwrap_or_default()
}

pub(super) fn batches(keys: &Keys) -> Result<Vec<RecordBatch>> {
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let batch = |block: &Int64Array| Ok(RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(block.clone())])?);
    keys.blocks.iter().map(batch).collect()
}
