//! What `anabranch-bench network` sends.

#[path = "../../../crates/bench/src/workload/columns.rs"]
mod columns;

pub(crate) use columns::{Columns, LastRows, buffers};

/// Rows of a batch.
pub(crate) const BLOCK_ROWS: usize = 8192;
