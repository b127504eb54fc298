//! Reconfigurations: the job goes on by another plan version, or elsewhere, from the end of an epoch on.
//!
//! One at a time, others wait. A request is compared with the present plan first, and [prepared](super::preparing) if much state
//! moves. Then the coordinator lets the tasks end after
//! one more epoch, with a checkpoint, and the next incarnation begins from there by the new version. It is settled with the
//! first checkpoint by the new version. If anything fails before, the version before goes on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use anabranch_dataflow::Plan;
use anabranch_model::{Error, PlanVersion, Result, TaskId};
use anabranch_protocol::coordinator::{Checkpoint, Input, Phase};
use anabranch_protocol::membership::{Process, WorkerId};
use anabranch_state::TaskState;

use super::preparing::Preparing;
use super::{HERE_NAME, Shell};
use crate::change::passing::Passings;
use crate::change::reconfiguration::{Ahead, Change, Compared, Fate, Moves, Reconfigure, Reconfigured, compare};
use crate::durable::scribe;
use crate::durable::settings::tasks;
use crate::shell::remote::Remotes;
use crate::shell::status::Changing;

/// A request, and where its answer goes.
pub(crate) struct Requested {
    pub(crate) request: Reconfigure,
    pub(crate) answer: Sender<Result<Reconfigured>>,
}

/// The reconfigurations of a job.
#[derive(Default)]
pub(super) struct Reconfiguring {
    waiting: VecDeque<Requested>,
    pub(super) present: Option<Present>,
    /// The plan that goes on after a change that has failed.
    undone: Option<(Arc<Plan>, BTreeSet<WorkerId>)>,
    /// The highest version that was ever asked for.
    last: u32,
}

/// The reconfiguration that is being carried out.
pub(super) struct Present {
    pub(super) step: Step,
    pub(super) plan: Arc<Plan>,
    former: Arc<Plan>,
    /// Workers that get no task by the former plan.
    away_from: BTreeSet<WorkerId>,
    moves: Moves,
    changes: Vec<Change>,
    /// Bytes of state that were loaded ahead.
    pub(super) copied_bytes: u64,
    pub(super) answer: Sender<Result<Reconfigured>>,
}

/// How far it is.
pub(super) enum Step {
    /// State is loaded where it will be.
    Preparing(Box<Preparing>),
    /// The tasks end, or those of the next version have begun.
    Switching,
}

impl Reconfiguring {
    /// The one that is being prepared.
    pub(super) fn preparing(&mut self) -> Option<(PlanVersion, &mut Preparing)> {
        match &mut self.present {
            Some(Present { step: Step::Preparing(preparing), plan, .. }) => Some((plan.version, preparing)),
            _ => None,
        }
    }

    /// The next one that waits is not carried out. False if none waits.
    pub(super) fn refuse_next(&mut self, why: Error) -> bool {
        // The user may not wait any more.
        self.waiting.pop_front().map(|next| drop(next.answer.send(Err(why)))).is_some()
    }

    /// The one that was being prepared is not carried out.
    pub(super) fn take_preparing(&mut self) -> Option<Present> {
        self.present.take_if(|present| matches!(present.step, Step::Preparing(_)))
    }

    /// Whether the version has begun, and is not settled.
    pub(super) fn has_begun(&self, version: PlanVersion) -> bool {
        self.present.as_ref().is_some_and(|present| present.plan.version == version)
    }
}

impl Shell {
    /// A user asks for a reconfiguration.
    pub(super) fn reconfigure(&mut self, requested: Requested) {
        self.reconfiguring.waiting.push_back(requested);
        self.reconfigure_next();
    }

    /// Begins the next reconfiguration, unless one is under way.
    pub(super) fn reconfigure_next(&mut self) {
        // Only tasks that run can be prepared for a change. A job that stops refuses.
        let may_begin = self.coordinator.phase() == Phase::Running || self.stopping;
        let is_next = |next: &mut Requested| may_begin || next.request.dry_run;
        // The plan that goes on after a failure has a version of its own.
        while self.reconfiguring.present.is_none()
            && self.reconfiguring.undone.is_none()
            && let Some(Requested { request, answer }) = self.reconfiguring.waiting.pop_front_if(is_next)
        {
            // The user may not wait any more.
            match self.begin_to_reconfigure(&request) {
                Ok((reconfigured, _)) if reconfigured.unchanged => drop(answer.send(Ok(reconfigured))),
                Ok((Reconfigured { version, changes, .. }, plan)) => {
                    let plan = Plan { version, ..plan };
                    let former = Arc::clone(&self.worker.deployment().plan);
                    self.reconfiguring.last = version.0;
                    let away_from = self.remotes.as_ref().map(Remotes::away_from).unwrap_or_default();
                    let mut moves = request.moves;
                    moves.away_from.extend(away_from.iter().copied());
                    let preparing = self.begin_preparing(&plan, &moves);
                    if preparing.is_some() || self.writes_long() {
                        if preparing.is_none() {
                            self.add_only();
                        }
                        // What the tasks write while no row is processed is then only what follows this.
                        self.inputs.push_back(Input::Checkpoint);
                    }
                    let step = preparing.map_or(Step::Switching, |preparing| Step::Preparing(Box::new(preparing)));
                    let plan = Arc::new(plan);
                    self.shared.life.changes(Some(Changing::Preparing { rounds: 0, bytes: 0 }));
                    let switches = matches!(step, Step::Switching);
                    self.reconfiguring.present =
                        Some(Present { step, plan, former, away_from, moves, changes, copied_bytes: 0, answer });
                    if switches {
                        self.switch();
                    }
                }
                Err(error) => drop(answer.send(Err(error))),
            }
        }
        if self.reconfiguring.present.is_none() {
            let waits = !self.reconfiguring.waiting.is_empty();
            self.shared.life.changes(waits.then_some(Changing::Waiting));
        }
    }

