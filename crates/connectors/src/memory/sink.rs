//! Rows for the embedding program: through a channel as they arrive, or collected.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_dataflow::{ConnectorSpec, SinkSpec, TableTraits, Updates};
use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::{Connector, Sink, TaskContext};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::Options;

/// A table whose rows the embedding program receives.
pub struct MemorySink {
    target: Mutex<Target>,
}

enum Target {
    /// The channel of one job: the sender, which each task clones, and the number of tasks that have done so.
    /// The sender is dropped after the last one, so that the receiver sees the end when the job's tasks are
    /// gone.
    Channel {
        sender: Option<SyncSender<RecordBatch>>,
        opened: u32,
    },
    Collected(Arc<Mutex<Vec<RecordBatch>>>),
}

impl MemorySink {
    /// A table whose batches arrive at the receiver. At most `batches` are buffered, then the job waits. The
    /// receiver sees the end when the job that writes the table has ended. The table serves one job.
    #[must_use]
    pub fn channel(batches: usize) -> (Self, Receiver<RecordBatch>) {
        let (sender, receiver) = sync_channel(batches);
        (MemorySink { target: Mutex::new(Target::Channel { sender: Some(sender), opened: 0 }) }, receiver)
    }

    /// A table whose batches are kept.
    #[must_use]
    pub fn collected() -> (Self, Arc<Mutex<Vec<RecordBatch>>>) {
        let rows = Arc::new(Mutex::new(Vec::new()));
        (MemorySink { target: Mutex::new(Target::Collected(rows.clone())) }, rows)
    }
}

impl Connector for MemorySink {
    fn is_of_process(&self) -> bool {
        true
    }

    fn describe(&self, spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        Options::new(spec).finish()?;
        Ok(TableTraits { writable: true, updates: Updates::Written, ..TableTraits::default() })
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        Options::new(&spec.connector).finish()?;
        match &mut *self.target.lock().unwrap_or_else(PoisonError::into_inner) {
            Target::Collected(rows) => Ok(Box::new(CollectingSink { rows: rows.clone() })),
            Target::Channel { sender, opened } => {
                let Some(own) = sender.clone() else {
                    return Err(Error::user(format!("table '{}' has served its job", spec.table))
                        .remedy("register a new MemorySink for each job"));
                };
                *opened += 1;
                if *opened >= context.parallelism {
                    *sender = None;
                }
                Ok(Box::new(ChannelSink { table: spec.table.clone(), sender: own }))
            }
        }
    }
}

struct ChannelSink {
    table: String,
    sender: SyncSender<RecordBatch>,
}

impl Sink for ChannelSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.sender
            .send(batch.clone())
            .map_err(|_| Error::outside(format!("the receiver of the rows of table '{}' is gone", self.table)))
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}

struct CollectingSink {
    rows: Arc<Mutex<Vec<RecordBatch>>>,
}

impl Sink for CollectingSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() > 0 {
            self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(batch.clone());
        }
        Ok(())
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}
