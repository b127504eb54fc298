//! What the rows of a table are: their columns, their keys, and what the keys' hashes are.

use std::ops::{Range, RangeInclusive};

use anabranch_model::{Error, HASH_SEED, Result, hash_u64};
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};

use super::Ordered;
use super::layout::Layout;

/// Writes the hash of each row's key. Of keys of windows: so that those of a window lie together,
/// [`in_window`].
pub type HashKeys = fn(&[ArrayRef], usize, Option<usize>, &mut Vec<u64>) -> Result<()>;

/// The latest of the times in a column, in milliseconds.
pub type LatestTime = fn(&ArrayRef) -> Result<Option<i64>>;

/// So many bits of the hash of a key of a window are of the key.
const KEY_BITS: u32 = 40;

/// A table of rows that replace each other.
#[derive(Clone, Debug)]
pub struct KeyedTable {
    /// Columns of the rows.
    pub schema: SchemaRef,
    /// Which of them are the key: rows are looked up by it.
    pub keys: Range<usize>,
    /// Which of them are the identity of a row: of several rows with the same one, one counts.
    pub identity: Vec<usize>,
    /// Which one has how often the row counts, if rows may be gone: 0.
    pub count: Option<usize>,
    /// Which of the keys is the time of a window, if they are of windows.
    pub window: Option<usize>,
    /// Which column has the time of a row, if rows of early times are forgotten. Of the rows with one
    /// identity, later ones have no earlier time.
    pub time: Option<(usize, LatestTime)>,
    /// The hash of keys.
    pub hash: HashKeys,
}

/// The hashes of keys of a window. Another window may have the same ones.
#[must_use]
pub fn hashes_of_window(time: i64) -> RangeInclusive<u64> {
    let first = hash_u64(HASH_SEED, time as u64) >> KEY_BITS << KEY_BITS;
    first..=first | ((1 << KEY_BITS) - 1)
}

/// The hash of a key of a window.
#[must_use]
pub fn in_window(time: i64, hash: u64) -> u64 {
    hashes_of_window(time).start() | (hash & ((1 << KEY_BITS) - 1))
}

impl KeyedTable {
    /// The rows that are not gone.
    pub fn those_there(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let Some(count) = self.count else { return Ok(rows) };
        let counts = rows.column(count).as_primitive_opt::<Int64Type>();
        let counts = counts.ok_or_else(|| Error::internal("a row of state does not say how often it counts"))?.values();
        if counts.iter().all(|count| *count != 0) {
            return Ok(rows);
        }
        let are_there: BooleanArray = counts.iter().map(|count| Some(*count != 0)).collect();
        Ok(filter_record_batch(&rows, &are_there)?)
    }

    /// The latest time of these rows; if rows have no times, none is as late.
    pub(super) fn latest(&self, rows: &RecordBatch) -> Result<i64> {
        match self.time {
            Some((column, latest)) => Ok(latest(rows.column(column))?.unwrap_or(i64::MIN)),
            None => Ok(i64::MAX),
        }
    }
}

/// A table and how its rows lie in runs.
pub(super) struct Table {
    pub(super) of: KeyedTable,
    pub(super) layout: Layout,
}

impl Table {
    /// Writes the place of each row.
    pub(super) fn places(&self, rows: &RecordBatch, places: &mut Vec<u64>) -> Result<()> {
        (self.of.hash)(&rows.columns()[self.of.keys.clone()], rows.num_rows(), self.of.window, places)?;
        self.layout.place(places);
        Ok(())
    }

    /// The rows in the order of their places.
    pub(super) fn in_order(&self, rows: &RecordBatch) -> Result<Ordered> {
        let mut places = Vec::new();
        self.places(rows, &mut places)?;
        Ok(Ordered::new(rows.clone(), &places))
    }
}
