//! A job on one thread: its tasks, its coordinator, its recorder and its scribe do a step when the caller says so, and nothing
//! happens in between.
//!
//! This is how a simulation drives a job. All parts are those that threads drive; only the waiting is different: a task that
//! would wait does nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Envelope, Result, TaskId};
use anabranch_operators::{Connectors, StateChange};
use anabranch_protocol::coordinator::Report;
use anabranch_state::TaskState;

use crate::coordinator::{Message, Shell};
use crate::job::{Prepared, prepare};
use crate::running::{Drive, Running};
use crate::scribe::{self, Scribe};
use crate::task::{Advance, Input, Task};
use crate::worker::FromTask;
use crate::{Checkpointing, JobHandle, Origin};

/// Sees what passes between the parts of a stepped job, and may change it: a simulation uses it to plant the bugs that
/// it must find.
pub trait Tap {
    /// A task takes an envelope from this channel of its main input. The task gets the returned envelopes, in that
    /// order.
    fn envelope(&mut self, task: usize, channel: usize, envelope: Envelope) -> Vec<Envelope>;

    /// An operator hands this change of its state to the recorder.
    fn state_change(&mut self, change: &mut StateChange);

    /// A task's snapshot is stored. Returns the tasks, of `all`, for which the coordinator gets an acknowledgement.
    fn acknowledged(&mut self, task: TaskId, all: &[TaskId]) -> Vec<TaskId>;
}

/// The parts of a stepped job.
pub struct Parts<'a> {
    /// The query.
    pub plan: &'a Plan,
    /// The kinds of its tables.
    pub connectors: &'a Connectors,
    /// The clock.
    pub clock: &'a Arc<dyn Clock>,
    /// How it takes checkpoints, if it does.
    pub checkpointing: Option<&'a Checkpointing>,
    /// The savepoint that it starts from while it has no checkpoint.
    pub origin: Option<&'a Origin>,
    /// Sees everything that passes.
    pub tap: Option<Box<dyn Tap>>,
}

/// A job that is stepped.
pub struct SteppedJob {
    handle: JobHandle,
    shell: Shell,
    scribe: Option<(Scribe, Receiver<scribe::Task>)>,
    tap: Option<Box<dyn Tap>>,
}

impl SteppedJob {
    /// Takes a job over and creates its tasks, as `Job::start` does. `None`: the job has ended before.
    pub fn start(parts: Parts<'_>) -> Result<Option<SteppedJob>> {
        let Parts { plan, connectors, clock, checkpointing, origin, tap } = parts;
        let (handle, prepared) = prepare(plan, connectors, clock, (checkpointing, origin), None, Drive::Steps)?;
        let Some(Prepared { mut shell, scribe }) = prepared else { return Ok(None) };
        while !shell.was_open && shell.outcome.is_none() && shell.step() {}
        if shell.outcome.as_ref().is_some_and(Result::is_err) {
            shell.end()?;
            return Ok(None);
        }
        Ok(Some(SteppedJob { handle, shell, scribe, tap }))
    }

    /// The job for observers, who may also stop it.
    #[must_use]
    pub fn handle(&self) -> &JobHandle {
        &self.handle
    }

    /// Whether all tables were open in some incarnation of this process.
    #[must_use]
    pub fn was_open(&self) -> bool {
        self.shell.was_open
    }

