//! The first row of each key, of rows that stay: it stays too, and the others are left out.
//!
//! Which keys have had a row is all that is kept of them, so a row costs nothing once it has left. With event time, the first row of a key is
//! the earliest one: rows wait until the watermark reaches them, unless their key has had one already, and are in their order then.
//! Otherwise it is the one that comes first. With state on a local disk, keys that do not fit into memory are looked up when rows of them are
//! next in their order.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_dataflow::{DeduplicateSpec, JobOptions};
use anabranch_model::{EventTime, Result};
use anabranch_state::KeyedTable;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::key_hash::canonical;
use crate::key_table::{KeyTable, MISSING};
use crate::keyed_state::{
    Changes, OnDisk, Part, Snapshots, TimeToLive, check_columns, check_size, is_full, keyed_table, narrow, number,
    numbers, with_latest, without_times,
};
use crate::operator::{RESULT_ROWS, StateChange, StateShape, same_kind};
use crate::waiting::{Order, Waiting, timely};
use crate::{Dropped, Operator, Output, State, hash_keys};

pub(crate) struct Deduplicate {
    spec: DeduplicateSpec,
    schema: SchemaRef,
    /// Those that have had a row.
    keys: KeyTable,
    /// `None`: rows do not wait.
    waiting: Option<Waiting>,
    changes: Changes,
    snapshots: Snapshots,
    /// When keys have had their rows, if they are not known for ever.
    times: Option<TimeToLive>,
    watermark: i64,
    /// The watermark whose rows are being emitted.
    firing: Option<i64>,
    dropped: Dropped,
    bytes_max: usize,
    /// Where keys are that do not fit into memory.
    disk: Option<OnDisk>,
    /// Rows of which those are still to be emitted whose keys have had none.
    divided: VecDeque<RecordBatch>,
}

impl Deduplicate {
    pub(crate) fn new(spec: &DeduplicateSpec, options: &JobOptions) -> Result<Deduplicate> {
        // Of the memory before a disk, rows that wait take a part.
        let share = JobOptions { state_bytes: options.state_bytes / 2, ..options.clone() };
        let waiting =
            spec.time.map(|time| Waiting::new(Arc::clone(&spec.schema), spec.keys, Order::Time(time), &share));
        let mut deduplicate = Deduplicate {
            schema: Arc::new(spec.output_schema()),
            keys: KeyTable::by_id(key_types(spec))?,
            waiting: waiting.transpose()?,
            changes: Changes::default(),
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            times: spec.time_to_live_ms.map(|ms| TimeToLive::new(ms, options)),
            watermark: i64::MIN,
            firing: None,
            dropped: Dropped::default(),
            bytes_max: options.state_bytes,
            spec: spec.clone(),
            disk: None,
            divided: VecDeque::new(),
        };
        deduplicate.disk = OnDisk::of(vec![deduplicate.table()], options)?;
        if deduplicate.disk.is_some() {
            deduplicate.changes.for_disk();
        }
        Ok(deduplicate)
    }

    /// The keys, as they are in snapshots. Before them comes the table of the rows that wait.
    fn shape(&self) -> StateShape {
        let keys = self.spec.schema.fields().iter().take(self.spec.keys);
        let keys = keys.map(|field| field.as_ref().clone().with_nullable(true));
        let times = self.times.iter().map(|_| TimeToLive::field());
        let fields: Vec<Field> = keys.chain(times).chain([number("$snapshot")]).collect();
        // The first table of an operator has no name.
        let table = self.waiting.as_ref().map_or_else(String::new, |_| "keys".to_owned());
        StateShape { table, schema: Arc::new(Schema::new(fields)), keys: 0..self.spec.keys, pane: None }
    }

    /// The keys, as they are on the disk.
    fn table(&self) -> KeyedTable {
        let keys = self.spec.keys;
        let time = self.times.as_ref().map(|_| with_latest(keys));
        KeyedTable { time, ..keyed_table(&self.shape(), (0..keys).collect(), None) }
    }

    /// The keys of rows, and their hashes.
    fn keys_of(&self, rows: &RecordBatch) -> Result<(Vec<ArrayRef>, Vec<u64>)> {
        let keys: Vec<ArrayRef> = rows.columns()[..self.spec.keys].iter().map(canonical).collect();
        let mut hashes = Vec::new();
        hash_keys(&keys, rows.num_rows(), &mut hashes)?;
        Ok((keys, hashes))
    }

    /// Emits those of the next rows whose keys have had none, a piece at a time.
    fn emit(&mut self, rows: &RecordBatch, out: &mut Output) -> Result<()> {
        let pieces = (0..rows.num_rows()).step_by(RESULT_ROWS);
        self.divided.extend(pieces.map(|first| rows.slice(first, RESULT_ROWS.min(rows.num_rows() - first))));
        self.emit_next(out).map(|_| ())
    }

    /// False if no piece is left.
    fn emit_next(&mut self, out: &mut Output) -> Result<bool> {
        let Some(rows) = self.divided.pop_front() else { return Ok(false) };
        self.emit_piece(&rows, out)?;
        self.keep_to_size()?;
        Ok(true)
    }

