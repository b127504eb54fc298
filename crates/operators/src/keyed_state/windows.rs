//! Windows of keys: which of them fire when the watermark passes, and which have expired.
//!
//! In memory, keys are indexed by the ends of their windows. On a disk, the keys of a window are adjacent
//! (`state::in_window`), so the operator must only know which windows have keys there that have not fired.
//! Their keys are read in slices when the window fires.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use anabranch_model::{EventTime, Result};
use anabranch_state::{hashes_of_window, in_window};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use crate::event_time::event_times;
use crate::key_table::{KeyTable, MISSING};
use crate::{Dropped, hash_keys};

/// Expired keys are forgotten once they are at least one in this number of keys, because all rows must be
/// read for it.
const WORTH: usize = 8;

/// The windows of keys with ids.
pub(crate) struct Windows {
    /// The key column with the last instant of the window.
    column: usize,
    /// Allowed lateness: how long after its last instant a window may still change.
    lateness_ms: i64,
    watermark: i64,
    /// The last instant of each key's window.
    times: Vec<i64>,
    /// Keys by the last instants of their windows.
    by_time: BTreeMap<i64, Vec<usize>>,
    /// Windows with keys on the disk that have not fired.
    away: BTreeSet<i64>,
    /// All windows up to this time have fired.
    fired: i64,
    /// All windows up to this time have expired: their lateness is over.
    over: i64,
    /// Keys in memory whose windows fire now, in reverse order.
    firing: Vec<usize>,
    /// Windows with keys on the disk that fire now, in reverse order.
    slices: Vec<Slice>,
    /// The watermark to emit when all of them have fired.
    passing: Option<EventTime>,
    dropped: Dropped,
}

/// Keys of a window on the disk that fire now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The last instant of the window.
    pub(crate) time: i64,
    /// Their hashes. Keys of other windows may have hashes in the same range.
    pub(crate) hashes: RangeInclusive<u64>,
}

/// The rows of state whose keys, the first `columns` columns, are not in memory.
pub(crate) fn unknown(rows: &RecordBatch, columns: usize, keys: &KeyTable) -> Result<RecordBatch> {
    let of_rows = &rows.columns()[..columns];
    let (mut hashes, mut ids) = (Vec::new(), Vec::new());
    hash_keys(of_rows, rows.num_rows(), &mut hashes)?;
    keys.find(of_rows, &hashes, &mut ids)?;
    let unknown: BooleanArray = ids.iter().map(|id| Some(*id == MISSING)).collect();
    Ok(filter_record_batch(rows, &unknown)?)
}

impl Windows {
    pub(crate) fn new(column: usize, lateness_ms: i64) -> Windows {
        Windows {
            column,
            lateness_ms,
            watermark: i64::MIN,
            times: Vec::new(),
            by_time: BTreeMap::new(),
            away: BTreeSet::new(),
            fired: i64::MIN,
            over: i64::MIN,
            firing: Vec::new(),
            slices: Vec::new(),
            passing: None,
            dropped: Dropped::default(),
        }
    }

    /// Which of the rows with these keys have an event time and are not late. The others are counted as
    /// dropped. `None`: all rows stay.
    pub(crate) fn rows_on_time(&mut self, keys: &[ArrayRef]) -> Result<Option<BooleanArray>> {
        let column = &keys[self.column];
        let times = event_times(column)?;
        let is_on_time = |(row, time): (usize, &i64)| !column.is_null(row) && !self.is_late(*time);
        let on_time: BooleanArray = times.iter().enumerate().map(|row| Some(is_on_time(row))).collect();
        let dropped = on_time.false_count();
        if dropped == 0 {
            return Ok(None);
        }
        self.dropped.rows_without_event_time += column.null_count() as u64;
        self.dropped.late_rows += (dropped - column.null_count()) as u64;
        Ok(Some(on_time))
    }

    /// Notes the windows of new keys among those with these ids.
    pub(crate) fn add(&mut self, ids: &[usize], keys: &[ArrayRef]) -> Result<()> {
        let times = event_times(&keys[self.column])?;
        for (id, time) in ids.iter().zip(times.iter()) {
            // New ids are consecutive.
            if *id >= self.times.len() {
                self.times.resize(id + 1, *time);
                self.by_time.entry(*time).or_default().push(*id);
            }
        }
        Ok(())
    }

    /// The hash under which a key is on the disk.
    pub(crate) fn hash(&self, id: usize, hash: u64) -> u64 {
        in_window(self.times[id], hash)
    }

    /// Whether the window of this key has ended.
    pub(crate) fn has_ended(&self, id: usize) -> bool {
        self.times[id] <= self.watermark
    }

    /// Whether the window of a key has fired.
    pub(crate) fn has_fired(&self, id: usize) -> bool {
        self.times[id] <= self.fired
    }