    /// Number of current tasks, including those that have ended.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.running().map_or(0, |running| running.stepped.len())
    }

    /// Number of channels into the main input of a task; 0 if it reads a source or has ended.
    #[must_use]
    pub fn channels(&self, task: usize) -> usize {
        match self.running().and_then(|running| running.stepped.get(task)?.as_ref()) {
            Some(Stepped { task: Task::Inbox(task), .. }) => task.channels(),
            _ => 0,
        }
    }

    /// One step of a task: it polls its source once, or takes the next envelope of this channel, and does what follows as far
    /// as there is room downstream. False if it did nothing, because it has ended or there was no room.
    pub fn step(&mut self, task: usize, channel: usize) -> bool {
        let Some(running) = &mut self.shell.worker.running else { return false };
        let Some(place) = running.stepped.get_mut(task) else { return false };
        let Some(stepped) = place else { return false };
        let clock = &stepped.task.parts().clock.clone();
        let before = stepped.needs;
        let outcome = stepped.step(clock.as_ref(), channel, |channel, envelope| match &mut self.tap {
            Some(tap) => tap.envelope(task, channel, envelope),
            None => vec![envelope],
        });
        match outcome {
            Ok(Advance::Room) => return before != Advance::Room,
            Ok(Advance::Ended) | Err(_) => {}
            Ok(_) => return true,
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

    /// The coordinator takes the next message, or handles the time. False if there was no message.
    pub fn coordinate(&mut self) -> bool {
        self.shell.outcome.is_none() && self.shell.step()
    }

    /// The scribe looks for requests. The recorder, or else the scribe, does its next piece of work. False if there was nothing to
    /// write.
    pub fn record(&mut self) -> bool {
        let message = self.scribe.as_mut().and_then(|(scribe, _)| scribe.look());
        message.into_iter().for_each(|message| self.handle.mailbox.send(message));
        let running = self.shell.worker.running.as_mut();
        if let Some((recorder, to_do)) = running.and_then(|running| running.recorder.as_mut())
            && let Ok(mut snapshot) = to_do.try_recv()
        {
            if let Some(tap) = &mut self.tap {
                snapshot.operators.iter_mut().for_each(|operator| tap.state_change(&mut operator.change));
            }
            let mut reports = Vec::new();
            recorder.work(snapshot, |report| reports.push(report));
            reports.into_iter().for_each(|report| self.deliver(report));
            return true;
        }
        let Some((scribe, to_do)) = &mut self.scribe else { return false };
        let Ok(task) = to_do.try_recv() else { return false };
        scribe.work(task).into_iter().for_each(|message| self.handle.mailbox.send(message));
        true
    }

    /// How the job has ended, once it has and everything is written.
    pub fn outcome(&mut self) -> Option<Result<()>> {
        self.shell.outcome.as_ref()?;
        while self.record() {}
        self.shell.outcome.take()
    }

    /// Rows that were late, of all tasks together.
    #[must_use]
    pub fn late_rows(&self) -> u64 {
        self.handle.shared.tasks().iter().map(|view| view.counters.late_rows.load(Relaxed)).sum()
    }

    fn running(&self) -> Option<&Running> {
        self.shell.worker.running.as_ref()
    }

    fn deliver(&mut self, message: FromTask) {
        if let (FromTask::Report(incarnation, task, Report::Acknowledged { epoch, .. }), Some(tap)) =
            (&message, &mut self.tap)
        {
            let all: Vec<TaskId> = self.handle.shared.tasks().iter().map(|view| view.id).collect();
            for other in tap.acknowledged(*task, &all).into_iter().filter(|other| other != task) {
                let snapshot =
                    TaskState { task: other, finished: false, source: None, operators: Vec::new(), sink: None };
                let report = Report::Acknowledged { epoch: *epoch, snapshot, finished: false };
                self.handle.mailbox.send(Message::Task(FromTask::Report(*incarnation, other, report)));
            }
        }
        self.handle.mailbox.send(Message::Task(message));
    }
}

/// A task, and what it needs to go on.
pub(crate) struct Stepped {
    task: Task,
    needs: Advance,
    /// Envelopes in place of one that was received.
    given: VecDeque<Input>,
}

impl Stepped {
    pub(crate) fn new(task: Task) -> Stepped {
        Stepped { task, needs: Advance::Continue, given: VecDeque::new() }
    }

    fn step(
        &mut self,
        clock: &dyn Clock,
        channel: usize,
        tap: impl FnOnce(usize, Envelope) -> Vec<Envelope>,
    ) -> Result<Advance> {
        let is_prepared = self.task.parts().is_prepared();
        if matches!(self.needs, Advance::Input(_)) && self.given.is_empty() {
            match self.task.receive(Some(Duration::ZERO), Some(channel))? {
                Input::Envelope(channel, envelope) if is_prepared => {
                    let given = tap(channel, envelope).into_iter();
                    self.given.extend(given.map(|envelope| Input::Envelope(channel, envelope)));
                }
                other => self.given.push_back(other),
            }
        }
        loop {
            let input = matches!(self.needs, Advance::Input(_)).then(|| self.given.pop_front()).flatten();
            self.needs = self.task.advance(clock.now(), input)?;
            let goes_on = matches!(self.needs, Advance::Input(_)) && !self.given.is_empty();
            if self.needs != Advance::Continue && !goes_on {
                return Ok(self.needs);
            }
        }
    }
}
