//! The shells around the machines of `protocol`: they pass events in, and execute the resulting commands.
//!
//! `coordinator` is the shell of a job's coordinator, `worker` that of the tasks of one process. A `job` has
//! both. A `hosted` worker has its coordinator in another process, with which it exchanges `messages`, and
//! which sees it as one of its `remote` workers. `assembly` creates the tasks of an incarnation, and
//! `running` has their threads. Observers read what is `shared` and the job's `status`. `stepped` drives all
//! of it on one thread for simulations.
//!
//! Absent: rows, which only tasks exchange; the connections between coordinators and workers, which the crate
//! `server` has.

pub(crate) mod adoption;
mod aligned;
mod assembly;
mod contact;
pub(crate) mod coordinator;
mod deployment;
mod hearts;
pub(crate) mod hosted;
pub(crate) mod job;
mod mailbox;
pub mod messages;
pub(crate) mod occupancy;
pub(crate) mod remote;
pub(crate) mod routes;
mod running;
pub(crate) mod shared;
pub(crate) mod status;
pub mod stepped;
mod watch;
mod worker;
