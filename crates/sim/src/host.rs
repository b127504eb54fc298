//! A coordinator's process: drives the real [`Coordinator`] and [`Membership`], and carries out their
//! commands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Epoch, Incarnation, Nanos, PlanVersion, TaskId};
use anabranch_protocol::Peers;
use anabranch_protocol::coordinator::{
    Answer, Checkpoint, Command, Coordinator, Entry, Input, Owner, Phase, Report, Tasks,
};
use anabranch_protocol::membership::{self, Member, Membership, Process};
use anabranch_protocol::peers::adoptable;
use anabranch_protocol::placement::{Former, place};
use anabranch_protocol::worker::{Hosting, ToCoordinator};

use crate::Mutation;
use crate::check::{placed, spread};
use crate::event::{Event, Handle, index};
use crate::scenario::MS;
use crate::worker::LEASE;
use crate::world::World;

/// After this time an order that a worker has not taken is repeated.
const REPEAT: Duration = Duration::from_nanos(40 * MS);

/// A coordinator's process.
#[derive(Debug)]
pub(crate) struct Host {
    /// `None` while it reads the log.
    coordinator: Option<Coordinator<Handle>>,
    owner: Owner,
    pub(crate) up: bool,
    pub(crate) paused_until: Nanos,
    pub(crate) membership: Membership,
    peers: Peers<Handle>,
    /// Tasks that it may adopt.
    found: BTreeMap<Process, Tasks>,
    ticks_at: Option<Nanos>,
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
            paused_until: Nanos(0),
            // A worker is declared lost as early as its lease allows.
            membership: Membership::new(membership::Config {
                silence: Duration::from_nanos(LEASE),
                forget_after: Duration::from_secs(3),
            }),
            peers: Peers::default(),
            found: BTreeMap::new(),
            ticks_at: None,
            request: Request::None,
            under_way: BTreeSet::new(),
        }
    }

    /// Whether it coordinates, or is about to.
    pub(crate) fn is_active(&self) -> bool {
        self.up && self.coordinator.as_ref().is_none_or(|c| !c.phase().is_over())
    }

    pub(crate) fn transitions(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        self.coordinator.iter().flat_map(Coordinator::taken)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.peers.refused() + self.coordinator.as_ref().map_or(0, Coordinator::refused)
    }
}

impl World {
    /// Starts a coordinator: it reads the log, which takes some time in which others write.
    pub(crate) fn start_host(&mut self) {
        let host = self.hosts.len();
        self.hosts.push(Host::new());
        let log = self.store.log.clone();
        self.note(|| format!("coordinator {host} starts, the log has {} entries", log.len()));
        let present = self.workers.iter().filter(|worker| worker.up);
        let hosted = present.filter_map(|worker| Some((worker.member.process, worker.machine.hosting()?))).collect();
        self.after_store(Event::HostReady { host, log, hosted });
    }

    pub(crate) fn host_ready(
        &mut self,
        host: usize,
        log: BTreeMap<u64, Entry<Handle>>,
        hosted: Vec<(Process, Hosting)>,
    ) {
        if !self.hosts[host].up {
            return;
        }
        let versions = log.values().map(|entry| match entry {
            Entry::Begins(_, _, version) => *version,
            Entry::Checkpoint(checkpoint) => checkpoint.version,
            _ => PlanVersion(1),
        });
        let tasks = self.scenario.tasks(versions.max().unwrap_or(PlanVersion(1)));
        let config = self.scenario.config.clone();
        let found = adoptable(&tasks, hosted);
        let running = found.as_ref().map(|(incarnation, _)| *incarnation);
        self.hosts[host].found = found.map(|(_, hosted)| hosted).unwrap_or_default();
        let owner = Owner(self.rng.next_u64());
        self.hosts[host].owner = owner;
        let coordinator = Coordinator::new(self.now, config, owner, log, tasks, running);
        self.hosts[host].coordinator = Some(coordinator);
        if self.stop_asked {
            self.input(host, Input::Stop);
        }
        self.input(host, Input::Tick);
    }

    /// The job is to go on by the next version of its plan.
    pub(crate) fn change(&mut self, host: usize) {
        let Host { coordinator: Some(coordinator), up: true, .. } = &self.hosts[host] else { return };
        let tasks = self.scenario.tasks(PlanVersion(coordinator.version().0 + 1));
        self.input(host, Input::Change(tasks));
    }

    /// Gives an input to a coordinator and carries out the resulting commands.
    pub(crate) fn input(&mut self, host: usize, input: Input<Handle>) {
        let now = self.now;
        let Host { coordinator: Some(coordinator), up: true, .. } = &mut self.hosts[host] else { return };
        coordinator.handle(now, input);
        let crash_at_step = self.scenario.crash_at_step;
        while let Some(command) = self.hosts[host].coordinator.as_mut().and_then(Coordinator::poll) {
            self.note(|| format!("coordinator {host}: {command:?}"));
            self.execute(host, command);
            if self.faulty() && self.chance(crash_at_step) {
                return self.crash_host(host);
            }
        }
        self.tick_later(host);
    }

