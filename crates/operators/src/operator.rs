//! The contract of an operator: synchronous and clockless.

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::{EventTime, Result};
use anabranch_state::Run;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// Rows that an operator whose output may be many times its input gives on at once, about.
pub(crate) const RESULT_ROWS: usize = 1 << 14;

/// One link of a chain. It is given batches, watermarks and calls to flush in the order of the stream and puts what
/// follows from them into `out`. It never waits, reads no clock and knows nothing of tasks or channels.
pub trait Operator: Send {
    /// Rows of the main input.
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()>;

    /// Rows of the static side, all of them before the first call of [`Operator::batch`].
    fn side_batch(&mut self, _batch: RecordBatch) -> Result<()> {
        Err(anabranch_model::Error::internal("this operator has no static side"))
    }

    /// The static side is complete.
    fn side_end(&mut self) -> Result<()> {
        Ok(())
    }

    /// Event time has reached `watermark`. Implementations pass it on after what it causes.
    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        out.watermark(watermark);
        Ok(())
    }

    /// Goes on with what the last watermark causes: an operator that has much to give gives it in pieces. False if there was
    /// nothing left, which is then the case until the next watermark. Called until then before anything else is.
    fn more(&mut self, _out: &mut Output) -> Result<bool> {
        Ok(false)
    }

    /// What the operator holds back for efficiency only must be in `out` when this returns. Called where others may get
    /// ahead of it: before the marker that ends an epoch, and when its input has become idle, because event time then goes
    /// on without it.
    fn flush(&mut self, _out: &mut Output) -> Result<()> {
        Ok(())
    }

    /// What the operator's state looks like from outside; `None` for an operator that keeps nothing that must survive. What
    /// it derives from static input is not state: it is derived again.
    fn state_shape(&self) -> Option<StateShape> {
        None
    }

    /// State that has changed since the last call, at the end of an epoch and after [`Operator::flush`]. Only called on an
    /// operator with a [`StateShape`].
    fn snapshot(&mut self) -> Result<StateChange> {
        Err(anabranch_model::Error::internal("this operator has no state"))
    }

    /// Takes up what earlier snapshots gave, changes in any order, before anything else is given to the operator. Columns behind
    /// the keys may be as an earlier version wrote them.
    fn restore(&mut self, _rows: RecordBatch) -> Result<()> {
        Err(anabranch_model::Error::internal("this operator has no state"))
    }

    /// Follows on the last call of [`Operator::restore`]: event time had reached `watermark`.
    fn restored(&mut self, _watermark: EventTime) -> Result<()> {
        Ok(())
    }

    /// Event time may have come to `time` at the tasks that the rows of this one go to, though not here: this task was idle,
    /// and the others went on.
    fn event_time_ahead(&mut self, _time: EventTime) {}

    /// Rows dropped since the last call.
    fn take_dropped(&mut self) -> Dropped {
        Dropped::default()
    }
}

/// Rows that an operator has dropped, by their cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// All of their windows had fired.
    pub late_rows: u64,
    /// They belong to no window.
    pub rows_without_event_time: u64,
}

/// State as rows.
#[derive(Clone, Debug, PartialEq)]
pub struct StateShape {
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// Which of them are the key; their hash says to which key group a row belongs. Empty: the state belongs to one task.
    pub keys: Range<usize>,
    /// Column of event times in milliseconds, if rows are of no use once the watermark has passed their window.
    pub pane: Option<usize>,
}

/// What has changed in an operator's state. Several rows may bear the same key: the operator merges them.
#[derive(Debug)]
pub struct StateChange {
    /// The rows, in the columns of the [`StateShape`].
    pub rows: Vec<RecordBatch>,
    /// Everything is in it: the rows that earlier snapshots gave are void.
    pub complete: bool,
    /// State that lies outside the operator's tables: all of it, what earlier snapshots gave and what is new.
    pub runs: Vec<Arc<Run>>,
    /// Rows of earlier panes, given before, are of no use any more.
    pub first_pane: EventTime,
}

/// What an operator gives back, in order.
#[derive(Debug, Default)]
pub struct Output {
    elements: Vec<Element>,
}

/// One output of an operator.
#[derive(Debug)]
pub enum Element {
    /// Rows; never empty.
    Batch(RecordBatch),
    /// Event-time progress.
    Watermark(EventTime),
}

impl Output {
    /// Gives rows on; an empty batch is dropped.
    pub fn batch(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.elements.push(Element::Batch(batch));
        }
    }

    /// Gives a watermark on.
    pub fn watermark(&mut self, watermark: EventTime) {
        self.elements.push(Element::Watermark(watermark));
    }

    /// Takes what has been given, leaving the output empty with its capacity.
    pub fn drain(&mut self) -> impl Iterator<Item = Element> {
        self.elements.drain(..)
    }

    /// Whether nothing has been given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }
}
