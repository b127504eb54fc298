//! Functions over the rows before each row: `SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)`.
//!
//! With event time, rows wait until the watermark reaches them, and are in their order then. Otherwise their order is that in which they
//! come, and results follow at once. A row enters the frames of its partition once and leaves them once: aggregates add it and take it back,
//! whatever the size of the frame. All rows that are next in their order are taken together, function by function, with results read between
//! the rows (`Accumulator::running`).
//!
//! What stays is what later rows may need: of a frame of rows or of a time, the columns that functions read; where all rows before count,
//! only the states of the functions. With state on a local disk, a partition is in memory as a whole or not at all: it is looked up when
//! rows of it are next in their order.

mod fifo;
mod finite;
mod frames;
mod functions;
mod history;
mod on_disk;
mod snapshot;
mod time_to_live;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::{JobOptions, OverSpec};
use anabranch_model::{EventTime, Result, batch_bytes};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};

use self::history::{History, NONE};
use self::snapshot::Table;
use crate::key_table::KeyTable;
use crate::keyed_state::{Changes, OnDisk, SPARSE_MIN, Snapshots, TimeToLive, check_size, narrow};
use crate::operator::{RESULT_ROWS, StateChange, StateShape, same_kind};
use crate::waiting::{Order, Piece, Waiting, timely};
use crate::{Dropped, Functions, Operator, Output, State};

pub(crate) struct Over {
    spec: OverSpec,
    schema: SchemaRef,
    keys: KeyTable,
    /// `None`: results follow at once.
    waiting: Option<Waiting>,
    /// The columns of the input that functions read.
    read: Vec<usize>,
    history: History,
    functions: functions::Functions,
    /// Partitions whose states have changed, where all rows before count.
    changes: Changes,
    snapshots: Snapshots,
    /// When partitions had rows last, if they are kept for a time only.
    times: Option<TimeToLive>,
    /// Partitions that have another time since the last snapshot: all that there is of them is in the next one.
    outdated: Vec<usize>,
    /// Rows of snapshots that have not taken their places yet, because more may follow: rows before, and values with the times of their
    /// partitions.
    restored: Vec<(Table, RecordBatch)>,
    /// With more of these, those that no frame of a number of rows has any more are looked for.
    restored_max: usize,
    /// With more partitions than these, those without rows are looked for.
    partitions_max: usize,
    watermark: i64,
    /// The watermark whose rows are being emitted.
    firing: Option<i64>,
    dropped: Dropped,
    bytes_max: usize,
    /// Where partitions are that do not fit into memory.
    disk: Option<OnDisk>,
}

impl Over {
    pub(crate) fn new(spec: &OverSpec, functions: &Functions, options: &JobOptions) -> Result<Over> {
        let fields = spec.schema.fields();
        let read = functions::columns_read(spec);
        let types = |columns: &[usize]| columns.iter().map(|column| fields[*column].data_type().clone()).collect();
        // Of the memory before a disk, rows that wait take a part.
        let share = JobOptions { state_bytes: options.state_bytes / 2, ..options.clone() };
        let order = spec.time.map(Order::Time);
        let waiting = order.map(|order| Waiting::new(Arc::clone(&spec.schema), spec.keys, order, &share));
        let mut over = Over {
            schema: Arc::new(spec.output_schema()),
            keys: KeyTable::by_id(types(&(0..spec.keys).collect::<Vec<_>>()))?,
            waiting: waiting.transpose()?,
            history: History::new(types(&read)),
            functions: functions::Functions::new(spec, &read, functions)?,
            read,
            changes: Changes::default(),
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            times: spec.time_to_live_ms.map(|ms| TimeToLive::new(ms, options)),
            outdated: Vec::new(),
            restored: Vec::new(),
            restored_max: 0,
            partitions_max: SPARSE_MIN,
            watermark: i64::MIN,
            firing: None,
            dropped: Dropped::default(),
            bytes_max: options.state_bytes,
            spec: spec.clone(),
            disk: None,
        };
        over.disk = OnDisk::of(over.keyed_tables(), options)?;
        if over.disk.is_some() {
            over.changes_of_tables().for_each(Changes::for_disk);
        }
        over.forget_on_disk();
        Ok(over)
    }

    fn make_room(&mut self) {
        let partitions = self.keys.len();
        self.history.lists.resize_with(partitions, Default::default);
        self.functions.resize(partitions);
    }

