//! The contracts of sources and sinks, and the registry in which a job finds them by name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Clock, Epoch, Error, PartitionId, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// A kind of table outside: makes readers and writers.
pub trait Connector: Send + Sync {
    /// Checks a table's declaration and tells what the table can do. `columns` are the declared physical columns,
    /// empty if the declaration has none. Does no I/O that could block for long; an unknown option is an error that
    /// lists the known ones.
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits>;

    /// Opens the reader of one task.
    fn source(&self, spec: &SourceSpec, context: &TaskContext) -> Result<Box<dyn Source>>;

    /// Opens the writer of one task.
    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>>;
}

/// What a source or sink may know of its task.
#[derive(Clone)]
pub struct TaskContext {
    /// Index of the task in its stage.
    pub index: u32,
    /// Number of tasks of the stage.
    pub parallelism: u32,
    /// Rows that a batch should hold at most.
    pub batch_rows: usize,
    /// The driver's clock.
    pub clock: Arc<dyn Clock>,
}

/// Reads partitions of a table. Partition `p` belongs to the task with `index == p % parallelism`.
pub trait Source: Send {
    /// What comes next. Waits at most `wait` for it, and returns [`Polled::Pending`] if nothing came.
    fn poll(&mut self, wait: Duration) -> Result<Polled>;

    /// Epoch `epoch` was cut after what `poll` last returned.
    fn epoch_cut(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }

    /// Every sink has handed over what it received up to the end of `epoch`: positions up to that cut may be given up.
    fn epoch_done(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}

/// Outcome of [`Source::poll`].
#[derive(Debug)]
pub enum Polled {
    /// A partition has become this task's: it holds the watermark back until it has rows or is idle.
    Opened(PartitionId),
    /// Rows of one partition, in its order.
    Rows(Rows),
    /// A partition has ended.
    Closed(PartitionId),
    /// Nothing came within the time given.
    Pending,
    /// Every partition has ended and none will come.
    End,
}

/// Rows that a source decoded.
#[derive(Debug)]
pub struct Rows {
    /// Where they are from.
    pub partition: PartitionId,
    /// The columns of the source's projection.
    pub batch: RecordBatch,
    /// Records among them that could not be decoded, in order.
    pub malformed: Vec<Malformed>,
}

/// A record that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where it is: `events.ndjson line 17`, `topic ads partition 3 offset 18`.
    pub place: String,
    /// What is wrong with it.
    pub error: String,
    /// The record as read.
    pub record: Vec<u8>,
}

/// Writes the rows of one task.
pub trait Sink: Send {
    /// Writes rows. May buffer.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Pushes buffered rows on their way without waiting: called when the input pauses.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// The epoch ends: returns when everything written before has been taken over by the outside.
    fn epoch_end(&mut self, epoch: Epoch) -> Result<()>;

    /// Nothing follows. Called after the last `epoch_end`.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Connectors by name.
#[derive(Clone, Default)]
pub struct Connectors {
    by_name: BTreeMap<String, Arc<dyn Connector>>,
}

impl Connectors {
    /// Adds a connector, or replaces the one of the same name.
    pub fn register(&mut self, name: impl Into<String>, connector: Arc<dyn Connector>) {
        self.by_name.insert(name.into(), connector);
    }

    /// The connector of this name.
    pub fn get(&self, name: &str) -> Result<&Arc<dyn Connector>> {
        self.by_name.get(name).ok_or_else(|| {
            let known: Vec<_> = self.by_name.keys().map(String::as_str).collect();
            Error::user(format!("there is no connector '{name}'")).remedy(format!("use one of: {}", known.join(", ")))
        })
    }
}
