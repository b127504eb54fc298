//! Workers in other processes, for the coordinator of one job: the placement of its tasks, and the messages
//! to workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::Plan;
use anabranch_model::{Epoch, Error, Incarnation, Nanos, Result, StageId, TaskId};
use anabranch_operators::Connectors;
use anabranch_protocol::agree::Lists;
use anabranch_protocol::alignment::Processes;
use anabranch_protocol::hold::Sinks;
use anabranch_protocol::membership::{Member, Process, WorkerId};
use anabranch_protocol::placement::{Former, Stage, place};
use anabranch_protocol::worker::Term;
use anabranch_state::LocalCopies;

use crate::change::reconfiguration::Moves;
use crate::network::Peer;
use crate::shell::coordinator::HERE;
use crate::shell::deployment::Deployment;
use crate::shell::messages::{Deploy, DeployCheckpoints, Reached, ToWorker};
use crate::shell::occupancy::Occupancy;
use crate::shell::worker::WorkerShell;

/// Sends messages of one job to a worker in another process, in order, without waiting. A worker refuses
/// messages of an older term of the job than the newest that it knows.
pub trait Link: Send + Sync {
    /// Sends a message. If the connection is broken the message is dropped, and the worker is reported as
    /// lost.
    fn send(&self, term: Term, message: ToWorker);

    /// The job is over: the worker drops its tasks, and everything else if the job has `ended` by itself.
    fn forget(&self, term: Term, ended: bool);
}

/// The slots that other jobs have taken at each worker.
pub(crate) type TakenSlots = BTreeMap<Process, u32>;

/// A worker in another process.
pub struct RemoteWorker {
    /// Its name, for users.
    pub name: String,
    /// The process and its slots.
    pub member: Member,
    /// Where it listens to other workers.
    pub exchange: Peer,
    /// When it sent its newest heartbeat, by its clock.
    pub heard: Nanos,
    /// State files that it had on a local disk when it joined.
    pub copies: Arc<[LocalCopies]>,
    /// Sends to it.
    pub link: Arc<dyn Link>,
}

/// The workers of one job.
pub(crate) struct Remotes {
    plan: Arc<Plan>,
    /// Where the worker in this process listens to others.
    exchange: Peer,
    /// Stages whose tables exist only in this process.
    here: BTreeSet<StageId>,
    workers: BTreeMap<Process, RemoteWorker>,
    /// Number of workers that must be present before tasks are placed.
    awaited: usize,
    incarnation: Incarnation,
    term: Term,
    /// Workers whose tasks have opened their tables.
    opened: BTreeSet<Process>,
    /// Full sinks, and the sources that wait for them.
    pub(crate) sinks: Sinks,
    /// The event time that the sources of each alignment group have reached.
    alignment: Processes,
    /// Lists that all tasks use.
    pub(crate) lists: Lists,
    /// Requested workers of the tasks that are placed next.
    to: BTreeMap<TaskId, WorkerId>,
    /// Where the tasks were with the former version of the plan.
    former: BTreeMap<TaskId, Process>,
    /// Workers that get no task.
    away_from: BTreeSet<WorkerId>,
    /// The number of the job, and the slots of all jobs of this process.
    job: (u64, Arc<Occupancy>),
    /// The slots of other jobs when the next plan version was placed ahead: its real placement must be the
    /// same.
    seen_ahead: Option<TakenSlots>,
}

/// A job that is over has no tasks.
impl Drop for Remotes {
    fn drop(&mut self) {
        let (job, occupancy) = &self.job;
        occupancy.forget(*job);
    }
}

/// A plan to place, with the requests for it.
struct Placing<'a> {
    plan: &'a Plan,
    here: &'a BTreeSet<StageId>,
    to: &'a BTreeMap<TaskId, WorkerId>,
    away_from: &'a BTreeSet<WorkerId>,
}

impl Remotes {
    /// No worker has joined yet, and `awaited` must join. `here` are the stages that must run in this
    /// process.
    pub(crate) fn new(
        plan: Arc<Plan>,
        exchange: Peer,
        here: BTreeSet<StageId>,
        awaited: usize,
        job: (u64, Arc<Occupancy>),
    ) -> Remotes {
        Remotes {
            job,
            seen_ahead: None,
            plan,
            exchange,
            here,
            workers: BTreeMap::new(),
            awaited,
            incarnation: Incarnation(0),
            term: Term(0),
            opened: BTreeSet::new(),
            sinks: Sinks::new(Incarnation(0), []),
            alignment: Processes::default(),
            lists: Lists::new(Incarnation(0)),
            to: BTreeMap::new(),
            former: BTreeMap::new(),
            away_from: BTreeSet::new(),
        }
    }

