//! Decisions as sans-IO state machines: inputs are messages, outputs are commands; no clock, no channel, no thread.

mod checkpoints;
mod grants;

pub use checkpoints::{CheckpointCommand, CheckpointConfig, Checkpoints};
pub use grants::{Command, Grants, Input};