    fn emit_piece(&mut self, rows: &RecordBatch, out: &mut Output) -> Result<()> {
        let ((keys, hashes), mut ids) = (self.keys_of(rows)?, Vec::new());
        let known = self.keys.len();
        self.keys.intern(&keys, &hashes, &mut ids)?;
        let Some(on_disk) = self.load(known, &ids, &hashes)? else {
            // What is in memory makes room, and half of the rows need fewer keys. A key takes little: it may be read for each part, and
            // rows stay in order.
            self.put_away()?;
            let half = rows.num_rows() / 2;
            self.divided.push_front(rows.slice(half, rows.num_rows() - half));
            self.divided.push_front(rows.slice(0, half));
            return Ok(());
        };
        let (mut next, mut firsts) = (known, Vec::new());
        for (row, id) in ids.into_iter().enumerate() {
            // New ids are given in order.
            if id != next {
                continue;
            }
            next += 1;
            if !on_disk.get(id - known).is_some_and(|is_there| *is_there) {
                self.changes.add(id);
                self.times.iter_mut().for_each(|times| _ = times.write(id));
                firsts.push(narrow(row)?);
            }
        }
        if firsts.is_empty() {
            return Ok(());
        }
        let (are_all, at) = (firsts.len() == rows.num_rows(), UInt32Array::from(firsts));
        let column = |column: &usize| match are_all {
            true => Ok(ArrayRef::clone(rows.column(*column))),
            false => Ok(take(rows.column(*column), &at, None)?),
        };
        let columns = self.spec.output.iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(at.len()));
        out.batch(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        Ok(())
    }

    /// The rows of a batch that wait: those that are not late, and whose keys are not known to have had a row. Keys that live for a time may be
    /// forgotten until then.
    fn waiting_rows(&mut self, rows: &RecordBatch, time: usize) -> Result<Vec<usize>> {
        let mut kept = timely(rows.column(time), self.watermark, &mut self.dropped)?;
        if self.keys.len() > 0 && self.times.is_none() {
            let ((keys, hashes), mut ids) = (self.keys_of(rows)?, Vec::new());
            self.keys.find(&keys, &hashes, &mut ids)?;
            kept.retain(|row| ids[*row] == MISSING);
        }
        Ok(kept)
    }

    /// Whether the keys from the id `known` on are on the disk; those behind the last one are not. `None` if that is too much at once.
    fn load(&mut self, known: usize, ids: &[usize], hashes: &[u64]) -> Result<Option<Vec<bool>>> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(Some(Vec::new())) };
        let new = ids.iter().zip(hashes).filter(|(id, _)| **id >= known).map(|(_, hash)| *hash);
        let Some(tables) = disk.look_up(new.collect())? else { return Ok(None) };
        let mut on_disk = vec![false; self.keys.len() - known];
        for id in tables.iter().map(|rows| self.take_in(rows)).collect::<Result<Vec<_>>>()?.into_iter().flatten() {
            // Another key with the same hash may be in memory, or not be among these.
            if let Some(is_there) = id.checked_sub(known).and_then(|id| on_disk.get_mut(id)) {
                *is_there = true;
            }
        }
        Ok(Some(on_disk))
    }

    /// Takes keys that have had a row, and returns their ids.
    fn take_in(&mut self, rows: &RecordBatch) -> Result<Vec<usize>> {
        let ((keys, hashes), mut ids) = (self.keys_of(rows)?, Vec::new());
        self.keys.intern(&keys, &hashes, &mut ids)?;
        if let Some(times) = &mut self.times {
            times.restore_rows(&ids, rows)?;
        }
        Ok(ids)
    }

    /// Takes rows of the table, as those of a new snapshot.
    fn take_rows(&mut self, part: Part) -> Result<RecordBatch> {
        self.snapshots.number += 1;
        let ids = self.changes.take(part, || (0..self.keys.len()).collect());
        let mut columns = self.keys.keys_of(&ids)?;
        columns.extend(self.times.as_ref().map(|times| times.times_of(&ids)));
        columns.push(Arc::new(Int64Array::from(vec![self.snapshots.number; ids.len()])));
        Ok(RecordBatch::try_new(self.shape().schema, columns)?)
    }

    /// Writes what has changed to the disk, and starts again with an empty table.
    fn put_away(&mut self) -> Result<()> {
        let rows = self.take_rows(Part::Unwritten)?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&[rows]))?;
        self.keep(&[])?;
        self.changes.written();
        Ok(())
    }

    /// Keeps these keys only.
    fn keep(&mut self, ids: &[usize]) -> Result<()> {
        self.keys.keep(ids)?;
        self.changes.renumber(|id| ids.binary_search(&id).ok());
        self.times.iter_mut().for_each(|times| times.keep(ids));
        Ok(())
    }

    /// Of keys.
    fn size_bytes(&self) -> usize {
        self.keys.size_bytes() + self.changes.size_bytes() + self.times.as_ref().map_or(0, TimeToLive::size_bytes)
    }

    /// Also of the rows that wait.
    fn check_size(&self) -> Result<()> {
        if self.disk.is_some() {
            return Ok(());
        }
        check_size(self.size_bytes() + self.waiting.as_ref().map_or(0, Waiting::size_bytes), self.bytes_max)
    }

    fn keep_to_size(&mut self) -> Result<()> {
        self.check_size()?;
        if self.disk.is_none() {
            return Ok(());
        }
        if is_full(self.disk.as_ref(), self.size_bytes(), self.bytes_max)? {
            self.put_away()?;
        }
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)
    }
}

