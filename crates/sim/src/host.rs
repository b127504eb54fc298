//! A coordinator's process: drives the real [`Coordinator`] and [`Membership`], and carries out their
//! commands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Epoch, Incarnation, Nanos, PlanVersion};
use anabranch_protocol::Peers;
use anabranch_protocol::coordinator::{
    Answer, Checkpoint, Command, Coordinator, Entry, Input, Owner, Phase, Report, Tasks,
};
use anabranch_protocol::membership::{self, Member, Membership, Process};
use anabranch_protocol::peers::adoptable;
use anabranch_protocol::placement::{Former, place};
use anabranch_protocol::worker::{self, Hosting, ToCoordinator};

use crate::scenario::MS;
use crate::task::End;
use crate::worker::LEASE;
use crate::world::{At, World};
use crate::{Mutation, Seen};

/// After this time an order that a worker has not taken is repeated.
const REPEAT: Duration = Duration::from_nanos(40 * MS);

/// A coordinator's process.
#[derive(Debug)]
pub(crate) struct Host {
    /// `None` while it reads the log.
    coordinator: Option<Coordinator<End>>,
    owner: Owner,
    pub(crate) up: bool,
    pub(crate) suspended_until: Nanos,
    pub(crate) membership: Membership,
    peers: Peers<End>,
    /// Tasks that it may adopt.
    found: BTreeMap<Process, Tasks>,
    request: Request,
    /// Checkpoints that were granted, and are neither committed nor aborted.
    under_way: BTreeSet<Epoch>,
}

/// The state of a requested checkpoint, as this driver knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    None,
    Open,
    Granted(Epoch),
}

impl Host {
    fn new() -> Self {
        Host {
            coordinator: None,
            owner: Owner(0),
            up: true,
            suspended_until: Nanos(0),
            // A worker is declared lost as early as its lease allows.
            membership: Membership::new(membership::Config {
                silence: Duration::from_nanos(LEASE),
                forget_after: Duration::from_secs(3),
            }),
            peers: Peers::default(),
            found: BTreeMap::new(),
            request: Request::None,
            under_way: BTreeSet::new(),
        }
    }

    /// Whether it coordinates, or is about to.
    pub(crate) fn is_active(&self) -> bool {
        self.up && self.coordinator.as_ref().is_none_or(|c| !c.phase().is_over())
    }

    fn deadline(&self) -> Option<Nanos> {
        let coordinator = self.coordinator.as_ref().and_then(Coordinator::next_deadline);
        [coordinator, self.membership.next_deadline()].into_iter().flatten().min()
    }

    pub(crate) fn is_seen(&self, seen: &mut Seen) {
        seen.add("refused reports", self.peers.refused() + self.coordinator.as_ref().map_or(0, Coordinator::refused));
        let life = self.coordinator.iter().flat_map(Coordinator::taken);
        seen.transitions.extend(life.map(|(machine, from, to)| ["coordinator", machine, from, to]));
        let members = self.membership.taken();
        seen.transitions.extend(members.map(|(machine, from, to)| ["membership", machine, from, to]));
    }
}

impl World {
    /// Starts a coordinator: it reads the log, which takes some time in which others write.
    pub(crate) fn start_host(&mut self) {
        let host = self.hosts.len();
        self.hosts.push(Host::new());
        let log = self.log.0.clone();
        self.note(|| format!("coordinator {host} starts, the log has {} entries", log.len()));
        let present = self.workers.iter().filter(|worker| worker.up);
        let hosted = present.filter_map(|worker| Some((worker.member.process, worker.machine.hosting()?)));
        let hosted: Vec<(Process, Hosting)> = hosted.collect();
        self.after_store(At::Host(host), move |world| world.host_ready(host, log.clone(), hosted.clone()));
    }

    fn host_ready(&mut self, host: usize, log: BTreeMap<u64, Entry<End>>, hosted: Vec<(Process, Hosting)>) {
        let versions = log.values().map(|entry| match entry {
            Entry::Begins(_, _, version) => *version,
            Entry::Checkpoint(checkpoint) => checkpoint.version,
            _ => PlanVersion(1),
        });
        let tasks = self.scenario.tasks(versions.max().unwrap_or(PlanVersion(1)));
        let found = adoptable(&tasks, hosted);
        let running = found.as_ref().map(|(incarnation, _)| *incarnation);
        let owner = Owner(self.rng.next_u64());
        let config = self.scenario.config.clone();
        let coordinator = Coordinator::new(self.now, config, owner, log, tasks, running);
        let started = &mut self.hosts[host];
        (started.owner, started.coordinator) = (owner, Some(coordinator));
        started.found = found.map(|(_, hosted)| hosted).unwrap_or_default();
        if self.stop_asked {
            self.input(host, Input::Stop);
        }
        self.input(host, Input::Tick);
    }

