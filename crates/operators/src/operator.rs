//! The contract of an operator: synchronous and clockless.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use anabranch_model::{Error, EventTime, Result};
use anabranch_state::Run;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::{Lookup, StaticSide};

/// Approximate number of rows that an operator emits at once if its output may be many times its input.
pub(crate) const RESULT_ROWS: usize = 1 << 14;

/// One link of a chain. It receives batches, watermarks and calls to flush in the order of the stream and
/// writes its output to `out`. It never waits, reads no clock and knows nothing of tasks or channels.
///
/// Optional capabilities are traits of their own: [`State`], [`Sided`], [`LookupRequests`].
pub trait Operator: Any + Send {
    /// Rows of the main input.
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()>;

    /// Rows of a further input: the second one has the number 1.
    fn input_batch(&mut self, _input: usize, _batch: RecordBatch, _out: &mut Output) -> Result<()> {
        Err(Error::internal("this operator has one input"))
    }

    /// Event time has reached `watermark`. Implementations emit the watermark after the rows that it causes.
    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        out.watermark(watermark);
        Ok(())
    }

    /// Continues with the last batch, watermark or flush: an operator with much output, or with more keys
    /// than fit into memory, proceeds in pieces. Returns false if nothing was left. No other method is called
    /// before it has returned false.
    fn more(&mut self, _out: &mut Output) -> Result<bool> {
        Ok(false)
    }

    /// Writes to `out` all rows that the operator buffers for efficiency only. Called where other tasks may
    /// get ahead: before the marker that ends an epoch, and when the input has become idle, because event
    /// time then advances without this task.
    fn flush(&mut self, _out: &mut Output) -> Result<()> {
        Ok(())
    }

    /// Event time may have reached `time` at the tasks that receive this task's rows, though not here: this
    /// task was idle, and the others continued.
    fn event_time_ahead(&mut self, _time: EventTime) {}

    /// Rows dropped since the last call.
    fn take_dropped(&mut self) -> Dropped {
        Dropped::default()
    }

    /// The state that must survive. Data derived from static input is not state: it is derived again.
    fn state(&mut self) -> Option<&mut dyn State> {
        None
    }

    /// The static side, if the operator has one.
    fn sided(&mut self) -> Option<&mut dyn Sided> {
        None
    }

    /// The operator's lookups in an outside table, if it makes any.
    fn lookup_requests(&mut self) -> Option<&mut dyn LookupRequests> {
        None
    }
}

/// The state of an operator: tables of rows.
pub trait State: Any {
    /// The tables, at least one.
    fn tables(&self) -> Vec<StateShape>;

    /// The changes since the last call, for each of the [tables](State::tables). Called at the end of an
    /// epoch and after [`Operator::flush`]. With `adds`, the snapshot is incremental. From the second
    /// consecutive call with `adds` on, changes only add to the snapshots before: a state that has restored
    /// one of those, and then restores the later ones, is complete.
    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>>;

    /// Does a piece of the work that [`State::snapshot`] has put off, so that no row waits for all of it.
    /// Called between batches, and while there is no input. Returns false if nothing was left.
    fn catch_up(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Restores rows of a table of earlier snapshots, with changes in any order, before any other call.
    /// Columns after the keys may have another form.
    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()>;

    /// Follows calls of [`State::restore`]: event time had reached `watermark`. Rows of later snapshots may
    /// follow.
    fn restored(&mut self, _watermark: EventTime) -> Result<()> {
        Ok(())
    }

    /// Follows [`State::restored`]: the next snapshot need not be complete, because it continues the restored
    /// ones.
    fn goes_on(&mut self);

    /// Takes over the state of an operator of the former plan version, before any other call. Only called if
    /// [`state_goes_on`] allows it; a state of another kind is an error.
    ///
    /// [`state_goes_on`]: crate::state_goes_on
    fn succeed(&mut self, former: &mut dyn State) -> Result<()>;

    /// The time of the task's clock, in milliseconds since 1970: at the start, before state is restored, and
    /// at the end of each epoch, before its snapshot. For state that lives for a time.
    fn processing_time(&mut self, _wall_ms: i64) -> Result<()> {
        Ok(())
    }
}

/// The state of a former operator, which must have the kind of the next one.
pub(crate) fn same_kind<S: State>(former: &mut dyn State) -> Result<&mut S> {
    let former: &mut dyn Any = former;
    former.downcast_mut().ok_or_else(|| Error::internal("an operator cannot take over the state of another kind"))
}

/// A static side: a table that is read to its end before the rows of the main input.
pub trait Sided {
    /// Rows of the side, all of them before the first call of [`Operator::batch`].
    fn side_batch(&mut self, batch: RecordBatch) -> Result<()>;

