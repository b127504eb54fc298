//! Workloads, generated in memory before anything is measured. The same seed and size give the same bytes on
//! every machine, so the hashes of answers can be compared between machines too.

mod ad_events;
mod columns;
mod keys;
mod lines;
mod log;
mod shapes;

pub(crate) use ad_events::{Ad, AdEvents, VIEW, WINDOW_MS};
pub(crate) use columns::{Columns, LastRows, buffers};
pub(crate) use keys::Keys;
pub(crate) use lines::Lines;
pub(crate) use log::{LogLines, PATTERN};
pub(crate) use shapes::{Shape, generate as shaped};

/// Rows of a block: the unit in which programs process rows.
pub(crate) const BLOCK_ROWS: usize = 8192;
