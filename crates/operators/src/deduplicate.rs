//! Deduplication of an append-only stream: the first row of each key is emitted, and the others are dropped.
//!
//! State is the set of keys that have had a row and, with event time, the rows that wait. With event time,
//! the first row of a key is the earliest one: rows of new keys wait until the watermark reaches them, and
//! are then processed in time order. Without event time, the first row is the one that arrives first. With
//! state on a local disk, keys that do not fit into memory are looked up when their rows are due.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use anabranch_dataflow::{DeduplicateSpec, JobOptions};
use anabranch_model::{EventTime, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};

use crate::key_hash::canonical;
use crate::key_table::MISSING;
use crate::keyed_state::{Changes, Extent, Identity, KeyedRows, KeyedState, Keys, Noted, Table, Taken, narrow};
use crate::operator::RESULT_ROWS;
use crate::waiting::{Order, Waiting, timely};
use crate::{Dropped, Operator, Output, State, hash_keys};

pub(crate) struct Deduplicate {
    spec: DeduplicateSpec,
    schema: SchemaRef,
    state: KeyedState<Seen>,
    dropped: Dropped,
}

/// The keys that have had a row.
struct Seen {
    table: Table,
    keys: usize,
    changes: Changes,
    /// Keys of the last batch that are on the disk.
    on_disk: Vec<usize>,
    /// Keys whose time to live is over.
    over: Vec<usize>,
}

impl KeyedRows for Seen {
    fn tables(&self) -> Vec<Table> {
        vec![self.table.clone()]
    }

    fn changes(&mut self, each: &mut dyn FnMut(&mut dyn Noted)) {
        each(&mut self.changes);
    }

    fn make_room(&mut self, keys: usize) {
        self.keys = keys;
    }

    fn take_out(&mut self, part: Extent, _number: i64) -> Result<Vec<Taken>> {
        Ok(vec![Taken::new(self.changes.take(part, || (0..self.keys).collect()), Vec::new())])
    }

    fn put_in(
        &mut self,
        _table: usize,
        keys: &[usize],
        _rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        if versions.is_none() {
            self.on_disk.extend(keys);
        }
        Ok(())
    }

    fn succeed(&mut self, former: &mut Self) {
        std::mem::swap(&mut self.changes, &mut former.changes);
        self.keys = former.keys;
    }

    fn count(&mut self) -> usize {
        self.keys
    }

    fn size_bytes(&self) -> usize {
        self.changes.size_bytes()
    }

    fn living(&mut self) -> Result<Option<Vec<usize>>> {
        let over = std::mem::take(&mut self.over);
        Ok((!over.is_empty()).then(|| (0..self.keys).filter(|key| over.binary_search(key).is_err()).collect()))
    }

    fn keep(&mut self, keys: &[usize]) -> Result<()> {
        self.changes.renumber(|key| keys.binary_search(&key).ok());
        self.keys = keys.len();
        Ok(())
    }

    fn forget(&mut self, keys: &[usize]) -> Result<()> {
        self.over = keys.to_vec();
        Ok(())
    }
}

impl Deduplicate {
    pub(crate) fn new(spec: &DeduplicateSpec, options: &JobOptions) -> Result<Deduplicate> {
        // With a disk, waiting rows take at most half of the memory limit.
        let share = JobOptions { state_bytes: options.state_bytes / 2, ..options.clone() };
        let waiting =
            spec.time.map(|time| Waiting::new(Arc::clone(&spec.schema), spec.keys, Order::Time(time), &share));
        let fields = spec.schema.fields().iter().take(spec.keys);
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
        // The first table of an operator has no name.
        let name = if waiting.is_some() { "keys" } else { "" };
        let table = Table::new(name, fields, Identity::First(spec.keys), spec.time_to_live_ms.is_some());
        let seen = Seen { table, keys: 0, changes: Changes::default(), on_disk: Vec::new(), over: Vec::new() };
        let keys = Keys { time_to_live_ms: spec.time_to_live_ms, ..Keys::first_of(&spec.schema, spec.keys) };
        Ok(Deduplicate {
            schema: Arc::new(spec.output_schema()),
            state: KeyedState::new(seen, keys, options)?.with_waiting(waiting.transpose()?),
            spec: spec.clone(),
            dropped: Dropped::default(),
        })
    }

