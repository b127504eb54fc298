//! Runs a plan: tasks on threads of their own, bounded channels between them, markers aligned where they meet.
//!
//! A task is a chain of operators between an input and an output. `source_task` drives a chain from a source,
//! `inbox_task` from channels; both share `chain` and `exchange`. `alignment`, `watermarks` and `exchange` decide
//! without waiting or reading a clock, and are tested so. `job` gives each task a thread; `stepped` lets the caller say
//! which task does its next step, for simulations.

mod alignment;
mod chain;
mod control;
mod durable;
mod exchange;
mod inbox;
mod inbox_task;
mod job;
mod outline;
mod recorder;
mod snapshot;
mod source_task;
pub mod stepped;
mod watermarks;

pub use durable::{Checkpointing, TakenOver};
pub use job::{Job, JobHandle, Summary};
