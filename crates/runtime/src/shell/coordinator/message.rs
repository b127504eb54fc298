//! What the coordinator of a job is told.

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

/// Messages to the coordinator. Tasks send a few per granted epoch, which bounds the number of waiting
/// messages.
pub(crate) enum Message {
    /// From the tasks in this process.
    Task(FromTask),
    /// From the threads of the worker in this process.
    Thread(FromThread),
    /// The reason is given for an answer that does not decide anything.
    Store(u64, Answer<TaskState>, Option<Error>),
    /// A caller waits for a checkpoint that begins from now on.
    Checkpoint(Sender<Committed>),
    /// A user does not want the change any more that is being prepared.
    AbortChange(Sender<Result<()>>),
    Stop,
    /// Ends the job at once, as a crash would, for this reason.
    Cancel(Error),
    /// Ends the job in this process; its tasks at workers go on.
    Leave,
    /// A user asks for another plan, or for other places of tasks.
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
            // The checkpoint itself is the answer; this message has no receiver.
            FromScribe::Requested => Message::Checkpoint(channel().0),
            FromScribe::Broken(error) => Message::Cancel(error),
        }
    }
}
