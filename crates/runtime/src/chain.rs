//! A stage's operators in a row, driven depth first: the output of an operator goes through all operators after it
//! before the operator is called again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use anabranch_dataflow::{JobOptions, Stage};
use anabranch_model::{
    Clock, Epoch, Error, EventTime, KeyGroupRange, KeyGroups, Marker, Nanos, Result, Stamped, TaskCounters, batch_bytes,
};
use anabranch_operators::{
    Committable, Dropped, Element, Functions, Operator, Output, Sink, StateShape, build_operator, hash_keys,
};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;

use crate::control::Control;
use crate::durable::RestoredOperator;
use crate::exchange::ExchangeWriter;
use crate::snapshot::OperatorSnapshot;

/// Operators and the tail after them.
pub(crate) struct Chain {
    links: Vec<Link>,
    tail: Tail,
    /// The last watermark that left the chain.
    left: EventTime,
    idle: bool,
    /// Event time may be further at the receivers of this chain's rows than here: the task was idle, or resumes from a
    /// checkpoint.
    may_be_behind: bool,
    counters: Arc<TaskCounters>,
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
}

struct Link {
    operator: Box<dyn Operator>,
    /// Schema of the operator's output, which is checked.
    schema: SchemaRef,
    output: Output,
    /// Event time from the checkpoint. The chain may be behind it: a partition that was idle then holds event time back
    /// until it is idle again.
    restored: EventTime,
}

/// Where the rows of a chain go.
pub(crate) enum Tail {
    Exchanges(Vec<ExchangeWriter>),
    Sink(SinkTail),
}

/// A sink, and what it has prepared that is not visible yet.
pub(crate) struct SinkTail {
    pub(crate) sink: Box<dyn Sink>,
    /// The job has checkpoints: they make rows visible, not the end of every epoch.
    by_checkpoint: bool,
    prepared: VecDeque<Committable>,
}

/// What the operators of a task resume from.
pub(crate) struct Restore {
    /// By their places in the chain.
    pub(crate) operators: BTreeMap<usize, RestoredOperator>,
    /// State without keys belongs to the first task of the stage, whichever task had it.
    pub(crate) is_first: bool,
    /// The key groups that the task owns, of so many.
    pub(crate) own: KeyGroupRange,
    pub(crate) groups: KeyGroups,
}

/// What a chain adds to its task's snapshot.
#[derive(Debug)]
pub(crate) struct ChainSnapshot {
    pub(crate) operators: Vec<OperatorSnapshot>,
    pub(crate) prepared: Vec<Committable>,
}

impl Chain {
    pub(crate) fn new(
        stage: &Stage,
        input: SchemaRef,
        tail: Tail,
        options: &JobOptions,
        functions: &Functions,
        (counters, control): (Arc<TaskCounters>, Arc<Control>),
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let mut schema = input;
        let mut links = Vec::with_capacity(stage.operators.len());
        for spec in &stage.operators {
            let (operator, output) = build_operator(spec, &schema, options, functions)?;
            schema = output;
            links.push(Link {
                operator,
                schema: Arc::clone(&schema),
                output: Output::default(),
                restored: EventTime::MIN,
            });
        }
        if !same_types(&schema, &stage.schema) {
            return Err(Error::internal(format!(
                "{} has the schema {schema:?}, but the plan says {:?}",
                stage.id, stage.schema
            )));
        }
        Ok(Chain { links, tail, left: EventTime::MIN, idle: false, may_be_behind: true, counters, control, clock })
    }

    /// Rows of the static side of the operator at `index`.
    pub(crate) fn side_batch(&mut self, index: usize, batch: RecordBatch) -> Result<()> {
        self.links[index].operator.side_batch(batch)
    }

    pub(crate) fn side_end(&mut self, index: usize) -> Result<()> {
        self.links[index].operator.side_end()
    }

    /// Rows at the head of the chain.
    pub(crate) fn batch(&mut self, batch: Stamped<RecordBatch>) -> Result<()> {
        let rows = batch.value.num_rows() as u64;
        self.wake(batch.born)?;
        if self.may_be_behind {
            self.look_ahead();
        }
        self.push(0, Element::Batch(batch.value), batch.born)?;
        self.counters.latency.record(self.clock.now().since(batch.born), rows);
        Ok(())
    }

    /// A watermark at the head of the chain.
    pub(crate) fn watermark(&mut self, watermark: Stamped<EventTime>) -> Result<()> {
        self.counters.watermark_ms.store(watermark.value.0, Relaxed);
        self.wake(watermark.born)?;
        self.push(0, Element::Watermark(watermark.value), watermark.born)
    }