    /// Emits rows that are next in their order.
    fn emit(&mut self, piece: &Piece, out: &mut Output) -> Result<()> {
        let results = self.results(piece)?;
        self.keep_to_size()?;
        let kept = self.spec.output.iter().map(|column| ArrayRef::clone(piece.rows.column(*column)));
        let options = RecordBatchOptions::new().with_row_count(Some(piece.rows.num_rows()));
        let columns = kept.chain(results).collect();
        out.batch(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        Ok(())
    }

    /// Forgets partitions without rows, once they are most.
    fn remove_dead(&mut self) -> Result<()> {
        if !self.spec.frame.ends_by_time() || self.keys.len() <= self.partitions_max {
            return Ok(());
        }
        let is_live: Vec<bool> = self.history.lists.iter().map(|list| !list.rows.is_empty()).collect();
        let live: Vec<usize> = (0..is_live.len()).filter(|group| is_live[*group]).collect();
        self.partitions_max = 2 * live.len() + SPARSE_MIN;
        if self.keys.len() <= self.partitions_max { Ok(()) } else { self.keep(&live) }
    }

    /// Keeps these partitions only; the first of them gets the number 0. The others have no rows before.
    fn keep(&mut self, live: &[usize]) -> Result<()> {
        let mut numbers = vec![NONE; self.keys.len()];
        for (new, old) in live.iter().enumerate() {
            numbers[*old] = narrow(new)?;
        }
        self.keys.keep(live)?;
        self.functions.calls.iter_mut().try_for_each(|call| call.accumulator.keep(live))?;
        self.history.renumber(&numbers, live);
        let renumbered = |group: usize| live.binary_search(&group).ok();
        self.changes.renumber(renumbered);
        self.outdated = std::mem::take(&mut self.outdated).into_iter().filter_map(renumbered).collect();
        self.times.iter_mut().for_each(|times| times.keep(live));
        Ok(())
    }

    /// Of partitions.
    fn size_bytes(&self) -> usize {
        let rows = self.history.size_bytes() + self.restored.iter().map(|(_, rows)| batch_bytes(rows)).sum::<usize>();
        let times = self.times.as_ref().map_or(0, TimeToLive::size_bytes);
        self.keys.size_bytes() + rows + self.functions.size_bytes() + self.changes.size_bytes() + times
    }

    /// Also of the rows that wait.
    fn check_size(&self) -> Result<()> {
        if self.disk.is_some() {
            return Ok(());
        }
        check_size(self.size_bytes() + self.waiting.as_ref().map_or(0, Waiting::size_bytes), self.bytes_max)
    }
}

impl Operator for Over {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        match (self.spec.time, &mut self.waiting) {
            (Some(time), Some(waiting)) => {
                let kept = timely(batch.column(time), self.watermark, &mut self.dropped)?;
                waiting.add(&batch, kept)?;
            }
            _ => {
                self.settle()?;
                let numbers = vec![i64::MIN; batch.num_rows()];
                self.emit(&Piece { rows: batch, numbers }, out)?;
            }
        }
        self.check_size()
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.settle()?;
        let Some(waiting) = &mut self.waiting else {
            out.watermark(watermark);
            return Ok(());
        };
        // After a restore the inputs may be behind the restored watermark.
        let to = watermark.0.max(self.watermark);
        waiting.reach(to)?;
        self.firing = Some(to);
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        let (Some(to), Some(waiting)) = (self.firing, &mut self.waiting) else { return Ok(false) };
        if let Some(piece) = waiting.take(RESULT_ROWS)? {
            self.emit(&piece, out)?;
            return Ok(true);
        }
        (self.watermark, self.firing) = (to, None);
        self.forget()?;
        self.remove_dead()?;
        out.watermark(EventTime(to));
        Ok(true)
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Over {
    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        self.forget_partitions(wall_ms)
    }

    fn tables(&self) -> Vec<StateShape> {
        self.shapes()
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        self.settle()?;
        self.take_snapshot(adds)
    }

    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        self.take_up(table, rows)?;
        if self.restored_rows() > self.restored_max + SPARSE_MIN || self.size_bytes() > self.bytes_max {
            self.keep_last_rows()?;
        }
        self.check_size()
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.watermark = watermark.0;
        self.drop_restored()
    }

    fn goes_on(&mut self) {
        self.snapshots.go_on(self.restored_rows() + self.keys.len());
        self.changes_of_tables().for_each(Changes::note);
        self.waiting.iter_mut().for_each(Waiting::goes_on);
        self.disk.iter_mut().for_each(OnDisk::goes_on);
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut Over = same_kind(former)?;
        std::mem::swap(&mut self.keys, &mut former.keys);
        std::mem::swap(&mut self.history, &mut former.history);
        std::mem::swap(&mut self.changes, &mut former.changes);
        std::mem::swap(&mut self.disk, &mut former.disk);
        std::mem::swap(&mut self.restored, &mut former.restored);
        std::mem::swap(&mut self.outdated, &mut former.outdated);
        if let (Some(own), Some(former)) = (&mut self.waiting, &mut former.waiting) {
            own.succeed(former);
        }
        self.snapshots = std::mem::take(&mut former.snapshots).succeed();
        self.times = self.times.take().map(|own| own.follow(former.times.take()));
        (self.restored_max, self.partitions_max) = (former.restored_max, former.partitions_max);
        (self.watermark, self.firing, self.dropped) = (former.watermark, former.firing, former.dropped);
        for (own, former) in self.functions.calls.iter_mut().zip(&mut former.functions.calls) {
            std::mem::swap(&mut own.accumulator, &mut former.accumulator);
        }
        Ok(())
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

/// Whether functions over rows can go on with the state of others: the same functions of the same columns, over the same frames, and
/// partitions are kept for ever, or not.
pub(crate) fn goes_on(former: &OverSpec, next: &OverSpec) -> bool {
    let types = |spec: &OverSpec| -> Vec<(DataType, bool)> {
        spec.schema.fields().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
    };
    let kinds =
        |spec: &OverSpec| (spec.keys, spec.time, spec.frame, spec.time_to_live_ms.is_some(), spec.functions.clone());
    kinds(former) == kinds(next) && types(former) == types(next)
}
