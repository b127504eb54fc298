//! Preparing a reconfiguration: state that changes its worker or its task is loaded there while the tasks of the present plan
//! run.
//!
//! In the first round, workers load the newest checkpoint, in the next ones what has been added meanwhile. Each round is
//! shorter than the one before, because less has been added. When little is left, or a round is not much shorter any more,
//! the job switches. This is how virtual machines are moved while they run (Clark et al., NSDI 2005).

use std::collections::{BTreeMap, BTreeSet};

use anabranch_dataflow::Plan;
use anabranch_model::{Epoch, Error, PlanVersion, Result, TaskId};
use anabranch_protocol::coordinator::{Checkpoint, Input, Phase};
use anabranch_protocol::membership::Process;
use anabranch_state::TaskState;

use super::reconfiguring::Step;
use super::{HERE, Shell};
use crate::change::moved::{files, moved};
use crate::change::preparation::Share;
use crate::change::reconfiguration::Moves;
use crate::durable::settings::tasks;
use crate::shell::messages::ToWorker;
use crate::shell::remote::TakenSlots;
use crate::shell::status::Changing;

/// Rounds at most.
const ROUNDS_MAX: u32 = 8;

/// A reconfiguration that is being prepared.
pub(super) struct Preparing {
    /// Workers that load state.
    workers: BTreeSet<Process>,
    /// Workers that know of it: those whose tasks have the state too.
    told: BTreeSet<Process>,
    /// What they load.
    shares: BTreeSet<Share>,
    /// Workers that have not loaded what they were told to.
    awaited: BTreeSet<Process>,
    /// The last epoch that was granted before their tasks were told to add only.
    after: Epoch,
    /// Files that they have loaded.
    files: BTreeSet<String>,
    rounds: u32,
    /// Bytes of all rounds together, of the last one, and of the one before.
    bytes: u64,
    last: u64,
    before: u64,
}

impl Preparing {
    /// Whether so much was added while the last round ran that another one is worth it.
    fn goes_on(&self, little: u64) -> bool {
        let shrinks = self.rounds == 1 || self.last < self.before / 2;
        self.last > little && shrinks && self.rounds < ROUNDS_MAX
    }

    /// Adds the files of a checkpoint that are to be loaded.
    fn add(&mut self, from: &Checkpoint<TaskState>) {
        let mut bytes = 0;
        for file in files(from, &self.shares) {
            if self.files.insert(file.blob.name.clone()) {
                bytes += file.blob.bytes;
            }
        }
        (self.before, self.last) = (self.last, bytes);
        self.bytes += bytes;
        self.rounds += 1;
        self.awaited.clone_from(&self.workers);
    }
}

impl Shell {
    /// Tells workers what they will load before the job goes on by this plan. `None`: it is little.
    pub(super) fn begin_preparing(&mut self, plan: &Plan, moves: &Moves) -> Option<Preparing> {
        let newest = self.coordinator.newest_checkpoint()?;
        let now = self.peers.placement();
        let (placement, others) = self.would_place(plan, moves).unzip();
        if let Some(remotes) = &mut self.remotes {
            remotes.place_ahead(others);
        }
        // If there is no room the switch finds out.
        let placement = placement?;
        let moved = moved((&self.worker.deployment().plan, &now), (plan, &placement));
        let shares: BTreeSet<Share> = moved.keys().copied().collect();
        if !self.is_much(newest, &shares) {
            return None;
        }
        let workers: BTreeSet<Process> = moved.into_values().collect();
        let told: BTreeSet<Process> = workers.iter().chain(now.values()).copied().collect();
        if let Some(remotes) = &self.remotes {
            remotes.prepare(plan, &placement, &told, &self.worker);
        }
        if told.contains(&HERE) {
            let own = placement.iter().filter(|(_, process)| **process == HERE).map(|(task, _)| *task).collect();
            self.worker.prepare(plan, &own);
        }
        Some(Preparing {
            workers,
            told,
            shares,
            awaited: BTreeSet::new(),
            after: self.coordinator.last_granted(),
            files: BTreeSet::new(),
            rounds: 0,
            bytes: 0,
            last: 0,
            before: 0,
        })
    }

    /// Where the tasks of a plan would be, and the slots of other jobs by which that is so. `None`: there is
    /// no room for them now.
    pub(super) fn would_place(&self, plan: &Plan, moves: &Moves) -> Option<(BTreeMap<TaskId, Process>, TakenSlots)> {
        let Some(remotes) = &self.remotes else {
            return Some((tasks(plan).all.into_iter().map(|task| (task, HERE)).collect(), BTreeMap::new()));
        };
        let here = self.worker.stages_here(plan).ok()?;
        let (former, now) = (self.former_places(plan), self.peers.placement());
        remotes.would_place((plan, &here), moves, &former, &now, &self.worker).ok()
    }