    /// Ensures an event at the next deadline.
    fn tick_later(&mut self, host: usize) {
        if !self.hosts[host].is_active() {
            return;
        }
        let Host { coordinator, membership, .. } = &self.hosts[host];
        let next = coordinator.as_ref().and_then(Coordinator::next_deadline);
        let next = [next, membership.next_deadline()].into_iter().flatten().min();
        if let Some(at) = next.filter(|at| self.hosts[host].ticks_at.is_none_or(|ticks_at| *at < ticks_at)) {
            self.hosts[host].ticks_at = Some(at);
            self.at(at, Event::HostTick(host));
        }
    }

    pub(crate) fn tick(&mut self, host: usize) {
        if self.hosts[host].ticks_at.is_some_and(|at| at <= self.now) {
            self.hosts[host].ticks_at = None;
            self.member(host, membership::Input::Tick);
            self.input(host, Input::Tick);
        }
    }

    /// A checkpoint is requested.
    pub(crate) fn request_checkpoint(&mut self, host: usize) {
        if self.hosts[host].is_active() && self.hosts[host].coordinator.is_some() {
            self.hosts[host].request = Request::Open;
            if self.options.mutation != Some(Mutation::RequestForgotten) {
                self.input(host, Input::Checkpoint);
            }
        }
    }

    /// A request gets a checkpoint with the first group that is granted while no checkpoint is pending.
    fn watch_request(&mut self, host: usize, command: &Command<Handle>) {
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
                    self.seen.fulfilled_requests += 1;
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

    fn execute(&mut self, host: usize, command: Command<Handle>) {
        self.watch_request(host, &command);
        match command {
            Command::Append(sequence, entry) => self.append(host, sequence, entry),
            Command::Remove(sequence) => self.maybe_late(Event::LogRemove(sequence)),
            Command::Read(sequence) => self.after_store(Event::LogRead { host, sequence }),
            Command::Start { incarnation, from } => self.start_tasks(host, incarnation, from),
            Command::Adopt { incarnation, newest } => {
                let version = self.hosts[host].coordinator.as_ref().map_or(PlanVersion(1), Coordinator::version);
                let Host { coordinator: Some(coordinator), peers, found, .. } = &mut self.hosts[host] else { return };
                peers.adopt((incarnation, coordinator.term()), newest.as_ref(), version, std::mem::take(found));
                self.tell_workers(host);
            }
            Command::Grant { .. }
            | Command::EpochDone(..)
            | Command::CheckpointDone(..)
            | Command::Cancel(_)
            | Command::NoneDone(_)
            | Command::AbortCheckpoint(..) => {
                match &command {
                    Command::Grant { incarnation, group, checkpoint, .. } => {
                        self.truth.grants(*incarnation, *group, *checkpoint);
                    }
                    Command::AbortCheckpoint(..) => self.seen.aborted += 1,
                    _ => {}
                }
                self.hosts[host].peers.command(&command);
                self.tell_workers(host);
            }
            Command::Forget(epoch, incarnation) => self.maybe_late(Event::Forget(epoch, incarnation)),
            Command::Finish(incarnation) => self.finished(incarnation),
            Command::Fail(incarnation, cause) => {
                self.violated("progress", format!("incarnation {} failed for good: {cause:?}", incarnation.0));
            }
            Command::Fenced(_) => self.seen.fenced += 1,
            Command::Changed(_) => self.seen.changes += 1,
            Command::NotChanged(_) => self.seen.changes_given_up += 1,
        }
    }

    /// Places all tasks at present workers and starts them there.
    fn start_tasks(&mut self, host: usize, incarnation: Incarnation, from: Option<Checkpoint<Handle>>) {
        let Host { coordinator: Some(coordinator), membership, peers, .. } = &mut self.hosts[host] else { return };
        let members: Vec<Member> = membership.members().cloned().collect();
        let former = Former { tasks: peers.placement(), local: BTreeMap::new() };
        let placement = place(&members, &self.scenario.stages(), &former, &self.scenario.others(&members));
        let all = self.scenario.tasks(coordinator.version());
        peers.start((incarnation, coordinator.term()), from, &all, placement.as_ref().unwrap_or(&BTreeMap::new()));
        match placement {
            Ok(placement) => {
                let checked = placed(&self.scenario, &members, &placement);
                self.check(checked);
                if former.tasks.is_empty() {
                    let checked = spread(&self.scenario, &members, &placement);
                    self.check(checked);
                }
                self.tell_workers(host);
            }
            Err(missing) => {
                self.note(|| format!("coordinator {host}: {missing:?}"));
                self.seen.not_placed += 1;
                self.later(0, Event::NotPlaced { host, incarnation });
            }
        }
    }

    pub(crate) fn not_placed(&mut self, host: usize, incarnation: Incarnation) {
        let all = self.scenario.tasks(PlanVersion(1)).all;
        let failed = all.first().map(|task| (*task, Report::Failed { retry: true }));
        let gone = all.iter().map(|task| (*task, Report::Gone));
        self.input(host, Input::Tasks(incarnation, failed.into_iter().chain(gone).collect()));
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
            self.post(Event::ToWorker { process, host, message });
        }
    }

