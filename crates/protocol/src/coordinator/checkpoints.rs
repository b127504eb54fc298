//! Checkpoints within one incarnation: from the grant that requests one to the notification of all tasks that
//! it is committed.
//!
//! A task that has finished sends a last acknowledgement at the end of its last epoch; from that epoch on,
//! its last snapshot counts for every checkpoint. When all tasks have finished and no checkpoint covers their
//! ends yet, the coordinator makes one of these snapshots, so that a stream that ends leaves no result
//! invisible.
//!
//! A later checkpoint that is complete first replaces earlier ones, because it covers what they covered. One
//! checkpoint is committed at a time. From then on it belongs to the log and cannot be aborted: either it is
//! committed, or this coordinator is fenced.

use std::collections::btree_map::Entry::Vacant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Epoch, Nanos, TaskId};

use crate::table::{Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row("none", "a group is granted whose last epoch is a checkpoint", "pending", "-"),
    row("none", "the coordinator before has granted such a group", "pending", "-"),
    row("none", "a checkpoint is requested", "none", "grant one with a group of its own, whatever the interval"),
    row("none", "every task has finished, and no checkpoint covers that", "committing", "append to the log"),
    row("pending", "a source cuts the epoch, or a task acknowledges it", "pending", "the timeout begins"),
    row("pending", "some acknowledgements", "pending", "-"),
    row("pending", "the last acknowledgement", "committing", "append to the log"),
    row("pending", "a later checkpoint is complete", "aborted", "abort"),
    row("pending", "timeout, or a task declines", "aborted", "abort; again with the next group, or restart"),
    row("committing", "written to the log", "committed", "checkpoint done; forget those beyond the number to keep"),
    row("aborted", "an acknowledgement", "aborted", "-"),
];

#[derive(Debug)]
struct Pending<S> {
    acknowledged: BTreeMap<TaskId, S>,
    /// Number of tasks that have acknowledged it or had finished by its epoch: a report is not compared with
    /// those of all tasks.
    covered: usize,
    /// Set at the first sign that the epoch has ended at some task.
    deadline: Option<Nanos>,
}

/// A command that follows from the machine's state.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<S> {
    Commit(Epoch, BTreeMap<TaskId, S>),
    Abort(Epoch),
}

/// The checkpointing machine.
#[derive(Debug)]
pub(super) struct Checkpoints<S> {
    tasks: BTreeSet<TaskId>,
    interval: Option<Duration>,
    timeout: Duration,
    began: Nanos,
    pending: BTreeMap<Epoch, Pending<S>>,
    finished: BTreeMap<TaskId, (Epoch, S)>,
    committing: Option<Epoch>,
    committed: Epoch,
    /// The newest one that was granted.
    triggered: Epoch,
    /// Aborted checkpoints in a row.
    failures: u32,
    request: Request,
}

/// A request for a checkpoint that begins from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Request {
    #[default]
    None,
    Open,
    /// The checkpoint of this epoch, or a later one, fulfils it.
    Triggered(Epoch),
}

impl<S: Clone> Checkpoints<S> {
    pub(super) fn new(
        now: Nanos,
        tasks: BTreeSet<TaskId>,
        interval: Option<Duration>,
        timeout: Duration,
        from: Epoch,
    ) -> Self {
        Checkpoints {
            tasks,
            interval,
            timeout,
            began: now,
            pending: BTreeMap::new(),
            finished: BTreeMap::new(),
            committing: None,
            committed: from,
            triggered: from,
            failures: 0,
            request: Request::None,
        }
    }

    /// A checkpoint is requested.
    pub(super) fn requested(&mut self) {
        self.request = Request::Open;
    }

    /// Whether a request has not been fulfilled yet.
    pub(super) fn has_open_request(&self) -> bool {
        self.request != Request::None
    }

    /// If a request has not been fulfilled: a checkpoint of a later epoch than the one returned fulfils it.
    /// `granted` is the last epoch that is granted.
    pub(super) fn fulfilled_behind(&self, granted: Epoch) -> Option<Epoch> {
        match self.request {
            Request::None => None,
            Request::Open => Some(granted),
            Request::Triggered(epoch) => Some(Epoch(epoch.0 - 1)),
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.interval.is_some()
    }

    /// Whether the next group must end with a checkpoint.
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        let Some(interval) = self.interval else { return false };
        let rested = self.failures > 0 || self.request == Request::Open || now >= self.began.plus(interval);
        rested && self.pending.is_empty() && self.committing.is_none()
    }

