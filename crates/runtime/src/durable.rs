//! What outlives a process: the job's log, its checkpoints, savepoints.
//!
//! `takeover` makes a process the owner of a job and finds the checkpoint to resume from; a new job may start
//! from a savepoint (`origin`). The coordinator's `scribe` writes the log and manifests through the
//! `journal`, which also answers `requests` for savepoints. A worker's `recorder` writes the snapshots of its
//! tasks, and its `collector` removes local copies. `settings` derives the coordinator's settings from a
//! plan's options.
//!
//! Absent: the stored formats, which are in the crate `state`; when a checkpoint is taken, complete or
//! abandoned, which `protocol` decides.

pub(crate) mod collector;
pub(crate) mod journal;
pub(crate) mod origin;
pub(crate) mod recorder;
mod requests;
pub(crate) mod scribe;
pub(crate) mod settings;
pub(crate) mod takeover;
