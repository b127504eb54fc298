//! Sort: rows in the order of event time, each when the watermark reaches it; rows of the same time are
//! ordered by further columns. Without a time, all rows wait until the input ends.
//!
//! Rows that are equal in all columns of the order stay in order of arrival, also after a restore. They wait
//! in the order of their times, or of the prefixes of their first column (`waiting`), in memory or on a local
//! disk, and are sorted in pieces.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::{JobOptions, Ordering, SortSpec};
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take_record_batch};
use arrow::datatypes::DataType;

use crate::key_hash::canonical;
use crate::keyed_state::{check_size, narrow};
use crate::operator::{RESULT_ROWS, StateChange, StateShape, same_kind};
use crate::waiting::{DueRows, Order, Waiting, timely};
use crate::{Dropped, Operator, Output, State};

pub(crate) struct Sort {
    spec: SortSpec,
    waiting: Waiting,
    watermark: i64,
    firing: Option<Firing>,
    dropped: Dropped,
    bytes_max: usize,
}

/// The rows that a watermark has reached.
struct Firing {
    to: i64,
    /// A sorted piece, and the row that is emitted next.
    sorted: Option<(RecordBatch, usize)>,
}

impl Sort {
    pub(crate) fn new(spec: &SortSpec, options: &JobOptions) -> Result<Sort> {
        let order = match (spec.time, spec.order.first()) {
            (Some(time), _) => Order::Time(time),
            (None, Some((column, order))) => Order::Column(*column, *order),
            (None, None) => return Err(Error::internal("a sort without an order")),
        };
        Ok(Sort {
            waiting: Waiting::new(Arc::clone(&spec.schema), 0, order, options)?,
            spec: spec.clone(),
            watermark: i64::MIN,
            firing: None,
            dropped: Dropped::default(),
            bytes_max: options.state_bytes,
        })
    }

    /// Sorts a piece by all columns of the order. Until now its rows are ordered only by time or prefix.
    fn sorted(&self, piece: DueRows) -> Result<RecordBatch> {
        let rows = RecordBatch::try_new(Arc::clone(&self.spec.schema), piece.rows.columns().to_vec())?;
        if self.spec.order.is_empty() {
            return Ok(rows);
        }
        let plain = |values: ArrayRef| SortColumn { values, options: None };
        let by = |(column, ordering): &(usize, Ordering)| SortColumn {
            values: canonical(rows.column(*column)),
            options: Some(SortOptions { descending: ordering.descending, nulls_first: ordering.nulls_first }),
        };
        let came: UInt32Array = (0..narrow(rows.num_rows())?).collect();
        let mut columns = vec![plain(Arc::new(Int64Array::from(piece.numbers)))];
        columns.extend(self.spec.order.iter().map(by));
        columns.push(plain(Arc::new(came)));
        Ok(take_record_batch(&rows, &lexsort_to_indices(&columns, None)?)?)
    }

    fn check_size(&self) -> Result<()> {
        if self.waiting.is_on_disk() { Ok(()) } else { check_size(self.waiting.size_bytes(), self.bytes_max) }
    }
}

impl Operator for Sort {
    fn batch(&mut self, batch: RecordBatch, _out: &mut Output) -> Result<()> {
        let kept = match self.spec.time {
            Some(time) => timely(batch.column(time), self.watermark, &mut self.dropped)?,
            None => (0..batch.num_rows()).collect(),
        };
        self.waiting.add(&batch, kept)?;
        self.check_size()
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        // Without a time, any row may be before those that wait.
        if self.spec.time.is_none() && watermark != EventTime::MAX {
            return Ok(());
        }
        // After a restore the inputs may be behind the restored watermark.
        let to = watermark.0.max(self.watermark);
        self.waiting.reach(to)?;
        self.firing = Some(Firing { to, sorted: None });
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(mut firing) = self.firing.take() else { return Ok(false) };
        if firing.sorted.is_none() {
            let piece = self.waiting.take_due(RESULT_ROWS)?;
            firing.sorted = piece.map(|piece| self.sorted(piece)).transpose()?.map(|rows| (rows, 0));
        }
        if let Some((rows, first)) = firing.sorted.take() {
            let length = RESULT_ROWS.min(rows.num_rows() - first);
            out.batch(rows.slice(first, length));
            firing.sorted = Some((rows, first + length)).filter(|(rows, first)| *first < rows.num_rows());
            self.firing = Some(firing);
            return Ok(true);
        }
        self.watermark = firing.to;
        out.watermark(EventTime(firing.to));
        Ok(true)
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Sort {
    fn tables(&self) -> Vec<StateShape> {
        vec![self.waiting.shape()]
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        Ok(vec![self.waiting.snapshot(adds)?])
    }

    fn restore(&mut self, _table: usize, rows: RecordBatch) -> Result<()> {
        self.waiting.restore(&rows)?;
        self.check_size()
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.watermark = watermark.0;
        self.waiting.restored(watermark)
    }

    fn goes_on(&mut self) {
        self.waiting.goes_on();
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut Sort = same_kind(former)?;
        self.waiting.succeed(&mut former.waiting);
        (self.watermark, self.firing, self.dropped) = (former.watermark, former.firing.take(), former.dropped);
        Ok(())
    }
}

/// Whether a sort can take over the rows of another one: they have the same columns, and wait in the same
/// order.
pub(crate) fn goes_on(former: &SortSpec, next: &SortSpec) -> bool {
    let types = |spec: &SortSpec| -> Vec<(DataType, bool)> {
        spec.schema.fields().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
    };
    let waits_by = |spec: &SortSpec| (spec.time, spec.order.first().filter(|_| spec.time.is_none()).copied());
    waits_by(former) == waits_by(next) && types(former) == types(next)
}
