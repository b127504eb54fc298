//! How kept parts get to the tasks of the next plan version. A change reports this before it is carried out.
//!
//! Nothing is decided here. [`Handover`](crate::change::handover::Handover), [`moved`] and [`static_sides`]
//! decide, and this module calls their functions with the plans and placements of the change. It cannot
//! foresee what a task decides when it ends: a reader may refuse to continue, such as the reader of a bounded
//! folder. It is then opened again at its positions.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::{OperatorSpec, Part, PartSpec};
use anabranch_model::{StageId, TaskId};
use anabranch_protocol::coordinator::Checkpoint;
use anabranch_protocol::membership::Process;
use anabranch_state::TaskState;

use crate::change::handover::source_goes_on;
use crate::change::moved::{Placed, files, moved};
use crate::change::preparation::Share;
use crate::change::reconfiguration::{Change, Fate};
use crate::change::static_sides::{self, Placement};
use crate::task::stages::tasks_of;

/// How a kept part gets to the tasks of the next plan version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Its tasks stay at their workers with their state and tables, and the part is unchanged.
    InPlace,
    /// It is handed over in memory to its successor at the same worker.
    HandedOver,
    /// Some of its state is read from the files of a checkpoint, because another task or another worker gets
    /// it, or because it cannot be handed over in memory.
    Loaded,
    /// Some tasks open its table again. A source then resumes at its positions.
    Reopened,
}

impl How {
    /// All of them.
    pub const ALL: [How; 4] = [How::InPlace, How::HandedOver, How::Loaded, How::Reopened];

    /// The name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            How::InPlace => "in-place",
            How::HandedOver => "handed-over",
            How::Loaded => "loaded",
            How::Reopened => "reopened",
        }
    }
}

/// How a part gets to the next plan version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// How it gets there.
    pub how: How,
    /// Bytes of the files that tasks read, each file once. `None`: the job has no checkpoint yet.
    pub loaded_bytes: Option<u64>,
    /// What tasks load or open, by worker.
    pub loads: Vec<Load>,
}

/// What the tasks of a worker load or open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Name of the worker.
    pub worker: String,
    /// Number of tasks.
    pub tasks: u32,
    /// Number of key groups whose state they load.
    pub key_groups: u32,
    /// Bytes of the files that they read, each file once. `None`: the job has no checkpoint yet.
    pub bytes: Option<u64>,
}

/// A change that has not been made yet.
pub(crate) struct Passings<'a> {
    present: Placed<'a>,
    next: Placed<'a>,
    newest: Option<&'a Checkpoint<TaskState>>,
    pub(crate) moved: BTreeMap<Share, Process>,
    /// Names of workers.
    name: &'a dyn Fn(Process) -> String,
}

/// How a part passes in memory. `is_same`: the part, its tasks and their workers are unchanged.
fn in_memory(is_same: bool) -> How {
    if is_same { How::InPlace } else { How::HandedOver }
}

