//! Rows from memory at a steady rate: a row is due at its own time, and what is due is given out at once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Clock, Error, Nanos, PartitionId, Result};
use anabranch_operators::{Connector, Polled, Rows, Sink, Source, TaskContext};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// Rows gathered at most before they are given out; the source never waits longer for company.
const GATHER: Duration = Duration::from_micros(500);

/// A table that gives its batches out in turn, again and again, until it has given its number of rows.
pub(super) struct Paced {
    batches: Vec<RecordBatch>,
    rows_per_s: u64,
    rows: u64,
    partitions: u32,
}

impl Paced {
    /// `rows` rows in all, `rows_per_s` of them per second, evenly over `partitions`. `batches` is not empty.
    pub(super) fn new(batches: Vec<RecordBatch>, rows_per_s: u64, rows: u64, partitions: u32) -> Self {
        Paced { batches, rows_per_s, rows, partitions }
    }
}

impl Connector for Paced {
    fn describe(&self, _spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits {
            bounded: true,
            readable: true,
            writable: false,
            max_readers: Some(self.partitions),
            schema: self.batches.first().map(RecordBatch::schema),
        })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext) -> Result<Box<dyn Source>> {
        let project = |batch: &RecordBatch| Ok(batch.project(&spec.projection)?);
        let partitions = u64::from(self.partitions);
        Ok(Box::new(Reader {
            partition: PartitionId(context.index),
            announced: false,
            batches: self.batches.iter().map(project).collect::<Result<_>>()?,
            batch: context.index as usize % self.batches.len().max(1),
            offset: 0,
            ns_per_row: 1e9 * partitions as f64 / self.rows_per_s as f64,
            given: 0,
            rows: self.rows / partitions,
            rows_max: context.batch_rows,
            started: context.clock.now(),
            clock: Arc::clone(&context.clock),
        }))
    }

    fn sink(&self, _spec: &SinkSpec, _context: &TaskContext) -> Result<Box<dyn Sink>> {
        Err(Error::user("this table can only be read"))
    }
}

struct Reader {
    partition: PartitionId,
    announced: bool,
    batches: Vec<RecordBatch>,
    batch: usize,
    offset: usize,
    ns_per_row: f64,
    given: u64,
    rows: u64,
    rows_max: usize,
    started: Nanos,
    clock: Arc<dyn Clock>,
}

impl Reader {
    fn due(&self) -> u64 {
        let elapsed_ns = self.clock.now().since(self.started) as f64;
        ((elapsed_ns / self.ns_per_row) as u64).min(self.rows) - self.given
    }
}

impl Source for Reader {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if !self.announced {
            self.announced = true;
            return Ok(Polled::Opened(self.partition));
        }
        if self.given >= self.rows {
            return Ok(Polled::End);
        }
        if self.due() == 0 {
            rest(wait.min(GATHER));
        }
        let due = usize::try_from(self.due()).unwrap_or(usize::MAX).min(self.rows_max);
        if due == 0 {
            return Ok(Polled::Pending);
        }
        let batch = &self.batches[self.batch];
        let rows = due.min(batch.num_rows() - self.offset);
        let batch = batch.slice(self.offset, rows);
        self.offset += rows;
        if self.offset == self.batches[self.batch].num_rows() {
            self.offset = 0;
            self.batch = (self.batch + 1) % self.batches.len();
        }
        self.given += rows as u64;
        Ok(Polled::Rows(Rows { partition: self.partition, batch, malformed: Vec::new() }))
    }
}

fn rest(wait: Duration) {
    let (lock, never) = (Mutex::new(()), Condvar::new());
    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    drop(never.wait_timeout(guard, wait).unwrap_or_else(PoisonError::into_inner));
}