    /// A worker's summary arrives, and is acknowledged.
    pub(crate) fn reported(&mut self, host: usize, process: Process, message: ToCoordinator<Handle>) {
        if !self.hosts[host].is_active() {
            return;
        }
        if self.hosts[host].coordinator.is_none() {
            return;
        }
        let inputs = self.hosts[host].peers.heard(process, message);
        self.note(|| format!("coordinator {host} hears {process:?}: {inputs:?}"));
        for input in inputs {
            let input = match input {
                Input::Tasks(incarnation, reports) => Input::Tasks(incarnation, self.forged(reports)),
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

    /// A planted bug: one acknowledgement counts for all tasks.
    fn forged(&self, mut reports: Vec<(TaskId, Report<Handle>)>) -> Vec<(TaskId, Report<Handle>)> {
        if self.options.mutation == Some(Mutation::CommitBeforeAllAcknowledged) {
            let all = self.scenario.tasks(PlanVersion(1)).all;
            let forged = reports.iter().filter(|(_, report)| matches!(report, Report::Acknowledged { .. }));
            let forged: Vec<_> =
                forged.flat_map(|(_, report)| all.iter().map(|task| (*task, report.clone()))).collect();
            reports.extend(forged);
        }
        reports
    }

    pub(crate) fn beat_arrives(&mut self, host: usize, member: Member, sent: Nanos) {
        if self.hosts[host].is_active() {
            let process = member.process;
            self.member(host, membership::Input::Heartbeat { member, sent });
            let Host { coordinator: Some(coordinator), membership, peers, .. } = &self.hosts[host] else { return };
            let (term, heard) = (coordinator.term(), membership.heard(process));
            let repeats = peers.to_repeat(self.now, REPEAT).contains(&process);
            heard.into_iter().for_each(|sent| self.post(Event::Heard { process, host, term, sent }));
            if repeats {
                self.tell(host, process, REPEAT);
            }
        }
    }

    /// Gives an input to a membership. The tasks of a lost process have failed, as far as this coordinator
    /// knows.
    pub(crate) fn member(&mut self, host: usize, input: membership::Input) {
        if !self.hosts[host].is_active() {
            return;
        }
        self.hosts[host].membership.handle(self.now, input);
        while let Some(event) = self.hosts[host].membership.poll() {
            self.note(|| format!("coordinator {host}: {event:?}"));
            match event {
                membership::Event::Lost(process) => self.lost(host, process),
                membership::Event::Drained(_) => self.seen.drained_workers += 1,
                membership::Event::Joined(_) => {}
            }
        }
        self.tick_later(host);
    }

    fn lost(&mut self, host: usize, process: Process) {
        self.seen.lost_workers += 1;
        let Host { coordinator: Some(coordinator), peers, .. } = &self.hosts[host] else { return };
        let at_work = !matches!(coordinator.phase(), Phase::Starting | Phase::Pausing);
        let (incarnation, tasks) = (coordinator.incarnation(), peers.unfinished(process));
        if at_work && !tasks.is_empty() {
            // A worker that has not heard of a new coordinator yet may still have a lease of the one before.
            let term = coordinator.term();
            if self.workers[index(process)].machine.fence().term == term {
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
            self.seen.coordinator_crashes += 1;
        }
    }

    /// A removal takes effect now, much later, or not at all: nothing may depend on it.
    fn maybe_late(&mut self, removal: Event) {
        let open = self.scenario.open;
        match self.chance(open) {
            false => self.after_store(removal),
            true if self.rng.below(4) == 0 => {}
            true => {
                let wait = self.rng.below(1_000 * MS);
                self.later(wait, removal);
            }
        }
    }

    /// Sends a put of the log. Sometimes it takes effect long after its answer, or is never answered.
    fn append(&mut self, host: usize, sequence: u64, entry: Entry<Handle>) {
        let open = self.scenario.open;
        let mut wait = self.rng.below(self.scenario.store_delay + 1);
        let mut answered = true;
        if self.chance(open) {
            answered = false;
            match self.rng.below(4) {
                // Never arrives.
                0 => return,
                1 => wait += self.rng.below(1_000 * MS),
                _ => {}
            }
            if self.rng.below(2) == 0 {
                let answer = Answer::Unknown;
                self.after_store(Event::LogAnswer { host, sequence, answer });
            }
        }
        self.later(wait, Event::LogPut { host, sequence, entry, answered });
    }
}
