//! Rows of state that replace each other, in runs on a local disk, found by the hashes of their keys.
//!
//! An operator that must know the state of a key before it answers looks up all keys of a batch that are not
//! in memory at once. So each block of a run is read once per batch. A filter for each run tells which keys
//! the run does not have. A row has the number of its snapshot. Of the rows with the same identity, the row
//! with the highest number counts. So rows are written without reading any, and runs are merged in any order.
//! A row that deletes its identity vanishes when no earlier row is left.
//!
//! Runs are merged in levels ([`levels`](super::levels)), so a lookup reads few of them.

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::Merge;
use super::layout::Layout;
use super::levels::{Levels, NewMerge, Pace, Steps};
use super::run::{Files, Run};
use super::table::{KeyedTable, Table};

/// Rows of one table of one operator in one task.
pub struct KeyedRuns {
    table: Table,
    files: Files,
    levels: Levels,
    /// Number of puts, without those that were restored.
    puts: u64,
    pace: Pace,
}

impl KeyedRuns {
    /// Rows of a table, in files in `directory`, with filters of so many bytes at most.
    pub fn new(table: KeyedTable, directory: impl Into<PathBuf>, filter_bytes_max: usize) -> Result<KeyedRuns> {
        let files = Files::new(SchemaRef::clone(&table.schema), directory.into())?;
        let levels = Levels::new(Layout::Keys, 0, filter_bytes_max);
        let table = Table { of: table, layout: Layout::Keys };
        Ok(KeyedRuns { table, files, levels, puts: 0, pace: Pace::new() })
    }

    /// Lets a run continue in another file beyond this size.
    #[must_use]
    pub fn with_file_bytes(mut self, bytes: u64) -> KeyedRuns {
        self.files.file_bytes = bytes;
        self
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &KeyedTable {
        &self.table.of
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.all().next().is_none()
    }

    /// Stores rows, which are later than all that are here; `restored`: earlier or later, before any others.
    /// Merges runs as far as is needed to keep them few.
    pub fn put(&mut self, rows: &RecordBatch, restored: bool, merge: NewMerge<'_, '_>) -> Result<()> {
        self.puts += u64::from(!restored);
        self.pace.put();
        let number = if restored { 0 } else { self.puts };
        self.levels.put(rows, number, &mut Steps::new(&self.table, &mut self.files, merge))
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
        self.pace.batch();
        self.levels.work(self.pace.batches_per_put, &mut Steps::new(&self.table, &mut self.files, merge))
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
