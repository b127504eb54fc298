//! Workers in other processes: the coordinator's side (`members`), a worker's process (`worker`), and local
//! processes (`local`).
//!
//! A worker connects to the coordinator, is given a number, listens to other workers, and says where. From
//! then on it sends heartbeats; [`Membership`](anabranch_protocol::Membership) decides whether it is there.
//! The messages of all jobs pass over this one connection. If it breaks, the worker is lost, and so are its
//! tasks.

mod autoscale;
mod changes;
mod checks;
mod coordinator;
mod functions;
mod leader;
mod local;
mod members;
mod messages;
mod record;
mod removal;
mod role;
mod served;
mod submitted;
mod versions;
mod worker;

pub use coordinator::{Coordinator, CoordinatorOptions};
pub use leader::check_place;
pub use local::{LOG, LocalWorkers, TOKEN};
pub use members::Cluster;
pub(crate) use members::Members;
pub use worker::{WorkerOptions, run_worker};
