//! The first rows of each partition, in an order, of rows that stay: as an updating stream, or once, when the window of the partition
//! ends.
//!
//! A row that is not among the first ones will never be, so nothing is kept of it. A batch is taken as a whole: each row is compared
//! with the last one that counts, most often by one number, and only rows that are among the first ones at the batch's end are stored.
//! The order is one of whole rows, whichever came first, and the same after a restore. With state on a local disk, a partition is in
//! memory as a whole or not at all (`keyed_state::OnDisk`).

mod emitted;
mod on_disk;
mod partition;
mod snapshot;
mod time_to_live;
mod windows;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, RankSpec, StateBackendKind};
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{SortOptions, filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};

use self::emitted::Emitted;
use self::partition::{Entry, Partition, Place, ROWS_MAX};
use crate::key_hash::canonical;
use crate::key_table::{KeyTable, Values};
use crate::keyed_state::{Changes, OnDisk, SPARSE_MIN, Snapshots, TimeToLive, Windows, halves, is_full, narrow};
use crate::operator::{StateChange, StateShape, same_kind};
use crate::row_store::{Other, RowStore};
use crate::{Dropped, Operator, Output, State, hash_keys};

pub(crate) use self::snapshot::shape;

/// The partition of a row whose number another one may get.
const FREE: u32 = u32::MAX;

pub(crate) struct FirstRows {
    spec: RankSpec,
    schema: SchemaRef,
    keys: KeyTable,
    partitions: Vec<Partition>,
    /// Number of partitions that have rows.
    live: usize,
    /// The columns after the keys of rows that are, or were, among the first ones.
    rows: RowStore,
    /// Of each row: its partition, and how many equal ones are among the first. None: the row is gone. Then it has no partition either, once
    /// another row may take its number.
    groups: Vec<u32>,
    copies: Vec<u32>,
    /// How many rows are not gone.
    live_rows: usize,
    /// Memory of the partitions that have several rows.
    partition_bytes: usize,
    changes: Changes,
    /// Rows are being restored: those that are gone are still in their partitions.
    restores: bool,
    snapshots: Snapshots,
    /// If the partitions are of windows.
    windows: Option<Windows>,
    /// When partitions were changed last, if they do not live for ever.
    times: Option<TimeToLive>,
    bytes_max: usize,
    /// Where partitions are that do not fit into memory.
    disk: Option<OnDisk>,
    /// Parts of a batch whose partitions do not fit into memory at once.
    divided: VecDeque<RecordBatch>,
    /// Partitions of a window on the disk that fire.
    of_slice: Option<Box<FirstRows>>,
    touched: Touched,
}

/// The partitions that a batch has changed, each once.
#[derive(Default)]
struct Touched {
    /// The number of the batch that has changed a partition last.
    stamps: Vec<u32>,
    batch: u32,
    groups: Vec<u32>,
    /// What each had before: the end of its part of `before`.
    ends: Vec<usize>,
    before: Vec<Entry>,
    /// Rows that the batch has stored, and whether each row of the store is one of them.
    stored: Vec<usize>,
    is_stored: Vec<bool>,
}