    /// Announces first that the task is no longer idle: its rows hold event time back again.
    fn wake(&mut self, born: Nanos) -> Result<()> {
        if std::mem::replace(&mut self.idle, false) {
            self.leave(Element::Watermark(self.left), born)?;
            if let Tail::Exchanges(writers) = &mut self.tail {
                writers.iter_mut().for_each(ExchangeWriter::announced);
            }
        }
        Ok(())
    }

    /// Notifies the operators how far event time has advanced at the tasks that this chain sends to. While one of them
    /// has not received the announcement that this task is no longer idle, event time may advance there without this
    /// task.
    fn look_ahead(&mut self) {
        let reached = match &self.tail {
            Tail::Exchanges(writers) => {
                let reached = writers.iter().try_fold(EventTime::MIN, |most, w| Some(most.max(w.reached()?)));
                reached.unwrap_or(EventTime::MAX)
            }
            Tail::Sink(_) => EventTime::MIN,
        };
        self.may_be_behind = reached > self.left;
        self.links.iter_mut().for_each(|link| link.operator.event_time_ahead(reached));
    }

    fn push(&mut self, at: usize, element: Element, born: Nanos) -> Result<()> {
        let Some(link) = self.links.get_mut(at) else { return self.leave(element, born) };
        let mut output = std::mem::take(&mut link.output);
        match element {
            Element::Batch(batch) => link.operator.batch(batch, &mut output)?,
            Element::Watermark(watermark) => {
                link.operator.watermark(watermark, &mut output)?;
                self.push_all(at + 1, &mut output, born)?;
                while self.links[at].operator.more(&mut output)? {
                    self.check_cancelled()?;
                    self.push_all(at + 1, &mut output, born)?;
                    self.flush_due(self.clock.now())?;
                }
            }
        }
        self.push_all(at + 1, &mut output, born)?;
        self.links[at].output = output;
        Ok(())
    }

