//! Requests to the loop from other threads: to switch a policy, or to pause.

use std::sync::mpsc::Sender;

use anabranch_model::Result;

/// A request to the loop.
#[derive(Debug)]
pub enum Order {
    /// Let a policy decide by something else from now on.
    Switch {
        /// Name of the policy in the configuration.
        policy: String,
        /// Name of a policy, or a SQL expression.
        priority: String,
    },
    /// Suspend decisions and restore all threads, or go on.
    Pause(bool),
}

/// An order with the place for its answer.
pub struct Asked {
    /// What is requested.
    pub order: Order,
    /// Takes the answer.
    pub answer: Sender<Result<()>>,
}