impl FirstRows {
    pub(crate) fn new(spec: &RankSpec, options: &JobOptions) -> Result<FirstRows> {
        let fields = spec.schema.fields();
        let mut types = fields.iter().map(|field| field.data_type().clone());
        let key_types: Vec<DataType> = types.by_ref().take(spec.keys).collect();
        let sorted = |(index, data_type): (usize, DataType)| {
            let order = spec.order.get(index);
            let order = order.map(|of| SortOptions { descending: of.descending, nulls_first: of.nulls_first });
            (data_type, order.unwrap_or_default())
        };
        let rows = RowStore::new(types.enumerate().map(sorted).collect()).map_err(|error| {
            Error::user(format!("the rows cannot be ordered: {error}")).remedy("leave out columns of such a type")
        })?;
        let mut first_rows = FirstRows {
            schema: Arc::new(spec.output_schema()),
            spec: spec.clone(),
            keys: KeyTable::by_id(key_types)?,
            partitions: Vec::new(),
            live: 0,
            rows,
            groups: Vec::new(),
            copies: Vec::new(),
            live_rows: 0,
            partition_bytes: 0,
            changes: Changes::default(),
            restores: false,
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            windows: spec.window.map(|window| Windows::new(window, 0)),
            times: spec.time_to_live_ms.map(|ms| TimeToLive::new(ms, options)),
            bytes_max: options.state_bytes,
            disk: None,
            divided: VecDeque::new(),
            of_slice: None,
            touched: Touched::default(),
        };
        first_rows.disk = OnDisk::new(&[first_rows.shape()], spec.window, options)?;
        if first_rows.disk.is_some() {
            first_rows.changes.for_disk();
            if spec.window.is_some() {
                let in_memory = JobOptions { state_backend: StateBackendKind::Memory, ..options.clone() };
                first_rows.of_slice = Some(Box::new(FirstRows::new(spec, &in_memory)?));
            }
        }
        Ok(first_rows)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// There may be new partitions among these.
    fn make_room(&mut self, groups: &[usize], keys: &[ArrayRef]) -> Result<()> {
        self.partitions.resize_with(self.keys.len(), Partition::default);
        self.touched.stamps.resize(self.keys.len(), 0);
        self.windows.iter_mut().try_for_each(|windows| windows.add(groups, keys))
    }

    /// Adds the rows of a batch, and emits what differs among the first ones.
    fn take_in(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        let columns: Vec<ArrayRef> = batch.columns().iter().map(canonical).collect();
        let (keys, values) = columns.split_at(self.spec.keys);
        if let Some(windows) = &mut self.windows
            && let Some(on_time) = windows.rows_on_time(keys)?
        {
            return self.take_in(&filter_record_batch(batch, &on_time)?, out);
        }
        let (mut hashes, mut groups) = (Vec::new(), Vec::new());
        hash_keys(keys, batch.num_rows(), &mut hashes)?;
        let known = self.keys.len();
        self.keys.intern(keys, &hashes, &mut groups)?;
        self.make_room(&groups, keys)?;
        if !self.load(known, &groups, &hashes)? {
            // What is in memory makes room, and each half needs half of the partitions.
            self.put_away()?;
            for half in halves(&hashes).iter().rev() {
                self.divided.push_front(take_record_batch(batch, half)?);
            }
            return Ok(());
        }
        let values = self.rows.values(values)?;
        let prefixes = self.rows.prefixes(&values, groups.len());
        self.touched.begin();
        for (row, group) in groups.iter().enumerate() {
            self.compete(*group, prefixes[row], (&values, row))?;
        }
        self.store(&values)?;
        if self.spec.window.is_none() {
            let emitted = Emitted::of_changes(self)?;
            self.emit(&emitted, out)?;
        }
        self.free_former();
        self.remove_dead()?;
        self.keep_to_size()
    }

    /// Puts a row of a batch among the first ones of its partition, if it is one of them.
    fn compete(&mut self, group: usize, prefix: u64, (values, row): (&[Values<'_>], usize)) -> Result<()> {
        if self.spec.latest {
            return self.replace(group, prefix, (values, row));
        }
        let (partition, limit) = (&mut self.partitions[group], self.spec.limit);
        let is_full = partition.rows() >= limit;
        let order = |entry: &Entry| order(&self.rows, entry, prefix, (values, row));
        // An equal row would be behind it.
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

    /// Takes a row of a batch for the one of its partition, unless that is before it in the order.
    fn replace(&mut self, group: usize, prefix: u64, (values, row): (&[Values<'_>], usize)) -> Result<()> {
        let partition = &mut self.partitions[group];
        if let Some(entry) = partition.entries().first() {
            let by_time =
                entry.prefix.cmp(&prefix).then_with(|| self.rows.order_by_first(values, row, other(entry)).reverse());
            let is_same = || self.times.is_none() && order(&self.rows, entry, prefix, (values, row)).is_eq();
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

    /// Stores the rows of a batch that are among the first ones, and forgets those that are not any more.
    fn store(&mut self, values: &[Values<'_>]) -> Result<()> {
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
            let is_outdated = self.times.as_mut().is_some_and(|times| times.write(*group as usize));
            for entry in partition.entries_mut() {
                match entry.place() {
                    Place::Kept(row) => {
                        (self.copies[row], kept) = (entry.copies, kept + 1);
                        if is_outdated {
                            self.changes.add(row);
                        }
                    }
                    Place::Batch(row) => {
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

    /// What the batch has stored is there from now on. Other rows may take the places of those that are gone.
    fn free_former(&mut self) {
        let Touched { stored, is_stored, before, .. } = &mut self.touched;
        stored.drain(..).for_each(|row| is_stored[row] = false);
        for entry in before.drain(..) {
            free_if_gone(entry.kept(), &self.copies, &mut self.groups, &self.changes, &mut self.rows);
        }
    }

    /// Rows that are gone need not be in a snapshot any more.
    fn free_gone(&mut self) {
        for row in 0..self.copies.len() {
            free_if_gone(row, &self.copies, &mut self.groups, &self.changes, &mut self.rows);
        }
    }

    /// Forgets rows that are gone and partitions without rows, once they are most. None may be waiting for a snapshot.
    fn remove_dead(&mut self) -> Result<()> {
        let gone = self.rows.len().saturating_sub(self.live_rows + self.changes.len());
        if gone > self.rows.len() / 2 + SPARSE_MIN {
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
        }
        if self.keys.len() > 2 * self.live + SPARSE_MIN && self.changes.is_empty() && self.disk.is_none() {
            self.remove_empty()?;
        }
        Ok(())
    }

    /// Forgets the partitions without rows.
    fn remove_empty(&mut self) -> Result<()> {
        let live: Vec<usize> = (0..self.partitions.len()).filter(|group| self.partitions[*group].rows() > 0).collect();
        let columns = self.keys.keep(&live)?;
        let mut places = vec![FREE; self.partitions.len()];
        for (new, old) in live.iter().enumerate() {
            places[*old] = narrow(new)?;
        }
        // Those of rows that are gone do not matter.
        let place = |group: u32| places.get(group as usize).copied().unwrap_or(FREE);
        self.groups.iter_mut().for_each(|group| *group = place(*group));
        self.partitions = live.iter().map(|group| std::mem::take(&mut self.partitions[*group])).collect();
        self.windows.iter_mut().for_each(|windows| windows.keep(&live));
        self.times.iter_mut().for_each(|times| times.keep(&live));
        self.touched = Touched::default();
        self.make_room(&(0..live.len()).collect::<Vec<_>>(), &columns)
    }

    fn size_bytes(&self) -> usize {
        let partitions = self.partitions.capacity() * (size_of::<Partition>() + size_of::<u32>());
        let rows = (self.groups.capacity() + self.copies.capacity()) * size_of::<u32>();
        self.keys.size_bytes()
            + self.rows.size_bytes()
            + self.changes.size_bytes()
            + partitions
            + rows
            + self.partition_bytes
            + self.times.as_ref().map_or(0, TimeToLive::size_bytes)
            + self.windows.as_ref().map_or(0, Windows::size_bytes)
    }

    fn keep_to_size(&mut self) -> Result<()> {
        let is_full = is_full(self.disk.as_ref(), self.size_bytes(), self.bytes_max)?;
        if is_full { self.put_away() } else { Ok(()) }
    }
}

/// Lets another row take the place of one that is gone, unless a snapshot must say so.
fn free_if_gone(row: usize, copies: &[u32], groups: &mut [u32], changes: &Changes, rows: &mut RowStore) {
    if copies[row] == 0 && groups[row] != FREE && !changes.has(row) {
        groups[row] = FREE;
        rows.free(row as u32);
    }
}

/// Whether an entry is before a row of a batch, or behind it.
#[inline]
fn order(rows: &RowStore, entry: &Entry, prefix: u64, (values, row): (&[Values<'_>], usize)) -> Ordering {
    entry.prefix.cmp(&prefix).then_with(|| rows.order(values, row, other(entry)).reverse())
}

/// Where the row of an entry is.
fn other(entry: &Entry) -> Other {
    match entry.place() {
        Place::Kept(row) => Other::Kept(row),
        Place::Batch(row) => Other::Row(row),
    }
}

impl Touched {
    /// The next batch begins.
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

    /// A partition is about to be changed. Returns whether this is the first time.
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

/// What a partition had before.
fn before<'a>(ends: &[usize], before: &'a [Entry], place: usize) -> &'a [Entry] {
    let start = place.checked_sub(1).map_or(0, |former| ends[former]);
    &before[start..ends[place]]
}

impl Operator for FirstRows {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.settle();
        if let Some(disk) = &mut self.disk {
            disk.restored()?;
        }
        self.take_in(&batch, out)?;
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.settle();
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)?;
        self.fire(watermark, out)
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if let Some(batch) = self.divided.pop_front() {
            self.take_in(&batch, out)?;
            return Ok(true);
        }
        self.go_on_firing(out)
    }

    fn take_dropped(&mut self) -> Dropped {
        self.windows.as_mut().map(Windows::take_dropped).unwrap_or_default()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for FirstRows {
    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        self.forget(wall_ms)
    }

    fn tables(&self) -> Vec<StateShape> {
        vec![self.shape()]
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        self.settle();
        let changes = self.take_snapshot(adds)?;
        self.free_gone();
        self.remove_dead()?;
        Ok(changes)
    }

    fn restore(&mut self, _table: usize, rows: RecordBatch) -> Result<()> {
        self.take_up(rows)
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.windows.iter_mut().for_each(|windows| windows.restored(watermark));
        Ok(())
    }

    fn goes_on(&mut self) {
        self.settle();
        self.snapshots.go_on(self.live_rows);
        self.changes.note();
        self.disk.iter_mut().for_each(OnDisk::goes_on);
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut FirstRows = same_kind(former)?;
        std::mem::swap(self, former);
        std::mem::swap(&mut self.spec, &mut former.spec);
        std::mem::swap(&mut self.schema, &mut former.schema);
        std::mem::swap(&mut self.of_slice, &mut former.of_slice);
        self.bytes_max = former.bytes_max;
        self.times = former.times.take().map(|own| own.follow(self.times.take()));
        self.snapshots = std::mem::take(&mut self.snapshots).succeed();
        Ok(())
    }
}