    /// The job is to go on by the next version of its plan.
    pub(crate) fn change(&mut self, host: usize) {
        let Host { coordinator: Some(coordinator), .. } = &self.hosts[host] else { return };
        let tasks = self.scenario.tasks(PlanVersion(coordinator.version().0 + 1));
        self.input(host, Input::Change(tasks));
    }

    /// Gives an input to a coordinator and carries out the resulting commands.
    pub(crate) fn input(&mut self, host: usize, input: Input<End>) {
        let now = self.now;
        let Host { coordinator: Some(coordinator), up: true, .. } = &mut self.hosts[host] else { return };
        coordinator.handle(now, input);
        let crash_at_step = self.scenario.crash_at_step;
        while let Some(command) = self.hosts[host].coordinator.as_mut().and_then(Coordinator::poll) {
            self.note(|| format!("coordinator {host}: {command:?}"));
            self.execute(host, &command);
            if self.faulty() && self.chance(crash_at_step) {
                return self.crash_host(host);
            }
        }
        self.tick_later(host);
    }

    /// Ensures an event at the next deadline.
    fn tick_later(&mut self, host: usize) {
        if let Some(at) = self.hosts[host].deadline() {
            self.at(at, At::Host(host), move |world| {
                if world.hosts[host].deadline().is_some_and(|at| at <= world.now) {
                    world.member(host, membership::Input::Tick);
                    world.input(host, Input::Tick);
                }
            });
        }
    }

    /// A checkpoint is requested.
    pub(crate) fn request_checkpoint(&mut self, host: usize) {
        if self.hosts[host].coordinator.is_some() {
            self.hosts[host].request = Request::Open;
            if self.options.mutation != Some(Mutation::RequestForgotten) {
                self.input(host, Input::Checkpoint);
            }
        }
    }

    /// A request gets a checkpoint with the first group that is granted while no checkpoint is pending.
    fn watch_request(&mut self, host: usize, command: &Command<End>) {
        let Host { request, under_way, .. } = &mut self.hosts[host];
        match command {
            Command::Grant { group, checkpoint: true, .. } => {
                under_way.insert(group.last);
                if *request == Request::Open {
                    *request = Request::Granted(group.last);
                }
            }
            Command::Grant { group, .. } if *request == Request::Open && under_way.is_empty() => {
                let text = format!("{} ends without the requested checkpoint", group.last);
                self.violated("request", text);
            }
            Command::CheckpointDone(_, epoch) => {
                under_way.retain(|granted| granted > epoch);
                if matches!(*request, Request::Granted(granted) if granted <= *epoch) {
                    *request = Request::None;
                    self.run.seen.add("fulfilled requests", 1);
                }
            }
            Command::AbortCheckpoint(_, epoch) => {
                under_way.remove(epoch);
                if *request == Request::Granted(*epoch) {
                    // One that was granted later counts too.
                    *request = under_way.first().map_or(Request::Open, |later| Request::Granted(*later));
                }
            }
            Command::Start { .. } | Command::Adopt { .. } => {
                under_way.clear();
                if *request != Request::None {
                    *request = Request::Open;
                }
            }
            _ => {}
        }
    }

