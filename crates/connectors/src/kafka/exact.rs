//! The writer of one task: exactly once, for readers of committed records.
//!
//! The client cannot take up another process's open transaction, so nothing is sent before its checkpoint is complete. Records
//! are encoded as they come and held in memory; at the end of an epoch that a checkpoint covers they become part of the
//! checkpoint; when the checkpoint is complete they are written in one transaction. So the query never waits for a broker
//! but when the topic is first looked up, and a crash at any moment leaves all of an interval's records to be written by whoever
//! goes on, or none. The price is memory and checkpoints of the size of what an interval gives out.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_model::{Clock, Epoch, Error, Result};
use anabranch_operators::{Committable, Sink, TaskContext};
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;

use super::client::{self, FIRST_ANSWER};
use super::create::ensure_topic;
use super::held::{Content, Held};
use super::key::KeyEncoder;
use super::sink::{Partitions, bytes};
use super::table::Table;
use super::transaction::{Bounds, Failure, Identity, Transactor};
use crate::format::Encode;

/// Holds the rows of one task, and commits those of any task.
pub(super) struct ExactSink {
    topic: String,
    task: u32,
    values: Box<dyn Encode>,
    keys: Option<KeyEncoder>,
    partitions: Partitions,
    held: Held,
    committer: Committer,
}

/// Writes what tasks have prepared.
pub(super) struct Committer {
    table: Table,
    scope: String,
    /// Name of the table.
    name: String,
    clock: Arc<dyn Clock>,
    /// By the task whose records they commit.
    transactors: BTreeMap<u32, Transactor>,
}

impl ExactSink {
    /// Looks the topic up, and creates it if it does not exist.
    pub(super) fn open(
        table: Table,
        name: &str,
        values: Box<dyn Encode>,
        schema: &SchemaRef,
        context: &TaskContext,
        scope: &str,
    ) -> Result<ExactSink> {
        let topic = table.single_topic()?.to_owned();
        let keys = KeyEncoder::new(&table, schema)?;
        let wait = table.connection_timeout.min(FIRST_ANSWER);
        let count = ensure_topic(&*client::producer(&table)?, &table, &topic, wait, context.clock.as_ref())?;
        Ok(ExactSink {
            held: Held::new(&topic),
            topic,
            task: context.index,
            values,
            keys,
            partitions: Partitions::new(table.partitioner, context.index, count),
            committer: Committer::new(table, name, context, scope),
        })
    }
}

impl Committer {
    /// Of the writer of a table that has this scope.
    pub(super) fn new(table: Table, name: &str, context: &TaskContext, scope: &str) -> Committer {
        let (name, scope, clock) = (name.to_owned(), scope.to_owned(), context.clock.clone());
        Committer { table, scope, name, clock, transactors: BTreeMap::new() }
    }

    /// Writes the records in a transaction, unless they have been.
    pub(super) fn commit(&mut self, committable: &Committable) -> Result<()> {
        let Committable { epoch, task, content } = committable;
        let place = |error: Error| error.at(format!("epoch {} of sink task {task}", epoch.0));
        let content = Content::parse(content).map_err(place)?;
        self.commit_content(*task, *epoch, &content).map_err(|error| error.at(format!("topic {}", content.topic)))
    }

    /// Writes the records in a transaction; what fails and may pass is tried again, for a bounded time.
    fn commit_content(&mut self, task: u32, epoch: Epoch, content: &Content<'_>) -> Result<()> {
        let clock = self.clock.clone();
        let bounds = Bounds { deadline: clock.now().plus(self.table.delivery_timeout), clock: clock.as_ref() };
        let identity = Identity::new(&self.scope, &self.name, task);
        loop {
            let opened = match self.transactors.remove(&task).filter(|known| known.topic() == content.topic) {
                Some(known) => Ok(known),
                None => Transactor::open(&self.table, &identity, content.topic, &bounds),
            };
            let committed = opened.and_then(|mut transactor| {
                transactor.commit(epoch, content, &self.table, &bounds)?;
                Ok(transactor)
            });
            // One that has failed is given up: the next one finds out what has become of its transaction.
            match committed {
                Ok(transactor) => {
                    self.transactors.insert(task, transactor);
                    return Ok(());
                }
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing(_)) if clock.now() < bounds.deadline => {}
                Err(Failure::Passing(reason)) => {
                    let seconds = self.table.delivery_timeout.as_secs_f32();
                    return Err(Error::outside(format!(
                        "the records of epoch {} could not be committed to {} within {seconds} s: {reason}",
                        epoch.0, self.table.servers
                    ))
                    .remedy("see whether the brokers run; 'sink.delivery.timeout' says how long to try"));
                }
            }
        }
    }
}

impl Sink for ExactSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        // What other tasks left to be committed has been, before the first row.
        let own = self.task;
        self.committer.transactors.retain(|task, _| *task == own);
        let keys = self.keys.as_mut().map(|keys| keys.encode(batch)).transpose()?;
        let values = self.values.encode(batch)?;
        for row in 0..values.len() {
            let key = keys.as_ref().and_then(|keys| bytes(keys, row));
            self.held.push(self.partitions.next(), key, bytes(&values, row));
        }
        let most = self.committer.table.buffer_bytes;
        if self.held.bytes() <= most {
            return Ok(());
        }
        Err(Error::user(format!("the records of one checkpoint interval take more than {most} bytes"))
            .at(format!("topic {}", self.topic))
            .remedy(
                "make the checkpoint interval shorter, or raise 'sink.buffer-bytes' (the results of one window are never divided); \
                 or write them as they come: 'sink.delivery-guarantee' = 'at-least-once'",
            ))
    }

    /// No checkpoint covers the epoch: its records wait for the one that does.
    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        Ok(self.held.take().map(|content| Committable { epoch, task: self.task, content }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        self.committer.commit(committable)
    }
}
