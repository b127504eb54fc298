//! Decisions as sans-IO state machines: inputs are messages, outputs are commands; no clock, no channel, no thread.
//!
//! [`coordinator`] is a job's whole coordination as one value: the embedded engine drives it, and the simulator attacks
//! it. [`worker`] is what one worker does for one job.

pub mod coordinator;
mod table;
pub mod worker;

pub use coordinator::Coordinator;
pub use worker::Worker;
