//! The engine as a contestant: the workloads as SQL over tables in memory, planned once and run repeatedly. A
//! run does what a user's job does, but reads and writes nothing outside of the process.

mod durable;
mod grep;
mod grouping;
mod kafka;
mod large_state;
mod main_job;
mod many_values;
mod network;
mod pace;
mod recovery;
mod resident;
mod shapes;
mod startup;
mod worker_tables;
mod workers;

use std::sync::{Arc, PoisonError};

use anabranch_connectors::MemorySink;
use anabranch_dataflow::Plan;
use anabranch_model::{Error, Result};
use anabranch_operators::Connector;
use anabranch_server::{Engine, Settings, TaskMetrics};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;

pub(crate) use durable::{durable_grep, durable_grouping, durable_main_job};
pub(crate) use grep::grep;
pub(crate) use grouping::{grouping, grouping_as, latency};
pub(crate) use kafka::{Topic, dropped_from_memory};
pub(crate) use large_state::{changing, memory as state_memory};
pub(crate) use main_job::{main_job, memory, typed};
pub(crate) use many_values::{GROUPS, ManyValues, many_values};
pub(crate) use network::{exchange, parts as network_parts};
pub(crate) use recovery::{program, recovery};
pub(crate) use resident::resident_bytes;
pub(crate) use shapes::shapes;
pub(crate) use startup::{planning, startup};
pub(crate) use worker_tables::KeysTable;
pub(crate) use workers::{WorkerArguments, count_at, latency_at, rate_at, worker};

/// Connector of the table that a query writes.
const RESULTS: &str = "bench_results";

/// A planned script. Each run gets the tables that it reads.
#[derive(Clone)]
struct Query {
    engine: Engine,
    plan: Plan,
}

/// A table to read: name of its connector, and the connector.
type Table = (&'static str, Arc<dyn Connector>);

impl Query {
    /// Plans `sql`, which reads `tables` and inserts into a table of the connector [`RESULTS`].
    fn new(sql: &str, tables: Vec<Table>, parallelism: u32, set: &[(&str, &str)]) -> Result<Self> {
        let mut engine = Engine::default();
        register(&mut engine, tables);
        engine.register(RESULTS, Arc::new(MemorySink::collected().0));
        let plan = plan(&engine, sql, parallelism, set)?;
        Ok(Query { engine, plan })
    }

    /// Runs to the end of the tables. Returns the number of rows read from the table `events`, and the rows
    /// of the result.
    fn run(&self, tables: Vec<Table>) -> Result<(u64, Vec<RecordBatch>)> {
        let mut engine = self.engine.clone();
        register(&mut engine, tables);
        let (sink, rows) = MemorySink::collected();
        engine.register(RESULTS, Arc::new(sink));
        let summary = engine.start(&self.plan)?.wait()?;
        let rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
        Ok((self.events_read(&summary.tasks), rows))
    }

    /// Rows read so far from the table `events`.
    fn events_read(&self, tasks: &[TaskMetrics]) -> u64 {
        let rows = |task: &TaskMetrics| {
            let source = self.plan.stage(task.task.stage).source.as_ref()?;
            (source.table == "events").then_some(task.rows_in)
        };
        tasks.iter().filter_map(rows).sum()
    }
}

/// Plans a script with options of the job.
fn plan(engine: &Engine, sql: &str, parallelism: u32, set: &[(&str, &str)]) -> Result<Plan> {
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let settings = Settings { parallelism: Some(parallelism), set, ..Settings::default() };
    let plan = engine.plan(sql, &settings)?.plan;
    plan.ok_or_else(|| Error::internal("the script of a benchmark inserts nothing"))
}

fn register(engine: &mut Engine, tables: Vec<Table>) {
    for (name, connector) in tables {
        engine.register(name, connector);
    }
}

/// A column of a result in the type that the benchmark reads it in.
fn column(batch: &RecordBatch, index: usize, data_type: &DataType) -> Result<ArrayRef> {
    Ok(cast(batch.column(index), data_type)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit;
    use crate::workload::{AdEvents, Keys, LogLines};

    #[test]
    fn any_parallelism_gives_the_answers_of_the_limit_programs() {
        let events = Arc::new(AdEvents::generate(120_000, 1).unwrap());
        let log = Arc::new(LogLines::generate(30_000, 1));
        let keys = Arc::new(Keys::generate(100_000, 5_000, 1));
        for parallelism in [1, 2] {
            let expected = limit::main_job::main_job(&events, limit::json::serde_json).unwrap();
            assert_eq!(main_job(&events, parallelism).unwrap().run().unwrap(), expected);
            assert_eq!(typed(&events, parallelism).unwrap().run().unwrap(), expected);
            assert_eq!(grep(&log, parallelism).unwrap().run().unwrap(), limit::grep::by_line(&log).unwrap());
            let expected = limit::keyed_count::keyed_count(&keys).unwrap();
            assert_eq!(grouping(&keys, parallelism).unwrap().run().unwrap(), expected);
        }
    }
}
