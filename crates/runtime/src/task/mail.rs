//! Reports of tasks and their recorder to their worker.

use std::sync::mpsc::Sender;

use anabranch_model::{Epoch, Error, Incarnation, TaskId};
use anabranch_protocol::coordinator::Report;
use anabranch_state::TaskState;

/// A report of a task or the recorder.
pub(crate) enum FromTask {
    Report(Incarnation, TaskId, Report<TaskState>),
    Failed(Incarnation, TaskId, Error),
    /// A table of the task cannot be opened.
    NotOpened(Incarnation, TaskId, Error),
    /// The tables of all tasks of this worker are open.
    Opened(Incarnation),
    /// State files, each with the epoch of the first snapshot that no longer refers to it.
    Dropped(Incarnation, Vec<(Epoch, String)>),
    /// A sink requests a checkpoint.
    Checkpoint,
    /// A sink is full, or none is any more.
    Full(Incarnation, bool),
    /// Sources here have reached an event time that must be reported to the coordinator.
    Reached,
    /// A task has found a list, and waits for the list that the first task of the job has found.
    Agree(Incarnation, String, Vec<String>, Sender<Vec<String>>),
}

/// Where tasks send their reports: a few messages per granted epoch.
pub(crate) trait Mail: Send + Sync {
    fn send(&self, message: FromTask);
}

/// Drops all messages.
#[cfg(test)]
pub(crate) struct Unheard;

#[cfg(test)]
impl Mail for Unheard {
    fn send(&self, _message: FromTask) {}
}
