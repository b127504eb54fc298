//! The tasks of one worker, and their recorder, one step at a time.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anabranch_model::{Clock, Envelope, Error, Result, TaskId};
use anabranch_operators::StateChange;
use anabranch_protocol::coordinator::Report;
use anabranch_state::TaskState;

use crate::durable::recorder::Recorder;
use crate::shell::worker::WorkerShell;
use crate::task::advance::{Advance, Input, Task};
use crate::task::mail::FromTask;
use crate::task::snapshot::Snapshot;

/// The tasks of a worker.
pub struct Tasks<'a>(pub(crate) &'a mut WorkerShell);

/// A snapshot that is about to be written.
pub struct Snapshotted(Snapshot);

/// A report of the recorder.
pub struct Reported(FromTask);

impl Tasks<'_> {
    /// Number of current tasks, including those that have ended.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.running.as_ref().map_or(0, |running| running.stepped.len())
    }

    /// The current tasks, including those that have ended.
    #[must_use]
    pub fn ids(&self) -> Vec<TaskId> {
        self.0.tasks().iter().map(|view| view.id).collect()
    }

    /// Whether a task has ended.
    #[must_use]
    pub fn has_ended(&self, task: usize) -> bool {
        self.0.running.as_ref().is_none_or(|running| running.stepped.get(task).is_none_or(Option::is_none))
    }

    /// Number of channels into the main input of a task; 0 if it reads a source or has ended.
    #[must_use]
    pub fn channels(&self, task: usize) -> usize {
        match self.0.running.as_ref().and_then(|running| running.stepped.get(task)?.as_ref()) {
            Some(Stepped { task: Task::Inbox(task), .. }) => task.channels(),
            _ => 0,
        }
    }

    /// The envelope that a task would take next from this channel of its main input, if it takes one.
    /// [`Tasks::give`] must follow.
    pub fn take(&mut self, task: usize, channel: usize) -> Option<Envelope> {
        self.stepped(task)?.take(channel)
    }

    /// Gives a task envelopes in place of one that was taken for it.
    pub fn give(&mut self, task: usize, channel: usize, envelopes: Vec<Envelope>) {
        if let Some(stepped) = self.stepped(task) {
            stepped.give(channel, envelopes);
        }
    }

    /// One step of a task: it polls its source once, or takes an envelope that it was given, or the next
    /// envelope of this channel, and processes it as far as there is room downstream. Returns false if it did
    /// nothing, because it has ended or there was no room.
    pub fn step(&mut self, task: usize, channel: usize) -> bool {
        let Some(stepped) = self.stepped(task) else { return false };
        let clock = stepped.task.parts().clock.clone();
        let before = stepped.needs;
        let outcome = stepped.step(clock.as_ref(), channel);
        match outcome {
            Ok(Advance::Room) => return before != Advance::Room,
            Ok(Advance::Ended) | Err(_) => {}
            Ok(_) => return true,
        }
        let views = self.0.tasks();
        if let Some(running) = &mut self.0.running {
            if let Some(stepped) = running.stepped[task].take().filter(|_| outcome.is_ok()) {
                running.has_ended(stepped.task);
            }
            let view = &views[task];
            if let Err(error) = outcome {
                running.control.failed(view.id, error.at(view.place()));
            }
            running.control.report(view.id, Report::Gone);
        }
        true
    }

    /// The next snapshot that the recorder writes.
    pub fn snapshot(&mut self) -> Option<Snapshotted> {
        let (_, to_do) = self.recorder()?;
        to_do.try_recv().ok().map(Snapshotted)
    }

    /// Lets the recorder write a snapshot. Returns its reports.
    pub fn write(&mut self, Snapshotted(snapshot): Snapshotted) -> Vec<Reported> {
        let mut reports = Vec::new();
        if let Some((recorder, _)) = self.recorder() {
            recorder.work(snapshot, |report| reports.push(Reported(report)));
        }
        reports
    }

    /// Delivers a report to the worker.
    pub fn deliver(&self, Reported(report): Reported) {
        self.0.mail().send(report);
    }

    /// Lets the recorder write the next snapshot. Returns false if there is none.
    pub fn record(&mut self) -> bool {
        let Some(snapshot) = self.snapshot() else { return false };
        self.write(snapshot).into_iter().for_each(|report| self.deliver(report));
        true
    }

    fn stepped(&mut self, task: usize) -> Option<&mut Stepped> {
        self.0.running.as_mut()?.stepped.get_mut(task)?.as_mut()
    }

    fn recorder(&mut self) -> Option<&mut (Recorder, Receiver<Snapshot>)> {
        self.0.running.as_mut().and_then(|running| running.recorder.as_mut())
    }
}

impl Snapshotted {
    /// The changes of the state of the task's operators.
    pub fn changes(&mut self) -> impl Iterator<Item = &mut StateChange> {
        self.0.operators.iter_mut().flat_map(|operator| &mut operator.tables).map(|(_, change)| change)
    }
}

impl Reported {
    /// If it reports a stored snapshot of a task: the same report for another task, which has no state.
    #[must_use]
    pub fn of_other(&self, other: TaskId) -> Option<Reported> {
        match &self.0 {
            FromTask::Report(incarnation, task, Report::Acknowledged { epoch, .. }) if *task != other => {
                let snapshot =
                    TaskState { task: other, finished: false, source: None, operators: Vec::new(), sink: None };
                let report = Report::Acknowledged { epoch: *epoch, snapshot, finished: false };
                Some(Reported(FromTask::Report(*incarnation, other, report)))
            }
            _ => None,
        }
    }
}

/// A task, and the input that it needs next.
pub(crate) struct Stepped {
    task: Task,
    needs: Advance,
    given: VecDeque<Input>,
    /// Why it could not receive input.
    failure: Option<Error>,
}

impl Stepped {
    pub(crate) fn new(task: Task) -> Stepped {
        Stepped { task, needs: Advance::Continue, given: VecDeque::new(), failure: None }
    }

    fn take(&mut self, channel: usize) -> Option<Envelope> {
        let receives = matches!(self.needs, Advance::Input(_)) && self.given.is_empty() && self.failure.is_none();
        if !receives || !self.task.parts().is_prepared() {
            return None;
        }
        match self.task.receive(Some(Duration::ZERO), Some(channel)) {
            Ok(Input::Envelope(_, envelope)) => return Some(envelope),
            Ok(other) => self.given.push_back(other),
            Err(error) => self.failure = Some(error),
        }
        None
    }

    fn give(&mut self, channel: usize, envelopes: Vec<Envelope>) {
        let given = envelopes.into_iter().map(|envelope| Input::Envelope(channel, envelope));
        self.given.extend(given);
        if self.given.is_empty() {
            self.given.push_back(Input::Nothing);
        }
    }

    fn step(&mut self, clock: &dyn Clock, channel: usize) -> Result<Advance> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if matches!(self.needs, Advance::Input(_)) && self.given.is_empty() {
            self.given.push_back(self.task.receive(Some(Duration::ZERO), Some(channel))?);
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
