//! Aggregation by keys without a window: results of all rows so far, as an updating stream.
//!
//! A batch is taken as a whole. The results of the groups that it touches are read before and after it; what differs leaves as
//! the former row with weight -1 and the new one with weight 1. So a group that many rows of a batch touch changes once.
//!
//! State is a table of groups and, for functions that keep values, one table each. A row of a snapshot replaces all earlier rows
//! of its key: it has the number of its snapshot. With state on a local disk, a group is in memory with all of its values, or not at all
//! (`keyed_state::OnDisk`).

pub(crate) mod accumulator;
mod count;
mod distinct;
pub(crate) mod entries;
pub(crate) mod extreme;
mod gathered;
mod list;
mod moments;
mod on_disk;
pub(crate) mod readings;
mod snapshot;
mod succession;
mod sum;
mod time_to_live;
mod windows;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_dataflow::{GroupAggregateSpec, JobOptions};
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt64Array, make_comparator};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{SortOptions, and, filter_record_batch, interleave, take, take_record_batch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};

use self::accumulator::{Call, Conditions, accumulator};
use self::distinct::followed;
use self::entries::Entries;
use self::gathered::Gathered;
use crate::key_hash::canonical;
use crate::key_table::KeyTable;
use crate::keyed_state::{Changes, OnDisk, SPARSE_MIN, Snapshots, TimeToLive, Windows, halves, is_full};
use crate::operator::{RESULT_ROWS, StateChange, StateShape};
use crate::{CompiledExpr, Dropped, Functions, Operator, Output, State, hash_keys};

pub(crate) use succession::goes_on;

/// Gathered rows take at most this share of the memory of the state.
const GATHERED_SHARE: usize = 8;

pub(crate) struct GroupAggregate {
    schema: SchemaRef,
    /// Whether results are taken back.
    is_updating: bool,
    keys: Vec<CompiledExpr>,
    weight: Option<usize>,
    groups: Groups,
    /// Groups of a window on the disk that fire.
    of_slice: Option<Box<Groups>>,
    snapshots: Snapshots,
    gathered: Gathered,
    bytes_max: usize,
    /// Where groups are that do not fit into memory.
    disk: Option<OnDisk>,
    /// Parts of a batch whose groups do not fit into memory at once.
    divided: VecDeque<RecordBatch>,
    /// Event time that has come after them.
    arrived: Option<EventTime>,
    scratch: Scratch,
}

/// All groups, by their ids.
struct Groups {
    key_names: Vec<(String, bool)>,
    key_types: Vec<DataType>,
    keys: KeyTable,
    /// Number of rows of each group. A group without rows does not exist.
    rows: Vec<i64>,
    /// How many have rows, or a number below zero: then a row was taken back before it came.
    live: usize,
    calls: Vec<Call>,
    conditions: Conditions,
    changes: Changes,
    /// When groups were changed last, if they do not live for ever.
    times: Option<TimeToLive>,
    /// Groups whose values are to be written anew: they have an earlier time.
    outdated: Vec<usize>,
    /// If the groups are of windows.
    windows: Option<Windows>,
    /// Whether their results are emitted before their window ends, and whether that of each group was emitted.
    early: bool,
    emitted: Vec<bool>,
}

/// Memory that is used again for each batch.
#[derive(Default)]
struct Scratch {
    hashes: Vec<u64>,
    /// The group of each row.
    ids: Vec<usize>,
    /// The number of the batch that has touched a group last.
    stamps: Vec<u64>,
    batch: u64,
    touched: Touched,
}

/// The groups of a batch, each once.
#[derive(Default)]
struct Touched {
    groups: Vec<usize>,
    /// A row of each.
    rows: Vec<u64>,
    /// Whether each existed before.
    existed: Vec<bool>,
    /// The number of its rows before.
    counts: Vec<i64>,
}