    /// Whether this state is loaded before the tasks switch.
    pub(super) fn is_much(&self, newest: &Checkpoint<TaskState>, shares: &BTreeSet<Share>) -> bool {
        files(newest, shares).map(|file| file.blob.bytes).sum::<u64>() > self.little()
    }

    /// Tells the tasks that their next snapshots are not to be complete: one of much state takes long to write, and the switch waits
    /// for it.
    pub(super) fn add_only(&self) {
        if let Some(remotes) = &self.remotes {
            let processes: BTreeSet<Process> = self.peers.placement().into_values().collect();
            processes.into_iter().for_each(|process| remotes.tell(process, ToWorker::AddOnly));
        }
        self.worker.add_only();
    }

    /// A checkpoint is complete: workers load what it adds, unless they are loading.
    pub(super) fn prepare_from_newest(&mut self) {
        let Some(newest) = self.coordinator.newest_checkpoint() else { return };
        let Some((version, preparing)) = self.reconfiguring.preparing() else { return };
        // The snapshots of one that was granted before may have been replaced by the next.
        if !preparing.awaited.is_empty() || newest.epoch <= preparing.after {
            return;
        }
        preparing.add(newest);
        let changing = Changing::Preparing { rounds: preparing.rounds, bytes: preparing.bytes };
        for process in &preparing.awaited {
            match &self.remotes {
                _ if *process == HERE => self.worker.load(version, newest),
                Some(remotes) => {
                    remotes.tell(*process, ToWorker::Load { version, from: Box::new(newest.clone()) });
                }
                None => {}
            }
        }
        self.shared.life.changes(Some(changing));
    }

    /// A worker has loaded what it was told to, or cannot.
    pub(super) fn loaded(&mut self, process: Process, version: PlanVersion, error: Option<Error>) {
        let little = self.little();
        let Some((_, preparing)) = self.reconfiguring.preparing().filter(|(of, _)| *of == version) else { return };
        if let Some(error) = error {
            let why = Error::outside(format!("the change was given up, and the job goes on as it was: {error}"));
            return self.give_up_preparing(why);
        }
        // While the job restarts, the change is about to be given up.
        let counts = preparing.awaited.remove(&process) && preparing.awaited.is_empty();
        if !counts || self.coordinator.phase() != Phase::Running {
            return;
        }
        match preparing.goes_on(little) {
            true => self.inputs.push_back(Input::Checkpoint),
            false => {
                let (rounds, bytes) = (preparing.rounds, preparing.bytes);
                let text = format!("{bytes} bytes of state are where version {} of the plan needs them", version.0);
                self.shared.notify(format!("{text}, after {rounds} rounds"));
                if let Some(present) = &mut self.reconfiguring.present {
                    present.copied_bytes = bytes;
                }
                self.switch();
            }
        }
    }

    /// A worker is lost, with what it has loaded. It may have had no task.
    pub(super) fn lost_while_preparing(&mut self, process: Process, why: &Error) {
        if self.reconfiguring.preparing().is_some_and(|(_, preparing)| preparing.told.contains(&process)) {
            let what = format!("the change was given up, and the job goes on as it was: {why}");
            self.give_up_preparing(Error::outside(what));
        }
    }

    /// A user does not want the change any more.
    pub(super) fn abort_change(&mut self) -> Result<()> {
        // What was asked for was right: it is undone, and not refused.
        let why = Error::outside("the change was aborted by a request");
        let prepares = self.reconfiguring.present.as_ref().map(|of| matches!(of.step, Step::Preparing(_)));
        match prepares {
            Some(true) => {
                self.give_up_preparing(why);
                Ok(())
            }
            Some(false) => Err(Error::user("the tasks are switching already").remedy("change the job back")),
            None if self.reconfiguring.refuse_next(why) => {
                self.reconfigure_next();
                Ok(())
            }
            None => Err(Error::user("no change of the job is being carried out")),
        }
    }

    /// The present plan goes on, without having ended.
    pub(super) fn give_up_preparing(&mut self, why: Error) {
        let Some(present) = self.reconfiguring.take_preparing() else { return };
        self.shared.life.changes(None);
        self.worker.give_up_preparing();
        self.remotes.iter_mut().for_each(|remotes| remotes.give_up_ahead());
        if let (Some(remotes), Step::Preparing(preparing)) = (&self.remotes, &present.step) {
            preparing.told.iter().for_each(|process| remotes.tell(*process, ToWorker::GiveUp));
        }
        // The user may not wait any more.
        let _ = present.answer.send(Err(why));
        self.reconfigure_next();
    }

    /// Lets the tasks end for the next plan version.
    pub(super) fn switch(&mut self) {
        let Some(present) = &mut self.reconfiguring.present else { return };
        present.step = Step::Switching;
        self.inputs.push_back(Input::Change(tasks(&present.plan)));
        self.shared.life.changes(Some(Changing::Switching));
    }
}