impl<'a> Passings<'a> {
    /// From the running plan to one that carries the identities of the parts that stay.
    pub(crate) fn new(
        present: Placed<'a>,
        next: Placed<'a>,
        newest: Option<&'a Checkpoint<TaskState>>,
        name: &'a dyn Fn(Process) -> String,
    ) -> Passings<'a> {
        Passings { present, next, newest, moved: moved(present, next), name }
    }

    /// Adds to each kept part how it passes. Adds the changes of the static tables.
    pub(crate) fn add_to(&self, changes: &mut Vec<Change>) {
        let parts = |(plan, _): Placed<'a>| -> BTreeMap<_, Part<'a>> {
            plan.parts().into_iter().map(|part| (part.id, part)).collect()
        };
        let (then, now) = (parts(self.present), parts(self.next));
        for change in changes.iter_mut().filter(|change| change.fate == Fate::Kept) {
            let both = change.part.id.and_then(|id| then.get(&id).zip(now.get(&id)));
            change.passing = both.map(|(then, now)| self.of_part(then, now));
        }
        changes.extend(self.static_tables());
    }

    fn of_part(&self, then: &Part<'_>, now: &Part<'_>) -> Passing {
        let stages = (then.stage, now.stage);
        match (then.spec, now.spec) {
            (PartSpec::State(former), PartSpec::State(next)) => self.of_state((then, former), (now, next)),
            (PartSpec::Source(former), PartSpec::Source(next)) => {
                self.of_table(stages, source_goes_on(former, next), former == next)
            }
            (PartSpec::Sink(former), PartSpec::Sink(next)) => self.of_table(stages, former == next, true),
            _ => self.of_table(stages, false, false),
        }
    }

    fn of_state(&self, (then, former): (&Part<'_>, &OperatorSpec), (now, next): (&Part<'_>, &OperatorSpec)) -> Passing {
        let ((present, _), (plan, placement)) = (self.present, self.next);
        let mut loads = BTreeMap::<Process, BTreeSet<Share>>::new();
        for task in tasks_of(plan.stage(now.stage)) {
            let share = (now.id, plan.assignment.of_task(task));
            let has_keys = share.1.first < share.1.end;
            if let Some(process) = placement.get(&task).filter(|_| has_keys && self.moved.contains_key(&share)) {
                loads.entry(*process).or_default().insert(share);
            }
        }
        let same_tasks = present.assignment.of(then.stage) == plan.assignment.of(now.stage);
        let load = |(process, shares): (&Process, &BTreeSet<Share>)| Load {
            worker: (self.name)(*process),
            tasks: shares.len() as u32,
            key_groups: shares.iter().map(|(_, groups)| u32::from(groups.end - groups.first)).sum(),
            bytes: self.bytes(shares),
        };
        if loads.is_empty() {
            return Passing { how: in_memory(same_tasks && former == next), loaded_bytes: Some(0), loads: Vec::new() };
        }
        Passing {
            how: How::Loaded,
            loaded_bytes: self.bytes(&loads.values().flatten().copied().collect()),
            loads: loads.iter().map(load).collect(),
        }
    }

    /// Bytes of the files with rows of these operators and key groups, each file once.
    fn bytes(&self, shares: &BTreeSet<Share>) -> Option<u64> {
        let files = files(self.newest?, shares).map(|file| (file.blob.name.as_str(), file.blob.bytes));
        Some(files.collect::<BTreeMap<_, _>>().into_values().sum())
    }

    /// How a source or a sink passes: its table stays open in tasks that stay at their workers, if their
    /// number is unchanged.
    fn of_table(&self, (then, now): (StageId, StageId), goes_on: bool, is_same: bool) -> Passing {
        let ((present, were), (plan, are)) = (self.present, self.next);
        let goes_on = goes_on && present.stage(then).parallelism == plan.stage(now).parallelism;
        let mut opened = BTreeMap::<Process, u32>::new();
        for task in tasks_of(plan.stage(now)) {
            let process = are.get(&task);
            let stays = goes_on && were.get(&TaskId { stage: then, ..task }) == process;
            if let Some(process) = process.filter(|_| !stays) {
                *opened.entry(*process).or_default() += 1;
            }
        }
        let load = |(process, tasks)| Load { worker: (self.name)(process), tasks, key_groups: 0, bytes: Some(0) };
        Passing {
            how: if opened.is_empty() { in_memory(is_same) } else { How::Reopened },
            loaded_bytes: Some(0),
            loads: opened.into_iter().map(load).collect(),
        }
    }

    /// The tables that joins read to their end: each is kept as it was read, or read again.
    fn static_tables(&self) -> Vec<Change> {
        let ((present, were), (plan, are)) = (self.present, self.next);
        let workers = |placement: &BTreeMap<TaskId, Process>| -> Placement {
            placement.iter().map(|(task, process)| (*task, process.worker)).collect()
        };
        let kept = static_sides::kept((present, &workers(were)), (plan, &workers(are)));
        let all = plan.stages.iter().flat_map(tasks_of).collect();
        let unread = static_sides::unread(plan, &kept, &all);
        let former = present.static_stages();
        let table = |id: StageId| {
            let source = plan.stage(id).source.as_ref()?;
            let was = former.iter().copied().find(|stage| present.stage(*stage).source.as_ref() == Some(source));
            Some(Change::of_static_table(&source.key().to_string(), (was, id), unread.contains(&id)))
        };
        plan.static_stages().into_iter().filter_map(table).collect()
    }
}