    /// Processing an operator's output may take long, such as a window of millions of keys: a cancelled task abandons
    /// it between two batches.
    fn push_all(&mut self, at: usize, output: &mut Output, born: Nanos) -> Result<()> {
        for element in output.drain() {
            self.check_cancelled()?;
            if let Element::Batch(batch) = &element {
                self.links[at - 1].check(batch)?;
            }
            self.push(at, element, born)?;
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<()> {
        match self.control.is_cancelled() {
            true => Err(Error::cancelled()),
            false => Ok(()),
        }
    }

    fn leave(&mut self, element: Element, born: Nanos) -> Result<()> {
        match element {
            Element::Batch(batch) => {
                TaskCounters::add(&self.counters.rows_out, batch.num_rows() as u64);
                let bytes = batch_bytes(&batch);
                TaskCounters::add(&self.counters.bytes_out, bytes as u64);
                match &mut self.tail {
                    Tail::Exchanges(writers) => writers.iter_mut().try_for_each(|w| w.batch(&batch, bytes, born)),
                    Tail::Sink(tail) => {
                        tail.sink.write(&batch)?;
                        self.counters.result_latency.record(self.clock.now().since(born), batch.num_rows() as u64);
                        Ok(())
                    }
                }
            }
            Element::Watermark(value) => {
                self.left = value;
                match &mut self.tail {
                    Tail::Exchanges(writers) => {
                        writers.iter_mut().try_for_each(|w| w.watermark(Stamped { value, born }))
                    }
                    Tail::Sink(_) => Ok(()),
                }
            }
        }
    }

    /// Every input of the task is idle: event time may advance without it, so no operator may hold rows back.
    pub(crate) fn idle(&mut self) -> Result<()> {
        self.flush_operators()?;
        (self.idle, self.may_be_behind) = (true, true);
        match &mut self.tail {
            Tail::Exchanges(writers) => writers.iter_mut().try_for_each(ExchangeWriter::idle),
            Tail::Sink(tail) => tail.sink.flush(),
        }
    }

    /// The epoch ends. The operators flush, and return their state if the marker requests it. The sink ends its epoch
    /// or prepares its results. The marker is passed on.
    pub(crate) fn marker(&mut self, marker: Marker) -> Result<Option<ChainSnapshot>> {
        self.flush_operators()?;
        self.count_dropped();
        let operators = if marker.snapshot { self.snapshot_operators()? } else { Vec::new() };
        match &mut self.tail {
            Tail::Exchanges(writers) => writers.iter_mut().try_for_each(|w| w.marker(marker))?,
            Tail::Sink(tail) => tail.epoch_end(marker)?,
        }
        self.counters.epoch.store(marker.epoch.0, Relaxed);
        let prepared = match &self.tail {
            Tail::Sink(tail) if marker.snapshot => tail.prepared(),
            _ => Vec::new(),
        };
        Ok(marker.snapshot.then_some(ChainSnapshot { operators, prepared }))
    }

    fn snapshot_operators(&mut self) -> Result<Vec<OperatorSnapshot>> {
        let mut operators = Vec::new();
        let watermark = EventTime(self.counters.watermark_ms.load(Relaxed));
        for (place, link) in self.links.iter_mut().enumerate() {
            if let Some(shape) = link.operator.state_shape() {
                let (change, watermark) = (link.operator.snapshot()?, watermark.max(link.restored));
                operators.push(OperatorSnapshot { place, shape, change, watermark });
            }
        }
        Ok(operators)
    }

    /// A checkpoint at the end of `epoch` is complete: the sink makes visible what it prepared up to there.
    pub(crate) fn checkpoint_done(&mut self, epoch: Epoch) -> Result<()> {
        match &mut self.tail {
            Tail::Sink(tail) => tail.commit(epoch),
            Tail::Exchanges(_) => Ok(()),
        }
    }

    /// Whether the sink waits for a checkpoint to make something visible.
    pub(crate) fn waits_for_checkpoint(&self) -> bool {
        matches!(&self.tail, Tail::Sink(tail) if !tail.prepared.is_empty())
    }

    /// No input follows; a checkpoint covers everything up to the end of `done`.
    pub(crate) fn finish(&mut self, done: Option<Epoch>) -> Result<()> {
        match &mut self.tail {
            Tail::Sink(tail) => tail.finish(done),
            Tail::Exchanges(_) => Ok(()),
        }
    }

    /// Restores the operators: this task takes the rows of its own key groups. Calls `wanted` after each piece, and
    /// returns early once that is false.
    pub(crate) fn restore(&mut self, restore: &Restore, mut wanted: impl FnMut() -> bool) -> Result<()> {
        let Restore { operators, is_first, own, groups } = restore;
        for (place, link) in self.links.iter_mut().enumerate() {
            let (Some(shape), Some(state)) = (link.operator.state_shape(), operators.get(&place)) else { continue };
            let own = match shape.keys.is_empty() {
                true if *is_first => groups.all(),
                true => KeyGroupRange::EMPTY,
                false => *own,
            };
            for rows in state.rows(own) {
                let own = own_rows(&rows?, &shape, own, *groups)?;
                if own.num_rows() > 0 {
                    link.operator.restore(own)?;
                }
                if !wanted() {
                    return Ok(());
                }
            }
            link.operator.restored(state.watermark)?;
            link.restored = state.watermark;
        }
        Ok(())
    }

    fn flush_operators(&mut self) -> Result<()> {
        let born = self.clock.now();
        for at in 0..self.links.len() {
            let mut output = std::mem::take(&mut self.links[at].output);
            self.links[at].operator.flush(&mut output)?;
            self.push_all(at + 1, &mut output, born)?;
            self.links[at].output = output;
        }
        Ok(())
    }

    fn count_dropped(&mut self) {
        for link in &mut self.links {
            let Dropped { late_rows, rows_without_event_time, rows_with_null } = link.operator.take_dropped();
            TaskCounters::add(&self.counters.late_rows, late_rows);
            TaskCounters::add(&self.counters.rows_without_event_time, rows_without_event_time);
            TaskCounters::add(&self.counters.rows_with_null, rows_with_null);
        }
    }

    /// Sends buffered rows whose time is up.
    pub(crate) fn flush_due(&mut self, now: Nanos) -> Result<()> {
        match &mut self.tail {
            Tail::Exchanges(writers) => writers.iter_mut().try_for_each(|w| w.flush_due(now)),
            Tail::Sink(_) => Ok(()),
        }
    }

    /// The input pauses: a sink may send its buffered rows.
    pub(crate) fn pause(&mut self) -> Result<()> {
        match &mut self.tail {
            Tail::Exchanges(_) => Ok(()),
            Tail::Sink(tail) => tail.sink.flush(),
        }
    }

    /// When buffered rows must be sent next.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        match &self.tail {
            Tail::Exchanges(writers) => writers.iter().filter_map(ExchangeWriter::next_deadline).min(),
            Tail::Sink(_) => None,
        }
    }

    /// Bytes that wait on the fullest channel downstream.
    pub(crate) fn queued_bytes(&self) -> usize {
        match &self.tail {
            Tail::Exchanges(writers) => writers.iter().map(ExchangeWriter::queued_bytes).max().unwrap_or(0),
            Tail::Sink(_) => 0,
        }
    }

