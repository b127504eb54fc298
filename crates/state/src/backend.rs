//! Where an operator's state lies that is not in its tables: nowhere, or in runs on a local disk.
//!
//! An operator keeps states in tables of decoded groups, which are fast and bounded. Rows of state merge blindly: a new
//! state of a key is put beside those that are there, without reading them. So an operator whose tables are full gives
//! them away as a whole and begins with empty ones, which then are a cache of the keys that are hot. Reading happens
//! only when a window fires, in slices of its keys that fit into memory. That is a log-structured merge tree (O'Neil et
//! al., 1996) whose merge is the aggregate's own; what it does not have is a read before each write.

mod buckets;
mod compaction;
mod disk;
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
pub use run::Run;

/// Merges rows of state, those of one key into one row, a part of them at a time.
pub trait Merge {
    /// Takes rows, which are newer than those taken before.
    fn add(&mut self, rows: &RecordBatch) -> Result<()>;

    /// Gives the rows that came of all that were taken, and begins anew.
    fn take(&mut self) -> Result<RecordBatch>;
}

/// State of one operator in one task beyond its tables, by pane (start in milliseconds; 0 without windows) and bucket.
pub trait StateBackend: Send {
    /// Whether tables that hold so many bytes have to be given away. An error if there is nowhere to give them.
    fn is_full(&self, table_bytes: usize) -> Result<bool>;

    /// Bytes that tables may still grow by before they are full.
    fn room_bytes(&self, table_bytes: usize) -> usize;

    /// Takes rows of a pane.
    fn put(&mut self, pane: i64, rows: &Buckets) -> Result<()>;

    /// Whether it has rows of any of these panes.
    fn holds(&self, panes: Range<i64>) -> bool;

    /// Gives `merge` the rows of a bucket in these panes, oldest first.
    fn read(&self, panes: Range<i64>, bucket: usize, merge: &mut dyn Merge) -> Result<()>;

    /// Rows of panes that start before this are of no use any more.
    fn remove_before(&mut self, pane: i64);

    /// Does a piece of what keeps later reads and the disk small. Called after every batch. `merge` makes what merges.
    fn work<'a>(&mut self, merge: &dyn Fn() -> Result<Box<dyn Merge + 'a>>) -> Result<()>;

    /// All that it holds, immutable.
    fn runs(&self) -> Vec<Arc<Run>>;
}

/// Everything is in the operator's tables, up to a bound.
#[derive(Debug)]
pub struct MemoryBackend {
    /// The bound of the tables, in bytes.
    pub bytes_max: usize,
}

impl StateBackend for MemoryBackend {
    fn is_full(&self, table_bytes: usize) -> Result<bool> {
        if table_bytes <= self.bytes_max {
            return Ok(false);
        }
        let max = self.bytes_max;
        Err(Error::user(format!("the open windows of this task hold {table_bytes} bytes, more than {max}")).remedy(
            "SET 'state-bytes' higher or 'state-backend' = 'disk', use shorter windows or a shorter watermark delay, or \
             group by fewer keys",
        ))
    }

    fn room_bytes(&self, table_bytes: usize) -> usize {
        self.bytes_max.saturating_sub(table_bytes)
    }

    fn put(&mut self, _pane: i64, _rows: &Buckets) -> Result<()> {
        Err(Error::internal("state in memory was given away"))
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
