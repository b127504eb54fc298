//! Top N of an append-only stream: the first rows of each partition in an order, either as an updating
//! stream, or once, when the window of the partition ends.
//!
//! A row that is not among the first ones can never become one, so it is not kept. A batch is processed as a
//! whole: each row is compared with the last of the first rows, most often by one number, and only rows that
//! are among the first ones at the end of the batch are stored. The order covers all columns, so it does not
//! depend on arrival and is the same after a restore. With `RankSpec::latest`, only the first column of the
//! order decides: of rows that are equal in it, the one that arrived last stays. With state on a local disk,
//! a partition is in memory as a whole or not at all (`keyed_state::OnDisk`).

mod emitted;
mod partition;
mod snapshot;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, RankSpec, StateBackendKind};
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{SortOptions, filter_record_batch};
use arrow::datatypes::{DataType, SchemaRef};

use self::emitted::{Emitted, emit};
use self::partition::{Entry, Partition, ROWS_MAX, RowPlace};
use crate::key_hash::canonical;
use crate::key_table::Values;
use crate::keyed_state::{Changes, KeyedState, Keys, SPARSE_MIN, TimeToLive, Windows, narrow};
use crate::operator::RESULT_ROWS;
use crate::row_store::{Comparand, RowStore};
use crate::{Dropped, Operator, Output, State};

pub(crate) use self::snapshot::table;

/// Stands for the partition of a free row number.
const FREE: u32 = u32::MAX;

pub(crate) struct FirstRows {
    spec: RankSpec,
    schema: SchemaRef,
    state: KeyedState<Partitions>,
}

/// The first rows of all partitions.
struct Partitions {
    spec: RankSpec,
    partitions: Vec<Partition>,
    /// Number of partitions that have rows.
    live: usize,
    /// The columns after the keys of all current and removed first rows.
    rows: RowStore,
    /// For each row: its partition, and the number of its copies among the first rows. With no copies, the
    /// row is removed. Once its number may be reused, its partition is [`FREE`].
    groups: Vec<u32>,
    copies: Vec<u32>,
    /// Number of rows that are not removed.
    live_rows: usize,
    /// Memory of the partitions that have more than one row.
    partition_bytes: usize,
    changes: Changes,
    /// Whether rows are being restored. Removed rows are then still in their partitions.
    restores: bool,
    touched: Touched,
}

/// The partitions that a batch has changed, each once.
#[derive(Default)]
struct Touched {
    /// For each partition: the number of the last batch that changed it.
    stamps: Vec<u32>,
    batch: u32,
    groups: Vec<u32>,
    /// For each partition of the batch: the end of its former entries in `before`.
    ends: Vec<usize>,
    before: Vec<Entry>,
    /// Rows that the batch has stored, and for each row of the store whether it is one of them.
    stored: Vec<usize>,
    is_stored: Vec<bool>,
}

