//! Sort: rows in the order of event time, each when the watermark reaches it, and rows of the same time in the order of further columns.
//! Without a time, all rows wait until the input ends.
//!
//! Rows that are equal in everything that the order compares leave in the order in which they came, also after a restore.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::{JobOptions, Ordering, SortSpec};
use anabranch_model::{Error, EventTime, Result, batch_bytes};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, Schema};

use crate::event_time::event_times;
use crate::key_hash::canonical;
use crate::keyed_state::{Snapshots, check_columns, check_size, narrow, number};
use crate::operator::{RESULT_ROWS, StateChange, StateShape};
use crate::waiting::{Due, Piece, Waiting, in_order, later, timely};
use crate::{Dropped, Operator, Output};

pub(crate) struct Sort {
    spec: SortSpec,
    waiting: Waiting,
    snapshots: Snapshots,
    /// Rows of snapshots that have not taken their places yet: more may follow.
    restored: Vec<RecordBatch>,
    watermark: i64,
    firing: Option<Firing>,
    dropped: Dropped,
    bytes_max: usize,
}

/// The rows that a watermark has reached.
struct Firing {
    to: i64,
    due: Due,
    /// A piece of them in its order, and the first row of it that comes next.
    sorted: Option<(RecordBatch, usize)>,
}

impl Sort {
    pub(crate) fn new(spec: &SortSpec, options: &JobOptions) -> Sort {
        Sort {
            spec: spec.clone(),
            waiting: Waiting::default(),
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            restored: Vec::new(),
            watermark: i64::MIN,
            firing: None,
            dropped: Dropped::default(),
            bytes_max: options.state_bytes,
        }
    }

    fn shape(&self) -> StateShape {
        let columns = self.spec.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(columns.chain([number("$sequence")]).collect::<Vec<_>>()));
        StateShape { table: String::new(), schema, keys: 0..0, pane: self.spec.time }
    }

    /// The rows of a piece, which are in the order of their times, in the whole order.
    fn sorted(&self, piece: Piece) -> Result<RecordBatch> {
        let rows = RecordBatch::try_new(Arc::clone(&self.spec.schema), piece.rows.columns().to_vec())?;
        if self.spec.order.is_empty() {
            return Ok(rows);
        }
        let plain = |values: ArrayRef| SortColumn { values, options: None };
        let by = |(column, of): &(usize, Ordering)| SortColumn {
            values: canonical(rows.column(*column)),
            options: Some(SortOptions { descending: of.descending, nulls_first: of.nulls_first }),
        };
        let came: UInt32Array = (0..narrow(rows.num_rows())?).collect();
        let mut columns = vec![plain(Arc::new(Int64Array::from(piece.times)))];
        columns.extend(self.spec.order.iter().map(by));
        columns.push(plain(Arc::new(came)));
        Ok(take_record_batch(&rows, &lexsort_to_indices(&columns, None)?)?)
    }

    /// Nothing else is restored: rows take their places.
    fn settle(&mut self) -> Result<()> {
        let restored = std::mem::take(&mut self.restored);
        let Some((rows, sequences)) = in_order(&restored, &self.spec.schema)? else { return Ok(()) };
        let times = match self.spec.time {
            Some(time) => event_times(rows.column(time))?.to_vec(),
            None => vec![i64::MAX; rows.num_rows()],
        };
        self.waiting.restore(&rows, (&vec![0; times.len()], &times), &sequences)
    }

    fn size_bytes(&self) -> usize {
        self.waiting.size_bytes() + self.restored.iter().map(batch_bytes).sum::<usize>()
    }
}

impl Operator for Sort {
    fn batch(&mut self, batch: RecordBatch, _out: &mut Output) -> Result<()> {
        self.settle()?;
        let rows = batch.num_rows();
        let (times, kept) = match self.spec.time {
            Some(time) => timely(batch.column(time), self.watermark, &mut self.dropped)?,
            None => (vec![i64::MAX; rows], (0..rows).collect()),
        };
        self.waiting.add(&batch, kept, (&vec![0; rows], &times), None)?;
        check_size(self.size_bytes(), self.bytes_max)
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        // Rows without a time may have any that follows.
        if self.spec.time.is_none() && watermark != EventTime::MAX {
            return Ok(());
        }
        self.settle()?;
        // After a restore the inputs may be behind the restored watermark.
        let to = watermark.0.max(self.watermark);
        self.firing = Some(Firing { to, due: self.waiting.due(to), sorted: None });
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(mut firing) = self.firing.take() else { return Ok(false) };
        if firing.sorted.is_none() {
            let piece = self.waiting.take(&mut firing.due, RESULT_ROWS)?;
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
        self.waiting.remove(firing.to)?;
        out.watermark(EventTime(firing.to));
        Ok(true)
    }

    fn state_tables(&self) -> Vec<StateShape> {
        vec![self.shape()]
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        self.settle()?;
        let complete = self.snapshots.is_complete(adds);
        let empty = RecordBatch::new_empty(Arc::clone(&self.spec.schema));
        let (mut columns, sequences) = self.waiting.snapshot(complete, &empty)?;
        columns.push(Arc::new(Int64Array::from(sequences)));
        let rows = RecordBatch::try_new(self.shape().schema, columns)?;
        self.snapshots.emitted(complete, rows.num_rows());
        let mut changes = StateChange::of_tables(vec![rows], complete, Vec::new());
        // A snapshot that only adds keeps all files.
        if self.spec.time.is_some() && !adds {
            changes.iter_mut().for_each(|change| change.first_pane = EventTime(self.watermark.saturating_add(1)));
        }
        Ok(changes)
    }

    fn restore(&mut self, _table: usize, rows: RecordBatch) -> Result<()> {
        let shape = self.shape();
        check_columns(&rows.schema(), &shape.schema)?;
        self.snapshots.restoring_rows(rows.num_rows());
        self.restored.push(RecordBatch::try_new(shape.schema, rows.columns().to_vec())?);
        check_size(self.size_bytes(), self.bytes_max)
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.watermark = watermark.0;
        match self.spec.time {
            Some(time) => self.restored = later(&self.restored, time, self.watermark.saturating_add(1))?,
            None if watermark == EventTime::MAX => self.restored.clear(),
            None => {}
        }
        Ok(())
    }

    fn goes_on(&mut self) {
        self.snapshots.go_on(self.restored.iter().map(RecordBatch::num_rows).sum());
    }

    fn succeed(&mut self, former: Box<dyn Operator>) -> Result<()> {
        let former: Box<dyn std::any::Any> = former;
        let Ok(former) = former.downcast::<Sort>() else {
            return Err(Error::internal("a sort cannot go on with the state of another kind of operator"));
        };
        let Sort { waiting, snapshots, restored, watermark, firing, dropped, .. } = *former;
        (self.waiting, self.snapshots, self.restored) = (waiting, snapshots.succeed(), restored);
        (self.watermark, self.firing, self.dropped) = (watermark, firing, dropped);
        Ok(())
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }
}

/// Whether a sort can go on with the rows of another one: they are the same, whatever their order.
pub(crate) fn goes_on(former: &SortSpec, next: &SortSpec) -> bool {
    let types = |spec: &SortSpec| -> Vec<(DataType, bool)> {
        spec.schema.fields().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
    };
    former.time == next.time && types(former) == types(next)
}
