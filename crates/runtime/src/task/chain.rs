//! A stage's operators in a row, driven depth first: the output of an operator passes through all operators
//! after it before the operator is called again.
//!
//! A chain never waits. It takes one input at a time. [`Chain::advance`] moves its elements until none is
//! left, or until its tail has no room; the next call continues from there.

mod epoch_end;
mod lookups;
mod restore;
mod sink_tail;
mod succession;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use anabranch_dataflow::{JobOptions, Stage};
use anabranch_model::{Clock, Epoch, Error, EventTime, Marker, Nanos, Result, Stamped, TaskCounters, batch_bytes};
use anabranch_operators::{Committable, Element, Functions, Operator, Output, build_operator};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::task::control::Control;
use crate::task::exchange::{ExchangeWriter, furthest};
use crate::task::snapshot::OperatorSnapshot;

pub(crate) use restore::{Restore, fill};
pub(crate) use sink_tail::SinkTail;

/// Operators and the tail after them.
pub(crate) struct Chain {
    links: Vec<Link>,
    /// Elements that have passed the last operator.
    leaving: VecDeque<Moving>,
    /// What follows when no element is moving any more.
    agenda: Agenda,
    tail: Tail,
    /// The last watermark that left the chain.
    left: EventTime,
    idle: bool,
    /// Event time may be further at the receivers of this chain's rows than here: the task was idle, or
    /// resumes from a checkpoint.
    may_be_behind: bool,
    /// Whether the task has announced in this epoch that it is no longer idle.
    woke: bool,
    /// Whether operators may have put work off.
    put_off: bool,
    /// When the last marker had passed the operators and the sink. It may wait for room downstream after
    /// that.
    marked_at: Nanos,
    counters: Arc<TaskCounters>,
    control: Arc<Control>,
    clock: Arc<dyn Clock>,
}

struct Link {
    operator: Box<dyn Operator>,
    /// Schema of the operator's output, which is checked.
    schema: SchemaRef,
    output: Output,
    /// The elements that it takes next.
    waiting: VecDeque<Moving>,
    /// The operator may have more output for a batch or watermark of this birth.
    emits: Option<Nanos>,
    /// Event time that has reached the operator, here or in the checkpoint. The chain may be behind the
    /// checkpoint: a partition that was idle then holds event time back until it is idle again.
    reached: EventTime,
}

/// A moving element, and the birth of its oldest cause.
struct Moving {
    element: Element,
    born: Nanos,
    /// For rows of the first operator: the number of the input.
    input: usize,
}

/// What follows when no element is moving any more.
enum Agenda {
    /// The next input.
    Nothing,
    /// Record the latency of a batch of this number of rows.
    Measure { born: Nanos, rows: u64 },
    /// Flush the operator of this index, then those after it. Then all earlier elements have left.
    Flush { next: usize, then: AfterFlush },
    /// Report that the marker has passed.
    Report { marker: Marker, snapshot: Option<ChainSnapshot> },
}

#[derive(Clone, Copy)]
enum AfterFlush {
    Idle,
    Marker(Marker),
}

/// The progress of a chain.
#[derive(Debug)]
pub(crate) enum Progress {
    /// No element is moving: the chain takes the next input.
    Ready,
    /// The marker has left the chain, which took a snapshot if the marker requested one. The chain takes the
    /// next input.
    Marked(Marker, Option<ChainSnapshot>),
    /// There is no room in a channel downstream.
    Full,
}