impl Operator for Deduplicate {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)?;
        let Some(time) = self.spec.time else { return self.emit(&batch, out) };
        let kept = self.waiting_rows(&batch, time)?;
        self.waiting.as_mut().map_or(Ok(()), |waiting| waiting.add(&batch, kept))?;
        self.keep_to_size()
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)?;
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
        if self.emit_next(out)? {
            return Ok(true);
        }
        let (Some(to), Some(waiting)) = (self.firing, &mut self.waiting) else { return Ok(false) };
        if let Some(piece) = waiting.take(RESULT_ROWS)? {
            self.emit(&piece.rows, out)?;
            return Ok(true);
        }
        (self.watermark, self.firing) = (to, None);
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

impl State for Deduplicate {
    /// Forgets keys whose time is over.
    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        let Some(times) = self.times.as_mut() else { return Ok(()) };
        if !times.advance(wall_ms) {
            return Ok(());
        }
        if self.disk.is_some() {
            // What is in memory has a time there too.
            let first = times.first_needed();
            self.put_away()?;
            self.disk.iter_mut().for_each(|disk| disk.forget_before(0, first));
            return Ok(());
        }
        let over = times.over(0..self.keys.len());
        if over.is_empty() {
            return Ok(());
        }
        let left: Vec<usize> = (0..self.keys.len()).filter(|id| over.binary_search(id).is_err()).collect();
        self.keep(&left)
    }

    fn tables(&self) -> Vec<StateShape> {
        self.waiting.iter().map(Waiting::shape).chain([self.shape()]).collect()
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let waiting = self.waiting.as_mut().map(|waiting| waiting.snapshot(adds)).transpose()?;
        let (complete, part, files) = self.snapshots.begin(self.disk.as_mut(), adds)?;
        let rows = self.take_rows(part)?;
        self.snapshots.emitted(complete, rows.num_rows());
        Ok(waiting.into_iter().chain(StateChange::of_tables(vec![rows], complete, files)).collect())
    }

    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        if let (Some(waiting), 0) = (&mut self.waiting, table) {
            waiting.restore(&rows)?;
            return self.check_size();
        }
        let schema = self.shape().schema;
        let rows = match &self.times {
            Some(times) => times.needed(rows, &schema)?,
            None => without_times(rows, &schema)?,
        };
        check_columns(&rows.schema(), &schema)?;
        self.snapshots.restoring(numbers(rows.columns(), rows.num_columns() - 1)?);
        match &mut self.disk {
            Some(disk) => disk.restore(0, rows),
            None => {
                self.take_in(&rows)?;
                self.check_size()
            }
        }
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.watermark = watermark.0;
        self.waiting.as_mut().map_or(Ok(()), |waiting| waiting.restored(watermark))
    }

    fn goes_on(&mut self) {
        self.snapshots.go_on(self.keys.len());
        self.changes.note();
        self.waiting.iter_mut().for_each(Waiting::goes_on);
        self.disk.iter_mut().for_each(OnDisk::goes_on);
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut Deduplicate = same_kind(former)?;
        std::mem::swap(&mut self.keys, &mut former.keys);
        std::mem::swap(&mut self.changes, &mut former.changes);
        std::mem::swap(&mut self.disk, &mut former.disk);
        if let (Some(own), Some(former)) = (&mut self.waiting, &mut former.waiting) {
            own.succeed(former);
        }
        self.snapshots = std::mem::take(&mut former.snapshots).succeed();
        self.times = self.times.take().map(|own| own.follow(former.times.take()));
        (self.watermark, self.firing, self.dropped) = (former.watermark, former.firing, former.dropped);
        Ok(())
    }
}

fn key_types(spec: &DeduplicateSpec) -> Vec<DataType> {
    spec.schema.fields().iter().take(spec.keys).map(|field| field.data_type().clone()).collect()
}

/// Whether a deduplication can go on with the state of another one: the same rows wait in the same order, and keys are known for ever, or not.
pub(crate) fn goes_on(former: &DeduplicateSpec, next: &DeduplicateSpec) -> bool {
    let types = |spec: &DeduplicateSpec| -> Vec<(DataType, bool)> {
        spec.kept().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
    };
    let kinds = |spec: &DeduplicateSpec| (spec.keys, spec.time, spec.time_to_live_ms.is_some());
    kinds(former) == kinds(next) && types(former) == types(next)
}
