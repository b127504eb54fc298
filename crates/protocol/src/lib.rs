//! Decisions as sans-IO state machines: inputs are messages, outputs are commands; no clock, no channel, no thread.
//!
//! [`coordinator`] is the whole of a job's coordination as one value. [`Grants`] is its smallest part alone, for a
//! driver that neither checkpoints nor restarts.

pub mod coordinator;
mod grants;

pub use coordinator::Coordinator;
pub use grants::{Command, Grants, Input};
