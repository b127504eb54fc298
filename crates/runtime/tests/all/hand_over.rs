//! An epoch of a job without checkpoints is done when every sink has handed it over, and not before.

#![expect(clippy::unwrap_used, reason = "a test stops at the first error")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Tables, plan};
use anabranch_dataflow::{
    ConnectorSpec, ExchangeKind, GroupOptions, JobOptions, OnMalformed, SinkSpec, SourceSpec, TableTraits,
};
use anabranch_model::{Clock, Epoch, Error, ManualClock, Result};
use anabranch_operators::{Connector, Connectors, Positions, Sink, Source, TaskContext};
use anabranch_runtime::stepped::{Parts, SteppedJob};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

const EPOCH: Duration = Duration::from_millis(10);
const TURNS: usize = 200;

/// A log that is read, and a table of which one sink cannot hand over one epoch.
struct Refusing {
    tables: Tables,
    task: u32,
    epoch: Epoch,
}

struct RefusingSink {
    sink: Box<dyn Sink>,
    refused: Option<Epoch>,
}

impl Connector for Refusing {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        self.tables.describe(spec, columns)
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        self.tables.source(spec, context, from)
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let refused = (context.index == self.task).then_some(self.epoch);
        Ok(Box::new(RefusingSink { sink: self.tables.sink(spec, context)?, refused }))
    }
}

impl Sink for RefusingSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.sink.write(batch)
    }

    fn epoch_end(&mut self, epoch: Epoch) -> Result<()> {
        match self.refused == Some(epoch) {
            true => Err(Error::outside("the disk is full")),
            false => self.sink.epoch_end(epoch),
        }
    }
}

/// Runs one source and two sinks until a sink fails. The source polls between any two messages to the
/// coordinator, so that it hears of an epoch that counts as done for however short a time. Returns the epochs
/// that were done.
fn run(task: u32, epoch: Epoch) -> Vec<u64> {
    let options = JobOptions {
        epoch_interval: EPOCH,
        channel_bytes: usize::MAX,
        group: GroupOptions { epochs: Some(1), ..GroupOptions::default() },
        ..JobOptions::default()
    };
    let plan = plan(1, ExchangeKind::Rebalance, 2, options, OnMalformed::Fail);
    let tables = Tables::new(1, None);
    let mut connectors = Connectors::default();
    connectors.register("log", Arc::new(Refusing { tables: tables.clone(), task, epoch }));
    let manual = Arc::new(ManualClock::default());
    let clock: Arc<dyn Clock> = manual.clone();
    let parts =
        Parts { plan: &plan, connectors: &connectors, clock: &clock, checkpointing: None, origin: None, workers: None };
    let mut job = SteppedJob::start(parts).unwrap().unwrap();
    for _ in 0..TURNS {
        manual.advance(EPOCH);
        job.tasks().step(0, 0);
        for sink in 1..job.tasks().count() {
            while job.tasks().step(sink, 0) && job.tasks().channels(sink) > 0 && has_input(&job, sink) {}
            while job.coordinate() {
                job.tasks().step(0, 0);
            }
        }
        if let Some(outcome) = job.outcome() {
            let error = outcome.expect_err("a sink has failed").to_string();
            assert!(error.contains("the disk is full"), "{error}");
            return tables.log.lock().unwrap().done.get(&0).cloned().unwrap_or_default();
        }
    }
    panic!("no sink has failed");
}

fn has_input(job: &SteppedJob, task: usize) -> bool {
    job.handle().metrics()[task].queue_batches > 0
}

#[test]
fn an_epoch_that_a_sink_cannot_hand_over_is_not_done() {
    for task in [0, 1] {
        for epoch in 2..6 {
            let done = run(task, Epoch(epoch));
            assert_eq!(done, (1..epoch).collect::<Vec<_>>(), "sink {task} cannot hand over epoch {epoch}");
        }
    }
}
