//! Grants of groups of epochs within one incarnation (Drizzle's group scheduling), and the stop at an epoch
//! boundary.
//!
//! Sources may cut epochs only as far as the coordinator has granted them. The next group is granted when all
//! sources are in the second half of the last one, so in steady state no source waits. A source that has used
//! up its grant continues to read in its last epoch; it only cuts later.
//!
//! The grant says whether the last epoch of a group is a checkpoint, because a source may be about to cut
//! that epoch. For the same reason a job stops after one more epoch, granted for the stop: a source may
//! already have cut the last granted epoch without knowing that it would end there.
//!
//! A checkpoint that was requested gets one more epoch too, granted at once. Sources then cut all epochs that
//! they may. While some have not begun to do that, no further group of this kind is granted: a coordinator
//! that adopts the tasks must know all groups that a worker may lack.

use std::collections::BTreeMap;

use anabranch_model::{Epoch, Group, TaskId};

use super::message::{Pace, Tasks};
use crate::table::{Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row("running", "every task has started", "running", "grant the first group"),
    row("running", "a group of the coordinator before", "running", "count it as granted"),
    row("running", "the last group of the coordinator before", "stopping", "count it as granted"),
    row(
        "running",
        "every live source has cut half of the group",
        "running",
        "grant the next group; with a checkpoint if one is due",
    ),
    row("running", "a checkpoint is requested", "running", "grant one more epoch with it, to be cut at once"),
    row("running", "a source finished", "running", "it is no longer waited for"),
    row("running", "stop, or a change", "stopping", "grant one more epoch with a checkpoint; the tasks end after it"),
    row("running", "the slowest sink ended a later epoch", "running", "epoch done"),
    row("stopping", "the slowest sink ended a later epoch", "stopping", "epoch done"),
    row("stopping", "a task drops rows", "stopping", "none done: no later epoch and no checkpoint will be done"),
];

/// The epoch of a group that is its turning point: when all sources have cut it, the next group is granted.
#[must_use]
pub fn turn(group: Group) -> Epoch {
    Epoch(group.last.0 - group.len().div_ceil(2))
}

/// The granting machine.
#[derive(Debug)]
pub(super) struct Grants {
    granted: Epoch,
    /// When all sources have cut this epoch, the next group is due.
    turn: Epoch,
    /// Last epoch cut by each source that still runs.
    sources: BTreeMap<TaskId, Epoch>,
    /// How many of them have not cut the turn.
    behind: usize,
    /// Last epoch ended by each sink.
    sinks: BTreeMap<TaskId, Epoch>,
    /// Every sink has ended this epoch.
    done: Epoch,
    /// How many sinks have ended no later one.
    slowest: usize,
    /// The last group is to be cut at once.
    hurried: bool,
    stopping: bool,
}

impl Grants {
    /// Nothing is granted yet beyond the checkpoint's epoch.
    pub(super) fn new(tasks: &Tasks, from: Epoch) -> Self {
        Grants {
            granted: from,
            turn: from,
            sources: tasks.sources.iter().map(|task| (*task, from)).collect(),
            behind: 0,
            sinks: tasks.sinks.iter().map(|task| (*task, from)).collect(),
            done: from,
            slowest: tasks.sinks.len(),
            hurried: false,
            stopping: false,
        }
    }

    pub(super) fn cut(&mut self, task: TaskId, epoch: Epoch) {
        if let Some(cut) = self.sources.get_mut(&task) {
            self.behind -= usize::from(*cut < self.turn && epoch >= self.turn);
            *cut = epoch.max(*cut);
        }
    }

    pub(super) fn source_finished(&mut self, task: TaskId) {
        let cut = self.sources.remove(&task);
        self.behind -= usize::from(cut.is_some_and(|cut| cut < self.turn));
    }

    /// A sink ended an epoch. Returns the epoch that is done now, if that is a later one.
    pub(super) fn ended(&mut self, task: TaskId, epoch: Epoch) -> Option<Epoch> {
        let ended = self.sinks.get_mut(&task)?;
        let was_slowest = *ended == self.done && epoch > *ended;
        *ended = epoch.max(*ended);
        self.slowest -= usize::from(was_slowest);
        // Only the last of the slowest sinks is compared with all others.
        if !was_slowest || self.slowest > 0 {
            return None;
        }
        self.done = self.sinks.values().copied().min()?;
        self.slowest = self.sinks.values().filter(|ended| **ended == self.done).count();
        Some(self.done)
    }

    /// A group is granted, here or by the coordinator before.
    pub(super) fn granted(&mut self, group: Group, pace: Pace, ends: bool) {
        if group.last > self.granted {
            self.granted = group.last;
            self.hurried = pace == Pace::AtOnce;
            self.turn = turn(group);
            self.behind = self.sources.values().filter(|cut| **cut < self.turn).count();
        }
        self.stopping |= ends;
    }

    /// The last epoch that is granted.
    pub(super) fn last(&self) -> Epoch {
        self.granted
    }

    /// Whether the next group is due.
    pub(super) fn is_due(&self) -> bool {
        !self.stopping && !self.sources.is_empty() && self.behind == 0
    }

    /// Whether no group will be granted any more.
    pub(super) fn is_over(&self) -> bool {
        self.stopping || self.sources.is_empty()
    }

    /// Whether the tasks end before their sources do.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Grants the next group.
    pub(super) fn grant(&mut self, epochs: u64, pace: Pace) -> Group {
        let group = Group { first: self.granted.next(), last: Epoch(self.granted.0 + epochs.max(1)) };
        self.granted(group, pace, false);
        group
    }

    /// Grants one more epoch, which sources cut at once. `None`: that is not possible yet, or no group will
    /// be granted any more.
    pub(super) fn hurry(&mut self) -> Option<Group> {
        let waits = self.hurried && self.behind > 0;
        (!waits && !self.is_over()).then(|| self.grant(1, Pace::AtOnce))
    }

    /// Grants the last group of the incarnation: one epoch, after which its tasks end. `None` if all sources
    /// have ended by themselves.
    pub(super) fn stop(&mut self) -> Option<Group> {
        if self.is_over() {
            return None;
        }
        let group = self.grant(1, Pace::Steady);
        self.stopping = true;
        Some(group)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{PlanVersion, StageId};

    use super::*;

    fn task(stage: u32, index: u32) -> TaskId {
        TaskId { stage: StageId(stage), index }
    }

    #[test]
    fn an_epoch_is_done_when_the_slowest_sink_has_ended_it() {
        let (source, fast, slow) = (task(0, 0), task(1, 0), task(1, 1));
        let tasks = Tasks {
            version: PlanVersion(1),
            all: [source, fast, slow].into(),
            sources: [source].into(),
            sinks: [fast, slow].into(),
        };
        let mut grants = Grants::new(&tasks, Epoch(0));
        assert_eq!(grants.ended(fast, Epoch(5)), None);
        assert_eq!(grants.ended(slow, Epoch(3)), Some(Epoch(3)));
        assert_eq!(grants.ended(slow, Epoch(2)), None, "an older report changes nothing");
        assert_eq!(grants.ended(fast, Epoch(6)), None);
        assert_eq!(grants.ended(slow, Epoch(7)), Some(Epoch(6)));
    }
}