    pub(crate) fn join(&mut self, worker: RemoteWorker) {
        // The worker is a new process, or its drain was undone.
        self.away_from.remove(&worker.member.process.worker);
        self.workers.insert(worker.member.process, worker);
    }

    /// The job is over, and may have `ended` by itself.
    pub(crate) fn forget(&self, term: Term, ended: bool) {
        self.workers.values().for_each(|worker| worker.link.forget(term, ended));
    }

    /// When a worker sent its newest heartbeat before it joined the job, by its clock.
    pub(crate) fn heard_at(&self, process: Process) -> Option<Nanos> {
        self.workers.get(&process).map(|worker| worker.heard)
    }

    pub(crate) fn leave(&mut self, process: Process) {
        self.workers.remove(&process);
    }

    /// Chooses a process for every task of an incarnation, and deploys the tasks. `Err`: what is missing.
    pub(crate) fn place_tasks(
        &mut self,
        taken: (Incarnation, Term),
        former: &BTreeMap<TaskId, Process>,
        here: &mut WorkerShell,
    ) -> std::result::Result<BTreeMap<TaskId, Process>, String> {
        if self.workers.len() < self.awaited {
            return Err(format!("{} of {} workers have joined", self.workers.len(), self.awaited));
        }
        let placing = Placing { plan: &self.plan, here: &self.here, to: &self.to, away_from: &self.away_from };
        let (job, occupancy) = &self.job;
        let placement = occupancy.place(*job, |others| {
            self.choose(&placing, &self.former, former, (self.seen_ahead.as_ref().unwrap_or(others), here))
        })?;
        self.seen_ahead = None;
        (self.to, self.former) = (BTreeMap::new(), BTreeMap::new());
        self.renew(taken, &placement);
        self.deploy(&placement, here);
        Ok(placement)
    }

    /// Forgets the plan that was placed ahead.
    pub(crate) fn give_up_ahead(&mut self) {
        self.seen_ahead = None;
    }

    /// The placement that the tasks of another plan would get, and the slots of other jobs on which it
    /// depends.
    pub(crate) fn would_place(
        &self,
        (plan, here): (&Plan, &BTreeSet<StageId>),
        moves: &Moves,
        former: &BTreeMap<TaskId, Process>,
        now: &BTreeMap<TaskId, Process>,
        worker: &WorkerShell,
    ) -> std::result::Result<(BTreeMap<TaskId, Process>, TakenSlots), String> {
        let placing = Placing { plan, here, to: &moves.to, away_from: &moves.away_from };
        let others = self.job.1.others(self.job.0);
        let placement = self.choose(&placing, former, now, (&others, worker))?;
        Ok((placement, others))
    }

    /// Places the next plan version with these slots of other jobs, if they are known.
    pub(crate) fn place_ahead(&mut self, others: Option<TakenSlots>) {
        self.seen_ahead = others;
    }

    /// The name of a worker.
    pub(crate) fn name(&self, process: Process) -> Option<&str> {
        self.workers.get(&process).map(|worker| worker.name.as_str())
    }

    /// `former` has the places of the tasks by the identities of their parts. They take precedence over the
    /// places `now`.
    fn choose(
        &self,
        placing: &Placing<'_>,
        former: &BTreeMap<TaskId, Process>,
        now: &BTreeMap<TaskId, Process>,
        (others, worker): (&BTreeMap<Process, u32>, &WorkerShell),
    ) -> std::result::Result<BTreeMap<TaskId, Process>, String> {
        let stages = placing.plan.stages.iter().filter(|stage| !placing.here.contains(&stage.id));
        let stages: Vec<Stage> =
            stages.map(|stage| Stage { id: stage.id, parallelism: stage.parallelism, label: None }).collect();
        let mut places = Former { tasks: now.clone(), local: self.local(worker) };
        places.tasks.extend(former.iter().map(|(task, process)| (*task, *process)));
        for (task, worker) in placing.to {
            let process = self.workers.keys().find(|process| process.worker == *worker);
            places.tasks.extend(process.map(|process| (*task, *process)));
        }
        let members = self.workers.values().map(|worker| &worker.member);
        let members = members.filter(|member| !placing.away_from.contains(&member.process.worker));
        let mut placement = place(members, &stages, &places, others).map_err(|missing| {
            let stage = &placing.plan.stage(missing.stage).name;
            format!("{} more slots are needed for {stage} ({})", missing.slots, missing.stage)
        })?;
        let of_stage = |stage: &StageId| {
            let stage = *stage;
            (0..placing.plan.stage(stage).parallelism).map(move |index| (TaskId { stage, index }, HERE))
        };
        placement.extend(placing.here.iter().flat_map(of_stage));
        Ok(placement)
    }

