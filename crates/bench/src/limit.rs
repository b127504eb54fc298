//! Limit programs: each workload by hand, on one thread, without anything that a stream processor needs in
//! addition (tasks, watermarks, epochs, recovery). They show how far an engine is from what the machine can
//! do.

pub(crate) mod ad_table;
pub(crate) mod count_table;
pub(crate) mod grep;
pub(crate) mod json;
pub(crate) mod kafka;
pub(crate) mod keyed_count;
pub(crate) mod main_job;
pub(crate) mod network;
pub(crate) mod newline;
pub(crate) mod shapes;
pub(crate) mod typed;
pub(crate) mod window_counts;
