//! Functions over the rows before each row: `SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)`.
//!
//! With event time, rows wait until the watermark reaches them, and are in their order then. Otherwise their order is that in which they
//! come, and results follow at once. A row enters the frames of its partition once and leaves them once: aggregates add it and take it back,
//! whatever the size of the frame. All rows that are next in their order are taken together, function by function, with results read between
//! the rows (`Accumulator::running`).
//!
//! What stays is what later rows may need: of a frame of rows or of a time, the columns that functions read; where all rows before count,
//! only the states of the functions.

mod fifo;
mod finite;
mod frames;
mod functions;
mod history;
mod snapshot;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::{Frame, JobOptions, OverSpec};
use anabranch_model::{Error, EventTime, Result, batch_bytes};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};

use self::history::{History, NONE};
use crate::key_hash::canonical;
use crate::key_table::KeyTable;
use crate::keyed_state::{Changes, SPARSE_MIN, Snapshots, check_size, narrow};
use crate::operator::{RESULT_ROWS, StateChange, StateShape};
use crate::waiting::{Due, Piece, Waiting, timely};
use crate::{Dropped, Functions, Operator, Output, hash_keys};

pub(crate) struct Over {
    spec: OverSpec,
    schema: SchemaRef,
    keys: KeyTable,
    waiting: Waiting,
    /// The columns of the input that functions read.
    read: Vec<usize>,
    history: History,
    functions: functions::Functions,
    /// Partitions whose states have changed, where all rows before count.
    changes: Changes,
    snapshots: Snapshots,
    restored: Restored,
    /// With more partitions than these, those without rows are looked for.
    partitions_max: usize,
    watermark: i64,
    /// The watermark whose rows are being emitted.
    firing: Option<(i64, Due)>,
    dropped: Dropped,
    bytes_max: usize,
}

/// Rows of snapshots that have not taken their places yet: more may follow, and event time goes on meanwhile.
#[derive(Default)]
struct Restored {
    waiting: Vec<RecordBatch>,
    before: Vec<RecordBatch>,
    /// With more rows before than these, those that no frame of a number of rows has any more are looked for.
    before_max: usize,
}

impl Restored {
    fn has_many(&self) -> bool {
        self.before.iter().map(RecordBatch::num_rows).sum::<usize>() > self.before_max + SPARSE_MIN
    }
}

impl Over {
    pub(crate) fn new(spec: &OverSpec, functions: &Functions, options: &JobOptions) -> Result<Over> {
        let fields = spec.schema.fields();
        let read = functions::columns_read(spec);
        let types = |columns: &[usize]| columns.iter().map(|column| fields[*column].data_type().clone()).collect();
        Ok(Over {
            schema: Arc::new(spec.output_schema()),
            keys: KeyTable::by_id(types(&(0..spec.keys).collect::<Vec<_>>()))?,
            waiting: Waiting::default(),
            history: History::new(types(&read)),
            functions: functions::Functions::new(spec, &read, functions)?,
            read,
            changes: Changes::default(),
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            restored: Restored::default(),
            partitions_max: SPARSE_MIN,
            watermark: i64::MIN,
            firing: None,
            dropped: Dropped::default(),
            bytes_max: options.state_bytes,
            spec: spec.clone(),
        })
    }

    fn make_room(&mut self) {
        let partitions = self.keys.len();
        self.history.lists.resize_with(partitions, Default::default);
        self.functions.resize(partitions);
    }

