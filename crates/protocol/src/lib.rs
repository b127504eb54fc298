//! Decisions as sans-IO state machines: inputs are messages, outputs are commands; no clock, no channel, no thread.
//!
//! The embedded engine drives [`Grants`] and [`Checkpoints`]; its recorder keeps the log, its supervisor restarts.
//! [`coordinator`] is the whole of a job's coordination as one value, for workers that are processes: it has been
//! attacked by the simulator, and will take the place of the two.

mod checkpoints;
pub mod coordinator;
mod grants;

pub use checkpoints::{CheckpointCommand, CheckpointConfig, Checkpoints};
pub use coordinator::Coordinator;
pub use grants::{Command, Grants, Input};
