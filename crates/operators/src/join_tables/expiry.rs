//! When rows expire: at the watermark from which on they can match no further row.

use std::collections::BTreeMap;

use anabranch_dataflow::ExpirySpec;
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{Array, ArrayRef};

use crate::event_time::event_times;
use crate::keyed_state::narrow;

/// The span of time of all rows is divided into about this number of buckets.
const BUCKETS: i64 = 64;
/// Shortest span of a bucket, in milliseconds.
const BUCKET_MS_MIN: i64 = 16;

/// The rows of one side by their expiry.
pub(crate) struct Expiry {
    spec: ExpirySpec,
    /// The expiry of each row.
    ends: Vec<i64>,
    /// Rows by expiry. Times within 2^shift ms share a bucket.
    buckets: BTreeMap<i64, Vec<u32>>,
    shift: u32,
    /// The bucket of the last row, with rows that are not yet added to it. The next row is most often in the
    /// same bucket.
    last: (i64, Vec<u32>),
}

impl Expiry {
    pub(crate) fn new(spec: ExpirySpec) -> Expiry {
        let shift = (spec.after_ms / BUCKETS).max(BUCKET_MS_MIN).ilog2();
        Expiry { spec, ends: Vec::new(), buckets: BTreeMap::new(), shift, last: (0, Vec::new()) }
    }

    /// The expiry of rows with these columns. A row without a time expires at once.
    pub(crate) fn ends_of(&self, columns: &[ArrayRef]) -> Result<Vec<i64>> {
        let ExpirySpec { time, after_ms } = self.spec;
        let times = columns.get(time).ok_or_else(|| Error::internal("a row of a join without its time"))?;
        let end = |(row, time): (usize, &i64)| match times.is_valid(row) {
            true => time.saturating_add(after_ms),
            false => i64::MIN,
        };
        Ok(event_times(times)?.iter().enumerate().map(end).collect())
    }

    /// The expiry of a row.
    pub(crate) fn end(&self, row: usize) -> i64 {
        self.ends[row]
    }

    /// A row has arrived, or has arrived again.
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

    /// Takes the rows that have expired. Without `exactly`, some of them may stay for a while.
    pub(crate) fn take(&mut self, watermark: EventTime, exactly: bool) -> Vec<u32> {
        let mut taken = Vec::new();
        self.complete_last();
        while let Some(bucket) = self.buckets.first_entry() {
            // The latest possible expiry of a row in the bucket.
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

    /// Rows with event times before this one have expired.
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