    /// Emits rows that are next in their order.
    fn emit(&mut self, piece: &Piece, out: &mut Output) -> Result<()> {
        let results = self.results(piece)?;
        let kept = self.spec.output.iter().map(|column| ArrayRef::clone(piece.rows.column(*column)));
        let options = RecordBatchOptions::new().with_row_count(Some(piece.rows.num_rows()));
        let columns = kept.chain(results).collect();
        out.batch(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        Ok(())
    }

    /// Forgets partitions without rows, once they are most.
    fn remove_dead(&mut self) -> Result<()> {
        let Frame::Range { preceding_ms: Some(_) } = self.spec.frame else { return Ok(()) };
        if self.keys.len() <= self.partitions_max {
            return Ok(());
        }
        let mut is_live: Vec<bool> = self.history.lists.iter().map(|list| !list.rows.is_empty()).collect();
        let waiting = self.waiting.runs.iter().flat_map(|run| &run.groups[run.first..]);
        waiting.for_each(|group| is_live[*group as usize] = true);
        let live: Vec<usize> = (0..is_live.len()).filter(|group| is_live[*group]).collect();
        self.partitions_max = 2 * live.len() + SPARSE_MIN;
        if self.keys.len() <= self.partitions_max {
            return Ok(());
        }
        let columns = self.keys.keys_of(&live)?;
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(&columns, live.len(), &mut hashes)?;
        let mut keys = KeyTable::by_id(columns.iter().map(|column| column.data_type().clone()).collect())?;
        keys.intern(&columns, &hashes, &mut ids)?;
        let mut numbers = vec![NONE; is_live.len()];
        for (new, old) in live.iter().enumerate() {
            numbers[*old] = narrow(new)?;
        }
        self.functions.calls.iter_mut().try_for_each(|call| call.accumulator.keep(&live))?;
        self.history.renumber(&numbers, &live);
        let groups = self.waiting.runs.iter_mut().flat_map(|run| &mut run.groups);
        groups.for_each(|group| *group = numbers[*group as usize]);
        self.keys = keys;
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        let restored = self.restored.waiting.iter().chain(&self.restored.before).map(batch_bytes).sum::<usize>();
        let rows = self.waiting.size_bytes() + self.history.size_bytes() + restored;
        self.keys.size_bytes() + rows + self.functions.size_bytes() + self.changes.size_bytes()
    }
}

impl Operator for Over {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.settle()?;
        let keys: Vec<ArrayRef> = batch.columns()[..self.spec.keys].iter().map(canonical).collect();
        let groups = self.intern(&keys, batch.num_rows())?;
        match self.spec.time {
            Some(time) => {
                let (times, kept) = timely(batch.column(time), self.watermark, &mut self.dropped)?;
                self.waiting.add(&batch, kept, (&groups, &times), None)?;
            }
            None => {
                let groups = groups.into_iter().map(narrow).collect::<Result<_>>()?;
                let times = vec![i64::MIN; batch.num_rows()];
                self.emit(&Piece { rows: batch, groups, times }, out)?;
            }
        }
        check_size(self.size_bytes(), self.bytes_max)
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        if self.spec.time.is_none() {
            out.watermark(watermark);
            return Ok(());
        }
        self.settle()?;
        // After a restore the inputs may be behind the restored watermark.
        let to = watermark.0.max(self.watermark);
        self.firing = Some((to, self.waiting.due(to)));
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        let Some((to, mut due)) = self.firing.take() else { return Ok(false) };
        if let Some(piece) = self.waiting.take(&mut due, RESULT_ROWS)? {
            self.firing = Some((to, due));
            self.emit(&piece, out)?;
            return Ok(true);
        }
        self.watermark = to;
        self.waiting.remove(to)?;
        self.forget()?;
        self.remove_dead()?;
        out.watermark(EventTime(to));
        Ok(true)
    }

    fn state_tables(&self) -> Vec<StateShape> {
        self.shapes()
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        self.settle()?;
        self.take_snapshot(adds)
    }

    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        self.take_up(table, &rows)?;
        if self.restored.has_many() || self.size_bytes() > self.bytes_max {
            self.keep_last_rows()?;
        }
        check_size(self.size_bytes(), self.bytes_max)
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.watermark = watermark.0;
        self.drop_restored()
    }

    fn goes_on(&mut self) {
        let rows = self.restored.waiting.iter().chain(&self.restored.before).map(RecordBatch::num_rows).sum::<usize>();
        self.snapshots.go_on(rows + self.keys.len());
        self.changes.note();
        self.functions.calls.iter_mut().filter_map(|call| call.accumulator.entries()).for_each(|of| of.changes.note());
    }

    fn succeed(&mut self, former: Box<dyn Operator>) -> Result<()> {
        let former: Box<dyn std::any::Any> = former;
        let Ok(former) = former.downcast::<Over>() else {
            return Err(Error::internal("functions over rows cannot go on with the state of another kind of operator"));
        };
        let Over { keys, waiting, history, functions, changes, snapshots, restored, partitions_max, .. } = *former;
        (self.keys, self.waiting, self.history, self.changes) = (keys, waiting, history, changes);
        (self.snapshots, self.restored, self.partitions_max) = (snapshots.succeed(), restored, partitions_max);
        (self.watermark, self.firing, self.dropped) = (former.watermark, former.firing, former.dropped);
        for (own, former) in self.functions.calls.iter_mut().zip(functions.calls) {
            own.accumulator = former.accumulator;
        }
        Ok(())
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }
}

/// The operator, and the columns of its output.
pub(crate) fn build(
    spec: &OverSpec,
    functions: &Functions,
    options: &JobOptions,
) -> Result<(Box<dyn Operator>, SchemaRef)> {
    let over = Over::new(spec, functions, options)?;
    let schema = Arc::clone(&over.schema);
    Ok((Box::new(over), schema))
}

/// Whether functions over rows can go on with the state of others: the same functions of the same columns, over the same frames.
pub(crate) fn goes_on(former: &OverSpec, next: &OverSpec) -> bool {
    let types = |spec: &OverSpec| -> Vec<(DataType, bool)> {
        spec.schema.fields().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
    };
    let kinds = |spec: &OverSpec| (spec.keys, spec.time, spec.frame, spec.functions.clone());
    kinds(former) == kinds(next) && types(former) == types(next)
}
