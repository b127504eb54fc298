//! Until when rows are needed: rows by the watermark from which on they match nothing that follows.

use std::collections::BTreeMap;

use anabranch_dataflow::ExpirySpec;
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{Array, ArrayRef};

use crate::event_time::event_times;
use crate::keyed_state::narrow;

/// Into so many buckets the time of a row is divided, roughly.
const BUCKETS: i64 = 64;
/// A bucket has at least so many milliseconds.
const BUCKET_MS_MIN: i64 = 16;

/// Rows of one side by the ends of their time.
pub(crate) struct Expiry {
    spec: ExpirySpec,
    /// The end of each row's time.
    ends: Vec<i64>,
    /// Rows by their ends, of which 2^shift ms share a bucket.
    buckets: BTreeMap<i64, Vec<u32>>,
    shift: u32,
    /// The bucket of the last row, and rows that are still to be added to it: most often it is also that of
    /// the next one.
    last: (i64, Vec<u32>),
}

impl Expiry {
    pub(crate) fn new(spec: ExpirySpec) -> Expiry {
        let shift = (spec.after_ms / BUCKETS).max(BUCKET_MS_MIN).ilog2();
        Expiry { spec, ends: Vec::new(), buckets: BTreeMap::new(), shift, last: (0, Vec::new()) }
    }

    /// The ends of rows with these columns.
    pub(crate) fn ends_of(&self, columns: &[ArrayRef]) -> Result<Vec<i64>> {
        let ExpirySpec { time, after_ms } = self.spec;
        let times = columns.get(time).ok_or_else(|| Error::internal("a row of a join without its time"))?;
        let end = |(row, time): (usize, &i64)| match times.is_valid(row) {
            true => time.saturating_add(after_ms),
            false => i64::MIN,
        };
        Ok(event_times(times)?.iter().enumerate().map(end).collect())
    }

    /// The end of a row's time.
    pub(crate) fn end(&self, row: usize) -> i64 {
        self.ends[row]
    }

    /// A row has come, or has come again.
    pub(crate) fn add(&mut self, row: usize, end: i64) -> Result<()> {
        if self.ends.len() <= row {
            self.ends.resize(row + 1, i64::MIN);
        }
        self.ends[row] = end;
        if self.last.0 != end >> self.shift {
            self.complete_last();
            self.last.0 = end >> self.shift;
        }
        self.last.1.push(narrow(row)?);
        Ok(())
    }

    fn complete_last(&mut self) {
        if !self.last.1.is_empty() {
            self.buckets.entry(self.last.0).or_default().append(&mut self.last.1);
        }
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.buckets.clear();
        self.last.1.clear();
    }

    /// Takes the rows whose time has ended; without `exactly`, some of them may stay a while.
    pub(crate) fn take(&mut self, watermark: EventTime, exactly: bool) -> Vec<u32> {
        let mut taken = Vec::new();
        self.complete_last();
        while let Some(bucket) = self.buckets.first_entry() {
            // The last end that a row of the bucket may have.
            let last = (bucket.key() << self.shift) | ((1 << self.shift) - 1);
            if last <= watermark.0 {
                taken.append(&mut bucket.remove());
                continue;
            }
            if exactly && bucket.key() << self.shift <= watermark.0 {
                let (ends, rows) = (&self.ends, bucket.into_mut());
                let (over, stay) = rows.iter().partition(|row| ends[**row as usize] <= watermark.0);
                *rows = stay;
                let mut over: Vec<u32> = over;
                taken.append(&mut over);
            }
            break;
        }
        taken
    }

    /// Event times of rows before this one are over.
    pub(crate) fn first_time(&self, watermark: EventTime) -> EventTime {
        EventTime(watermark.0.saturating_sub(self.spec.after_ms).saturating_add(1))
    }

    /// The column of event times.
    pub(crate) fn time_column(&self) -> usize {
        self.spec.time
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<i64>()
            + self.last.1.capacity() * size_of::<u32>()
            + self.buckets.values().map(|rows| rows.capacity() * size_of::<u32>()).sum::<usize>()
    }
}