/// Where the rows of a chain go.
pub(crate) enum Tail {
    Exchanges(Vec<ExchangeWriter>),
    Sink(SinkTail),
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
            let (mut operator, output) = build_operator(spec, &schema, options, functions)?;
            operator.state().map_or(Ok(()), |state| state.processing_time(clock.wall_ms()))?;
            links.push(Link::new(operator, Arc::clone(&output)));
            schema = output;
        }
        if !same_types(&schema, &stage.schema) {
            return Err(Error::internal(format!(
                "{} has the schema {schema:?}, but the plan says {:?}",
                stage.id, stage.schema
            )));
        }
        Ok(Chain {
            links,
            leaving: VecDeque::new(),
            agenda: Agenda::Nothing,
            tail,
            left: EventTime::MIN,
            idle: false,
            may_be_behind: true,
            woke: false,
            put_off: true,
            marked_at: Nanos(0),
            counters,
            control,
            clock,
        })
    }

    /// Rows of the static side of the operator at `index`.
    pub(crate) fn side_batch(&mut self, index: usize, batch: RecordBatch) -> Result<()> {
        self.sided(index)?.side_batch(batch)
    }

    pub(crate) fn side_end(&mut self, index: usize) -> Result<()> {
        self.sided(index)?.side_end()
    }

    /// Takes rows of an input of the first operator. The chain must be [ready](Progress::Ready).
    pub(crate) fn batch(&mut self, batch: Stamped<RecordBatch>, input: usize) -> Result<()> {
        let (born, rows) = (batch.born, batch.value.num_rows() as u64);
        self.wake(born)?;
        if self.may_be_behind {
            self.look_ahead();
        }
        self.set_agenda(Agenda::Measure { born, rows })?;
        self.enter(0, Moving { element: Element::Batch(batch.value), born, input });
        Ok(())
    }

    /// Takes a watermark. The chain must be ready.
    pub(crate) fn watermark(&mut self, watermark: Stamped<EventTime>) -> Result<()> {
        self.counters.watermark_ms.store(watermark.value.0, Relaxed);
        self.wake(watermark.born)?;
        self.enter(0, Moving { element: Element::Watermark(watermark.value), born: watermark.born, input: 0 });
        Ok(())
    }

    /// Every input of the task is idle: event time may advance without it, so no operator may hold rows back.
    /// The chain must be ready.
    pub(crate) fn idle(&mut self) -> Result<()> {
        self.set_agenda(Agenda::Flush { next: 0, then: AfterFlush::Idle })
    }

    /// The epoch ends. The operators flush, and return their state if the marker requests it. The sink ends
    /// its epoch or prepares its results. The marker is passed on. The chain must be ready.
    pub(crate) fn marker(&mut self, marker: Marker) -> Result<()> {
        self.set_agenda(Agenda::Flush { next: 0, then: AfterFlush::Marker(marker) })
    }

    fn set_agenda(&mut self, agenda: Agenda) -> Result<()> {
        match std::mem::replace(&mut self.agenda, agenda) {
            Agenda::Nothing => Ok(()),
            _ => Err(Error::internal("a chain was given input before it was ready")),
        }
    }

    /// Moves elements. The consequences of one watermark may take long, such as a window of millions of keys:
    /// a cancelled task abandons them between two batches.
    pub(crate) fn advance(&mut self) -> Result<Progress> {
        loop {
            if !self.has_room()? {
                return Ok(Progress::Full);
            }
            if self.control.is_cancelled() {
                return Err(Error::cancelled());
            }
            if let Some(Moving { element, born, .. }) = self.leaving.pop_front() {
                self.leave(element, born)?;
            } else if let Some(at) = self.links.iter().rposition(Link::has_work) {
                self.process(at)?;
            } else {
                match std::mem::replace(&mut self.agenda, Agenda::Nothing) {
                    Agenda::Nothing => {
                        self.catch_up()?;
                        return Ok(Progress::Ready);
                    }
                    Agenda::Measure { born, rows } => {
                        self.counters.latency.record(self.clock.now().since(born), rows);
                    }
                    Agenda::Flush { next, then } if next < self.links.len() => {
                        self.flush(next)?;
                        self.agenda = Agenda::Flush { next: next + 1, then };
                    }
                    Agenda::Flush { then: AfterFlush::Idle, .. } => self.pass_idle()?,
                    Agenda::Flush { then: AfterFlush::Marker(marker), .. } => {
                        let snapshot = self.pass_marker(marker)?;
                        self.agenda = Agenda::Report { marker, snapshot };
                    }
                    Agenda::Report { marker, snapshot } => return Ok(Progress::Marked(marker, snapshot)),
                }
            }
        }
    }

    /// Lets an operator process its next element, or emit more.
    fn process(&mut self, at: usize) -> Result<()> {
        let link = &mut self.links[at];
        let mut output = std::mem::take(&mut link.output);
        let mut born = Nanos(0);
        if let Some(emits) = link.emits {
            born = emits;
            match link.operator.more(&mut output)? {
                true => _ = self.flush_due(self.clock.now())?,
                false => link.emits = None,
            }
        } else if let Some(next) = link.waiting.pop_front() {
            born = next.born;
            link.emits = Some(born);
            match next.element {
                Element::Batch(batch) if next.input == 0 => link.operator.batch(batch, &mut output)?,
                Element::Batch(batch) => link.operator.input_batch(next.input, batch, &mut output)?,
                Element::Watermark(watermark) => {
                    link.reached = link.reached.max(watermark);
                    link.operator.watermark(watermark, &mut output)?;
                }
            }
        }
        self.pass_on(at, output, born)
    }

    /// Lets an operator do a piece of the work that it has put off.
    fn catch_up(&mut self) -> Result<()> {
        if self.put_off {
            let mut states = self.links.iter_mut().filter_map(|link| link.operator.state());
            self.put_off = states.try_fold(false, |did, state| Ok::<_, Error>(did || state.catch_up()?))?;
        }
        Ok(())
    }

    fn flush(&mut self, at: usize) -> Result<()> {
        let (link, now) = (&mut self.links[at], self.clock.now());
        let mut output = std::mem::take(&mut link.output);
        link.operator.flush(&mut output)?;
        link.emits = Some(now);
        self.pass_on(at, output, now)
    }

    /// Passes the output of an operator to the next one.
    fn pass_on(&mut self, at: usize, mut output: Output, born: Nanos) -> Result<()> {
        for element in output.drain() {
            if let Element::Batch(batch) = &element {
                self.links[at].check(batch)?;
            }
            self.enter(at + 1, Moving { element, born, input: 0 });
        }
        self.links[at].output = output;
        Ok(())
    }

    fn enter(&mut self, at: usize, moving: Moving) {
        match self.links.get_mut(at) {
            Some(link) => link.waiting.push_back(moving),
            None => self.leaving.push_back(moving),
        }
    }

    /// Announces that the task is no longer idle: its rows hold event time back again.
    fn wake(&mut self, born: Nanos) -> Result<()> {
        if std::mem::replace(&mut self.idle, false) {
            self.leave(Element::Watermark(self.left), born)?;
            if let Tail::Exchanges(writers) = &mut self.tail {
                writers.iter_mut().for_each(|writer| writer.announced(false));
                self.woke = true;
            }
        }
        Ok(())
    }

    /// Tells the operators how far event time has advanced at the receivers of this chain. Until all of them
    /// have received the announcement that this task is no longer idle, event time may advance there without
    /// this task.
    fn look_ahead(&mut self) {
        let reached = match &mut self.tail {
            Tail::Exchanges(writers) => {
                furthest(writers.iter_mut().map(ExchangeWriter::reached)).unwrap_or(EventTime::MAX)
            }
            Tail::Sink(_) => EventTime::MIN,
        };
        self.may_be_behind = reached > self.left;
        self.links.iter_mut().for_each(|link| link.operator.event_time_ahead(reached));
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
                    Tail::Sink(tail) => tail.watermark(value),
                }
            }
        }
    }

    fn pass_idle(&mut self) -> Result<()> {
        (self.idle, self.may_be_behind) = (true, true);
        match &mut self.tail {
            Tail::Exchanges(writers) => writers.iter_mut().try_for_each(ExchangeWriter::idle),
            Tail::Sink(tail) => tail.sink.flush(),
        }
    }

    fn pass_marker(&mut self, marker: Marker) -> Result<Option<ChainSnapshot>> {
        self.count_dropped();
        self.tell_time()?;
        let operators = if marker.snapshot { self.snapshot_operators()? } else { Vec::new() };
        match &mut self.tail {
            Tail::Exchanges(writers) => {
                writers.iter_mut().try_for_each(|w| w.marker(marker))?;
                if std::mem::take(&mut self.woke) {
                    writers.iter_mut().for_each(|writer| writer.announced(true));
                    self.may_be_behind = true;
                }
            }
            Tail::Sink(tail) => tail.epoch_end(marker)?,
        }
        self.counters.epoch.store(marker.epoch.0, Relaxed);
        self.marked_at = self.clock.now();
        let prepared = match &self.tail {
            Tail::Sink(tail) if marker.snapshot => tail.prepared(),
            _ => Vec::new(),
        };
        Ok(marker.snapshot.then_some(ChainSnapshot { operators, prepared }))
    }

    /// A checkpoint at the end of `epoch` is complete: the sink publishes what it prepared up to there.
    pub(crate) fn checkpoint_done(&mut self, epoch: Epoch) -> Result<()> {
        match &mut self.tail {
            Tail::Sink(tail) => tail.commit(epoch),
            Tail::Exchanges(_) => Ok(()),
        }
    }

    /// Whether the sink waits for a checkpoint to publish something.
    pub(crate) fn waits_for_checkpoint(&self) -> bool {
        matches!(&self.tail, Tail::Sink(tail) if tail.is_prepared())
    }

    /// No input follows; a checkpoint covers everything up to the end of `done`.
    pub(crate) fn finish(&mut self, done: Option<Epoch>) -> Result<()> {
        match &mut self.tail {
            Tail::Sink(tail) => tail.finish(done),
            Tail::Exchanges(_) => Ok(()),
        }
    }

    /// Sends buffered rows whose timeout has passed. Returns whether there was room for them.
    pub(crate) fn flush_due(&mut self, now: Nanos) -> Result<bool> {
        if let Tail::Exchanges(writers) = &mut self.tail {
            writers.iter_mut().try_for_each(|writer| writer.flush_due(now))?;
        }
        self.has_room()
    }

    /// The input pauses: a sink may send its buffered rows. Work that was put off comes first: a sink may
    /// take long for each flush.
    pub(crate) fn pause(&mut self) -> Result<()> {
        match &mut self.tail {
            _ if self.put_off => Ok(()),
            Tail::Exchanges(_) => Ok(()),
            Tail::Sink(tail) => tail.sink.flush(),
        }
    }

    /// When the task must continue without input: buffered rows must be sent, or operators have put work off.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        match &self.tail {
            _ if self.put_off => Some(Nanos(0)),
            Tail::Exchanges(writers) => writers.iter().filter_map(ExchangeWriter::next_deadline).min(),
            Tail::Sink(_) => None,
        }
    }

    /// Whether the channels have taken everything that has left the chain.
    fn has_room(&mut self) -> Result<bool> {
        match &mut self.tail {
            // Each sends what it can, whether or not another one has room.
            Tail::Exchanges(writers) => writers.iter_mut().try_fold(true, |all, writer| Ok(writer.has_room()? & all)),
            Tail::Sink(_) => Ok(true),
        }
    }

    /// Waits for room in a channel that had none, or until it is closed.
    pub(crate) fn wait_for_room(&self) {
        if let Tail::Exchanges(writers) = &self.tail
            && let Some(writer) = writers.iter().find(|writer| writer.is_full())
        {
            writer.wait_for_room();
        }
    }

    pub(crate) fn is_sink(&self) -> bool {
        matches!(self.tail, Tail::Sink(_))
    }

    /// Counts the time since `start` as busy. Returns the time up to which the task's time is accounted for.
    pub(crate) fn account(&self, start: Nanos) -> Nanos {
        let now = self.clock.now();
        TaskCounters::add(&self.counters.busy_ns, now.since(start));
        now
    }
}

impl Link {
    fn new(operator: Box<dyn Operator>, schema: SchemaRef) -> Link {
        let (output, waiting, emits, reached) = (Output::default(), VecDeque::new(), None, EventTime::MIN);
        Link { operator, schema, output, waiting, emits, reached }
    }

    fn has_work(&self) -> bool {
        self.emits.is_some() || !self.waiting.is_empty()
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        // The same schema object is the usual case and costs one comparison of pointers.
        if Arc::ptr_eq(batch.schema_ref(), &self.schema) || same_types(batch.schema_ref(), &self.schema) {
            return Ok(());
        }
        Err(Error::internal(format!("an operator returned {:?} instead of {:?}", batch.schema(), self.schema)))
    }
}

/// Whether columns have equal types; names do not matter.
pub(crate) fn same_types(a: &SchemaRef, b: &SchemaRef) -> bool {
    a.fields().len() == b.fields().len()
        && a.fields().iter().zip(b.fields()).all(|(a, b)| a.data_type().equals_datatype(b.data_type()))
}

#[cfg(test)]
mod tests;