    /// Whether checkpoints are so large that the last one before a change should have little to write.
    fn writes_long(&self) -> bool {
        self.shared.life.status().last_checkpoint.is_none_or(|last| last.bytes > self.little())
    }

    /// Bytes of state that may be written or moved while no row is processed.
    pub(super) fn little(&self) -> u64 {
        self.worker.deployment().plan.options.thresholds.little_bytes
    }

    fn begin_to_reconfigure(&self, request: &Reconfigure) -> Result<(Reconfigured, Plan)> {
        if self.stopping {
            return Err(Error::user("the job is being stopped").remedy("start it again with the new text"));
        }
        if self.durable.is_none() {
            return Err(Error::user("a job that keeps no checkpoints cannot be changed while it runs")
                .remedy("set a directory for them: SET 'checkpoint-directory' = '...'"));
        }
        let present = &self.worker.deployment().plan;
        let newest = self.coordinator.newest_checkpoint();
        let states: Vec<_> = newest.into_iter().flat_map(|newest| newest.tasks.values()).collect();
        let Compared { mut changes, plan, late } = compare(present, &request.plan, &states)?;
        let lost: Vec<&str> = changes.iter().filter(|c| c.fate == Fate::Lost).map(|c| c.what.as_str()).collect();
        if !lost.is_empty() && !request.allow_lost_state && !request.dry_run {
            return Err(Error::user(format!("the job would lose {}", lost.join("; ")))
                .remedy("keep these parts in the text, or allow the loss (--allow-lost-state)"));
        }
        if !late.is_empty() && !request.allow_late && !request.dry_run {
            return Err(Error::user(format!("rows would be late: {}", late.join("; ")))
                .remedy("start a new job with a place of its own for checkpoints, or allow that (--allow-late)"));
        }
        plan.check()?;
        self.check_moves(&request.moves, &plan)?;
        let unchanged = request.dry_run || (plan == **present && request.moves == Moves::default());
        let next = PlanVersion(present.version.0.max(self.reconfiguring.last) + 1);
        let version = match unchanged {
            true => present.version,
            false => next,
        };
        let loads_ahead = self.foresee(&mut changes, &plan, &request.moves);
        let ahead = request.dry_run.then(|| {
            let plan = Arc::new(Plan { version: next, ..plan.clone() });
            Ahead { plan, epoch: newest.map(|newest| newest.epoch), loads_ahead }
        });
        Ok((Reconfigured { version, next, changes, unchanged, copied_bytes: 0, ahead }, plan))
    }

    /// Adds to the changes how each part that is kept gets to the tasks of the plan, and the static tables.
    /// Returns whether state would be loaded ahead. `None`: where the tasks would be is not known.
    fn foresee(&self, changes: &mut Vec<Change>, plan: &Plan, moves: &Moves) -> Option<bool> {
        if self.coordinator.phase() != Phase::Running {
            return None;
        }
        let mut moves = moves.clone();
        moves.away_from.extend(self.remotes.as_ref().map(Remotes::away_from).unwrap_or_default());
        let (placement, _) = self.would_place(plan, &moves)?;
        let (present, now) = (&self.worker.deployment().plan, self.peers.placement());
        let newest = self.coordinator.newest_checkpoint();
        let name = |process| {
            let name = self.remotes.as_ref().and_then(|remotes| remotes.name(process));
            name.unwrap_or(HERE_NAME).to_owned()
        };
        let passings = Passings::new((present, &now), (plan, &placement), newest, &name);
        passings.add_to(changes);
        let shares = passings.moved.keys().copied().collect();
        Some(newest.is_some_and(|newest| self.is_much(newest, &shares)))
    }

