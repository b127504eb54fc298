//! How far one task is: a source ends the epochs that it may, another task those that all tasks before it
//! have ended. There are no rows, no time and no failure here.

use std::collections::BTreeSet;

use anabranch_model::{Epoch, Group, Incarnation, TaskId};
use anabranch_protocol::coordinator::{Pace, Report};

use crate::check::Truth;

/// The end of an epoch at a task: what its marker says, and the task's snapshot, if it takes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) incarnation: Incarnation,
    pub(crate) task: TaskId,
    pub(crate) epoch: Epoch,
    /// The marker requests a snapshot.
    pub(crate) snapshot: bool,
    /// It was the task's last epoch.
    pub(crate) closes: bool,
    /// How many records a source has read.
    pub(crate) position: u64,
}

/// An output of a step.
#[derive(Debug)]
pub(crate) enum Output {
    Report(Report<End>),
    Ended(End),
}

/// What the tasks of an incarnation in one process know. Their worker gives it to them in the order of
/// epochs.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    granted: Epoch,
    checkpoints: BTreeSet<Epoch>,
    /// Sources cut all epochs up to this one in their next turn.
    at_once: Epoch,
    pub(crate) stop_after: Option<Epoch>,
}

impl Control {
    pub(crate) fn new(from: Epoch) -> Self {
        Control { granted: from, checkpoints: BTreeSet::new(), at_once: from, stop_after: None }
    }

    pub(crate) fn grant(&mut self, group: Group, pace: Pace, checkpoint: bool, ends: bool) {
        self.granted = group.last.max(self.granted);
        if pace == Pace::AtOnce {
            self.at_once = group.last.max(self.at_once);
        }
        self.checkpoints.extend(checkpoint.then_some(group.last));
        self.stop_after = self.stop_after.or(ends.then_some(group.last));
    }
}

/// One task while it runs.
#[derive(Debug)]
pub(crate) struct Task {
    id: TaskId,
    incarnation: Incarnation,
    epoch: Epoch,
    /// How many records a source has read, and whether any in this epoch.
    position: u64,
    active: bool,
    /// The last epoch.
    pub(crate) ended: Option<Epoch>,
    /// The last snapshot is durable.
    pub(crate) acknowledged_end: bool,
    /// The newest checkpoint that a sink has made visible.
    pub(crate) shown: Epoch,
}

impl Task {
    pub(crate) fn new(id: TaskId, incarnation: Incarnation, from: Epoch) -> Self {
        Task {
            id,
            incarnation,
            epoch: from.next(),
            position: 0,
            active: false,
            ended: None,
            acknowledged_end: false,
            shown: Epoch(0),
        }
    }

    pub(crate) fn restore(&mut self, snapshot: &End) {
        self.position = snapshot.position;
    }

    /// One turn of a source with so many records: it ends the epochs that it must, and perhaps one more, and
    /// reads a batch.
    pub(crate) fn turn(&mut self, control: &Control, records: u64, cut: bool, batch: u64) -> Vec<Output> {
        let mut out = Vec::new();
        let due = match (control.stop_after, cut) {
            (Some(last), _) => last.max(self.epoch),
            (None, true) => control.at_once.max(self.epoch.min(control.granted)),
            (None, false) => control.at_once,
        };
        while self.ended.is_none() && self.epoch <= due {
            let closes = control.stop_after.is_some() && self.epoch == due;
            self.end_epoch(control.checkpoints.contains(&self.epoch), closes, &mut out);
        }
        if self.ended.is_some() {
            return out;
        }
        if cut && self.active && self.epoch > control.granted {
            out.push(Output::Report(Report::Active(self.epoch)));
        }
        let read = batch.min(records - self.position);
        self.active |= read > 0;
        self.position += read;
        if self.position == records {
            self.end_epoch(control.checkpoints.contains(&self.epoch), true, &mut out);
        }
        out
    }

    /// Ends all epochs that the tasks before it have ended. If one marker requests a snapshot, the epoch has
    /// one: a source that has ended did not know yet what its last epoch would be.
    pub(crate) fn align(&mut self, before: &[TaskId], truth: &Truth) -> Vec<Output> {
        let mut out = Vec::new();
        while self.ended.is_none() {
            let end = |of: &TaskId| truth.end_by(self.incarnation, *of, self.epoch);
            let Some(ends) = before.iter().map(end).collect::<Option<Vec<End>>>() else { break };
            let snapshot = ends.iter().any(|end| end.snapshot && end.epoch == self.epoch);
            self.end_epoch(snapshot, ends.iter().all(|end| end.closes), &mut out);
        }
        out
    }

    fn end_epoch(&mut self, snapshot: bool, closes: bool, out: &mut Vec<Output>) {
        let Task { id: task, incarnation, epoch, position, .. } = *self;
        let mut reports = Vec::new();
        match task.stage.0 {
            0 => {
                reports.extend(std::mem::take(&mut self.active).then_some(Report::Active(epoch)));
                reports.push(Report::EpochCut(epoch));
                reports.extend(closes.then_some(Report::SourceFinished));
            }
            2 => {
                reports.push(Report::EpochEnded(epoch));
                reports.extend(closes.then_some(Report::SinkFinished));
            }
            _ => {}
        }
        out.push(Output::Ended(End { incarnation, task, epoch, snapshot, closes, position }));
        out.extend(reports.into_iter().map(Output::Report));
        self.epoch = epoch.next();
        self.ended = closes.then_some(epoch);
    }
}
