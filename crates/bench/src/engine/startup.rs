//! The start of a job: from SQL text to the first row of its result.

use std::sync::Arc;
use std::time::Instant;

use anabranch_connectors::{MemorySink, MemorySource};
use anabranch_model::{Error, Result};
use anabranch_server::{Engine, Settings};
use arrow::array::{Int64Array, RecordBatch};

use super::RESULTS;
use crate::pingpong::Latency;

const SQL: &str = "
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'bench_numbers');
CREATE TABLE results (n BIGINT) WITH ('connector' = 'bench_results');
INSERT INTO results SELECT n * 2 AS n FROM numbers WHERE n > 0;";

/// Plans and starts a job `rounds` times: the time to the plan, and the time from there to the first row.
pub(crate) fn startup(parallelism: u32, rounds: u32) -> Result<[Latency; 2]> {
    let numbers = Int64Array::from_iter_values(1..=100);
    let batch = RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)])?;
    let mut planning = Latency::new("SQL text to plan")?;
    let mut running = Latency::new(format!("plan to first row, parallelism {parallelism}"))?;
    for _ in 0..rounds {
        let mut engine = Engine::default();
        let (sink, rows) = MemorySink::channel(16);
        engine.register("bench_numbers", Arc::new(MemorySource::batches(vec![batch.clone()])));
        engine.register(RESULTS, Arc::new(sink));
        let start = Instant::now();
        let planned = engine.plan(SQL, &Settings { parallelism: Some(parallelism), ..Settings::default() })?;
        planning.record(start.elapsed());
        let plan = planned.plan.ok_or_else(|| Error::internal("the script of a benchmark inserts nothing"))?;
        let start = Instant::now();
        let job = engine.start(&plan)?;
        let first = rows.recv();
        running.record(start.elapsed());
        for row in rows {
            drop(row);
        }
        job.wait()?;
        first.map_err(|_| Error::internal("the job gave no row"))?;
    }
    Ok([planning, running])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_gives_a_row() {
        let latencies = startup(2, 3).unwrap();
        assert!(latencies.iter().all(|latency| latency.samples() == 3 && latency.quantile_us(0.5) > 1.0));
    }
}
