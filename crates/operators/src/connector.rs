//! The contracts of sources and sinks, and the registry in which a job finds connectors by name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, LookupJoinSpec, ONE_ROW, SinkSpec, SourceSpec, TableTraits};
use anabranch_model::{Clock, Epoch, Error, EventTime, Incarnation, Nanos, PartitionId, Result, nearest};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;

use crate::one_row::OneRow;
use crate::{Lookup, LookupContext};

/// A kind of external table: creates readers and writers.
pub trait Connector: Send + Sync {
    /// Checks a table's declaration and returns what the table can do. `columns` are the declared physical
    /// columns, empty if the declaration has none. Does no I/O that could block for long; an unknown option
    /// is an error that lists the known ones.
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits>;

    /// Opens the reader of one task. With `from`, it resumes there: `from` holds the positions of all of the
    /// table's partitions, whichever tasks read them before, and the reader takes those of its own
    /// partitions. A partition that is not in `from` is new, and is read from its beginning. Not called
    /// unless [`TableTraits::readable`].
    fn source(&self, spec: &SourceSpec, _: &TaskContext, _: Option<&Positions>) -> Result<Box<dyn Source>> {
        let (table, connector) = (&spec.table, &spec.connector.connector);
        Err(Error::internal(format!("table {table}: connector '{connector}' cannot be read")))
    }

    /// Opens the writer of one task. Not called unless [`TableTraits::writable`].
    fn sink(&self, spec: &SinkSpec, _: &TaskContext) -> Result<Box<dyn Sink>> {
        let (table, connector) = (&spec.table, &spec.connector.connector);
        Err(Error::internal(format!("table {table}: connector '{connector}' cannot be written")))
    }

    /// Opens the table for the lookups of one task, see [`TableTraits::lookups`].
    fn lookup(&self, spec: &LookupJoinSpec, _context: &LookupContext) -> Result<Box<dyn Lookup>> {
        Err(Error::internal(format!("a table of connector '{}' cannot be asked for rows", spec.table.connector)))
    }

    /// Whether its tables exist only in the process that starts the job, such as its standard output: their
    /// tasks run there.
    fn is_of_process(&self) -> bool {
        false
    }
}

/// The positions of a table's partitions: from partition to position, both readable text in the connector's
/// notation, such as `ads/3` and `4711`. A partition that was read to its end stays in the map.
pub type Positions = BTreeMap<String, String>;

/// When rows leave a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// As they arrive. After a failure some are written again.
    AtLeastOnce,
    /// When a checkpoint covers them. `scope` identifies this table's writer among all writers of this and
    /// other jobs that ever wrote to the same place. It stays the same while the job resumes from its own
    /// checkpoints.
    ExactlyOnce {
        /// Letters, digits and hyphens.
        scope: String,
        /// The scopes that the writer had before this one.
        former: Former,
    },
}

/// Scopes that a table's writer had before. A job that skips a damaged checkpoint gives its writers new
/// scopes, because it repeats epochs whose results may be visible. The committables of the older checkpoint
/// still have the former scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Former {
    /// The scope under which the restored committables were prepared, then others that may have been used
    /// since. Empty if the writer keeps its scope.
    pub scopes: Vec<String>,
    /// Number of tasks that prepared committables under these scopes, as far as it is known.
    pub tasks: u32,
}

/// What a sink has prepared and not yet made visible: all that [`Sink::commit`] needs, also in another
/// process after a crash. It is stored with the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committable {
    /// The epoch at whose end it was prepared.
    pub epoch: Epoch,
    /// Index of the task that prepared it.
    pub task: u32,
    /// In a format of the sink. Clones share the memory.
    pub content: Bytes,
}

/// What a source or sink knows of its task.
#[derive(Clone)]
pub struct TaskContext {
    /// Index of the task in its stage.
    pub index: u32,
    /// Number of tasks of the stage.
    pub parallelism: u32,
    /// Rows that a batch should hold at most.
    pub batch_rows: usize,
    /// When rows leave a sink. A sink that cannot hold rows back always writes them as they arrive.
    pub delivery: Delivery,
    /// The driver's clock.
    pub clock: Arc<dyn Clock>,
    /// The job that the task belongs to.
    pub host: Arc<dyn Host>,
}

