//! Reconfigurations: from the end of an epoch on, the job runs another plan version, or at other workers.
//!
//! [`Changes`] decides which request is next, whether its state is loaded [ahead](super::preparing), and when
//! the tasks switch. The coordinator then lets the tasks end after one more epoch, with a checkpoint, and the
//! next incarnation begins from there with the new version. If anything fails before the first checkpoint of
//! the new version, the former version resumes. This module compares requests with the present plan, and
//! executes the decisions of both machines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use anabranch_dataflow::Plan;
use anabranch_model::{Error, PlanVersion, Result, TaskId};
use anabranch_protocol::Changes;
use anabranch_protocol::change::Input as ChangeInput;
use anabranch_protocol::change::{Answer, Checked, Command, Copied, Job, NotAborted, Request, Ticket};
use anabranch_protocol::coordinator::{Checkpoint, Input, Phase};
use anabranch_protocol::membership::{Process, WorkerId};
use anabranch_state::TaskState;

use super::preparing::ToLoad;
use super::{HERE_NAME, Shell};
use crate::change::passing::Passings;
use crate::change::reconfiguration::{Ahead, Change, Compared, Fate, Fit, Moves, Reconfigure, Reconfigured, compare};
use crate::durable::scribe;
use crate::durable::settings::tasks;
use crate::shell::remote::Remotes;

/// A request, and the channel for its answer.
pub(crate) struct Requested {
    pub(crate) request: Reconfigure,
    /// Chooses the form of the plan when the request is checked: earlier changes may have failed since.
    pub(crate) fit: Fit,
    pub(crate) answer: Sender<Result<Reconfigured>>,
}

/// The reconfigurations of a job.
pub(super) struct Reconfiguring {
    pub(super) changes: Changes,
    /// Requests that were not yet compared with the present plan.
    requests: BTreeMap<Ticket, Requested>,
    /// Number of the last request.
    last: u64,
    /// A user who aborts the present change.
    aborts: Option<Sender<Result<()>>>,
    pub(super) present: Option<Present>,
    /// The plan to resume with after a failed change, and the workers that get no task.
    undone: Option<(Arc<Plan>, BTreeSet<WorkerId>)>,
}

/// The reconfiguration in progress.
pub(super) struct Present {
    ticket: Ticket,
    pub(super) plan: Arc<Plan>,
    former: Arc<Plan>,
    /// Workers that get no task with the former plan.
    away_from: BTreeSet<WorkerId>,
    moves: Moves,
    changes: Vec<Change>,
    pub(super) to_load: ToLoad,
    answer: Sender<Result<Reconfigured>>,
}

impl Reconfiguring {
    /// For a job with this version of its plan.
    pub(super) fn new(version: PlanVersion) -> Reconfiguring {
        let (requests, last) = (BTreeMap::new(), 0);
        Reconfiguring { changes: Changes::new(version), requests, last, aborts: None, present: None, undone: None }
    }
}

impl Shell {
    /// Handles a user's request for a reconfiguration.
    pub(super) fn reconfigure(&mut self, requested: Requested) {
        let Reconfiguring { requests, last, .. } = &mut self.reconfiguring;
        *last += 1;
        let request = Request { ticket: Ticket(*last), dry_run: requested.request.dry_run };
        requests.insert(request.ticket, requested);
        self.change(ChangeInput::Requested(request), None);
    }

    /// Handles a user's request to abort the change.
    pub(super) fn abort_change(&mut self, answer: Sender<Result<()>>) {
        self.reconfiguring.aborts = Some(answer);
        // The request was valid: the change is undone, not refused.
        self.change(ChangeInput::Abort, Some(Error::outside("the change was aborted by a request")));
    }