    fn execute(&mut self, host: usize, command: &Command<End>) {
        self.watch_request(host, command);
        match command {
            Command::Append(sequence, entry) => return self.append(host, *sequence, entry.clone()),
            Command::Read(sequence) => {
                let sequence = *sequence;
                return self
                    .after_store(At::Outside, move |world| world.answer(host, sequence, world.log.read(sequence)));
            }
            Command::Remove(sequence) => {
                let sequence = *sequence;
                return self.maybe_late(move |world| {
                    if world.log.0.remove(&sequence).is_some() {
                        world.run.seen.add("removed entries", 1);
                    }
                });
            }
            Command::Forget(epoch, incarnation) => {
                let checkpoint = (*incarnation, *epoch);
                return self.maybe_late(move |world| _ = world.truth.forgotten.insert(checkpoint));
            }
            Command::Start { incarnation, from } => return self.start_tasks(host, *incarnation, from.clone()),
            Command::Adopt { incarnation, newest } => {
                let Host { coordinator: Some(coordinator), peers, found, .. } = &mut self.hosts[host] else { return };
                let (term, version) = (coordinator.term(), coordinator.version());
                peers.adopt((*incarnation, term), newest.as_ref(), version, std::mem::take(found));
                return self.tell_workers(host);
            }
            Command::Grant { incarnation, group, checkpoint, .. } => {
                self.truth.grants(*incarnation, *group, *checkpoint);
            }
            Command::AbortCheckpoint(..) => self.run.seen.add("aborted checkpoints", 1),
            Command::Finish(incarnation) => self.finished(*incarnation),
            Command::Fail(incarnation, cause) => {
                self.violated("progress", format!("incarnation {} failed for good: {cause:?}", incarnation.0));
            }
            Command::Fenced(_) => self.run.seen.add("fenced", 1),
            Command::Changed(_) => self.run.seen.add("changes", 1),
            Command::NotChanged(_) => self.run.seen.add("changes given up", 1),
            Command::EpochDone(..) | Command::CheckpointDone(..) | Command::Cancel(_) | Command::NoneDone(_) => {}
        }
        if self.hosts[host].peers.command(command) {
            self.tell_workers(host);
        }
    }

    /// Places all tasks at present workers and starts them there.
    fn start_tasks(&mut self, host: usize, incarnation: Incarnation, from: Option<Checkpoint<End>>) {
        let Host { coordinator: Some(coordinator), membership, peers, .. } = &mut self.hosts[host] else { return };
        let members: Vec<Member> = membership.members().cloned().collect();
        let former = Former { tasks: peers.placement(), local: BTreeMap::new() };
        let placement = place(&members, &self.scenario.stages(), &former, &BTreeMap::new());
        let all = self.scenario.tasks(coordinator.version());
        peers.start((incarnation, coordinator.term()), from, &all, placement.as_ref().unwrap_or(&BTreeMap::new()));
        if placement.is_ok() {
            return self.tell_workers(host);
        }
        self.run.seen.add("not placed", 1);
        let failed = all.all.first().map(|task| (*task, Report::Failed { retry: true }));
        let gone = all.all.iter().map(|task| (*task, Report::Gone));
        let reports: Vec<_> = failed.into_iter().chain(gone).collect();
        self.later(0, At::Host(host), move |world| world.input(host, Input::Tasks(incarnation, reports.clone())));
    }

    /// Sends each worker the orders that it has not taken.
    fn tell_workers(&mut self, host: usize) {
        for process in self.hosts[host].peers.processes() {
            self.tell(host, process, Duration::ZERO);
        }
    }

    /// Sends a worker the orders that it has not taken, if none were sent for some time, or only an answer.
    fn tell(&mut self, host: usize, process: Process, repeat: Duration) {
        let Host { membership, peers, .. } = &mut self.hosts[host];
        for message in peers.messages(process, membership.heard(process), self.now, repeat) {
            self.post_down(host, process, move |world| world.command(process, host, &message));
        }
    }

    /// A worker's summary arrives, and is acknowledged.
    pub(crate) fn reported(&mut self, host: usize, process: Process, message: &ToCoordinator<End>) {
        if self.hosts[host].coordinator.is_none() {
            return;
        }
        let inputs = self.hosts[host].peers.receive_summary(process, message.clone());
        self.note(|| format!("coordinator {host} hears {process:?}: {inputs:?}"));
        for input in inputs {
            let input = match input {
                Input::Tasks(incarnation, mut reports) => {
                    if self.options.mutation == Some(Mutation::CommitBeforeAllAcknowledged) {
                        let mut forged: Vec<_> = reports.iter().map(|(_, report)| report.clone()).collect();
                        forged.retain(|report| matches!(report, Report::Acknowledged { .. }));
                        for task in self.scenario.tasks(PlanVersion(1)).all {
                            reports.extend(forged.iter().map(|report| (task, report.clone())));
                        }
                    }
                    Input::Tasks(incarnation, reports)
                }
                Input::Granted(incarnation, groups) => {
                    let pending = groups.iter().filter(|granted| granted.checkpoint && !granted.aborted);
                    self.hosts[host].under_way.extend(pending.map(|granted| granted.group.last));
                    Input::Granted(incarnation, groups)
                }
                other => other,
            };
            self.input(host, input);
        }
        if self.hosts[host].is_active() {
            self.tell(host, process, REPEAT);
        }
    }

