//! Runs a plan: one thread per task, bounded channels between the tasks, markers aligned where channels meet.
//!
//! A task is a value: a chain of operators between an input and an output. `source_task` drives a chain from a source,
//! `inbox_task` from channels; `task` is what both have in common. A task never waits: it says what it needs to go on, and
//! its driver waits for that. `streaming` drives each task on a thread of its own, `stepped` all of them on one for
//! simulations: then the caller says which task does its next step.
//!
//! `driver` drives the job's coordinator on a thread, and `control` is between it and the tasks. `recorder` writes
//! snapshots and the log on another thread.

mod adoption;
mod ahead;
mod aligned;
mod alignment;
mod assembly;
mod chain;
mod collector;
mod contact;
mod control;
mod coordinator;
mod credit;
mod cut_times;
mod deployment;
mod durable;
mod event_time;
mod exchange;
mod former_joins;
mod gathered;
mod handover;
mod hearts;
mod hold_back;
mod host;
mod hosted;
mod inbox;
mod inbox_task;
mod job;
mod job_state;
mod journal;
mod left;
mod mail;
mod mailbox;
mod matching;
mod merged_time;
pub mod messages;
mod moved;
pub mod network;
mod occupancy;
mod orders;
mod origin;
mod outline;
mod own_sources;
mod own_threads;
mod passing;
mod phases;
mod preparation;
mod processing_time;
mod processor;
mod reconfiguration;
mod recorder;
mod remote;
mod reported;
mod requests;
mod returns;
mod routes;
mod running;
mod scribe;
mod settings;
mod shared;
mod snapshot;
mod source_task;
mod source_time;
mod stages;
mod static_sides;
mod status;
pub mod stepped;
mod streaming;
mod sync;
mod task;
mod threads;
mod view;
mod watch;
mod watermarks;
pub mod wiring;
mod worker;

pub use adoption::Hosted;
pub use coordinator::{HERE, HERE_NAME};
pub use durable::{Check, Checkpointing, random_seed};
pub use hosted::{HostedJob, Premises};
pub use job::{Committed, Coordination, Job, JobHandle, Summary, Workers};
pub use occupancy::Occupancy;
pub use origin::Origin;
pub use passing::{How, Load, Passing};
pub use phases::{Passage, Phases, Slowest, TaskPhase};
pub use reconfiguration::{Ahead, Change, ChangedPart, Fate, Moves, Reconfigure, Reconfigured, settled_version};
pub use remote::{Link, RemoteWorker};
pub use routes::{Arrival, Routes};
pub use shared::Restart;
pub use status::{Changing, Completed, Status};
