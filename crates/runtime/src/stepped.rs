//! A job on one thread: its tasks, its coordinator and its recorder do a step when the caller says so, and nothing happens
//! in between.
//!
//! This is how a simulation drives a job. Everything is what threads drive, too; only who waits for what is different. A
//! full channel does not stop a step, but the next one of its sender.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Result, TaskMetrics};
use anabranch_operators::Connectors;
use anabranch_protocol::coordinator::Report;
use anabranch_state::TaskState;

use crate::assembly::{Assembly, Task};
use crate::driver::{Driver, Message};
use crate::inbox_task::Step;
use crate::job::{Prepared, prepare};
use crate::recorder::{Recorder, Work};
use crate::running::Drive;
use crate::snapshot::Snapshot;
use crate::{Checkpointing, JobHandle};

/// A bug that is put in on purpose, to see that a simulation finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An acknowledgement of a checkpoint counts for every task.
    CommitBeforeAllAcknowledged,
    /// On a channel, a marker passes the rows in front of it.
    MarkerOvertakes,
    /// A change of an operator's state is not written.
    DeltaLost,
    /// A change of an operator's state is written twice.
    DeltaTwice,
    /// A run of an operator's state on disk is not written.
    RunLost,
}

/// A job that is stepped.
pub struct SteppedJob {
    handle: JobHandle,
    driver: Driver,
    recorder: Option<(Recorder, Receiver<Work>)>,
    /// Bytes that may wait on a channel when its sender does a step.
    channel_bytes: usize,
    fault: Option<Fault>,
}

impl SteppedJob {
    /// Takes a job over and makes its tasks, as `Job::start` does. `None`: the job has ended before.
    pub fn start(
        plan: &Plan,
        connectors: &Connectors,
        clock: &Arc<dyn Clock>,
        checkpointing: Option<&Checkpointing>,
        fault: Option<Fault>,
    ) -> Result<Option<SteppedJob>> {
        let mut unbounded = plan.clone();
        unbounded.options.channel_bytes = usize::MAX;
        let (handle, prepared) = prepare(&unbounded, connectors, clock, checkpointing, None, Drive::Steps)?;
        let Some(Prepared { assembly, mut driver, recorder }) = prepared else { return Ok(None) };
        let Assembly { views, tasks, .. } = assembly;
        if let Some(running) = &mut driver.running {
            running.start(&views, tasks, Drive::Steps)?;
        }
        handle.shared.show(views.into());
        driver.started();
        Ok(Some(SteppedJob { handle, driver, recorder, channel_bytes: plan.options.channel_bytes, fault }))
    }

    /// The job for observers, and to be asked to stop.
    #[must_use]
    pub fn handle(&self) -> &JobHandle {
        &self.handle
    }

    /// Number of tasks at present, those that have ended included.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.driver.running.as_ref().map_or(0, |running| running.stepped.len())
    }

    /// Number of channels into the main input of a task; 0 if it reads a source or has ended.
    #[must_use]
    pub fn channels(&self, task: usize) -> usize {
        let running = self.driver.running.as_ref();
        match running.and_then(|running| running.stepped.get(task)?.as_ref()) {
            Some(Task::Inbox(task)) => task.channels(),
            _ => 0,
        }
    }

    /// One step of a task: it polls its source once, or takes the next envelope of this channel. False if it did nothing,
    /// because it has ended or has no room downstream.
    pub fn step(&mut self, task: usize, channel: usize) -> bool {
        let Some(running) = &mut self.driver.running else { return false };
        let Some(place) = running.stepped.get_mut(task) else { return false };
        let Some(stepped) = place else { return false };
        if stepped.parts().chain.queued_bytes() > self.channel_bytes {
            return false;
        }
        let outcome = match stepped {
            Task::Source(source) => source.step(),
            Task::Inbox(inbox) => {
                if self.fault == Some(Fault::MarkerOvertakes) {
                    inbox.inbox().let_marker_overtake(channel);
                }
                inbox.step(channel)
            }
        };
        if matches!(outcome, Ok(Step::Goes)) {
            return true;
        }
        *place = None;
        let tasks = self.handle.shared.tasks();
        let view = &tasks[task];
        if let Err(error) = outcome {
            running.control.failed(view.id, error.at(view.place()));
        }
        running.control.report(view.id, Report::Gone);
        true
    }

    /// The coordinator takes the next message, or looks at the time. False if there was no message.
    pub fn coordinate(&mut self) -> bool {
        self.driver.outcome.is_none() && self.driver.step()
    }

    /// The recorder looks for requests, and writes the next thing. False if there was nothing to write.
    pub fn record(&mut self) -> bool {
        let Some((recorder, to_do)) = &mut self.recorder else { return false };
        if let Some(message) = recorder.look() {
            self.handle.mailbox.send(message);
        }
        let Ok(mut work) = to_do.try_recv() else { return false };
        if let Work::Snapshot(snapshot) = &mut work {
            spoil(snapshot, self.fault);
        }
        let message = recorder.work(work);
        if let Some(Message::Task(incarnation, task, Report::Acknowledged { epoch, .. })) = &message
            && self.fault == Some(Fault::CommitBeforeAllAcknowledged)
        {
            for view in self.handle.shared.tasks().iter().filter(|view| view.id != *task) {
                let snapshot =
                    TaskState { task: view.id, finished: false, source: None, operators: Vec::new(), sink: None };
                let report = Report::Acknowledged { epoch: *epoch, snapshot, finished: false };
                self.handle.mailbox.send(Message::Task(*incarnation, view.id, report));
            }
        }
        if let Some(message) = message {
            self.handle.mailbox.send(message);
        }
        true
    }

    /// How the job has ended, if it has, and all is written.
    pub fn outcome(&mut self) -> Option<Result<()>> {
        self.driver.outcome.as_ref()?;
        while self.record() {}
        self.driver.outcome.take()
    }

    /// A reading of every task, in order of stages.
    #[must_use]
    pub fn metrics(&self) -> Vec<TaskMetrics> {
        self.handle.metrics()
    }
}

/// Changes a snapshot as a bug would.
fn spoil(snapshot: &mut Snapshot, fault: Option<Fault>) {
    for (_, _, change) in &mut snapshot.operators {
        match fault {
            // All of a state at once is not a change.
            Some(Fault::DeltaLost) if !change.complete => change.rows.clear(),
            Some(Fault::DeltaTwice) => change.rows.extend(change.rows.clone()),
            Some(Fault::RunLost) => change.runs.truncate(change.runs.len().saturating_sub(1)),
            _ => {}
        }
    }
}
