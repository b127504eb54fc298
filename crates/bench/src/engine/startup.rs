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
        let plan = super::plan(&engine, SQL, parallelism, &[])?;
        planning.record(start.elapsed());
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

/// Queries that are not small, each with its name, and whether it is planned seldom since it takes long.
fn shapes() -> Vec<(String, String, bool)> {
    let sink = |columns: &str| format!("CREATE TABLE results ({columns}) WITH ('connector' = 'bench_results');\n");
    let mut shapes = vec![("joins of ten tables by nine views".to_owned(), ten_tables(), false)];
    for columns in [400, 4_000, 10_000] {
        let declared: Vec<String> = (0..columns).map(|column| format!("c{column} BIGINT")).collect();
        let declared = declared.join(", ");
        let text = format!(
            "CREATE TABLE numbers ({declared}) WITH ('connector' = 'bench_numbers');\n{}\
             INSERT INTO results SELECT * FROM numbers WHERE c0 > 0;",
            sink(&declared)
        );
        shapes.push((format!("{columns} columns"), text, true));
    }
    for expressions in [200, 2_000, 3_000] {
        let declared: Vec<String> = (0..expressions).map(|column| format!("c{column} BIGINT")).collect();
        let computed: Vec<String> =
            (0..expressions).map(|number| format!("CASE WHEN n > {number} THEN n * {number} ELSE n + 1 END")).collect();
        let text = format!(
            "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'bench_numbers');\n{}\
             INSERT INTO results SELECT {} FROM numbers;",
            sink(&declared.join(", ")),
            computed.join(", ")
        );
        shapes.push((format!("{expressions} expressions"), text, true));
    }
    shapes
}

/// Each view joins the one before with one table more, and computes and filters.
fn ten_tables() -> String {
    let mut text = String::new();
    for table in 0..10 {
        text += &format!(
            "CREATE TABLE t{table} (k BIGINT, v{table} BIGINT, s{table} STRING) WITH ('connector' = 'bench_numbers');\n"
        );
    }
    let mut before = "t0".to_owned();
    for table in 1..10 {
        let columns: Vec<String> = (0..=table).map(|of| format!("v{of}, s{of}")).collect();
        text += &format!(
            "CREATE VIEW j{table} AS SELECT {before}.k, {} FROM {before} JOIN t{table} ON {before}.k = t{table}.k \
             WHERE v{table} > {table} AND COALESCE(s{table}, 'none') <> 'x';\n",
            columns.join(", ")
        );
        before = format!("j{table}");
    }
    text + "CREATE TABLE results (k BIGINT, v BIGINT) WITH ('connector' = 'bench_results');\n\
            INSERT INTO results SELECT k, v0 + v9 FROM j9 WHERE v5 < 1000 AND s3 LIKE 'a%';"
}

/// The time from SQL text to a plan, for queries that are not small.
pub(crate) fn planning(rounds: u32) -> Result<Vec<Latency>> {
    let of_shape = |(name, text, seldom): (String, String, bool)| {
        let mut planning = Latency::new(format!("{name}, {} bytes", text.len()))?;
        for _ in 0..if seldom { rounds / 20 + 1 } else { rounds } {
            let mut engine = Engine::default();
            engine.register("bench_numbers", Arc::new(MemorySource::batches(Vec::new())));
            engine.register(RESULTS, Arc::new(MemorySink::channel(1).0));
            let start = Instant::now();
            engine.plan(&text, &Settings { parallelism: Some(2), ..Settings::default() })?;
            planning.record(start.elapsed());
        }
        Ok(planning)
    };
    shapes().into_iter().map(of_shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_gives_a_row() {
        let latencies = startup(2, 3).unwrap();
        assert!(latencies.iter().all(|latency| latency.samples() == 3 && latency.quantile_us(0.5) > 1.0));
    }

    #[test]
    fn every_shape_is_planned() {
        assert!(planning(1).unwrap().iter().all(|latency| latency.samples() == 1));
    }
}
