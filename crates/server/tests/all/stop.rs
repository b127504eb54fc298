//! A job that is stopped while it still reads its static tables stops, whichever task waits for which.

use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::{MemorySink, MemorySource};
use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits};
use anabranch_model::{PartitionId, Result};
use anabranch_operators::{Connector, Polled, Positions, Source, TaskContext};
use anabranch_server::{Engine, Settings};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

const SQL: &str = "
SET 'channel-bytes' = '10000';
CREATE TABLE events (id BIGINT) WITH ('connector' = 'numbers');
CREATE TABLE first (id BIGINT, a BIGINT) WITH ('connector' = 'unending');
CREATE TABLE second (id BIGINT, b BIGINT) WITH ('connector' = 'large');
CREATE TABLE results (id BIGINT, a BIGINT, b BIGINT) WITH ('connector' = 'results');
INSERT INTO results
SELECT e.id, a, b FROM (SELECT * FROM events UNION ALL SELECT * FROM events) e
JOIN first f ON e.id = f.id JOIN second s ON e.id = s.id;";

/// A bounded table that is never read to its end.
struct Unending;

struct Silence {
    opened: bool,
}

impl Source for Silence {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if !std::mem::replace(&mut self.opened, true) {
            return Ok(Polled::Opened { partition: PartitionId(0), name: "silence".into() });
        }
        anabranch_model::pause(wait);
        Ok(Polled::Pending)
    }

    fn positions(&self) -> Result<Positions> {
        Ok(Positions::new())
    }
}

impl Connector for Unending {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        let field = |name| Field::new(name, DataType::Int64, false);
        let schema = Some(Arc::new(Schema::new(vec![field("id"), field("a")])));
        Ok(TableTraits {
            bounded: true,
            readable: true,
            writable: false,
            max_readers: Some(1),
            schema,
            ..TableTraits::default()
        })
    }

    fn source(&self, _: &SourceSpec, _: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        Ok(Box::new(Silence { opened: false }))
    }
}

fn table(names: &[&str]) -> MemorySource {
    let column = || Arc::new(Int64Array::from_iter_values(0..10_000)) as ArrayRef;
    let batch = RecordBatch::try_from_iter(names.iter().map(|name| (*name, column()))).expect("rows");
    MemorySource::batches(vec![batch; 20])
}

#[test]
fn a_job_stops_while_its_static_tables_are_read() {
    for parallelism in [1, 2] {
        let (sink, rows) = MemorySink::collected();
        let mut engine = Engine::default();
        engine.register("numbers", Arc::new(table(&["id"])));
        engine.register("unending", Arc::new(Unending));
        engine.register("large", Arc::new(table(&["id", "b"])));
        engine.register("results", Arc::new(sink));
        let settings = Settings { parallelism: Some(parallelism), ..Settings::default() };
        let plan = engine.plan(SQL, &settings).expect("a plan").plan.expect("an insert");
        let job = engine.start(&plan).expect("a job");
        assert!(!job.wait_timeout(Duration::from_millis(300)), "a static table ended");
        job.stop();
        assert!(job.wait_timeout(Duration::from_secs(120)), "the job hangs");
        job.wait().expect("a stop is not a failure");
        assert!(rows.lock().expect("no panic").is_empty(), "rows were joined with a part of a table");
    }
}
