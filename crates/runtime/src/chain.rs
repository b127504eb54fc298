//! A stage's operators in a row, driven depth first: what an operator gives goes through all that follow before the
//! operator is called again.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use anabranch_dataflow::{JobOptions, Stage};
use anabranch_model::{Clock, Error, EventTime, Marker, Nanos, Result, Stamped, TaskCounters, batch_bytes};
use anabranch_operators::{Element, Functions, Operator, Output, Sink, build_operator};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::exchange::ExchangeWriter;

/// Operators and what comes behind them.
pub(crate) struct Chain {
    links: Vec<Link>,
    tail: Tail,
    /// The last watermark that left.
    left: EventTime,
    idle: bool,
    counters: Arc<TaskCounters>,
    clock: Arc<dyn Clock>,
}

struct Link {
    operator: Box<dyn Operator>,
    /// Schema of what the operator gives; checked at its edge.
    schema: SchemaRef,
    output: Output,
}

/// Where the rows of a chain go.
pub(crate) enum Tail {
    Exchanges(Vec<ExchangeWriter>),
    Sink(Box<dyn Sink>),
}

impl Chain {
    pub(crate) fn new(
        stage: &Stage,
        input: SchemaRef,
        tail: Tail,
        options: &JobOptions,
        functions: &Functions,
        counters: Arc<TaskCounters>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let mut schema = input;
        let mut links = Vec::with_capacity(stage.operators.len());
        for spec in &stage.operators {
            let (operator, output) = build_operator(spec, &schema, options, functions)?;
            schema = output;
            links.push(Link { operator, schema: Arc::clone(&schema), output: Output::default() });
        }
        if !same_types(&schema, &stage.schema) {
            return Err(Error::internal(format!("{} gives {schema:?}, planned was {:?}", stage.id, stage.schema)));
        }
        Ok(Chain { links, tail, left: EventTime::MIN, idle: false, counters, clock })
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

    /// Whoever was idle says first that it is no longer: its rows count again where event time is held back.
    fn wake(&mut self, born: Nanos) -> Result<()> {
        match std::mem::replace(&mut self.idle, false) {
            true => self.leave(Element::Watermark(self.left), born),
            false => Ok(()),
        }
    }

    fn push(&mut self, at: usize, element: Element, born: Nanos) -> Result<()> {
        let Some(link) = self.links.get_mut(at) else { return self.leave(element, born) };
        let mut output = std::mem::take(&mut link.output);
        match element {
            Element::Batch(batch) => link.operator.batch(batch, &mut output)?,
            Element::Watermark(watermark) => link.operator.watermark(watermark, &mut output)?,
        }
        self.push_all(at + 1, &mut output, born)?;
        self.links[at].output = output;
        Ok(())
    }

    fn push_all(&mut self, at: usize, output: &mut Output, born: Nanos) -> Result<()> {
        for element in output.drain() {
            if let Element::Batch(batch) = &element {
                self.links[at - 1].check(batch)?;
            }
            self.push(at, element, born)?;
        }
        Ok(())
    }

    fn leave(&mut self, element: Element, born: Nanos) -> Result<()> {
        match element {
            Element::Batch(batch) => {
                TaskCounters::add(&self.counters.rows_out, batch.num_rows() as u64);
                TaskCounters::add(&self.counters.bytes_out, batch_bytes(&batch) as u64);
                match &mut self.tail {
                    Tail::Exchanges(writers) => writers.iter_mut().try_for_each(|w| w.batch(&batch, born)),
                    Tail::Sink(sink) => {
                        sink.write(&batch)?;
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

    /// Every input of the task is idle: event time may go on without it, so nothing may be held back.
    pub(crate) fn idle(&mut self) -> Result<()> {
        self.flush_operators()?;
        self.idle = true;
        match &mut self.tail {
            Tail::Exchanges(writers) => writers.iter_mut().try_for_each(ExchangeWriter::idle),
            Tail::Sink(sink) => sink.flush(),
        }
    }

    /// The epoch ends: operators give out what they hold back, the sink hands over, the marker goes on.
    pub(crate) fn marker(&mut self, marker: Marker) -> Result<()> {
        self.flush_operators()?;
        self.count_late();
        match &mut self.tail {
            Tail::Exchanges(writers) => writers.iter_mut().try_for_each(|w| w.marker(marker))?,
            Tail::Sink(sink) => {
                sink.epoch_end(marker.epoch)?;
                if marker.kind.closes() {
                    sink.finish()?;
                }
            }
        }
        self.counters.epoch.store(marker.epoch.0, Relaxed);
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

    fn count_late(&mut self) {
        let late: u64 = self.links.iter_mut().map(|link| link.operator.take_late_rows()).sum();
        TaskCounters::add(&self.counters.late_rows, late);
    }

    /// Sends buffered rows whose time is up.
    pub(crate) fn flush_due(&mut self, now: Nanos) -> Result<()> {
        match &mut self.tail {
            Tail::Exchanges(writers) => writers.iter_mut().try_for_each(|w| w.flush_due(now)),
            Tail::Sink(_) => Ok(()),
        }
    }

    /// The input pauses: a sink may send what it gathered.
    pub(crate) fn pause(&mut self) -> Result<()> {
        match &mut self.tail {
            Tail::Exchanges(_) => Ok(()),
            Tail::Sink(sink) => sink.flush(),
        }
    }

    /// When buffered rows have to leave next.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        match &self.tail {
            Tail::Exchanges(writers) => writers.iter().filter_map(ExchangeWriter::next_deadline).min(),
            Tail::Sink(_) => None,
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

    /// Where time was spent since `start`: waiting for room downstream, or working.
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
        Err(Error::internal(format!("an operator gave {:?} instead of {:?}", batch.schema(), self.schema)))
    }
}

/// Whether columns have equal types; names are for people.
fn same_types(a: &SchemaRef, b: &SchemaRef) -> bool {
    a.fields().len() == b.fields().len()
        && a.fields().iter().zip(b.fields()).all(|(a, b)| a.data_type().equals_datatype(b.data_type()))
}