/// What a source or sink can request of its job, from any thread.
pub trait Host: Send + Sync {
    /// The incarnation that the task belongs to. The task may take over or remove what older incarnations
    /// left unfinished, but nothing of newer ones.
    fn incarnation(&self) -> Incarnation;

    /// The epoch of the checkpoint that the incarnation resumes from, 0 if it starts without one. `None`
    /// outside of a job.
    fn resumed_after(&self) -> Option<Epoch> {
        None
    }

    /// Reads in the job's log whether the job still belongs to this incarnation. Accesses the store, so it is
    /// for failures only.
    fn is_owner(&self) -> Result<bool> {
        Ok(true)
    }

    /// Whether the incarnation is over: another process may own the job by now. A waiting caller then gives
    /// up and commits nothing more.
    fn is_cancelled(&self) -> bool;

    /// A list that all tasks of the incarnation share under this key, such as the files of a table. The first
    /// caller creates the list; the others get a copy.
    fn agreed(&self, key: &str, list: &mut dyn FnMut() -> Result<Vec<String>>) -> Result<Vec<String>> {
        let _ = key;
        list()
    }

    /// Reports that a system has not answered this task since `since`. Returns true to the first task of the
    /// incarnation that reports it: that task notifies the user.
    fn outage_begins(&self, system: &str, since: Nanos) -> bool {
        let _ = (system, since);
        true
    }

    /// Reports that the system, which had not answered this task since `since`, answers again. The last task
    /// of the outage gets the time at which the first one found it, and notifies the user.
    fn outage_ends(&self, system: &str, since: Nanos) -> Option<Nanos> {
        let _ = system;
        Some(since)
    }

    /// Requests a checkpoint as soon as possible, because the sink holds much memory until then. Does not
    /// wait. Has no effect in a job without checkpoints.
    fn request_checkpoint(&self);

    /// Waits for this time, or until the task has something else to do than to wait for rows. Returns false
    /// at once if the host cannot wait.
    fn wait(&self, _time: Duration) -> bool {
        false
    }

    /// Reports that a sink is full, or no longer full. While a sink is full, the job does not poll its
    /// sources, and they end their epochs early until a requested checkpoint. Rows in flight still arrive.
    /// Calls of one sink alternate between `true` and `false`.
    fn set_full(&self, _full: bool) {}

    /// Notifies the user while the job runs, in one sentence that includes what to do. It must not contain
    /// secrets.
    fn notify(&self, text: String);
}

/// Reads partitions of a table. Partition `p` belongs to the task with `index == p % parallelism`.
pub trait Source: Send {
    /// Polls for what comes next. Waits at most `wait`, and returns [`Polled::Pending`] if nothing came.
    fn poll(&mut self, wait: Duration) -> Result<Polled>;

    /// Epoch `epoch` was cut after what `poll` last returned.
    fn epoch_cut(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }

    /// From now on `poll` returns no further rows of exactly these partitions, which are too far ahead of
    /// others. Rows that the reader has already read may still come. Returns false if the reader cannot hold
    /// partitions: then it continues with all of them.
    fn hold(&mut self, _partitions: &BTreeSet<PartitionId>) -> Result<bool> {
        Ok(false)
    }

    /// Positions of this reader's partitions after what `poll` last returned. A reader that is opened there
    /// returns exactly the rows that follow.
    fn positions(&self) -> Result<Positions>;

    /// Rows of this reader's partitions that exist and that `poll` has not returned yet, as far as the reader
    /// knows without a request. `None` if it does not know, or if the rows have no time of arrival.
    fn lag_rows(&self) -> Option<u64> {
        None
    }

    /// Whether the reader may continue when the plan of the job changes, although other tasks' readers of the
    /// table are opened anew. It must not if its choice of partitions depends on what other readers find.
    fn may_go_on(&self) -> bool {
        true
    }