    /// Which workers have copies of the newest state of a task.
    fn local(&self, here: &WorkerShell) -> BTreeMap<TaskId, Vec<Process>> {
        let Some(checkpoints) = &here.deployment().checkpoints else { return BTreeMap::new() };
        let folder = checkpoints.store.copies_name();
        let mut newest = BTreeMap::<TaskId, ((Incarnation, Epoch), Vec<Process>)>::new();
        for (process, worker) in &self.workers {
            let copies = worker.copies.iter().filter(|copies| copies.folder == folder);
            for copied in copies.flat_map(|copies| &copies.tasks) {
                let copy = (copied.incarnation, copied.epoch);
                let (known, processes) = newest.entry(copied.task).or_insert((copy, Vec::new()));
                if copy > *known {
                    (*known, *processes) = (copy, Vec::new());
                }
                if copy == *known {
                    processes.push(*process);
                }
            }
        }
        newest.into_iter().map(|(task, (_, processes))| (task, processes)).collect()
    }

    /// The tasks that are placed next belong to this plan. `moves` requests their workers, and `former` has
    /// their present places.
    pub(crate) fn reconfigure(
        &mut self,
        (plan, here): (Arc<Plan>, BTreeSet<StageId>),
        moves: Moves,
        former: BTreeMap<TaskId, Process>,
    ) {
        (self.plan, self.here, self.former) = (plan, here, former);
        (self.to, self.away_from) = (moves.to, moves.away_from);
    }

    /// Workers that get no task.
    pub(crate) fn away_from(&self) -> BTreeSet<WorkerId> {
        self.away_from.clone()
    }

    /// Checks that tasks can be moved as requested.
    pub(crate) fn check(&self, moves: &Moves, plan: &Plan, here: &BTreeSet<StageId>) -> Result<()> {
        let is_there = |worker: &WorkerId| self.workers.keys().any(|process| process.worker == *worker);
        // A process that the job does not know has no task of it.
        if moves.to.values().any(|worker| !is_there(worker)) {
            let error = Error::user("the worker that is to get tasks cannot get them: it was drained, or has left");
            return Err(error.remedy("name another one, or undo its drain: anabranch drain WORKER --undo"));
        }
        let leaving = |worker: &&WorkerId| self.away_from.contains(worker) || moves.away_from.contains(worker);
        if let Some(worker) = moves.to.values().find(leaving) {
            let of_worker = |other: &&RemoteWorker| other.member.process.worker == *worker;
            let name = self.workers.values().find(of_worker).map_or("", |worker| worker.name.as_str());
            let error = Error::user(format!("worker {name} is being drained, and gets no task"));
            return Err(error.remedy(format!("name another worker, or undo that: anabranch drain {name} --undo")));
        }
        let slots = |worker: &RemoteWorker| match leaving(&&worker.member.process.worker) {
            true => 0,
            false => worker.member.slots,
        };
        let slots: u32 = self.workers.values().map(slots).sum();
        let widest = plan
            .stages
            .iter()
            .filter(|stage| !here.contains(&stage.id))
            .map(|stage| stage.parallelism)
            .max()
            .unwrap_or(0);
        match slots >= widest {
            true => Ok(()),
            false => Err(Error::user(format!("{slots} slots would be left, and the job needs {widest}"))
                .remedy("start another worker first, or give the job fewer tasks: anabranch rescale JOB TASKS")),
        }
    }

    fn renew(&mut self, taken: (Incarnation, Term), placed: &BTreeMap<TaskId, Process>) {
        (self.incarnation, self.term) = taken;
        self.opened = BTreeSet::new();
        self.sinks = Sinks::new(self.incarnation, placed.values().copied());
        self.lists = Lists::new(self.incarnation);
        self.alignment = Processes::default();
    }

