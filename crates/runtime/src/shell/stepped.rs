//! A job on one thread: its tasks, coordinator, recorder and scribe do a step only when the caller requests
//! it. [`SteppedWorker`] is the same for the tasks of a job at a worker in another process.
//!
//! A simulation drives a job this way. All parts are those that threads drive, except the waiting: a task
//! that would wait does nothing. The caller carries the messages between the parts, and may inspect them.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Result};
use anabranch_operators::Connectors;

use crate::durable::origin::Origin;
use crate::durable::scribe::{self, Scribe};
use crate::durable::takeover::Checkpointing;
use crate::shell::coordinator::Shell;
use crate::shell::job::{JobHandle, Prepared, Workers, prepare};
use crate::shell::running::Drive;

mod tasks;
mod worker;

pub(crate) use tasks::Stepped;
pub use tasks::{Reported, Snapshotted, Tasks};
pub use worker::SteppedWorker;

/// The parts of a stepped job.
pub struct Parts<'a> {
    /// The query.
    pub plan: &'a Plan,
    /// The connectors of its tables.
    pub connectors: &'a Connectors,
    /// The clock.
    pub clock: &'a Arc<dyn Clock>,
    /// How it takes checkpoints, if it does.
    pub checkpointing: Option<&'a Checkpointing>,
    /// The savepoint that it starts from while it has no checkpoint.
    pub origin: Option<&'a Origin>,
    /// The workers in other processes, if it has any.
    pub workers: Option<Workers>,
}

/// A job that is stepped.
pub struct SteppedJob {
    handle: JobHandle,
    shell: Shell,
    scribe: Option<(Scribe, Receiver<scribe::Task>)>,
}

impl SteppedJob {
    /// Takes a job over and creates its tasks, like `Job::start`. `None`: the job has ended before.
    pub fn start(parts: Parts<'_>) -> Result<Option<SteppedJob>> {
        let Parts { plan, connectors, clock, checkpointing, origin, workers } = parts;
        let (handle, prepared) = prepare(plan, connectors, clock, (checkpointing, origin), workers, Drive::Steps)?;
        let Some(Prepared { mut shell, scribe }) = prepared else { return Ok(None) };
        while !shell.was_open && shell.outcome.is_none() && shell.step() {}
        if shell.outcome.as_ref().is_some_and(Result::is_err) {
            shell.end()?;
            return Ok(None);
        }
        Ok(Some(SteppedJob { handle, shell, scribe }))
    }

    /// The job for observers, who may also stop it.
    #[must_use]
    pub fn handle(&self) -> &JobHandle {
        &self.handle
    }

    /// Whether all tables of some incarnation of this process were open.
    #[must_use]
    pub fn was_open(&self) -> bool {
        self.shell.was_open
    }

    /// The tasks in the process of the coordinator.
    pub fn tasks(&mut self) -> Tasks<'_> {
        Tasks(&mut self.shell.worker)
    }

    /// Lets the coordinator handle the next message, or the time. Returns false if there was no message.
    pub fn coordinate(&mut self) -> bool {
        self.shell.outcome.is_none() && self.shell.step()
    }

    /// Lets the scribe poll for requests, and do its next piece of work. Returns false if there was none.
    pub fn write(&mut self) -> bool {
        let Some((scribe, to_do)) = &mut self.scribe else { return false };
        scribe.poll().into_iter().for_each(|message| self.handle.mailbox.send(message.into()));
        let Ok(task) = to_do.try_recv() else { return scribe.remove_next() };
        scribe.work(task).into_iter().for_each(|message| self.handle.mailbox.send(message.into()));
        true
    }

    /// How the job has ended, once it has and everything is written.
    pub fn outcome(&mut self) -> Option<Result<()>> {
        self.shell.outcome.as_ref()?;
        while self.tasks().record() || self.write() {}
        self.shell.forget();
        self.shell.outcome.take()
    }

    /// Late rows of all tasks.
    #[must_use]
    pub fn late_rows(&self) -> u64 {
        self.handle.shared.late_rows()
    }
}