    /// Emits the due rows whose keys have had no row yet, a piece at a time.
    fn emit(&mut self, rows: &RecordBatch, out: &mut Output) -> Result<()> {
        let pieces = (0..rows.num_rows()).step_by(RESULT_ROWS);
        let pieces = pieces.map(|first| rows.slice(first, RESULT_ROWS.min(rows.num_rows() - first)));
        self.state.divided.extend(pieces);
        self.emit_next(out).map(|_| ())
    }

    /// False if no piece is left.
    fn emit_next(&mut self, out: &mut Output) -> Result<bool> {
        let Some(rows) = self.state.divided.pop_front() else { return Ok(false) };
        self.emit_piece(&rows, out)?;
        self.state.keep_to_size(0)?;
        self.state.work()?;
        Ok(true)
    }

    fn emit_piece(&mut self, rows: &RecordBatch, out: &mut Output) -> Result<()> {
        let keys: Vec<ArrayRef> = rows.columns()[..self.spec.keys].iter().map(canonical).collect();
        let known = self.state.keys.len();
        self.state.rows.on_disk.clear();
        if self.state.bring(&keys, rows.num_rows())?.is_some() {
            // Half of the rows need fewer keys. Both halves may read the same key, which is small, and rows
            // stay in order.
            let half = rows.num_rows() / 2;
            self.state.divided.push_front(rows.slice(half, rows.num_rows() - half));
            self.state.divided.push_front(rows.slice(0, half));
            return Ok(());
        }
        let KeyedState { rows: Seen { changes, on_disk, .. }, times, ids, .. } = &mut self.state;
        on_disk.sort_unstable();
        let (mut next, mut firsts) = (known, Vec::new());
        for (row, id) in ids.iter().enumerate() {
            // New ids are consecutive.
            if *id != next {
                continue;
            }
            next += 1;
            if on_disk.binary_search(id).is_err() {
                changes.add(*id);
                times.iter_mut().for_each(|times| _ = times.write(*id));
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

    /// The rows of a batch that must wait: they are not late, and their keys are not known to have had a row.
    /// Keys with a time to live may be forgotten before the rows are due, so all of their rows wait.
    fn waiting_rows(&mut self, rows: &RecordBatch, time: usize) -> Result<Vec<usize>> {
        let mut kept = timely(rows.column(time), self.state.watermark, &mut self.dropped)?;
        if self.state.keys.len() > 0 && self.state.times.is_none() {
            let keys: Vec<ArrayRef> = rows.columns()[..self.spec.keys].iter().map(canonical).collect();
            let (mut hashes, mut ids) = (Vec::new(), Vec::new());
            hash_keys(&keys, rows.num_rows(), &mut hashes)?;
            self.state.keys.find(&keys, &hashes, &mut ids)?;
            kept.retain(|row| ids[*row] == MISSING);
        }
        Ok(kept)
    }
}

impl Operator for Deduplicate {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.state.end_restore()?;
        let Some(time) = self.spec.time else { return self.emit(&batch, out) };
        let kept = self.waiting_rows(&batch, time)?;
        self.state.waiting.as_mut().map_or(Ok(()), |waiting| waiting.add(&batch, kept))?;
        self.state.keep_to_size(0)?;
        self.state.work()
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.state.reach(watermark, out)?;
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if self.emit_next(out)? {
            return Ok(true);
        }
        if let Some(piece) = self.state.next_piece()? {
            self.emit(&piece.rows, out)?;
            return Ok(true);
        }
        let passed = self.state.pass();
        passed.into_iter().for_each(|watermark| out.watermark(watermark));
        Ok(passed.is_some())
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.state)
    }
}

/// Whether a deduplication can take over the state of another one: the same rows wait in the same order, and
/// both or neither have a time to live.
pub(crate) fn goes_on(former: &DeduplicateSpec, next: &DeduplicateSpec) -> bool {
    let types = |spec: &DeduplicateSpec| -> Vec<(DataType, bool)> {
        spec.kept_columns().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
    };
    let kinds = |spec: &DeduplicateSpec| (spec.keys, spec.time, spec.time_to_live_ms.is_some());
    kinds(former) == kinds(next) && types(former) == types(next)
}
