//! Prepares a reconfiguration: state that moves to another worker or task is loaded there while the tasks of
//! the present plan run. [`Changes`](anabranch_protocol::Changes) decides the number of rounds, and when the
//! tasks switch.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::Plan;
use anabranch_model::{Error, PlanVersion, TaskId};
use anabranch_protocol::change::{Input, Next};
use anabranch_protocol::coordinator::Checkpoint;
use anabranch_protocol::membership::Process;
use anabranch_protocol::message::Downward;
use anabranch_state::TaskState;

use super::reconfiguring::Present;
use super::{HERE, Shell};
use crate::change::moved::{files, moved};
use crate::change::preparation::Share;
use crate::change::reconfiguration::Moves;
use crate::durable::settings::tasks;
use crate::shell::remote::TakenSlots;

/// State to load before the tasks switch.
#[derive(Default)]
pub(super) struct ToLoad {
    /// Where the tasks of the next plan version would be.
    placement: BTreeMap<TaskId, Process>,
    /// The operators and key groups that must be loaded, and where.
    pub(super) moved: BTreeMap<Share, Process>,
    /// Files that workers are to load.
    files: BTreeSet<String>,
}

impl ToLoad {
    /// Adds the files of a checkpoint to load. Returns the bytes of those that are new.
    fn add(&mut self, from: &Checkpoint<TaskState>) -> u64 {
        let shares = self.moved.keys().copied().collect();
        let new = files(from, &shares).filter(|file| self.files.insert(file.blob.name.clone()));
        new.map(|file| file.blob.bytes).sum()
    }
}

impl Shell {
    /// The state to load before the job would switch to this plan. Without a checkpoint there is none.
    pub(super) fn look_ahead(&mut self, plan: &Plan, moves: &Moves) -> ToLoad {
        if self.coordinator.newest_checkpoint().is_none() {
            return ToLoad::default();
        }
        let now = self.peers.placement();
        let (placement, others) = self.would_place(plan, moves).unzip();
        if let Some(remotes) = &mut self.remotes {
            remotes.place_ahead(others);
        }
        // If there is no room, the switch will report it.
        let Some(placement) = placement else { return ToLoad::default() };
        let moved = moved((&self.worker.deployment().plan, &now), (plan, &placement));
        ToLoad { placement, moved, files: BTreeSet::new() }
    }

    /// The input of the decision whether this state is loaded before the tasks switch.
    pub(super) fn next(&self, moved: &BTreeMap<Share, Process>) -> Next {
        let shares = moved.keys().copied().collect();
        let newest = self.coordinator.newest_checkpoint().into_iter();
        Next {
            moved_bytes: newest.flat_map(|newest| files(newest, &shares)).map(|file| file.blob.bytes).sum(),
            loading: moved.values().copied().collect(),
            present: self.peers.placement().into_values().collect(),
            granted: self.coordinator.last_granted(),
            checkpoint_bytes: self.shared.life.status().last_checkpoint.map(|last| last.bytes),
            little_bytes: self.worker.deployment().plan.options.thresholds.little_bytes,
        }
    }

    /// The placement that the tasks of a plan would get, and the slots of other jobs on which it depends.
    /// `None`: there is not enough room now.
    pub(super) fn would_place(&self, plan: &Plan, moves: &Moves) -> Option<(BTreeMap<TaskId, Process>, TakenSlots)> {
        let Some(remotes) = &self.remotes else {
            return Some((tasks(plan).all.into_iter().map(|task| (task, HERE)).collect(), BTreeMap::new()));
        };
        let here = self.worker.stages_here(plan).ok()?;
        let (former, now) = (self.former_places(plan), self.peers.placement());
        remotes.would_place((plan, &here), moves, &former, &now, &self.worker).ok()
    }

    /// Tells workers which tasks of the next plan version they will have.
    pub(super) fn prepare(&mut self, processes: &BTreeSet<Process>) {
        let Some(Present { plan, to_load, .. }) = &self.reconfiguring.present else { return };
        if let Some(remotes) = &self.remotes {
            remotes.prepare(plan, &to_load.placement, processes, &self.worker);
        }
        if processes.contains(&HERE) {
            let own = to_load.placement.iter().filter(|(_, process)| **process == HERE).map(|(task, _)| *task);
            self.worker.prepare(plan, &own.collect());
        }
    }

    /// Requests incremental snapshots from the tasks.
    pub(super) fn add_only(&mut self) {
        let processes: BTreeSet<Process> = self.peers.placement().into_values().collect();
        processes.into_iter().for_each(|process| self.send_decision(process, Downward::AddOnly));
    }

    /// Lets workers load the additions of the newest checkpoint. Returns their bytes.
    pub(super) fn load(&mut self, processes: &BTreeSet<Process>) -> u64 {
        let newest = self.coordinator.newest_checkpoint().cloned();
        let Some((present, newest)) = self.reconfiguring.present.as_mut().zip(newest) else { return 0 };
        let (bytes, version) = (present.to_load.add(&newest), present.plan.version);
        for process in processes {
            self.send_decision(*process, Downward::Load { version, from: newest.clone() });
        }
        bytes
    }

    /// The present plan continues: workers drop everything that they have prepared.
    pub(super) fn give_up_preparing(&mut self, processes: &BTreeSet<Process>) {
        self.remotes.iter_mut().for_each(|remotes| remotes.give_up_ahead());
        processes.iter().for_each(|process| self.send_decision(*process, Downward::GiveUp));
    }

    /// A worker has loaded its files, or cannot.
    pub(super) fn loaded(&mut self, process: Process, version: PlanVersion, error: Option<Error>) {
        let loaded = Input::Loaded { process, version, succeeded: error.is_none() };
        self.change(loaded, error.map(|error| given_up_because(&error)));
    }

    /// A worker is lost, with the state that it has loaded. It may have had no task.
    pub(super) fn lost_while_preparing(&mut self, process: Process, why: &Error) {
        self.change(Input::Lost(process), Some(given_up_because(why)));
    }
}

fn given_up_because(why: &Error) -> Error {
    Error::outside(format!("the change was abandoned, and the job continues unchanged: {why}"))
}