impl GroupAggregate {
    pub(crate) fn new(spec: &GroupAggregateSpec, functions: &Functions, options: &JobOptions) -> Result<Self> {
        let input = &spec.input_schema;
        let keys = spec.keys.iter().map(|key| CompiledExpr::new(&key.expr, input, functions)).collect::<Result<_>>()?;
        let windows = spec.emission.map(|emission| emission.time);
        let mut aggregate = GroupAggregate {
            schema: Arc::new(spec.output_schema()),
            is_updating: spec.is_updating(),
            keys,
            weight: spec.weight,
            groups: Groups::new(spec, functions, options)?,
            of_slice: None,
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            gathered: Gathered::new(spec.mini_batch_rows, options.state_bytes / GATHERED_SHARE),
            bytes_max: options.state_bytes,
            disk: None,
            divided: VecDeque::new(),
            arrived: None,
            scratch: Scratch::default(),
        };
        aggregate.disk = OnDisk::new(&aggregate.shapes(), windows, options)?;
        if aggregate.disk.is_some() && windows.is_some() {
            aggregate.of_slice = Some(Box::new(Groups::new(spec, functions, options)?));
        }
        aggregate.groups.for_disk(aggregate.disk.as_ref());
        Ok(aggregate)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn weights<'a>(&self, batch: &'a RecordBatch) -> Result<Option<&'a [i64]>> {
        let Some(weight) = self.weight else { return Ok(None) };
        let weights = batch.column(weight).as_primitive_opt::<Int64Type>();
        let weights = weights.ok_or_else(|| Error::internal("the weight of a row is not BIGINT"))?;
        Ok(Some(weights.values()))
    }

    fn size_bytes(&self) -> usize {
        self.groups.size_bytes() + self.scratch.stamps.capacity() * size_of::<u64>()
    }

    fn keep_to_size(&mut self) -> Result<()> {
        let is_full = is_full(self.disk.as_ref(), self.size_bytes(), self.bytes_max)?;
        if is_full { self.put_away() } else { Ok(()) }
    }

    /// Adds the rows of a batch, and emits what differs.
    fn add(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        let weights = self.weights(batch)?;
        let keys = self.keys.iter_mut().map(|key| Ok(canonical(&key.evaluate(batch)?))).collect::<Result<Vec<_>>>()?;
        if let Some(windows) = &mut self.groups.windows
            && let Some(on_time) = windows.rows_on_time(&keys)?
        {
            return self.add(&filter_record_batch(batch, &on_time)?, out);
        }
        let Scratch { hashes, ids, .. } = &mut self.scratch;
        hash_keys(&keys, batch.num_rows(), hashes)?;
        let known = self.groups.keys.len();
        self.groups.keys.intern(&keys, hashes, ids)?;
        self.groups.windows.iter_mut().try_for_each(|windows| windows.add(ids, &keys))?;
        self.groups.resize();
        if !self.load(known)? {
            // What is in memory makes room, and each half needs half of the groups.
            self.put_away()?;
            for half in halves(&self.scratch.hashes).iter().rev() {
                self.divided.push_front(take_record_batch(batch, half)?);
            }
            return Ok(());
        }
        if let Some(known) = self.rows_of_known(weights) {
            return self.add(&filter_record_batch(batch, &known)?, out);
        }
        self.scratch.touch(&self.groups.rows);
        self.groups.write(&self.scratch.touched.groups);
        let Scratch { ids, touched, .. } = &self.scratch;
        let before = match self.is_updating && touched.existed.contains(&true) {
            true => Some(self.groups.results(&touched.groups)?),
            false => None,
        };
        self.groups.count(ids, weights);
        let Groups { calls, conditions, .. } = &mut self.groups;
        conditions.evaluate(batch, weights)?;
        calls.iter_mut().try_for_each(|call| call.update(batch, (ids, weights), conditions))?;
        for (group, before) in touched.groups.iter().zip(&touched.counts) {
            self.groups.changes.add(*group);
            match (*before != 0, self.groups.rows[*group] != 0) {
                (false, true) => self.groups.live += 1,
                (true, false) => self.groups.live -= 1,
                _ => {}
            }
        }
        let shown = self.groups.shown(&self.scratch.touched.groups, &self.scratch.touched.existed);
        match (self.is_updating, &self.groups.windows) {
            (true, _) => emit(&self.changed(&keys, before.as_deref(), &shown)?, out),
            (false, None) => emit(&self.new_groups(&keys)?, out),
            // Results come when their windows end.
            (false, Some(_)) => {}
        }
        self.remove_dead()?;
        self.keep_to_size()
    }
}

impl Scratch {
    /// Finds the groups of a batch.
    fn touch(&mut self, rows: &[i64]) {
        self.stamps.resize(rows.len(), 0);
        self.batch += 1;
        let Touched { groups, rows: first, existed, counts } = &mut self.touched;
        groups.clear();
        first.clear();
        existed.clear();
        counts.clear();
        for (row, group) in self.ids.iter().enumerate() {
            if std::mem::replace(&mut self.stamps[*group], self.batch) != self.batch {
                groups.push(*group);
                first.push(row as u64);
                existed.push(rows[*group] > 0);
                counts.push(rows[*group]);
            }
        }
    }
}