    /// Whether a request waits for one that can be granted now. After a failure it is tried again with the
    /// next group.
    pub(super) fn is_requested(&self) -> bool {
        let can_begin = self.is_enabled() && self.pending.is_empty() && self.committing.is_none();
        can_begin && self.request == Request::Open && self.failures == 0
    }

    /// When the next one is due that contains what was passed on in the epoch `active`, if no granted one
    /// does.
    pub(super) fn due_with(&self, active: Epoch) -> Option<Nanos> {
        let can_begin = active > self.triggered && self.pending.is_empty() && self.committing.is_none();
        self.interval.filter(|_| can_begin && self.failures == 0).map(|interval| self.began.plus(interval))
    }

    /// The end of this epoch is granted as a checkpoint.
    pub(super) fn trigger(&mut self, now: Nanos, epoch: Epoch) {
        (self.began, self.triggered) = (now, epoch);
        if self.request == Request::Open {
            self.request = Request::Triggered(epoch);
        }
        let covered = self.finished.values().filter(|(end, _)| *end <= epoch).count();
        self.pending.insert(epoch, Pending { acknowledged: BTreeMap::new(), covered, deadline: None });
    }

    /// The coordinator before has granted the end of this epoch as a checkpoint.
    pub(super) fn adopted(&mut self, now: Nanos, epoch: Epoch) {
        if epoch > self.committed && !self.pending.contains_key(&epoch) {
            // A request is for one that begins later.
            let request = self.request;
            self.trigger(now, epoch);
            self.request = request;
        }
    }

    /// Some task has reached the end of the epoch.
    pub(super) fn reached(&mut self, now: Nanos, epoch: Epoch) {
        for pending in self.pending.range_mut(..=epoch).map(|(_, pending)| pending) {
            pending.deadline.get_or_insert(now.plus(self.timeout));
        }
    }

    pub(super) fn acknowledged(&mut self, now: Nanos, task: TaskId, epoch: Epoch, snapshot: S, finished: bool) {
        if !self.tasks.contains(&task) {
            return;
        }
        self.reached(now, epoch);
        if finished && !self.finished.contains_key(&task) {
            self.finished.insert(task, (epoch, snapshot.clone()));
            for (_, pending) in self.pending.range_mut(epoch..) {
                pending.covered += usize::from(!pending.acknowledged.contains_key(&task));
            }
        }
        let had_finished = self.finished.get(&task).is_some_and(|(end, _)| *end <= epoch);
        if let Some(pending) = self.pending.get_mut(&epoch)
            && let Vacant(vacant) = pending.acknowledged.entry(task)
        {
            vacant.insert(snapshot);
            pending.covered += usize::from(!had_finished);
        }
    }

    /// The snapshots of all tasks for this epoch, which all have acknowledged or had finished by then.
    fn snapshots(&self, epoch: Epoch, acknowledged: &BTreeMap<TaskId, S>) -> Option<BTreeMap<TaskId, S>> {
        let snapshot = |task: &TaskId| {
            let last = || self.finished.get(task).filter(|(end, _)| *end <= epoch).map(|(_, snapshot)| snapshot);
            Some((*task, acknowledged.get(task).or_else(last)?.clone()))
        };
        self.tasks.iter().map(snapshot).collect()
    }

    /// The epoch at whose end the last task finished, once all have.
    fn end(&self) -> Option<Epoch> {
        let all = self.finished.len() == self.tasks.len();
        if all { self.finished.values().map(|(epoch, _)| *epoch).max() } else { None }
    }

    /// Whether every task has finished and a committed checkpoint says so.
    pub(super) fn is_final(&self) -> bool {
        self.end().is_some_and(|end| end <= self.committed)
    }

