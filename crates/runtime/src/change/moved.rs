//! Which state the tasks of the next plan version must load from files, because it cannot be handed over in
//! memory.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::Plan;
use anabranch_model::{KeyGroupRange, TaskId};
use anabranch_protocol::coordinator::Checkpoint;
use anabranch_protocol::membership::Process;
use anabranch_state::{StateFile, TaskState};

use crate::change::preparation::{Share, passed_on, states};

/// A plan, and where its tasks run.
pub(crate) type Placed<'a> = (&'a Plan, &'a BTreeMap<TaskId, Process>);

/// The operators with state of the next plan version that must be loaded: each with the key groups of its
/// task, and where that task runs.
pub(crate) fn moved(present: Placed<'_>, next: Placed<'_>) -> BTreeMap<Share, Process> {
    let passed_on = passed_on(present.0, next.0);
    let mut here = shares(present);
    here.retain(|(id, _), _| passed_on.contains(id));
    shares(next).into_iter().filter(|(share, process)| here.get(share) != Some(process)).collect()
}

/// The operators with state of a plan, each with the key groups of its task, and where that task runs.
fn shares((plan, placement): Placed<'_>) -> BTreeMap<Share, Process> {
    let mut shares = BTreeMap::new();
    for (id, (stage, _)) in states(plan) {
        let tasks = placement.iter().filter(|(task, _)| task.stage == stage);
        shares.extend(tasks.map(|(task, process)| ((id, plan.assignment.of_task(*task)), *process)));
    }
    shares
}

/// The files of a checkpoint with rows of these operators and key groups. A file occurs once for each task
/// whose snapshot refers to it.
pub(crate) fn files<'a>(
    from: &'a Checkpoint<TaskState>,
    shares: &BTreeSet<Share>,
) -> impl Iterator<Item = &'a StateFile> + use<'a> {
    let mut wanted: BTreeMap<u32, Vec<KeyGroupRange>> = BTreeMap::new();
    for (id, groups) in shares {
        wanted.entry(id.number).or_default().push(*groups);
    }
    let operators = from.tasks.values().flat_map(|task| &task.operators);
    operators.flat_map(move |operator| {
        let wanted = wanted.get(&operator.number).cloned().unwrap_or_default();
        operator.files.iter().filter(move |file| wanted.iter().any(|own| file.key_groups.overlaps(*own)))
    })
}