    /// Whether `poll` waits at the host, which ends the wait when the task has something else to do. The task
    /// may then let it wait longer.
    fn waits_at_host(&self) -> bool {
        false
    }

    /// Every sink has written what it received up to the end of `epoch`: resources for positions up to that
    /// cut may be released.
    fn epoch_done(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}

/// Outcome of [`Source::poll`].
#[derive(Debug)]
pub enum Polled {
    /// A partition now belongs to this task: it holds the watermark back until it has rows or is idle.
    Opened {
        /// This reader's identifier for it; another reader, or the same one after a restart, may use a
        /// different one.
        partition: PartitionId,
        /// Its name in [`Source::positions`], which never changes.
        name: String,
    },
    /// Rows of one partition, in its order.
    Rows(Rows),
    /// A partition has ended.
    Closed(PartitionId),
    /// Nothing came within the time given.
    Pending,
    /// Every partition has ended and no other will come.
    End,
}

/// Rows that a source decoded.
#[derive(Debug)]
pub struct Rows {
    /// The partition that the rows are from.
    pub partition: PartitionId,
    /// The columns of the source's projection.
    pub batch: RecordBatch,
    /// Records among them that could not be decoded, in order.
    pub malformed: Vec<Malformed>,
}

/// A record that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Where the record is: `events.ndjson line 17`, `topic ads partition 3 offset 18`.
    pub place: String,
    /// What is wrong with the record.
    pub error: String,
    /// The record as read.
    pub record: Vec<u8>,
}

/// Writes the rows of one task.
pub trait Sink: Send {
    /// Writes rows. May buffer.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// No row at or below this event time follows, except late ones.
    fn watermark(&mut self, watermark: EventTime) {
        let _ = watermark;
    }

    /// Sends buffered rows without waiting: called when the input pauses.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// The epoch ends: returns when the external system has accepted everything written before.
    fn epoch_end(&mut self, epoch: Epoch) -> Result<()>;

    /// With [`Delivery::ExactlyOnce`], at the end of an epoch that a checkpoint covers, instead of
    /// `epoch_end`: makes what was written since the last call durable but not yet visible. `None` if there
    /// is nothing, or if the sink writes rows as they arrive; in that case the external system has accepted
    /// them when this returns.
    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        self.epoch_end(epoch)?;
        Ok(None)
    }

    /// The checkpoint that holds this committable is complete: makes it visible. Called at least once for
    /// each, in the order of epochs. After a failure the sink of another task or process may get the call,
    /// before its first `write`. What is visible already stays as it is.
    fn commit(&mut self, committable: &Committable) -> Result<()> {
        let _ = committable;
        Ok(())
    }

    /// Nothing follows. Called after the last `epoch_end` or `commit`.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Connectors by name. [`ONE_ROW`] is always among them.
#[derive(Clone)]
pub struct Connectors {
    by_name: BTreeMap<String, Arc<dyn Connector>>,
}

impl Default for Connectors {
    fn default() -> Self {
        let one_row: Arc<dyn Connector> = Arc::new(OneRow);
        Connectors { by_name: BTreeMap::from([(ONE_ROW.to_owned(), one_row)]) }
    }
}

impl Connectors {
    /// Adds a connector, or replaces the one of the same name.
    pub fn register(&mut self, name: impl Into<String>, connector: Arc<dyn Connector>) {
        self.by_name.insert(name.into(), connector);
    }

    /// The names of all connectors for SQL.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str).filter(|name| *name != ONE_ROW)
    }

    /// The connector of this name.
    pub fn get(&self, name: &str) -> Result<&Arc<dyn Connector>> {
        self.by_name.get(name).ok_or_else(|| {
            let known: Vec<_> = self.by_name.keys().map(String::as_str).filter(|known| *known != ONE_ROW).collect();
            let near = nearest(name, known.iter().copied()).map(|near| format!("did you mean '{near}'? "));
            let remedy = format!("{}use one of: {}", near.unwrap_or_default(), known.join(", "));
            Error::user(format!("unknown connector '{name}'")).remedy(remedy)
        })
    }
}