    pub(crate) fn beat_arrives(&mut self, host: usize, member: Member, sent: Nanos) {
        let process = member.process;
        self.member(host, membership::Input::Heartbeat { member, sent });
        let Host { coordinator: Some(coordinator), membership, peers, .. } = &self.hosts[host] else { return };
        let (term, heard) = (coordinator.term(), membership.heard(process));
        let repeats = peers.to_repeat(self.now, REPEAT).contains(&process);
        if let Some(sent) = heard {
            self.post_down(host, process, move |world| world.work(process, worker::Input::Heard(term, sent)));
        }
        if repeats {
            self.tell(host, process, REPEAT);
        }
    }

    /// Gives an input to a membership. The tasks of a lost process have failed, as far as this coordinator
    /// knows.
    pub(crate) fn member(&mut self, host: usize, input: membership::Input) {
        self.hosts[host].membership.handle(self.now, input);
        while let Some(event) = self.hosts[host].membership.poll() {
            self.note(|| format!("coordinator {host}: {event:?}"));
            match event {
                membership::Event::Lost(process) => self.lost(host, process),
                membership::Event::Drained(_) => self.run.seen.add("drained workers", 1),
                membership::Event::Joined(_) => {}
            }
        }
        self.tick_later(host);
    }

    fn lost(&mut self, host: usize, process: Process) {
        self.run.seen.add("lost workers", 1);
        let Host { coordinator: Some(coordinator), peers, .. } = &self.hosts[host] else { return };
        let at_work = !matches!(coordinator.phase(), Phase::Starting | Phase::Pausing);
        let (incarnation, tasks) = (coordinator.incarnation(), peers.unfinished(process));
        if at_work && !tasks.is_empty() {
            // A worker that has not heard of a new coordinator yet may still have a lease of the one before.
            let term = coordinator.term();
            if self.worker(process).machine.fence().term == term {
                self.truth.loses(self.hosts[host].owner, incarnation, process);
            }
            let lost = tasks.into_iter().map(|task| (task, Report::Lost));
            self.input(host, Input::Tasks(incarnation, lost.collect()));
        }
    }

    pub(crate) fn crash_host(&mut self, host: usize) {
        if self.hosts[host].up {
            self.note(|| format!("coordinator {host} crashes"));
            self.hosts[host].up = false;
            self.run.seen.add("coordinator crashes", 1);
        }
    }

    /// A removal takes effect now, much later, or not at all: nothing may depend on it.
    fn maybe_late(&mut self, removal: impl Fn(&mut World) + 'static) {
        let open = self.scenario.open;
        match self.chance(open) {
            false => self.after_store(At::Outside, removal),
            true if self.rng.below(4) == 0 => {}
            true => {
                let wait = self.rng.below(1_000 * MS);
                self.later(wait, At::Outside, removal);
            }
        }
    }

    fn answer(&mut self, host: usize, sequence: u64, answer: Answer<End>) {
        self.after_store(At::Host(host), move |world| world.input(host, Input::Store(sequence, answer.clone())));
    }

    /// Sends a put of the log. Sometimes it takes effect long after its answer, or is never answered.
    fn append(&mut self, host: usize, sequence: u64, entry: Entry<End>) {
        let open = self.scenario.open;
        let mut wait = self.rng.below(self.scenario.store_delay + 1);
        let is_open = self.chance(open);
        if is_open {
            match self.rng.below(4) {
                // Never arrives.
                0 => return,
                1 => wait += self.rng.below(1_000 * MS),
                _ => {}
            }
            if self.rng.below(2) == 0 {
                self.answer(host, sequence, Answer::Unknown);
            }
        }
        self.later(wait, At::Outside, move |world| {
            let answer = world.log.put(sequence, &entry, world.options.mutation);
            if answer == Answer::Appended {
                let checked = world.truth.logged(sequence, &entry, &world.scenario);
                world.check(checked);
                let what = match &entry {
                    Entry::Begins(..) => "incarnations",
                    Entry::Adopts(..) => "adoptions",
                    Entry::Checkpoint(_) => "checkpoints",
                    Entry::Ended(_) | Entry::Unusable(_) => "ended jobs",
                };
                world.run.seen.add(what, 1);
                if is_open {
                    world.run.seen.add("open answers", 1);
                }
            }
            if !is_open {
                world.answer(host, sequence, answer);
            }
        });
    }
}
