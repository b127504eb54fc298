//! State that does not fit into an operator's tables: runs of rows on a local disk.
//!
//! An operator keeps states in tables of decoded groups, which are fast and bounded. When they are full it
//! writes rows of state as a run and starts with empty tables, which are then a cache of the hot keys. A
//! write needs no read: rows of one key may lie in several runs, and a [`Merge`] makes one row of them. This
//! is a log-structured merge tree (O'Neil et al., 1996) whose merge is the operator's own.
//!
//! There is one engine. The rows of a run are in the order of their *places* ([`ordered`]), in blocks, of
//! which the least and the greatest place are in memory ([`sorted`]). Runs lie in levels, and are merged in
//! small steps between the batches of the task ([`levels`], [`merging`]). Two kinds of rows use it, each with
//! a [`layout`]:
//!
//! * [`KeyedRuns`]: rows that replace each other, looked up by the hashes of their keys.
//! * [`PaneRuns`]: rows that add up, of the panes of windows. No row is looked up. A window that fires reads
//!   all rows of its panes, bucket by bucket, and the rows of a pane are removed as a whole.
//!
//! Nothing here outlives the process: checkpoints contain copies.

mod filter;
mod keyed;
mod layout;
mod levels;
mod merging;
mod ordered;
mod panes;
mod run;
mod sorted;
mod table;

use anabranch_model::Result;
use arrow::array::RecordBatch;

pub use keyed::KeyedRuns;
pub use layout::BUCKETS;
pub use levels::NewMerge;
pub use ordered::Ordered;
pub(crate) use ordered::detached;
pub use panes::PaneRuns;
pub use run::Run;
pub use table::{HashKeys, KeyedTable, LatestTime, hashes_of_window, in_window};

/// Merges rows of state, those of one key into one row, a part of the keys at a time.
pub trait Merge {
    /// Adds rows, which are newer than those added before.
    fn add(&mut self, rows: &RecordBatch) -> Result<()>;

    /// Returns the merged rows and starts again empty.
    fn take(&mut self) -> Result<RecordBatch>;
}