    /// The side is complete.
    fn side_end(&mut self) -> Result<()>;

    /// The side, once it is complete.
    fn static_side(&self) -> Option<StaticSide>;

    /// Takes the side of another operator in place of rows. It must have the same rows and keys.
    fn take_static_side(&mut self, side: StaticSide) -> Result<()>;
}

/// Lookups in an outside table for each batch.
pub trait LookupRequests {
    /// Takes the table, before any other call.
    fn take_lookup(&mut self, lookup: Box<dyn Lookup>) -> Result<()>;

    /// Requests the rows for a batch of the main input. The batches follow by [`Operator::batch`] in the same
    /// order, each once [`LookupRequests::is_answered`] returns true.
    fn request(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Whether the answer for the next batch has arrived.
    fn is_answered(&self) -> bool;

    /// Bytes of answers that have arrived and wait for earlier ones.
    fn answers_bytes(&self) -> usize;
}

/// Rows that an operator has dropped, by their cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// All of their windows had fired, or the watermark had reached their time.
    pub late_rows: u64,
    /// Their event time is NULL.
    pub rows_without_event_time: u64,
    /// They had NULL for a NOT NULL column of the sink.
    pub rows_with_null: u64,
}

/// A table of state.
#[derive(Clone, Debug, PartialEq)]
pub struct StateShape {
    /// Its name; empty for the first table of an operator.
    pub table: String,
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// The columns of the key; their hash gives the key group of a row. Empty: the state belongs to one task.
    pub keys: Range<usize>,
    /// Column of event times in milliseconds, if rows are obsolete once the watermark has passed their
    /// window.
    pub pane: Option<usize>,
}

/// The changes of a table of an operator's state. Several rows may have the same key: the operator merges
/// them.
#[derive(Debug)]
pub struct StateChange {
    /// The rows, in the columns of the [`StateShape`].
    pub rows: Vec<RecordBatch>,
    /// Whether it contains the whole state: then the rows of earlier snapshots are obsolete.
    pub complete: bool,
    /// State outside of the operator's tables: all of it, including what earlier snapshots contained.
    pub runs: Vec<Arc<Run>>,
    /// Rows of earlier panes in earlier snapshots are no longer needed.
    pub first_pane: EventTime,
}

impl StateChange {
    /// Changes of tables without panes, with the runs of each, if there are any.
    pub(crate) fn of_tables(tables: Vec<RecordBatch>, complete: bool, runs: Vec<Vec<Arc<Run>>>) -> Vec<StateChange> {
        let runs = runs.into_iter().chain(std::iter::repeat_with(Vec::new));
        let change = |(rows, runs): (RecordBatch, Vec<Arc<Run>>)| {
            let rows = if rows.num_rows() > 0 { vec![rows] } else { Vec::new() };
            StateChange { rows, complete, runs, first_pane: EventTime::MIN }
        };
        tables.into_iter().zip(runs).map(change).collect()
    }
}

/// The output of an operator, in order.
#[derive(Debug, Default)]
pub struct Output {
    elements: Vec<Element>,
}

/// One element of an operator's output.
#[derive(Debug)]
pub enum Element {
    /// Rows; never empty.
    Batch(RecordBatch),
    /// Event-time progress.
    Watermark(EventTime),
}

impl Output {
    /// Emits rows; an empty batch is dropped.
    pub fn batch(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.elements.push(Element::Batch(batch));
        }
    }

    /// Emits a watermark.
    pub fn watermark(&mut self, watermark: EventTime) {
        self.elements.push(Element::Watermark(watermark));
    }

    /// Changes the watermarks after the first `elements` elements.
    pub(crate) fn change_watermarks(&mut self, elements: usize, mut change: impl FnMut(EventTime) -> EventTime) {
        for element in self.elements.iter_mut().skip(elements) {
            if let Element::Watermark(watermark) = element {
                *watermark = change(*watermark);
            }
        }
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Takes the elements, leaving the output empty with its capacity.
    pub fn drain(&mut self) -> impl Iterator<Item = Element> {
        self.elements.drain(..)
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }
}