impl Groups {
    fn new(spec: &GroupAggregateSpec, functions: &Functions, options: &JobOptions) -> Result<Groups> {
        let (input, retracts) = (&spec.input_schema, spec.weight.is_some());
        let mut conditions = Conditions::default();
        let mut calls: Vec<Call> = Vec::with_capacity(spec.aggregates.len());
        for (place, of) in spec.aggregates.iter().enumerate() {
            let mut call = Call::new(of, input, functions, &mut conditions, |args| accumulator(of, args, retracts))?;
            let followed = followed(&spec.aggregates, place).and_then(|of| calls[of].accumulator.entries());
            if let Some((entries, followed)) = call.accumulator.entries().zip(followed) {
                entries.follow(followed);
            }
            calls.push(call);
        }
        let key_types: Vec<DataType> = spec.keys.iter().map(|key| key.data_type.clone()).collect();
        Ok(Groups {
            key_names: spec.keys.iter().map(|key| (key.name.clone(), key.nullable)).collect(),
            keys: KeyTable::by_id(key_types.clone())?,
            key_types,
            rows: Vec::new(),
            live: 0,
            calls,
            conditions,
            changes: Changes::default(),
            times: spec.time_to_live_ms.map(|ms| TimeToLive::new(ms, options)),
            outdated: Vec::new(),
            windows: spec.emission.map(|emission| Windows::new(emission.time, emission.lateness_ms)),
            early: spec.emission.is_some_and(|emission| emission.early),
            emitted: Vec::new(),
        })
    }

    fn resize(&mut self) {
        let len = self.keys.len();
        self.rows.resize(len, 0);
        if self.windows.is_some() {
            self.emitted.resize(len, false);
        }
        self.calls.iter_mut().for_each(|call| call.accumulator.resize(len));
    }

    fn results(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        self.calls.iter().map(|call| call.accumulator.results(groups)).collect()
    }

    /// Counts the rows of a batch.
    fn count(&mut self, groups: &[usize], weights: Option<&[i64]>) {
        match weights {
            None => groups.iter().for_each(|group| self.rows[*group] += 1),
            Some(weights) => groups.iter().zip(weights).for_each(|(group, weight)| self.rows[*group] += weight),
        }
    }

    fn entries(&mut self) -> impl Iterator<Item = &mut Entries> {
        self.calls.iter_mut().filter_map(|call| call.accumulator.entries())
    }

    /// Nothing else is restored.
    fn restored(&mut self) {
        self.changes.restored();
        self.entries().for_each(|entries| entries.changes.restored());
    }

    /// Whether so many groups or values do not exist any more that they should be removed. None may be waiting for a snapshot.
    fn is_sparse(&mut self) -> bool {
        let sparse = self.rows.len() > 2 * self.live + SPARSE_MIN;
        (sparse || self.entries().any(|entries| entries.is_sparse()))
            && self.changes.is_empty()
            && self.entries().all(|entries| entries.changes.is_empty())
    }

    fn remove_dead(&mut self) -> Result<()> {
        let live: Vec<usize> = (0..self.rows.len()).filter(|group| self.rows[*group] != 0).collect();
        let columns = self.keys.keys_of(&live)?;
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(&columns, live.len(), &mut hashes)?;
        let mut keys = KeyTable::by_id(self.key_types.clone())?;
        keys.intern(&columns, &hashes, &mut ids)?;
        self.calls.iter_mut().try_for_each(|call| call.accumulator.keep(&live))?;
        self.rows = live.iter().map(|group| self.rows[*group]).collect();
        self.times.iter_mut().for_each(|times| times.keep(&live));
        if let Some(windows) = &mut self.windows {
            windows.keep(&live);
            self.emitted = live.iter().map(|group| self.emitted[*group]).collect();
        }
        self.outdated.clear();
        self.keys = keys;
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        let calls: usize = self.calls.iter().map(|call| call.accumulator.size_bytes()).sum();
        let times = self.times.as_ref().map_or(0, TimeToLive::size_bytes)
            + self.windows.as_ref().map_or(0, Windows::size_bytes)
            + self.emitted.capacity();
        self.keys.size_bytes() + self.rows.capacity() * size_of::<i64>() + self.changes.size_bytes() + calls + times
    }
}

