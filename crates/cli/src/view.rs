//! The view of a running job: numbers from two readings of its metrics, shown live on a terminal or as
//! plain lines.

pub(crate) mod live;
pub(crate) mod model;
pub(crate) mod plain;
pub(crate) mod results;
pub(crate) mod text;