    /// Keeps these keys only; the first of them gets the id 0.
    pub(crate) fn keep(&mut self, ids: &[usize]) {
        self.times = ids.iter().map(|id| self.times[*id]).collect();
        self.by_time.clear();
        for (id, time) in self.times.iter().enumerate() {
            self.by_time.entry(*time).or_default().push(id);
        }
    }

    /// Everything was restored: event time had reached `watermark`.
    pub(crate) fn restored(&mut self, watermark: EventTime) {
        self.watermark = self.watermark.max(watermark.0);
        self.fired = self.watermark;
        self.over = self.over.max(self.watermark.saturating_sub(self.lateness_ms));
        self.away = self.away.split_off(&self.fired.saturating_add(1));
    }

    /// Takes over the windows of a former plan version.
    pub(crate) fn follow(self, former: Windows) -> Windows {
        Windows { column: self.column, lateness_ms: self.lateness_ms, ..former }
    }

    fn is_late(&self, time: i64) -> bool {
        time <= self.over || time.saturating_add(self.lateness_ms) <= self.watermark
    }

    /// All keys go to the disk. `awaits`: whether the window of a key has yet to fire.
    pub(crate) fn put_away(&mut self, awaits: impl Fn(usize) -> bool) {
        let fired = self.fired;
        let open = self.by_time.iter().filter(|(time, ids)| **time > fired && ids.iter().any(|id| awaits(*id)));
        self.away.extend(open.map(|(time, _)| *time));
    }

    /// Restored rows of keys of windows go to the disk. `awaits`: whether the window of a row has yet to
    /// fire.
    pub(crate) fn restored_away(&mut self, keys: &[ArrayRef], awaits: impl Fn(usize) -> bool) -> Result<()> {
        let times = event_times(&keys[self.column])?;
        let (fired, rows) = (self.fired, times.iter().enumerate());
        self.away.extend(rows.filter(|(row, time)| **time > fired && awaits(*row)).map(|(_, time)| *time));
        Ok(())
    }

    /// Fires windows at a watermark. `awaits`: whether the window of a key has yet to fire.
    pub(crate) fn begin(&mut self, watermark: EventTime, awaits: impl Fn(usize) -> bool) {
        self.watermark = self.watermark.max(watermark.0);
        let due = Some(self.fired.saturating_add(1)..=self.watermark).filter(|due| !due.is_empty());
        let ids = due.into_iter().flat_map(|due| self.by_time.range(due)).flat_map(|(_, ids)| ids);
        self.firing = ids.filter(|id| awaits(**id)).copied().collect();
        self.firing.reverse();
        let later = self.away.split_off(&self.watermark.saturating_add(1));
        let away = std::mem::replace(&mut self.away, later).into_iter().rev();
        self.slices = away.map(|time| Slice { time, hashes: hashes_of_window(time) }).collect();
        // After a restore the inputs may be behind the restored watermark.
        (self.fired, self.passing) = (self.watermark, Some(EventTime(self.watermark)));
    }

    /// The next keys that fire, at most `most`, in order of arrival.
    pub(crate) fn next_ids(&mut self, most: usize) -> Option<Vec<usize>> {
        let mut ids = self.firing.split_off(self.firing.len().saturating_sub(most));
        ids.reverse();
        (!ids.is_empty()).then_some(ids)
    }

    /// The remaining slice of the window on the disk that fires.
    pub(crate) fn next_slice(&self) -> Option<&Slice> {
        self.slices.last()
    }

    /// Notes that the slice was read up to this hash.
    pub(crate) fn read_to(&mut self, last: u64) {
        match self.slices.last_mut() {
            Some(slice) if last < *slice.hashes.end() => slice.hashes = last + 1..=*slice.hashes.end(),
            _ => _ = self.slices.pop(),
        }
    }

    /// Everything has fired. Returns the watermark that follows.
    pub(crate) fn pass(&mut self) -> Option<EventTime> {
        self.over = self.over.max(self.watermark.saturating_sub(self.lateness_ms));
        self.passing.take()
    }

    /// Takes the expired keys, once they are a sufficient share of `live` keys.
    pub(crate) fn take_over(&mut self, live: usize) -> Vec<usize> {
        let over = self.by_time.range(..=self.over).map(|(_, ids)| ids.len()).sum::<usize>();
        if over * WORTH < live {
            return Vec::new();
        }
        let stay = self.by_time.split_off(&self.over.saturating_add(1));
        std::mem::replace(&mut self.by_time, stay).into_values().flatten().collect()
    }

    /// Rows of state of earlier windows are not needed.
    pub(crate) fn first_time(&self) -> i64 {
        self.over.saturating_add(1)
    }

    pub(crate) fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.times.capacity() * (size_of::<i64>() + size_of::<usize>())
    }
}
