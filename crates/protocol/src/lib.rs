//! Decisions as sans-IO state machines: inputs are messages, outputs are commands; no clock, no channel, no
//! thread.
//!
//! [`coordinator`] is a job's whole coordination as one value: the embedded engine drives it, and the
//! simulator attacks it. [`worker`] is what one worker does for one job, and [`peers`] the coordinator's side
//! of the messages between the two. [`membership`] is which workers there are, and [`placement`] which of
//! them has which task. [`autoscale`] decides how many tasks the stages need, and [`balance`] which of them
//! owns which key groups. [`alignment`] is how far sources may be ahead of each other. [`change`] is which
//! change of a job's plan is carried out, and how far it is. [`hold`] is whose sources wait for full sinks,
//! and [`agree`] which list all tasks use. [`message`] has what passes between a coordinator and its workers.

pub mod agree;
pub mod alignment;
pub mod autoscale;
pub mod balance;
pub mod change;
pub mod coordinator;
pub mod hold;
pub mod membership;
pub mod message;
pub mod peers;
pub mod placement;
mod table;
pub mod worker;

pub use autoscale::Autoscaler;
pub use change::Changes;
pub use coordinator::Coordinator;
pub use membership::Membership;
pub use peers::Peers;
pub use worker::Worker;
