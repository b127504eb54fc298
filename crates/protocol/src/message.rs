//! What the coordinator of a job and its workers tell each other so that the machines of this crate go on. On
//! a connection the messages arrive in their order. One that breaks ends the tasks that it was for.

use anabranch_model::{Error, Incarnation, PlanVersion};
use serde::{Deserialize, Serialize};

use crate::coordinator::Checkpoint;
use crate::worker::{FromCoordinator, ToCoordinator};

/// From the coordinator to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub enum Downward<S> {
    /// For the [`Worker`](crate::Worker).
    Order(FromCoordinator<S>),
    /// The plan is about to change: until then no snapshot is complete only because the state has grown.
    AddOnly,
    /// The worker loads what a checkpoint of the present plan version adds to the state of the next one.
    Load {
        /// The next version.
        version: PlanVersion,
        /// The checkpoint.
        from: Checkpoint<S>,
    },
    /// The present plan version goes on: what was loaded for the next one is dropped.
    GiveUp,
    /// A sink at another worker is full, or none is any more.
    Hold {
        /// Of the tasks.
        incarnation: Incarnation,
        /// Whether sources wait.
        held: bool,
    },
    /// The answer to [`Upward::Agree`].
    Agreed {
        /// Of the tasks.
        incarnation: Incarnation,
        /// What was asked for.
        key: String,
        /// The list that all tasks use.
        list: Vec<String>,
    },
}

/// From a worker to the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub enum Upward<S> {
    /// From the [`Worker`](crate::Worker).
    Summary(ToCoordinator<S>),
    /// A sink requests a checkpoint.
    Checkpoint,
    /// The state of a checkpoint is loaded for the next plan version.
    Loaded {
        /// The next version.
        version: PlanVersion,
        /// Why it is not.
        error: Option<Error>,
    },
    /// A sink is full, or none is any more.
    Full {
        /// Of the tasks.
        incarnation: Incarnation,
        /// Whether one is.
        full: bool,
    },
    /// A task has found a list, and uses the one of the first task that found one.
    Agree {
        /// Of the task.
        incarnation: Incarnation,
        /// What it is a list of.
        key: String,
        /// The list.
        list: Vec<String>,
    },
}