    /// Gives the machine of changes an input. `why` is the reason given for the first change that this
    /// input abandons. Others, and all without `why`, get a reason from the state of the job.
    pub(super) fn change(&mut self, input: ChangeInput, mut why: Option<Error>) {
        let job = match self.coordinator.phase() {
            _ if self.stopping => Job::Stops,
            Phase::Running => Job::Runs,
            _ => Job::Waits,
        };
        self.reconfiguring.changes.handle(job, input);
        while let Some(command) = self.reconfiguring.changes.poll() {
            match command {
                Command::Check(ticket) => {
                    let checked = self.check(ticket);
                    self.reconfiguring.changes.handle(job, ChangeInput::Checked(checked));
                }
                Command::Prepare(_, processes) => self.prepare(&processes),
                Command::AddOnly => self.add_only(),
                Command::Checkpoint => self.inputs.push_back(Input::Checkpoint),
                Command::Load(_, processes) => {
                    let bytes = self.load(&processes);
                    self.reconfiguring.changes.handle(job, ChangeInput::Loads(bytes));
                }
                Command::Switch(_, copied) => self.switch(copied),
                Command::GiveUp(processes) => self.give_up_preparing(&processes),
                Command::Answer(ticket, answer) => self.answer_change(ticket, answer, why.take()),
                Command::Aborted(result) => {
                    let result = result.map_err(|why| match why {
                        NotAborted::Switches => {
                            Error::user("the change cannot be aborted any more: its tasks are switching")
                                .remedy("wait until it is done, and change the job back")
                        }
                        NotAborted::NoChange => Error::user("no change of the job is being carried out"),
                    });
                    if let Some(answer) = self.reconfiguring.aborts.take() {
                        // The user may have stopped waiting.
                        let _ = answer.send(result);
                    }
                }
            }
        }
        self.shared.life.changes(self.reconfiguring.changes.changing());
    }

    /// Compares a request with the present plan.
    fn check(&mut self, ticket: Ticket) -> Checked {
        let requested = self.reconfiguring.requests.remove(&ticket);
        let Some(Requested { request, fit, answer }) = requested else { return Checked::Answered };
        // The user may have stopped waiting.
        match self.compare_with_present(&request, fit) {
            Ok((reconfigured, _)) if reconfigured.unchanged => drop(answer.send(Ok(reconfigured))),
            Ok((Reconfigured { version, changes, .. }, plan)) => {
                let plan = Arc::new(Plan { version, ..plan });
                let former = Arc::clone(&self.worker.deployment().plan);
                let away_from = self.remotes.as_ref().map(Remotes::away_from).unwrap_or_default();
                let mut moves = request.moves;
                moves.away_from.extend(away_from.iter().copied());
                let to_load = self.look_ahead(&plan, &moves);
                let next = self.next(&to_load.moved);
                self.reconfiguring.present =
                    Some(Present { ticket, plan, former, away_from, moves, changes, to_load, answer });
                return Checked::Next(next);
            }
            Err(error) => drop(answer.send(Err(error))),
        }
        Checked::Answered
    }

    /// Lets the tasks end for the next plan version.
    fn switch(&mut self, Copied { rounds, bytes }: Copied) {
        let Some(present) = &self.reconfiguring.present else { return };
        if rounds > 0 {
            let version = present.plan.version.0;
            let text = format!("{bytes} bytes of state are where version {version} of the plan needs them");
            self.shared.notify(format!("{text}, after {rounds} rounds"));
        }
        self.inputs.push_back(Input::Change(tasks(&present.plan)));
    }

    /// Answers a request: the job has changed, or it does not change.
    fn answer_change(&mut self, ticket: Ticket, answer: Answer, why: Option<Error>) {
        let why = why.unwrap_or_else(|| self.why_not());
        // The users may have stopped waiting.
        let Some(present) = self.reconfiguring.present.take_if(|present| present.ticket == ticket) else {
            if let Some(waiting) = self.reconfiguring.requests.remove(&ticket) {
                let _ = waiting.answer.send(Err(why));
            }
            return;
        };
        let result = match answer {
            Answer::Changed(Copied { bytes: copied_bytes, .. }) => {
                let version = present.plan.version;
                let next = PlanVersion(version.0 + 1);
                let changes = present.changes;
                Ok(Reconfigured { version, next, changes, unchanged: false, copied_bytes, ahead: None })
            }
            Answer::NotChanged { undoes } => {
                if undoes {
                    self.reconfiguring.undone = Some((present.former, present.away_from));
                }
                Err(why)
            }
        };
        drop(present.answer.send(result));
    }

