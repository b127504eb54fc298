//! Rows of state that replace each other, in runs on a local disk, found by the hashes of their keys.
//!
//! An operator that must know the state of a key before it answers looks up all keys of a batch that are not
//! in memory at once. So each block of a run is read once per batch. A filter for each run tells which keys
//! the run does not have. A row has the number of its snapshot. Of the rows with the same identity, the row
//! with the highest number counts. So rows are written without reading any, and runs are merged in any order.
//! A row that deletes its identity vanishes when no earlier row is left.
//!
//! Runs are merged in levels ([`levels`]), so a lookup reads few of them. As elsewhere in this folder, no
//! file outlives the process.

mod filter;
mod levels;
mod merging;
mod sorted;
#[cfg(test)]
mod tests;

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_model::{Error, HASH_SEED, Result, hash_u64};
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{Int64Type, SchemaRef};

use self::levels::{Levels, Steps};
use self::sorted::SortedWriter;
use super::Merge;
use super::run::{Run, Runs};

pub use self::levels::NewMerge;

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

/// Rows of one table of one operator in one task.
pub struct KeyedRuns {
    table: KeyedTable,
    runs: Runs,
    levels: Levels,
    /// Number of puts, without those that were restored.
    puts: u64,
    /// Batches since the last put, and between the two before it.
    batches: usize,
    batches_per_put: usize,
}

impl KeyedTable {
    fn hashes(&self, rows: &RecordBatch, hashes: &mut Vec<u64>) -> Result<()> {
        (self.hash)(&rows.columns()[self.keys.clone()], rows.num_rows(), self.window, hashes)
    }

    /// The latest time of these rows; if rows have no times, none is as late.
    fn latest(&self, rows: &RecordBatch) -> Result<i64> {
        match self.time {
            Some((column, latest)) => Ok(latest(rows.column(column))?.unwrap_or(i64::MIN)),
            None => Ok(i64::MAX),
        }
    }

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

    /// The rows in order of their keys' hashes, and these.
    fn in_order(&self, rows: &RecordBatch) -> Result<(RecordBatch, Vec<u64>)> {
        let mut hashes = Vec::new();
        self.hashes(rows, &mut hashes)?;
        let mut order: Vec<(u64, u64)> = hashes.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let places: UInt64Array = order.iter().map(|(_, row)| *row).collect();
        Ok((take_record_batch(rows, &places)?, order.into_iter().map(|(hash, _)| hash).collect()))
    }
}

impl KeyedRuns {
    /// Rows of a table, in files in `directory`, with filters of so many bytes at most.
    pub fn new(table: KeyedTable, directory: impl Into<PathBuf>, filter_bytes_max: usize) -> Result<KeyedRuns> {
        let runs = Runs::new(SchemaRef::clone(&table.schema), directory.into())?;
        let levels = Levels::new(filter_bytes_max);
        Ok(KeyedRuns { table, runs, levels, puts: 0, batches: 0, batches_per_put: 1 })
    }

    /// Lets a run continue in another file beyond this size.
    #[must_use]
    pub fn with_file_bytes(mut self, bytes: u64) -> KeyedRuns {
        self.runs.file_bytes = bytes;
        self
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &KeyedTable {
        &self.table
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.all().next().is_none()
    }

    /// Stores rows, which are later than all that are here; `restored`: earlier or later, before any others.
    /// Merges runs as far as is needed to keep them few.
    pub fn put(&mut self, rows: &RecordBatch, restored: bool, merge: NewMerge<'_, '_>) -> Result<()> {
        let (rows, hashes) = self.table.in_order(rows)?;
        let keys = hashes.chunk_by(|a, b| a == b).count();
        let mut writer = SortedWriter::new(self.levels.new_filter(keys));
        writer.add(&rows, &hashes, &self.table, &mut self.runs)?;
        self.puts += u64::from(!restored);
        let number = if restored { 0 } else { self.puts };
        let run = writer.finish(number..=number, &mut self.runs)?;
        self.levels.add(0, run);
        if self.batches > 0 {
            self.batches_per_put = std::mem::take(&mut self.batches);
        }
        self.levels.put(restored, &mut Steps::new(&self.table, &mut self.runs, merge))
    }

    /// Adds all rows whose keys have one of these hashes, which are in order, each once. `merge` gets several
    /// of an identity. Returns false early if there are more than so many bytes of them.
    pub fn look_up(&self, hashes: &[u64], bytes_max: usize, merge: &mut dyn Merge) -> Result<bool> {
        let mut bytes_left = bytes_max;
        for run in self.levels.all() {
            if !run.look_up(hashes, (&self.table, &mut bytes_left), merge)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds all rows whose keys have a hash in this range. `merge` gets several of an identity.
    pub fn read(&self, range: &RangeInclusive<u64>, merge: &mut dyn Merge) -> Result<()> {
        self.levels.all().try_for_each(|run| run.read(range, &self.table, merge))
    }

    /// The last hash of a slice that begins a range and has about so many blocks: the end of the range, if it
    /// has no more.
    #[must_use]
    pub fn slice_end(&self, range: &RangeInclusive<u64>, blocks: usize) -> u64 {
        let runs = self.levels.all();
        let mut firsts: Vec<u64> = runs.flat_map(|run| run.firsts_after(range, blocks)).copied().collect();
        firsts.sort_unstable();
        firsts.get(blocks).map_or(*range.end(), |first| first - 1)
    }

    /// Does a small step of the merges that the next put would do otherwise. Called after every batch.
    pub fn work(&mut self, merge: NewMerge<'_, '_>) -> Result<()> {
        self.batches += 1;
        self.levels.work(self.batches_per_put, &mut Steps::new(&self.table, &mut self.runs, merge))
    }

    /// All runs stay as they are until [`KeyedRuns::thaw`], unless they are not needed. Those that are put
    /// from now on are merged among themselves, and keep rows that say that theirs is gone.
    pub fn freeze(&mut self) {
        self.levels.freeze();
    }

    /// Ends what [`KeyedRuns::freeze`] has begun.
    pub fn thaw(&mut self) {
        self.levels.thaw();
    }

    /// Removes the runs whose keys all have lower hashes. Those that are being merged stay.
    pub fn remove_below(&mut self, hash: u64) {
        self.levels.retain(|run| run.last() >= hash);
    }

    /// Removes the runs whose rows all have earlier times: so what is over is not on the disk until a merge
    /// comes to it. Those that are being merged stay.
    pub fn remove_before(&mut self, ms: i64) {
        self.levels.retain(|run| run.latest >= ms);
    }

    /// Removes all runs.
    pub fn clear(&mut self) {
        self.levels.clear();
    }

    /// The files of all runs.
    #[must_use]
    pub fn files(&self) -> Vec<Arc<Run>> {
        self.levels.all().flat_map(|run| run.files()).cloned().collect()
    }

    /// Those of the runs that are not frozen.
    #[must_use]
    pub fn files_since_freeze(&self) -> Vec<Arc<Run>> {
        self.levels.files_since_freeze()
    }
}
