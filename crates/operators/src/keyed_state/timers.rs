//! Timers of keys on the disk: sorted runs of times and hashes of keys.
//!
//! An operator knows the timers of a key in memory. When its tables go to the disk, it leaves the times with
//! the hashes of the keys here, and looks these keys up when a time has come. If a key has changed meanwhile,
//! the lookup is in vain. The newest timers stay in memory, and those that become due there are never
//! written. Written timers are grouped in buckets of time, so only the list of buckets must be in memory; all
//! keys of a bucket are due with the first of them. Timers are not part of snapshots: they are set again when
//! rows are restored.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, StateBackendKind};
use anabranch_model::{Error, Result};
use anabranch_state::{KeyedRuns, KeyedTable, hashes_of_window};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};

use super::latest::{Latest, Needed};
use super::windows::Slice;
use super::{directory, number, with_latest};
use crate::event_time::event_times;

/// Filters are of no use: timers are not looked up by keys.
const FILTER_BYTES: usize = 0;
/// Limit of the blocks of timers that are read at once.
const BLOCKS_MAX: usize = 16;

/// The time for which the operator waits is divided into this number of buckets, each at least this number of
/// milliseconds long. Times are rounded down to their bucket.
const PARTS: i64 = 64;
const WIDTH_MS_MIN: i64 = if cfg!(test) { 4 } else { 64 };

/// Unwritten timers take at most the limit of the state divided by this number, within these bounds of their
/// number.
const UNWRITTEN_SHARE: usize = 64;
const UNWRITTEN_MIN: usize = 64;
const UNWRITTEN_MAX: usize = 1 << 16;

/// Timers of keys on the disk, in buckets of time.
pub(crate) struct Timers {
    runs: KeyedRuns,
    /// Timers in memory: few timers are not worth a run.
    unwritten: Vec<(i64, u64)>,
    /// The hashes of unwritten timers that are due.
    due_unwritten: Vec<u64>,
    unwritten_max: usize,
    /// The span of a bucket, in milliseconds.
    width_ms: i64,
    buckets: BTreeSet<i64>,
    /// Buckets with timers that are due.
    due: Vec<Slice>,
    /// Timers of earlier times are done.
    first_time: i64,
}