impl FirstRows {
    pub(crate) fn new(spec: &RankSpec, options: &JobOptions) -> Result<FirstRows> {
        let state = |options: &JobOptions| {
            let window = spec.window.map(|window| (window, 0));
            let keys = Keys::first_of(&spec.schema, spec.keys);
            let keys = Keys { time_to_live_ms: spec.time_to_live_ms, window, ..keys };
            KeyedState::new(Partitions::new(spec)?, keys, options)
        };
        let in_memory = JobOptions { state_backend: StateBackendKind::Memory, ..options.clone() };
        Ok(FirstRows {
            schema: Arc::new(spec.output_schema()),
            spec: spec.clone(),
            state: state(options)?.with_slice(|| state(&in_memory))?,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds the rows of a batch, and emits the changes among the first rows.
    fn take_in(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        let columns: Vec<ArrayRef> = batch.columns().iter().map(canonical).collect();
        let (keys, values) = columns.split_at(self.spec.keys);
        if let Some(windows) = &mut self.state.windows
            && let Some(on_time) = windows.rows_on_time(keys)?
        {
            return self.take_in(&filter_record_batch(batch, &on_time)?, out);
        }
        if let Some(halves) = self.state.bring(keys, batch.num_rows())? {
            return self.state.divide(batch, &halves);
        }
        let KeyedState { rows: partitions, ids: groups, times, .. } = &mut self.state;
        let values = partitions.rows.values(values)?;
        let prefixes = partitions.rows.prefixes(&values, groups.len());
        partitions.touched.begin();
        for (row, group) in groups.iter().enumerate() {
            partitions.compete(*group, prefixes[row], (&values, row))?;
        }
        partitions.store(&values, times.as_mut())?;
        if self.spec.window.is_none() {
            emit(&self.state, &Emitted::of_changes(&self.state.rows)?, &self.schema, out)?;
        }
        self.state.rows.free_former();
        self.state.remove_dead()?;
        self.state.keep_to_size(0).map(|_| ())
    }

    /// Emits the next partitions whose windows have ended, then forgets them. Returns false if nothing was
    /// left.
    fn go_on_firing(&mut self, out: &mut Output) -> Result<bool> {
        let schema = &self.schema;
        let rows_of_each = usize::try_from(self.spec.limit).unwrap_or(RESULT_ROWS).clamp(1, RESULT_ROWS);
        let most = RESULT_ROWS / rows_of_each;
        self.state.go_on_firing(most, out, |state, groups, out| {
            let mut emitted = Emitted::default();
            for group in groups {
                emitted.add_all(*group, state.rows.partitions[*group].entries())?;
            }
            emit(state, &emitted, schema, out)
        })
    }
}

impl Partitions {
    fn new(spec: &RankSpec) -> Result<Partitions> {
        let types = spec.schema.fields().iter().skip(spec.keys).map(|field| field.data_type().clone());
        let sorted = |(index, data_type): (usize, DataType)| {
            let order = spec.order.get(index);
            let order =
                order.map(|options| SortOptions { descending: options.descending, nulls_first: options.nulls_first });
            (data_type, order.unwrap_or_default())
        };
        let rows = RowStore::new(types.enumerate().map(sorted).collect()).map_err(|error| {
            Error::user(format!("the rows cannot be ordered: {error}")).remedy("leave out columns of such a type")
        })?;
        Ok(Partitions {
            spec: spec.clone(),
            partitions: Vec::new(),
            live: 0,
            rows,
            groups: Vec::new(),
            copies: Vec::new(),
            live_rows: 0,
            partition_bytes: 0,
            changes: Changes::default(),
            restores: false,
            touched: Touched::default(),
        })
    }

    /// Inserts a row of a batch into its partition, if it is among the first ones.
    fn compete(&mut self, group: usize, prefix: u64, (values, row): (&[Values<'_>], usize)) -> Result<()> {
        if self.spec.latest {
            return self.replace(group, prefix, (values, row));
        }
        let (partition, limit) = (&mut self.partitions[group], self.spec.limit);
        let is_full = partition.rows() >= limit;
        let order = |entry: &Entry| order(&self.rows, entry, prefix, (values, row));
        // An equal row would be after it.
        if is_full && partition.entries().last().is_none_or(|last| order(last).is_le()) {
            return Ok(());
        }
        let found = partition.entries().binary_search_by(order);
        if self.touched.add(narrow(group)?, partition) {
            self.partition_bytes -= partition.size_bytes();
        }
        partition.cut(if is_full { limit - 1 } else { limit });
        match found {
            Ok(at) => partition.repeat(at),
            Err(at) => partition.insert(at, Entry::of_batch(prefix, narrow(row)?, 1)),
        }
        Ok(())
    }

    /// Inserts a row of a batch into a partition with a limit of one, unless the present row comes first.
    fn replace(&mut self, group: usize, prefix: u64, (values, row): (&[Values<'_>], usize)) -> Result<()> {
        let partition = &mut self.partitions[group];
        if let Some(entry) = partition.entries().first() {
            let by_time =
                entry.prefix.cmp(&prefix).then_with(|| self.rows.order_by_first(values, row, row_of(entry)).reverse());
            let is_same =
                || self.spec.time_to_live_ms.is_none() && order(&self.rows, entry, prefix, (values, row)).is_eq();
            if by_time.is_lt() || by_time.is_eq() && is_same() {
                return Ok(());
            }
        }
        if self.touched.add(narrow(group)?, partition) {
            self.partition_bytes -= partition.size_bytes();
        }
        partition.cut(0);
        partition.insert(0, Entry::of_batch(prefix, narrow(row)?, 1));
        Ok(())
    }

    /// Stores the rows of a batch that are among the first ones, and removes those that no longer are.
    fn store(&mut self, values: &[Values<'_>], mut times: Option<&mut TimeToLive>) -> Result<()> {
        let mut new = Vec::new();
        for (place, group) in self.touched.groups.iter().enumerate() {
            let before = before(&self.touched.ends, &self.touched.before, place);
            let partition = &mut self.partitions[*group as usize];
            self.partition_bytes += partition.size_bytes();
            self.live += usize::from(before.is_empty());
            for entry in before {
                self.copies[entry.kept()] = 0;
            }
            let (mut kept, added) = (0, new.len());
            let is_outdated = times.as_mut().is_some_and(|times| times.write(*group as usize));
            for entry in partition.entries_mut() {
                match entry.place() {
                    RowPlace::Kept(row) => {
                        (self.copies[row], kept) = (entry.copies, kept + 1);
                        if is_outdated {
                            self.changes.add(row);
                        }
                    }
                    RowPlace::Batch(row) => {
                        let stored = self.rows.reserve();
                        if stored == self.copies.len() {
                            self.groups.push(FREE);
                            self.copies.push(0);
                        }
                        entry.keep_as(narrow(stored)?);
                        (self.groups[stored], self.copies[stored]) = (*group, entry.copies);
                        new.push(row);
                        self.touched.stored.push(stored);
                    }
                }
            }
            self.live_rows = self.live_rows + (new.len() - added) + kept - before.len();
            let changed = |entry: &&Entry| self.copies[entry.kept()] != entry.copies;
            before.iter().filter(changed).for_each(|entry| self.changes.add(entry.kept()));
        }
        if self.rows.len() > ROWS_MAX {
            return Err(Error::user("one task has too many rows among the first ones").remedy("raise the parallelism"));
        }
        let Touched { stored, is_stored, .. } = &mut self.touched;
        is_stored.resize(self.rows.len(), false);
        for row in &*stored {
            is_stored[*row] = true;
            self.changes.add(*row);
        }
        self.rows.put(values, &new, stored)
    }

    /// The rows that the batch has stored become former rows. The numbers of removed rows become free.
    fn free_former(&mut self) {
        let Touched { stored, is_stored, before, .. } = &mut self.touched;
        stored.drain(..).for_each(|row| is_stored[row] = false);
        for entry in before.drain(..) {
            free_if_gone(entry.kept(), &self.copies, &mut self.groups, &self.changes, &mut self.rows);
        }
    }

    /// Snapshots no longer need the removed rows: their numbers become free.
    fn free_gone(&mut self) {
        for row in 0..self.copies.len() {
            free_if_gone(row, &self.copies, &mut self.groups, &self.changes, &mut self.rows);
        }
    }

    /// Frees the memory of removed rows, once most rows are removed. No removed row may be pending for a
    /// snapshot.
    fn remove_gone(&mut self) -> Result<()> {
        let gone = self.rows.len().saturating_sub(self.live_rows + self.changes.len());
        if gone <= self.rows.len() / 2 + SPARSE_MIN {
            return Ok(());
        }
        let kept: Vec<usize> =
            (0..self.rows.len()).filter(|row| self.copies[*row] > 0 || self.changes.has(*row)).collect();
        self.rows.keep(&kept)?;
        let mut places = vec![u32::MAX; self.copies.len()];
        for (new, old) in kept.iter().enumerate() {
            places[*old] = narrow(new)?;
        }
        let entries = self.partitions.iter_mut().flat_map(Partition::entries_mut);
        entries.for_each(|entry| entry.keep_as(places[entry.kept()]));
        self.groups = kept.iter().map(|row| self.groups[*row]).collect();
        self.copies = kept.iter().map(|row| self.copies[*row]).collect();
        self.changes.renumber(|row| places.get(row).filter(|new| **new != u32::MAX).map(|new| *new as usize));
        Ok(())
    }

    /// Forgets the rows of a partition, without a retraction.
    fn forget_partition(&mut self, group: usize) {
        let partition = std::mem::take(&mut self.partitions[group]);
        self.partition_bytes -= partition.size_bytes();
        self.live -= usize::from(partition.rows() > 0);
        self.live_rows -= partition.entries().len();
        for entry in partition.entries() {
            self.copies[entry.kept()] = 0;
            self.changes.add(entry.kept());
        }
    }
}

/// Frees the number of a removed row, unless a snapshot must still contain its removal.
fn free_if_gone(row: usize, copies: &[u32], groups: &mut [u32], changes: &Changes, rows: &mut RowStore) {
    if copies[row] == 0 && groups[row] != FREE && !changes.has(row) {
        groups[row] = FREE;
        rows.free(row as u32);
    }
}

/// How an entry compares with a row of a batch.
#[inline]
fn order(rows: &RowStore, entry: &Entry, prefix: u64, (values, row): (&[Values<'_>], usize)) -> Ordering {
    entry.prefix.cmp(&prefix).then_with(|| rows.order(values, row, row_of(entry)).reverse())
}

/// The row of an entry, for comparisons.
fn row_of(entry: &Entry) -> Comparand {
    match entry.place() {
        RowPlace::Kept(row) => Comparand::Kept(row),
        RowPlace::Batch(row) => Comparand::Row(row),
    }
}

impl Touched {
    /// Begins the next batch.
    fn begin(&mut self) {
        self.groups.clear();
        self.ends.clear();
        self.before.clear();
        self.batch = self.batch.wrapping_add(1);
        if self.batch == 0 {
            self.stamps.fill(0);
            self.batch = 1;
        }
    }

    /// Notes that a partition is about to change. Returns whether this is its first change in the batch.
    fn add(&mut self, group: u32, partition: &Partition) -> bool {
        let is_new = std::mem::replace(&mut self.stamps[group as usize], self.batch) != self.batch;
        if is_new {
            self.groups.push(group);
            self.before.extend_from_slice(partition.entries());
            self.ends.push(self.before.len());
        }
        is_new
    }
}

/// The former entries of a partition.
fn before<'a>(ends: &[usize], before: &'a [Entry], place: usize) -> &'a [Entry] {
    let start = place.checked_sub(1).map_or(0, |former| ends[former]);
    &before[start..ends[place]]
}

impl Operator for FirstRows {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.state.end_restore()?;
        self.take_in(&batch, out)?;
        self.state.work()
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.state.begin_firing(watermark, out)?;
        self.go_on_firing(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if let Some(batch) = self.state.divided.pop_front() {
            self.take_in(&batch, out)?;
            return Ok(true);
        }
        self.go_on_firing(out)
    }

    fn take_dropped(&mut self) -> Dropped {
        self.state.windows.as_mut().map(Windows::take_dropped).unwrap_or_default()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.state)
    }
}
