//! Another plan for a job: which of its parts stay, and how they get to the tasks of the next plan version.
//!
//! `dataflow` lists the parts of a plan that keep something, and pairs those of two plans. `reconfiguration`
//! says what becomes of each, and `fits` whether a checkpoint is of a plan. What stays at a worker passes in
//! memory (`handover`, `static_sides`). What does not is loaded ahead (`preparation`).
//!
//! Absent: when a job changes, and in which order: the coordinator and its shell decide that. Which form of a
//! plan keeps most of what is present: the planner chooses it.

pub(crate) mod fits;
pub(crate) mod handover;
pub(crate) mod moved;
pub(crate) mod passing;
pub(crate) mod preparation;
pub(crate) mod reconfiguration;
pub(crate) mod static_sides;
