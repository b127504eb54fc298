//! Another plan for a job: which of its parts stay, and how they get to the tasks of the next plan version.
//!
//! `outline` describes the parts of a plan that keep something, `matching` pairs those of two plans, and
//! `reconfiguration` says what becomes of each. `own_sources` and `former_joins` give a plan the form in
//! which it keeps most. What stays at a worker passes in memory (`handover`, `static_sides`). What does not
//! is loaded ahead (`preparation`).
//!
//! Absent: when a job changes, and in which order. The coordinator and its shell decide that.

mod former_joins;
pub(crate) mod handover;
mod matching;
pub(crate) mod moved;
pub(crate) mod outline;
pub(crate) mod own_sources;
pub(crate) mod passing;
pub(crate) mod preparation;
pub(crate) mod reconfiguration;
pub(crate) mod static_sides;