    fn check_moves(&self, moves: &Moves, plan: &Plan) -> Result<()> {
        let unknown = moves.to.keys().find(|task| {
            let stage = plan.stages.get(task.stage.0 as usize);
            stage.is_none_or(|stage| task.index >= stage.parallelism)
        });
        if let Some(TaskId { stage, index }) = unknown {
            return Err(Error::user(format!("the job has no task {index} of {stage}")));
        }
        match &self.remotes {
            Some(remotes) => remotes.check(moves, plan, &self.worker.stages_here(plan)?),
            None if *moves == Moves::default() => Ok(()),
            None => Err(Error::user("all tasks of this job are in one process")
                .remedy("run it at workers: anabranch run FILE --workers N, or submit it to a coordinator")),
        }
    }

    /// The present incarnation begins, perhaps of another plan version than the one before.
    pub(super) fn switches(&mut self, from: Option<&Checkpoint<TaskState>>) {
        let version = self.coordinator.version();
        if version == self.worker.deployment().plan.version {
            return;
        }
        let present = self.reconfiguring.present.as_ref().filter(|present| present.plan.version == version);
        let (plan, moves) = match (present, self.reconfiguring.undone.take()) {
            (Some(present), _) => (Arc::clone(&present.plan), present.moves.clone()),
            (None, Some((former, away_from))) => {
                let moves = Moves { away_from, ..Moves::default() };
                (Arc::new(Plan { version, ..(*former).clone() }), moves)
            }
            (None, None) => return,
        };
        self.reconfiguring.last = self.reconfiguring.last.max(version.0);
        let (number, epoch) = (version.0, from.map_or(0, |from| from.epoch.0));
        self.shared.notify(format!("version {number} of the plan begins after epoch {epoch}"));
        let places = self.former_places(&plan);
        if let Some(remotes) = &mut self.remotes {
            // It was found before, when the change was asked for.
            let here = self.worker.stages_here(&plan).unwrap_or_default();
            remotes.reconfigure((Arc::clone(&plan), here), moves, places);
        }
        let mut deployment = self.worker.deployment().clone();
        deployment.plan = Arc::clone(&plan);
        self.worker.deploy(deployment);
        self.tasks = tasks(&plan);
        self.shared.set_plan(Arc::clone(&plan));
        if let Some(durable) = &self.durable {
            // The scribe ends only after this.
            let _ = durable.scribe.send(scribe::Task::Plan(plan));
        }
    }

    /// The job has changed to a plan version, or it does not.
    pub(super) fn reconfigured(&mut self, version: PlanVersion, changed: bool) {
        let Some(present) = self.reconfiguring.present.take_if(|present| present.plan.version == version) else {
            return;
        };
        self.shared.life.changes(None);
        let Present { former, away_from, changes, copied_bytes, answer, .. } = present;
        if !changed && self.coordinator.version() == version {
            self.reconfiguring.undone = Some((former, away_from));
        }
        let result = match changed {
            true => {
                let next = PlanVersion(version.0 + 1);
                Ok(Reconfigured { version, next, changes, unchanged: false, copied_bytes, ahead: None })
            }
            false => Err(self.why_not()),
        };
        // The user may not wait any more.
        let _ = answer.send(result);
        self.reconfigure_next();
    }

    pub(super) fn why_not(&self) -> Error {
        match &self.failure {
            Some(failure) => {
                let error = failure.error();
                Error::outside(format!("the change was given up, and the job goes on as it was: {error}"))
            }
            None if self.stopping => Error::user("the change was given up because the job stops"),
            None if matches!(self.coordinator.phase(), Phase::Ending | Phase::Finished) => {
                Error::user("the change was given up because the job has come to its end")
            }
            None => Error::outside("the change was given up, and the job goes on as it was"),
        }
    }

    /// Where the tasks with the parts of a plan are by the present one, in which stages may have other numbers.
    pub(super) fn former_places(&self, plan: &Plan) -> BTreeMap<TaskId, Process> {
        let placement = self.peers.placement();
        let of = |stage, parts: &[anabranch_dataflow::Part<'_>]| -> Vec<_> {
            parts.iter().filter(|part| part.stage == stage).map(|part| part.id).collect()
        };
        let (now, then) = (plan.parts(), self.worker.deployment().plan.parts());
        let mut places = BTreeMap::new();
        for stage in &plan.stages {
            let ids = of(stage.id, &now);
            let before = then.iter().find(|part| ids.contains(&part.id)).map(|part| part.stage);
            for index in 0..stage.parallelism {
                let process = before.and_then(|stage| placement.get(&TaskId { stage, index }));
                places.extend(process.map(|process| (TaskId { stage: stage.id, index }, *process)));
            }
        }
        places
    }
}