    fn compare_with_present(&self, request: &Reconfigure, fit: Fit) -> Result<(Reconfigured, Plan)> {
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
        let Compared { mut changes, plan, late } = compare(present, &fit(&request.plan, present)?, &states)?;
        let lost: Vec<&str> = changes.iter().filter(|c| c.fate == Fate::Lost).map(|c| c.what.as_str()).collect();
        if !lost.is_empty() && !request.allow_lost_state && !request.dry_run {
            return Err(Error::user(format!("the job would lose {}", lost.join("; ")))
                .remedy("keep these parts in the text, or allow the loss (--allow-lost-state)"));
        }
        if !late.is_empty() && !request.allow_late && !request.dry_run {
            return Err(Error::user(format!("rows would be late: {}", late.join("; ")))
                .remedy("start a new job with another 'checkpoint-directory', or allow that (--allow-late)"));
        }
        plan.check()?;
        self.check_moves(&request.moves, &plan)?;
        let unchanged = request.dry_run || (plan == **present && request.moves == Moves::default());
        let next = self.reconfiguring.changes.next_version();
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

    /// Adds to the changes how each kept part gets to the tasks of the plan, and the static tables. Returns
    /// whether state would be loaded ahead. `None`: the placement of the tasks is unknown.
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
        Some(self.next(&passings.moved).moves_much())
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

    /// If the incarnation that begins has another plan version than the one before, deploys that version.
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
        let (number, epoch) = (version.0, from.map_or(0, |from| from.epoch.0));
        self.shared.notify(format!("version {number} of the plan begins after epoch {epoch}"));
        let places = self.former_places(&plan);
        if let Some(remotes) = &mut self.remotes {
            // An error would have been found when the change was requested.
            let here = self.worker.stages_here(&plan).unwrap_or_default();
            remotes.reconfigure((Arc::clone(&plan), here), moves, places);
        }
        let mut deployment = self.worker.deployment().clone();
        deployment.plan = Arc::clone(&plan);
        self.worker.deploy(deployment);
        self.tasks = tasks(&plan);
        self.shared.set_plan(Arc::clone(&plan));
        if let Some(durable) = &self.durable {
            // The scribe ends only after this thread.
            let _ = durable.scribe.send(scribe::Task::Plan(plan));
        }
    }

    /// Why a change is not made.
    fn why_not(&self) -> Error {
        match &self.failure {
            Some(failure) => {
                let error = failure.error();
                Error::outside(format!("the change was abandoned, and the job continues unchanged: {error}"))
            }
            None if self.stopping => Error::user("the change was abandoned because the job stops"),
            None if matches!(self.coordinator.phase(), Phase::Ending | Phase::Finished) => {
                Error::user("the change was abandoned because the job has ended")
            }
            None => Error::outside("the change was abandoned, and the job continues unchanged"),
        }
    }

    /// Where the tasks of a plan's parts are now. Stages are matched by the identities of their parts,
    /// because they may have other numbers in the present plan.
    pub(super) fn former_places(&self, plan: &Plan) -> BTreeMap<TaskId, Process> {
        let placement = self.peers.placement();
        let ids_of = |stage, parts: &[anabranch_dataflow::Part<'_>]| -> Vec<_> {
            parts.iter().filter(|part| part.stage == stage).map(|part| part.id).collect()
        };
        let (now, then) = (plan.parts(), self.worker.deployment().plan.parts());
        let mut places = BTreeMap::new();
        for stage in &plan.stages {
            let ids = ids_of(stage.id, &now);
            let before = then.iter().find(|part| ids.contains(&part.id)).map(|part| part.stage);
            for index in 0..stage.parallelism {
                let process = before.and_then(|stage| placement.get(&TaskId { stage, index }));
                places.extend(process.map(|process| (TaskId { stage: stage.id, index }, *process)));
            }
        }
        places
    }
}
