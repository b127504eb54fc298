//! Decisions as sans-IO state machines: inputs are messages, outputs are commands; no clock, no channel, no thread.

mod grants;

pub use grants::{Command, Grants, Input};
