//! A job's next plan: which parts of the job stay, and how they get to the tasks of the next plan version.
//!
//! `dataflow` lists the parts of a plan that keep something, and pairs the parts of two plans.
//! `reconfiguration` decides the fate of each part, and `fits` whether a checkpoint belongs to a plan. Parts
//! that stay at a worker pass in memory (`handover`, `static_sides`). State that moves is loaded ahead
//! (`preparation`).
//!
//! Absent: when a job changes, and in which order: the coordinator and its shell decide that. Which form of a
//! plan keeps most of the present parts: the planner chooses it.

pub(crate) mod fits;
pub(crate) mod handover;
pub(crate) mod moved;
pub(crate) mod passing;
pub(crate) mod preparation;
pub(crate) mod reconfiguration;
pub(crate) mod static_sides;