    /// What to do now: the checkpoint to commit, and those that it replaces.
    pub(super) fn steps(&mut self) -> Vec<Step<S>> {
        if self.committing.is_some() || !self.is_enabled() {
            return Vec::new();
        }
        let covered = |(_, pending): &(&Epoch, &Pending<S>)| pending.covered >= self.tasks.len();
        let newest = self.pending.iter().rev().find(covered);
        let mut ready = newest.and_then(|(epoch, p)| Some((*epoch, self.snapshots(*epoch, &p.acknowledged)?)));
        if ready.is_none() && self.pending.is_empty() {
            let end = self.end().filter(|end| *end > self.committed);
            ready = end.and_then(|end| Some((end, self.snapshots(end, &BTreeMap::new())?)));
        }
        let Some((epoch, tasks)) = ready else { return Vec::new() };
        self.committing = Some(epoch);
        let later = self.pending.split_off(&epoch.next());
        let mut steps: Vec<_> =
            self.pending.keys().filter(|earlier| **earlier < epoch).map(|e| Step::Abort(*e)).collect();
        self.pending = later;
        steps.push(Step::Commit(epoch, tasks));
        steps
    }

    /// Whether an entry with a checkpoint is being written.
    pub(super) fn is_committing(&self) -> bool {
        self.committing.is_some()
    }

    pub(super) fn committed(&mut self, epoch: Epoch) {
        self.committing = None;
        self.committed = epoch;
        self.failures = 0;
        if matches!(self.request, Request::Triggered(requested) if requested <= epoch) {
            self.request = Request::None;
        }
    }

    /// A task cannot snapshot the epoch. Returns whether that aborts a checkpoint.
    pub(super) fn declined(&mut self, epoch: Epoch) -> bool {
        let aborted = self.pending.remove(&epoch).is_some();
        if aborted && self.request == Request::Triggered(epoch) {
            self.request = Request::Open;
        }
        self.failures += u32::from(aborted);
        aborted
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.pending.values().filter_map(|pending| pending.deadline).min()
    }

    /// A checkpoint whose time is over.
    pub(super) fn expired(&self, now: Nanos) -> Option<Epoch> {
        let over = |pending: &Pending<S>| pending.deadline.is_some_and(|at| at <= now);
        self.pending.iter().find(|(_, pending)| over(pending)).map(|(epoch, _)| *epoch)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::StageId;

    use super::*;

    /// Calls `visit` with every order of `items`.
    fn orders<T: Copy>(items: &mut Vec<T>, from: usize, visit: &mut impl FnMut(&[T])) {
        if from == items.len() {
            visit(items);
        }
        for at in from..items.len() {
            items.swap(from, at);
            orders(items, from + 1, visit);
            items.swap(from, at);
        }
    }

    #[test]
    fn a_checkpoint_is_complete_when_each_task_has_acknowledged_it_or_had_finished_in_any_order_of_reports() {
        let task = |index| TaskId { stage: StageId(0), index };
        // Task, epoch, and whether it is the last snapshot.
        let mut reports = vec![(0, 8, false), (0, 9, true), (1, 7, true), (1, 8, false), (2, 8, true), (2, 8, true)];
        let mut completed = 0;
        orders(&mut reports, 0, &mut |reports| {
            let mut checkpoints: Checkpoints<u32> =
                Checkpoints::new(Nanos(0), (0..3).map(task).collect(), Some(Duration::ZERO), Duration::MAX, Epoch(0));
            checkpoints.trigger(Nanos(0), Epoch(8));
            for (count, (index, epoch, finished)) in reports.iter().enumerate() {
                checkpoints.acknowledged(Nanos(0), task(*index), Epoch(*epoch), *index, *finished);
                let known = &reports[..=count];
                let covers = |index| {
                    known.iter().any(|(of, epoch, last)| *of == index && (*epoch == 8 || (*last && *epoch < 8)))
                };
                let steps = checkpoints.steps();
                assert_eq!(!steps.is_empty(), (0..3).all(covers), "{known:?}");
                if let [Step::Commit(epoch, tasks)] = &steps[..] {
                    assert_eq!((*epoch, tasks.len()), (Epoch(8), 3));
                    completed += 1;
                    return;
                }
            }
        });
        assert_eq!(completed, 720);
    }
}