    /// Nanoseconds waited for room downstream since the last call.
    pub(crate) fn take_waited_ns(&mut self) -> u64 {
        match &mut self.tail {
            Tail::Exchanges(writers) => writers.iter_mut().map(ExchangeWriter::take_waited_ns).sum(),
            Tail::Sink(_) => 0,
        }
    }

    pub(crate) fn is_sink(&self) -> bool {
        matches!(self.tail, Tail::Sink(_))
    }

    /// Adds up where time was spent since `start`: waiting for room downstream, or working.
    pub(crate) fn account(&mut self, start: Nanos) -> Nanos {
        let now = self.clock.now();
        let waited = self.take_waited_ns();
        TaskCounters::add(&self.counters.backpressured_ns, waited);
        TaskCounters::add(&self.counters.busy_ns, now.since(start).saturating_sub(waited));
        now
    }
}

impl Link {
    fn check(&self, batch: &RecordBatch) -> Result<()> {
        // The same schema object is the usual case and costs one comparison of pointers.
        if Arc::ptr_eq(batch.schema_ref(), &self.schema) || same_types(batch.schema_ref(), &self.schema) {
            return Ok(());
        }
        Err(Error::internal(format!("an operator returned {:?} instead of {:?}", batch.schema(), self.schema)))
    }
}

impl SinkTail {
    pub(crate) fn new(sink: Box<dyn Sink>, by_checkpoint: bool) -> SinkTail {
        SinkTail { sink, by_checkpoint, prepared: VecDeque::new() }
    }

    /// The epoch ends: the sink writes its rows, or prepares what a checkpoint will make visible.
    pub(crate) fn epoch_end(&mut self, marker: Marker) -> Result<()> {
        match (self.by_checkpoint, marker.snapshot) {
            (false, _) => self.sink.epoch_end(marker.epoch),
            (true, false) => self.sink.flush(),
            (true, true) => {
                self.prepared.extend(self.sink.prepare_commit(marker.epoch)?);
                Ok(())
            }
        }
    }

    /// What is prepared and not visible yet, oldest first.
    pub(crate) fn prepared(&self) -> Vec<Committable> {
        self.prepared.iter().cloned().collect()
    }

    /// A checkpoint covers everything up to the end of `epoch`.
    pub(crate) fn commit(&mut self, epoch: Epoch) -> Result<()> {
        while let Some(committable) = self.prepared.front().filter(|c| c.epoch <= epoch) {
            self.sink.commit(committable)?;
            self.prepared.pop_front();
        }
        Ok(())
    }

    /// Makes visible this task's share of what earlier tasks prepared under a completed checkpoint.
    pub(crate) fn restore(&mut self, prepared: &[Committable], index: u32, parallelism: u32) -> Result<()> {
        let mut own = prepared.iter().filter(|c| c.task % parallelism == index);
        own.try_for_each(|committable| self.sink.commit(committable))
    }

    pub(crate) fn finish(&mut self, done: Option<Epoch>) -> Result<()> {
        done.map_or(Ok(()), |done| self.commit(done))?;
        self.sink.finish()
    }
}

/// The rows of state whose key groups a task owns; all rows if the state has no keys. The columns after the keys may have the
/// form of an earlier version, which the operator converts.
fn own_rows(rows: &RecordBatch, shape: &StateShape, own: KeyGroupRange, groups: KeyGroups) -> Result<RecordBatch> {
    let types = |schema: &SchemaRef| -> Vec<String> {
        schema.fields().iter().take(shape.keys.end).map(|field| field.data_type().to_string()).collect()
    };
    let (was, is) = (types(rows.schema_ref()), types(&shape.schema));
    if was != is {
        let (was, is) = (was.join(", "), is.join(", "));
        return Err(Error::user(format!(
            "the state of the checkpoint begins with columns [{was}], the query's with [{is}]"
        ))
        .remedy("use the query that wrote the checkpoint, or start without the checkpoint"));
    }
    if shape.keys.is_empty() {
        return Ok(rows.clone());
    }
    let mut hashes = Vec::new();
    hash_keys(&rows.columns()[shape.keys.clone()], rows.num_rows(), &mut hashes)?;
    let own: BooleanArray = hashes.iter().map(|hash| Some(own.contains(groups.of(*hash)))).collect();
    Ok(filter_record_batch(rows, &own)?)
}

/// Whether columns have equal types; names do not matter.
fn same_types(a: &SchemaRef, b: &SchemaRef) -> bool {
    a.fields().len() == b.fields().len()
        && a.fields().iter().zip(b.fields()).all(|(a, b)| a.data_type().equals_datatype(b.data_type()))
}

#[cfg(test)]
mod tests;