impl Timers {
    /// Timers of an operator that waits for about this time, if state may be on disk.
    pub(crate) fn new(wait_ms: i64, options: &JobOptions) -> Result<Option<Timers>> {
        if options.state_backend != StateBackendKind::Disk {
            return Ok(None);
        }
        let time = Field::new("time", DataType::Timestamp(TimeUnit::Millisecond, None), true);
        let schema = Schema::new(vec![time, number("hash"), number("$weight"), number("$snapshot")]);
        let (schema, identity) = (Arc::new(schema), vec![0, 1]);
        let table = KeyedTable {
            schema,
            keys: 0..2,
            identity,
            count: Some(2),
            window: Some(0),
            time: Some(with_latest(0)),
            hash,
        };
        let runs = KeyedRuns::new(table, directory(options), FILTER_BYTES)?;
        let runs = runs.with_file_bytes(options.thresholds.run_file_bytes);
        let first_time = i64::MIN;
        let width_ms = (wait_ms / PARTS).max(WIDTH_MS_MIN);
        let unwritten_max =
            (options.state_bytes / UNWRITTEN_SHARE / size_of::<(i64, u64)>()).clamp(UNWRITTEN_MIN, UNWRITTEN_MAX);
        let (unwritten, due_unwritten, buckets, due) = (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
        Ok(Some(Timers { runs, unwritten, due_unwritten, unwritten_max, width_ms, buckets, due, first_time }))
    }

    /// Sets timers: times and hashes of keys that go to the disk.
    pub(crate) fn put(&mut self, timers: Vec<(i64, u64)>) -> Result<()> {
        self.unwritten.extend(timers);
        if self.unwritten.len() > self.unwritten_max { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let mut timers = std::mem::take(&mut self.unwritten);
        // Timers of past times become due when time advances.
        let first = self.first_time.max(i64::MIN / 2);
        timers.iter_mut().for_each(|(time, _)| *time = (*time).max(first).div_euclid(self.width_ms) * self.width_ms);
        timers.sort_unstable();
        timers.dedup();
        if timers.is_empty() {
            return Ok(());
        }
        self.buckets.extend(timers.iter().map(|(time, _)| *time));
        let times = timers.iter().map(|(time, _)| Some(*time)).collect::<TimestampMillisecondArray>();
        let hashes = timers.iter().map(|(_, hash)| *hash as i64).collect::<Int64Array>();
        let ones = Int64Array::from(vec![1; timers.len()]);
        let columns: Vec<ArrayRef> = vec![Arc::new(times), Arc::new(hashes), Arc::new(ones.clone()), Arc::new(ones)];
        let rows = RecordBatch::try_new(Arc::clone(&self.runs.table().schema), columns)?;
        let (table, needed) = (self.runs.table().clone(), Needed::Since(self.first_needed()));
        self.runs.put(&rows, false, &|| Ok(Box::new(Latest::new(&table, needed)?)))
    }

    /// Timers before this time are not needed. Due timers are needed until they have been read.
    fn first_needed(&self) -> i64 {
        self.due.iter().map(|slice| slice.time).fold(self.first_time, i64::min)
    }

    /// Advances the time. Timers before it, and slightly after it, are due.
    pub(crate) fn reach(&mut self, time: i64) {
        let due = self.unwritten.extract_if(.., |(of_key, _)| *of_key <= time);
        self.due_unwritten.extend(due.map(|(_, hash)| hash));
        let later = time.checked_add(1).map(|after| self.buckets.split_off(&after)).unwrap_or_default();
        let buckets = std::mem::replace(&mut self.buckets, later).into_iter().rev();
        let mut due: Vec<Slice> = buckets.map(|time| Slice { time, hashes: hashes_of_window(time) }).collect();
        due.append(&mut self.due);
        self.due = due;
        self.first_time = self.first_time.max(time.div_euclid(self.width_ms).saturating_mul(self.width_ms));
    }

    /// The hashes of the next keys that are due. They may be repeated.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u64>>> {
        if !self.due_unwritten.is_empty() {
            return Ok(Some(std::mem::take(&mut self.due_unwritten)));
        }
        let Some(slice) = self.due.last_mut() else { return Ok(None) };
        let last = self.runs.slice_end(&slice.hashes, BLOCKS_MAX);
        let mut latest = Latest::new(self.runs.table(), Needed::All)?;
        self.runs.read(&(*slice.hashes.start()..=last), &mut latest)?;
        let rows = anabranch_state::Merge::take(&mut latest)?;
        let hashes = rows.column(1).as_primitive::<Int64Type>().values();
        // Another bucket may have the same hashes.
        let times = event_times(rows.column(0))?;
        let own = times.iter().zip(hashes).filter(|(time, _)| **time == slice.time);
        let own = own.map(|(_, hash)| *hash as u64).collect();
        match last < *slice.hashes.end() {
            true => slice.hashes = last + 1..=*slice.hashes.end(),
            false => _ = self.due.pop(),
        }
        Ok(Some(own))
    }

    /// Does a step of maintenance, after each batch, when no key is due.
    pub(crate) fn work(&mut self) -> Result<()> {
        self.runs.remove_before(self.first_needed());
        let (table, needed) = (self.runs.table().clone(), Needed::Since(self.first_needed()));
        self.runs.work(&|| Ok(Box::new(Latest::new(&table, needed)?)))
    }
}

/// Timers of a bucket are adjacent, in the order of the hashes of keys.
fn hash(keys: &[ArrayRef], _rows: usize, _window: Option<usize>, hashes: &mut Vec<u64>) -> Result<()> {
    let times = event_times(&keys[0])?;
    let of_keys = keys.get(1).and_then(|hashes| hashes.as_primitive_opt::<Int64Type>());
    let of_keys = of_keys.ok_or_else(|| Error::internal("timers without the hashes of keys"))?;
    hashes.clear();
    hashes.extend(times.iter().zip(of_keys.values()).map(|(time, hash)| {
        let bucket = hashes_of_window(*time);
        bucket.start() | (*hash as u64 >> (bucket.end() - bucket.start()).leading_zeros())
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use anabranch_model::Rng;

    use super::*;
    use crate::keyed_state::files::options;

    #[test]
    fn keys_are_due_when_their_time_has_come_and_hardly_earlier() {
        let mut rng = Rng::new(1);
        let mut timers = Timers::new(640, &options(Some(1000))).expect("timers").expect("on disk");
        let mut set: BTreeMap<u64, i64> = BTreeMap::new();
        for now in (0..2_000).step_by(7) {
            let new: Vec<(i64, u64)> = (0..200).map(|_| (now + rng.below(300) as i64, rng.next_u64())).collect();
            set.extend(new.iter().map(|(time, hash)| (*hash, *time)));
            timers.put(new).expect("put");
            timers.work().expect("work");
            timers.reach(now);
            while let Some(due) = timers.next().expect("hashes") {
                for hash in due {
                    // A bucket that gets new timers is due again.
                    let time = set.remove(&hash);
                    assert!(time.is_none_or(|time| time < now + 10), "{time:?} is due at {now}");
                }
            }
            assert!(set.values().all(|time| *time > now));
        }
        assert!(timers.buckets.len() < 40);
    }

    /// As keys do that go back to the disk while others that are due are loaded.
    #[test]
    fn timers_that_are_due_stay_while_others_are_set() {
        let mut rng = Rng::new(2);
        let mut timers = Timers::new(640, &options(Some(1000))).expect("timers").expect("on disk");
        let mut set = BTreeSet::new();
        for _ in 0..10 {
            let new: Vec<(i64, u64)> = (0..200).map(|_| (rng.below(300) as i64, rng.next_u64())).collect();
            set.extend(new.iter().map(|(_, hash)| *hash));
            timers.put(new).expect("put");
        }
        timers.reach(1_000);
        while let Some(due) = timers.next().expect("hashes") {
            due.iter().for_each(|hash| _ = set.remove(hash));
            timers.put((0..200).map(|_| (5_000, rng.next_u64())).collect()).expect("put");
        }
        assert!(set.is_empty(), "{} timers are lost", set.len());
    }
}