    /// The tasks of an incarnation continue at these processes.
    pub(crate) fn adopt(&mut self, taken: (Incarnation, Term), placed: &BTreeMap<TaskId, Process>) {
        self.renew(taken, placed);
        self.opened.extend(placed.values());
        let (job, occupancy) = &self.job;
        occupancy.adopted(*job, placed);
    }

    /// Lets these workers prepare a plan version.
    pub(crate) fn prepare(
        &self,
        plan: &Plan,
        placement: &BTreeMap<TaskId, Process>,
        processes: &BTreeSet<Process>,
        here: &WorkerShell,
    ) {
        let mut deployment = here.deployment().clone();
        deployment.plan = Arc::new(plan.clone());
        let (deploy, _) = self.deployed(placement, deployment);
        let deploy = Deploy { prepares: true, ..deploy };
        processes.iter().for_each(|process| self.send(*process, ToWorker::Deploy(Box::new(deploy.clone()))));
    }

    /// Sends a worker a message.
    pub(crate) fn send(&self, process: Process, message: ToWorker) {
        if let Some(worker) = self.workers.get(&process) {
            worker.link.send(self.term, message);
        }
    }

    fn deploy(&self, placement: &BTreeMap<TaskId, Process>, here: &mut WorkerShell) {
        let (deploy, deployment) = self.deployed(placement, here.deployment().clone());
        let used: BTreeSet<Process> = placement.values().copied().collect();
        used.into_iter().for_each(|process| self.send(process, ToWorker::Deploy(Box::new(deploy.clone()))));
        here.deploy(deployment);
    }

    /// The deployment for workers with tasks, and for the worker in this process.
    fn deployed(&self, placement: &BTreeMap<TaskId, Process>, mut deployment: Deployment) -> (Deploy, Deployment) {
        let used: BTreeSet<Process> = placement.values().copied().collect();
        let address = |process: &Process| match *process == HERE {
            true => Some((HERE.worker, self.exchange)),
            false => self.workers.get(process).map(|worker| (process.worker, worker.exchange)),
        };
        let peers: BTreeMap<WorkerId, Peer> = used.iter().filter_map(address).collect();
        let placement: BTreeMap<TaskId, WorkerId> =
            placement.iter().map(|(task, process)| (*task, process.worker)).collect();
        deployment.placement.clone_from(&placement);
        deployment.peers.clone_from(&peers);
        let checkpoints = deployment.checkpoints.as_ref().map(|checkpoints| DeployCheckpoints {
            job: checkpoints.job.clone(),
            former: checkpoints.former.clone(),
            progress_interval: checkpoints.progress_interval,
        });
        let deploy = Deploy {
            incarnation: self.incarnation,
            prepares: false,
            plan: (*deployment.plan).clone(),
            origin: deployment.origin.as_ref().map(|origin| origin.place().to_owned()),
            checkpoints,
            retries_opening: deployment.retries_opening,
            placement: placement.into_iter().collect(),
            peers: peers.iter().map(|(worker, peer)| (*worker, peer.address)).collect(),
            keys: peers.iter().filter_map(|(worker, peer)| Some((*worker, peer.key?))).collect(),
        };
        (deploy, deployment)
    }

    /// The tables of a worker's tasks are open. Returns the number of workers that have reported this.
    pub(crate) fn opened(&mut self, process: Process) -> usize {
        self.opened.insert(process);
        self.opened.len()
    }

    /// The sources of a group at a worker have reached an event time. Returns messages to other workers.
    pub(crate) fn reached(&mut self, process: Process, reached: Reached, all: &[Process]) -> Vec<(Process, Reached)> {
        let Reached { incarnation, group, time } = reached;
        if incarnation != self.incarnation {
            return Vec::new();
        }
        let news = self.alignment.reached(&group, process, time, all).into_iter();
        news.map(|(process, time)| (process, Reached { incarnation, group: group.clone(), time })).collect()
    }
}

/// The stages whose tables exist only in this process.
pub(crate) fn stages_here(plan: &Plan, connectors: &Connectors) -> Result<BTreeSet<StageId>> {
    let mut here = BTreeSet::new();
    for stage in &plan.stages {
        let source = stage.source.as_ref().map(|source| &source.connector);
        let sink = stage.sink.as_ref().map(|sink| &sink.connector);
        for spec in source.into_iter().chain(sink) {
            if connectors.get(&spec.connector)?.is_of_process() {
                here.insert(stage.id);
            }
        }
    }
    Ok(here)
}
