//! Decisions as sans-IO state machines: inputs are messages, outputs are commands; no clock, no channel, no thread.
//!
//! [`coordinator`] is a job's whole coordination as one value: the embedded engine drives it, and the simulator attacks
//! it.

pub mod coordinator;

pub use coordinator::Coordinator;
