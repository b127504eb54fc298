//! Gathers reports that nobody waits for before the last task has made them: only then do they wake the
//! worker's thread.
//!
//! A worker reports for all its tasks together, so the cut of an epoch at one source is irrelevant before the
//! slowest source has cut it. With checkpoints the coordinator does not wait for the ends of epochs at sinks
//! at all: these reports accompany the next one.

use std::collections::BTreeMap;

use anabranch_model::{Epoch, TaskId};
use anabranch_protocol::coordinator::{Report, Tasks};
use anabranch_state::TaskState;

/// Reports that the worker has not been given, for all tasks of an incarnation at one worker.
pub(crate) struct Gathered {
    waiting: Vec<(TaskId, Report<TaskState>)>,
    cuts: Reached,
    ends: Reached,
    /// Whether the worker is woken when the slowest sink has ended an epoch.
    ends_matter: bool,
}

/// The epochs that tasks have reached. Tasks that are not in the list are not waited for.
struct Reached {
    epochs: BTreeMap<TaskId, Epoch>,
    least: Epoch,
    /// Number of tasks at the least epoch.
    slowest: usize,
}

impl Reached {
    fn new<'a>(tasks: impl IntoIterator<Item = &'a TaskId>, after: Epoch) -> Reached {
        let epochs: BTreeMap<TaskId, Epoch> = tasks.into_iter().map(|task| (*task, after)).collect();
        Reached { slowest: epochs.len(), least: after, epochs }
    }

    /// A task has reached an epoch. Returns whether all have reached a later one than before.
    fn reach(&mut self, task: TaskId, epoch: Epoch) -> bool {
        let Some(reached) = self.epochs.get_mut(&task) else { return true };
        let was_slowest = *reached == self.least && epoch > self.least;
        *reached = epoch.max(*reached);
        self.slowest -= usize::from(was_slowest);
        // Only when the last of the slowest tasks advances are all compared.
        if !was_slowest || self.slowest > 0 {
            return false;
        }
        self.find_least();
        true
    }

    /// A task has finished: it is no longer waited for.
    fn finished(&mut self, task: TaskId) {
        if self.epochs.remove(&task).is_some() {
            self.find_least();
        }
    }

    fn find_least(&mut self) {
        self.least = self.epochs.values().copied().min().unwrap_or(self.least);
        self.slowest = self.epochs.values().filter(|reached| **reached == self.least).count();
    }
}

impl Gathered {
    /// Nothing is gathered.
    pub(crate) fn none() -> Gathered {
        let (cuts, ends) = (Reached::new([], Epoch(0)), Reached::new([], Epoch(0)));
        Gathered { waiting: Vec::new(), cuts, ends, ends_matter: true }
    }

    /// For these tasks, which resume after this epoch. With checkpoints nobody waits for the ends of epochs.
    pub(crate) fn new(tasks: &Tasks, after: Epoch, has_checkpoints: bool) -> Gathered {
        let (cuts, ends) = (Reached::new(&tasks.sources, after), Reached::new(&tasks.sinks, after));
        Gathered { waiting: Vec::new(), cuts, ends, ends_matter: !has_checkpoints }
    }

    /// Adds a task's report. Returns the reports that the worker must be given now, in order.
    pub(crate) fn add(&mut self, task: TaskId, report: Report<TaskState>) -> Vec<(TaskId, Report<TaskState>)> {
        let is_due = match &report {
            Report::EpochCut(epoch) => self.cuts.reach(task, *epoch),
            Report::EpochEnded(epoch) => self.ends.reach(task, *epoch) && self.ends_matter,
            _ => true,
        };
        match report {
            Report::SourceFinished => self.cuts.finished(task),
            Report::SinkFinished => self.ends.finished(task),
            _ => {}
        }
        if !self.ends_matter && matches!(report, Report::EpochEnded(_)) {
            // Only the newest end of each sink is kept: at a worker without a source, no other report may
            // come for long.
            let is_former =
                |other: &TaskId, report: &Report<_>| *other == task && matches!(report, Report::EpochEnded(_));
            self.waiting.retain(|(other, report)| !is_former(other, report));
        }
        self.waiting.push((task, report));
        if is_due { std::mem::take(&mut self.waiting) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{PlanVersion, StageId};

    use super::*;

    fn task(stage: u32, index: u32) -> TaskId {
        TaskId { stage: StageId(stage), index }
    }

    fn gathered(has_checkpoints: bool) -> Gathered {
        let stage = |stage| (0..2).map(move |index| task(stage, index));
        let (sources, sinks) = (stage(0).collect(), stage(1).collect());
        let tasks = Tasks { version: PlanVersion(1), all: stage(0).chain(stage(1)).collect(), sources, sinks };
        Gathered::new(&tasks, Epoch(4), has_checkpoints)
    }

    #[test]
    fn cuts_are_given_when_the_slowest_source_has_made_them_and_nothing_is_lost_or_overtaken() {
        let mut gathered = gathered(true);
        let (cut, ended) = (|epoch| Report::EpochCut(Epoch(epoch)), |epoch| Report::EpochEnded(Epoch(epoch)));
        assert_eq!(gathered.add(task(0, 0), cut(5)), []);
        assert_eq!(gathered.add(task(0, 0), cut(6)), []);
        let all = [(task(0, 0), cut(5)), (task(0, 0), cut(6)), (task(0, 1), cut(5))];
        assert_eq!(gathered.add(task(0, 1), cut(5)), all);
        assert_eq!(gathered.add(task(1, 0), ended(5)), []);
        assert_eq!(gathered.add(task(1, 1), ended(5)), [], "with checkpoints nobody waits for them");
        assert_eq!(gathered.add(task(0, 1), cut(7)).len(), 3, "the other one has cut epoch 6");
        assert_eq!(gathered.add(task(0, 1), cut(8)), []);
        let all = [(task(0, 1), cut(8)), (task(0, 0), Report::SourceFinished)];
        assert_eq!(gathered.add(task(0, 0), Report::SourceFinished), all);
        assert_eq!(gathered.add(task(0, 1), cut(9)).len(), 1, "no other source runs");
    }

    #[test]
    fn without_checkpoints_the_end_of_an_epoch_at_the_slowest_sink_is_given() {
        let mut gathered = gathered(false);
        let ended = |epoch| Report::EpochEnded(Epoch(epoch));
        assert_eq!(gathered.add(task(1, 1), ended(9)), []);
        assert_eq!(gathered.add(task(1, 0), ended(5)).len(), 2);
    }
}
