//! Runs a plan: one thread per task, bounded channels between the tasks, markers aligned where channels meet.
//!
//! Five wings, each a folder. A module imports from its own wing and from those before it:
//!
//! * `task`: a task as a value, its input and its output, its reports and snapshots.
//! * `network`: channels to the tasks of other processes.
//! * `change`: the fate of a job's parts when its plan changes, and how they get to the next tasks.
//! * `durable`: the job's log and its checkpoints, and who owns the job.
//! * `shell`: the coordinator, the workers, and the job as users see it.

mod change;
mod durable;
pub mod network;
mod shell;
mod task;

pub use anabranch_protocol::change::Changing;
pub use change::passing::{How, Load, Passing};
pub use change::reconfiguration::{
    Ahead, Change, ChangedPart, Fate, Fit, Moves, Reconfigure, Reconfigured, settled_version,
};
pub use durable::origin::Origin;
pub use durable::takeover::{Check, Checkpointing, present, random_seed};
pub use network::wiring;
pub use shell::adoption::Hosted;
pub use shell::coordinator::{HERE, HERE_NAME};
pub use shell::hosted::{HostedJob, Premises};
pub use shell::job::{Committed, Coordination, Job, JobHandle, Summary, Workers};
pub use shell::occupancy::Occupancy;
pub use shell::remote::{Link, RemoteWorker};
pub use shell::routes::{Arrival, Routes};
pub use shell::shared::Restart;
pub use shell::status::{Completed, Status};
pub use shell::{messages, stepped};
pub use task::phases::{Passage, Phases, Slowest, TaskPhase};
