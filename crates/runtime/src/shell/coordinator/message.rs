//! The messages of a job's coordinator.

use std::sync::mpsc::{Sender, channel};

use anabranch_model::{Error, Result};
use anabranch_protocol::coordinator::Answer;
use anabranch_protocol::membership::Process;
use anabranch_state::TaskState;

use super::Requested;
use crate::durable::scribe::FromScribe;
use crate::shell::job::Committed;
use crate::shell::messages::FromWorker;
use crate::shell::remote::RemoteWorker;
use crate::shell::worker::FromThread;
use crate::task::mail::FromTask;

/// Messages to the coordinator. Tasks send a few per granted epoch, which bounds the number of queued
/// messages.
pub(crate) enum Message {
    /// From the tasks in this process.
    Task(FromTask),
    /// From the threads of the worker in this process.
    Thread(FromThread),
    /// The scribe's answer to a command. If the answer is indecisive, the reason is given.
    Store(u64, Answer<TaskState>, Option<Error>),
    /// A caller waits for a checkpoint that begins from now on.
    Checkpoint(Sender<Committed>),
    /// A user aborts the change that is being prepared.
    AbortChange(Sender<Result<()>>),
    Stop,
    /// Ends the job at once, as a crash would, for this reason.
    Cancel(Error),
    /// Ends the job in this process; its tasks at workers continue.
    Leave,
    /// A user requests another plan, or another placement of tasks.
    Reconfigure(Box<Requested>),
    /// From a worker in another process.
    Worker(Process, FromWorker),
    /// Tasks can be placed at workers in other processes.
    Joined(Vec<RemoteWorker>),
    /// A worker is silent, or its connection is broken: its tasks have failed.
    Lost(Process, Error),
}

impl From<FromScribe> for Message {
    fn from(message: FromScribe) -> Message {
        match message {
            FromScribe::Store(sequence, answer, error) => Message::Store(sequence, answer, error),
            // The checkpoint itself is the answer, so this message needs no receiver.
            FromScribe::Requested => Message::Checkpoint(channel().0),
            FromScribe::Broken(error) => Message::Cancel(error),
        }
    }
}
