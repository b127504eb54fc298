//! Where an operator keeps state outside of its tables: nowhere, or in runs on a local disk.
//!
//! An operator keeps states in tables of decoded groups, which are fast and bounded. Rows of state merge
//! blindly: a new state of a key is stored beside the existing ones, without reading them. So an operator
//! with full tables flushes them as a whole and starts with empty ones, which are then a cache of the hot
//! keys. State is read only when a window fires, in slices of its keys that fit into memory. This is a
//! log-structured merge tree (O'Neil et al., 1996) whose merge is the aggregate's own, without a read before
//! each write.

mod buckets;
mod compaction;
mod disk;
mod keyed;
mod run;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::RecordBatch;

pub(crate) use buckets::detached;
pub use buckets::{BUCKETS, Buckets};
pub use disk::DiskBackend;
pub use keyed::{HashKeys, KeyedRuns, KeyedTable, LatestTime, NewMerge, hashes_of_window, in_window};
pub use run::Run;

/// Merges rows of state, those of one key into one row, a part of the keys at a time.
pub trait Merge {
    /// Adds rows, which are newer than those added before.
    fn add(&mut self, rows: &RecordBatch) -> Result<()>;

    /// Returns the merged rows and starts again empty.
    fn take(&mut self) -> Result<RecordBatch>;
}

/// State of one operator in one task beyond its tables, by pane (start in milliseconds; 0 without windows)
/// and bucket.
pub trait StateBackend: Send {
    /// Whether tables with this number of bytes must be flushed. An error if there is no place for them.
    fn is_full(&self, table_bytes: usize) -> Result<bool>;

    /// Bytes by which tables may grow before they are full.
    fn room_bytes(&self, table_bytes: usize) -> usize;

    /// Stores rows of a pane.
    fn put(&mut self, pane: i64, rows: &Buckets) -> Result<()>;

    /// Whether it has rows of any of these panes.
    fn holds(&self, panes: Range<i64>) -> bool;

    /// Adds the rows of a bucket in these panes to `merge`, oldest first.
    fn read(&self, panes: Range<i64>, bucket: usize, merge: &mut dyn Merge) -> Result<()>;

    /// Rows of panes that start before this are no longer needed.
    fn remove_before(&mut self, pane: i64);

    /// Does a small step of the work that keeps later reads and the disk small. Called after every batch.
    /// `merge` creates the merges.
    fn work<'a>(&mut self, merge: &dyn Fn() -> Result<Box<dyn Merge + 'a>>) -> Result<()>;

    /// Everything that it stores, immutable.
    fn runs(&self) -> Vec<Arc<Run>>;
}

/// Everything is in the operator's tables, up to a limit.
#[derive(Debug)]
pub struct MemoryBackend {
    /// The limit of the tables, in bytes.
    pub bytes_max: usize,
}

impl StateBackend for MemoryBackend {
    fn is_full(&self, table_bytes: usize) -> Result<bool> {
        if table_bytes <= self.bytes_max {
            return Ok(false);
        }
        let max = self.bytes_max;
        Err(Error::user(format!("the open windows of this task take {table_bytes} bytes; the limit is {max}")).remedy(
            "SET 'state-bytes' higher or 'state-backend' = 'disk', use shorter windows or a shorter watermark delay, or \
             group by fewer keys",
        ))
    }

    fn room_bytes(&self, table_bytes: usize) -> usize {
        self.bytes_max.saturating_sub(table_bytes)
    }

    fn put(&mut self, _pane: i64, _rows: &Buckets) -> Result<()> {
        Err(Error::internal("state in memory was flushed"))
    }

    fn holds(&self, _panes: Range<i64>) -> bool {
        false
    }

    fn read(&self, _panes: Range<i64>, _bucket: usize, _merge: &mut dyn Merge) -> Result<()> {
        Ok(())
    }

    fn remove_before(&mut self, _pane: i64) {}

    fn work<'a>(&mut self, _merge: &dyn Fn() -> Result<Box<dyn Merge + 'a>>) -> Result<()> {
        Ok(())
    }

    fn runs(&self) -> Vec<Arc<Run>> {
        Vec::new()
    }
}
