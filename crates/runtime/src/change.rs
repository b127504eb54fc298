//! Another plan for a job: which of its parts stay, and how they get to the tasks of the next plan version.
//!
//! `dataflow` lists the parts of a plan that keep something, and pairs those of two plans. `reconfiguration` says what
//! becomes of each, and `fits` whether a checkpoint is of a plan. `own_sources` and `former_joins` give a plan the form in
//! which it keeps most. What stays at a worker passes in memory (`handover`, `static_sides`). What does not
//! is loaded ahead (`preparation`).
//!
//! Absent: when a job changes, and in which order. The coordinator and its shell decide that.

pub(crate) mod fits;
mod former_joins;
pub(crate) mod handover;
pub(crate) mod moved;
pub(crate) mod own_sources;
pub(crate) mod passing;
pub(crate) mod preparation;
pub(crate) mod reconfiguration;
pub(crate) mod static_sides;