impl Operator for GroupAggregate {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        match self.gathered.add(batch)? {
            Some(batch) => self.take_in(&batch, out),
            None => Ok(()),
        }
    }

    fn flush(&mut self, out: &mut Output) -> Result<()> {
        match self.gathered.take()? {
            Some(batch) => self.take_in(&batch, out),
            None => Ok(()),
        }
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        // What was gathered came before.
        self.flush(out)?;
        self.arrived = Some(watermark);
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if let Some(batch) = self.divided.pop_front() {
            self.add(&batch, out)?;
            return Ok(true);
        }
        if let Some(watermark) = self.arrived.take() {
            self.begin_firing(watermark, out)?;
        }
        self.go_on_firing(out)
    }

    fn take_dropped(&mut self) -> Dropped {
        self.groups.windows.as_mut().map(Windows::take_dropped).unwrap_or_default()
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for GroupAggregate {
    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.windows_restored(watermark);
        Ok(())
    }

    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        self.forget(wall_ms)
    }

    fn tables(&self) -> Vec<StateShape> {
        self.shapes()
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let changes = self.take_snapshot(adds)?;
        // Now nothing waits for a snapshot.
        self.remove_dead()?;
        Ok(changes)
    }

    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        self.take_up(table, rows)
    }

    fn goes_on(&mut self) {
        self.snapshots.go_on(self.groups.live);
        self.groups.changes.note();
        self.groups.entries().for_each(|entries| entries.changes.note());
        if let Some(disk) = &mut self.disk {
            disk.goes_on();
        }
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        self.take_over(former)
    }
}

impl GroupAggregate {
    fn take_in(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        self.groups.restored();
        if let Some(disk) = &mut self.disk {
            disk.restored()?;
        }
        self.add(batch, out)?;
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)
    }

    /// Gives back the memory of groups and values that do not exist any more, once they are most.
    fn remove_dead(&mut self) -> Result<()> {
        if self.groups.is_sparse() {
            self.groups.remove_dead()?;
            self.scratch.stamps.clear();
        }
        Ok(())
    }

    /// The former and the new rows of the groups that differ.
    fn changed(&self, keys: &[ArrayRef], before: Option<&[ArrayRef]>, shown: &[(bool, bool)]) -> Result<RecordBatch> {
        let Touched { groups, rows, .. } = &self.scratch.touched;
        let after = self.groups.results(groups)?;
        let same = before.map(|before| same(before, &after, groups.len())).transpose()?;
        // Pairs of (0 before, 1 after) and the place of the group.
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(groups.len() * 2);
        for (place, (was, is)) in shown.iter().enumerate() {
            if *was && *is && same.as_ref().is_some_and(|same| same.value(place)) {
                continue;
            }
            if *was {
                order.push((0, place));
            }
            if *is {
                order.push((1, place));
            }
        }
        let at: UInt64Array = order.iter().map(|(_, place)| rows[*place]).collect();
        let mut columns = keys.iter().map(|key| Ok(take(key, &at, None)?)).collect::<Result<Vec<_>>>()?;
        for (index, new) in after.iter().enumerate() {
            let former = before.map_or(new, |before| &before[index]);
            columns.push(interleave(&[former.as_ref(), new.as_ref()], &order)?);
        }
        columns.push(Arc::new(order.iter().map(|(new, _)| if *new == 0 { -1 } else { 1 }).collect::<Int64Array>()));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// The groups that did not exist before. They have no aggregates, and stay as they are.
    fn new_groups(&self, keys: &[ArrayRef]) -> Result<RecordBatch> {
        let Touched { rows, existed, .. } = &self.scratch.touched;
        let new: UInt64Array =
            rows.iter().zip(existed).filter(|(_, existed)| !**existed).map(|(row, _)| *row).collect();
        let columns = keys.iter().map(|key| Ok(take(key, &new, None)?)).collect::<Result<_>>()?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(new.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Emits rows in pieces, of which there may be many if batches were gathered.
fn emit(rows: &RecordBatch, out: &mut Output) {
    for first in (0..rows.num_rows()).step_by(RESULT_ROWS) {
        out.batch(rows.slice(first, RESULT_ROWS.min(rows.num_rows() - first)));
    }
}

/// Which results are the same.
pub(crate) fn same(before: &[ArrayRef], after: &[ArrayRef], len: usize) -> Result<BooleanArray> {
    let mut same = BooleanArray::from(vec![true; len]);
    for (before, after) in before.iter().zip(after) {
        let equal = match before.data_type().is_nested() {
            true => {
                let compare = make_comparator(before, after, SortOptions::default())?;
                (0..len).map(|row| Some(compare(row, row).is_eq())).collect()
            }
            false => not_distinct(before, after)?,
        };
        same = and(&same, &equal)?;
    }
    Ok(same)
}
