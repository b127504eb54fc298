//! A task: a chain of operators between an input and an output.
//!
//! A task is a value (`advance`). It never waits: it returns what it needs next, and its driver waits for it.
//! `streaming` drives a task on a thread of its own. `source_task` drives a chain from a source, `inbox_task`
//! from an inbox, where channels meet (`alignment`). Rows leave by a sink or by an `exchange`.
//!
//! `control` connects the tasks of an incarnation with their worker, to which they report by `mail`. At a
//! marker a task takes a `snapshot`. It resumes from a `job_state`, and leaves its parts for the next plan
//! version (`left`). Observers read a `view`.
//!
//! Absent: a task does not know which process is at the other end of a channel, where its reports go, or how
//! its snapshots are written.

pub(crate) mod advance;
mod ahead;
mod alignment;
pub(crate) mod chain;
pub(crate) mod control;
pub(crate) mod credit;
mod cut_times;
pub(crate) mod event_time;
pub(crate) mod exchange;
mod gathered;
mod hold_back;
pub(crate) mod host;
pub(crate) mod inbox;
pub(crate) mod inbox_task;
pub(crate) mod job_state;
pub(crate) mod left;
pub(crate) mod mail;
mod merged_time;
mod orders;
pub(crate) mod own_threads;
pub(crate) mod phases;
mod processing_time;
pub(crate) mod processor;
mod reported;
pub(crate) mod returns;
pub(crate) mod snapshot;
pub(crate) mod source_task;
mod source_time;
pub(crate) mod stages;
pub(crate) mod streaming;
pub(crate) mod sync;
pub(crate) mod threads;
pub(crate) mod view;
mod watermarks;
