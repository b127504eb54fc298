//! A coordinator's process: drives the real [`Coordinator`], carries out its commands, and monitors workers.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Epoch, Incarnation, Nanos, TaskId};
use anabranch_protocol::coordinator::{Answer, Command, Coordinator, Entry, Input, Owner, Phase, Report};

use crate::Mutation;
use crate::event::{Event, Handle, Message, Place, Process};
use crate::scenario::MS;
use crate::world::World;

/// How long a worker may be silent.
const SILENCE: u64 = 150 * MS;
const CHECK_EVERY: u64 = 40 * MS;

/// A coordinator's process.
#[derive(Debug)]
pub(crate) struct Host {
    /// `None` while it reads the log.
    coordinator: Option<Coordinator<Handle>>,
    pub(crate) up: bool,
    pub(crate) paused_until: Nanos,
    /// When each worker last sent a message, and as which process.
    seen: BTreeMap<usize, (u64, Nanos)>,
    placement: BTreeMap<TaskId, Process>,
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
            up: true,
            paused_until: Nanos(0),
            seen: BTreeMap::new(),
            placement: BTreeMap::new(),
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
        self.coordinator.as_ref().map_or(0, Coordinator::refused)
    }
}

impl World {
    /// Starts a coordinator: it reads the log, which takes some time in which others write.
    pub(crate) fn start_host(&mut self) {
        let host = self.hosts.len();
        self.hosts.push(Host::new());
        let log = self.store.log.clone();
        self.note(|| format!("coordinator {host} starts, the log has {} entries", log.len()));
        self.after_store(Event::HostReady { host, log });
    }

    pub(crate) fn host_ready(&mut self, host: usize, log: BTreeMap<u64, Entry<Handle>>) {
        if !self.hosts[host].up {
            return;
        }
        let (config, tasks) = (self.scenario.config.clone(), self.scenario.tasks());
        let coordinator = Coordinator::new(self.now, config, Owner(self.rng.next_u64()), log, tasks);
        self.hosts[host].coordinator = Some(coordinator);
        if self.stop_asked {
            self.input(host, Input::Stop);
        }
        self.input(host, Input::Tick);
        self.later(CHECK_EVERY, Event::HostCheck(host));
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
        let next = self.hosts[host].coordinator.as_ref().and_then(Coordinator::next_deadline);
        if let Some(at) = next.filter(|at| self.hosts[host].ticks_at.is_none_or(|ticks_at| *at < ticks_at)) {
            self.hosts[host].ticks_at = Some(at);
            self.at(at, Event::HostTick(host));
        }
    }

    pub(crate) fn tick(&mut self, host: usize) {
        if self.hosts[host].ticks_at.is_some_and(|at| at <= self.now) {
            self.hosts[host].ticks_at = None;
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
                    *request = Request::Open;
                }
            }
            Command::Start { .. } => {
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
            Command::Start { incarnation, from } => {
                self.place(host);
                let mut by_process: BTreeMap<Process, Vec<TaskId>> = BTreeMap::new();
                for (task, process) in &self.hosts[host].placement {
                    by_process.entry(*process).or_default().push(*task);
                }
                for (process, tasks) in by_process {
                    let message = Message::Start { tasks, from: from.clone() };
                    self.post(Event::ToWorker { process, host, incarnation, message });
                }
            }
            Command::Grant { incarnation, group, checkpoint } => {
                self.tell_workers(host, incarnation, &Message::Grant { group, checkpoint });
            }
            Command::StopAfter(incarnation, epoch) => self.tell_workers(host, incarnation, &Message::StopAfter(epoch)),
            Command::CheckpointDone(incarnation, epoch) => {
                self.tell_workers(host, incarnation, &Message::CheckpointDone(epoch));
            }
            Command::Cancel(incarnation) => self.tell_workers(host, incarnation, &Message::Cancel),
            // This model waits for no epoch alone and drops no rows, and does not remove objects without a checkpoint.
            Command::EpochDone(..) | Command::NoneDone(_) => {}
            Command::AbortCheckpoint(..) => self.seen.aborted += 1,
            Command::Forget(epoch, incarnation) => self.maybe_late(Event::Forget(epoch, incarnation)),
            Command::Finish(incarnation) => self.finished(incarnation),
            Command::Fail(incarnation, cause) => {
                self.violated("progress", format!("incarnation {} failed for good: {cause:?}", incarnation.0));
            }
            Command::Fenced(_) => self.seen.fenced += 1,
        }
    }

    /// Chooses a process for each task among the known ones; tasks without one fail at the next check.
    fn place(&mut self, host: usize) {
        let now = self.now;
        let seen = self.hosts[host].seen.iter().filter(|(_, (_, at))| now.since(*at) < SILENCE);
        let mut processes: Vec<Process> =
            seen.map(|(worker, (boot, _))| Process { worker: *worker, boot: *boot }).collect();
        if processes.is_empty() {
            processes.push(Process { worker: 0, boot: 0 });
        }
        let tasks = self.scenario.tasks().all;
        let chosen = tasks.into_iter().map(|task| (task, processes[self.rng.below(processes.len() as u64) as usize]));
        self.hosts[host].placement = chosen.collect();
    }

    fn tell_workers(&mut self, host: usize, incarnation: Incarnation, message: &Message) {
        let mut processes: Vec<Process> = self.hosts[host].placement.values().copied().collect();
        processes.sort();
        processes.dedup();
        for process in processes {
            self.post(Event::ToWorker { process, host, incarnation, message: message.clone() });
        }
    }

    /// A task reports.
    pub(crate) fn reported(&mut self, host: usize, place: Place, report: &Report<Handle>) {
        self.note(|| {
            format!("coordinator {host} hears {} of incarnation {}: {report:?}", place.task, place.incarnation.0)
        });
        let forged = match (report, self.options.mutation) {
            (Report::Acknowledged { .. }, Some(Mutation::CommitBeforeAllAcknowledged)) => self.scenario.tasks().all,
            _ => [place.task].into(),
        };
        for task in forged {
            self.input(host, Input::Task(place.incarnation, task, report.clone()));
        }
    }

    pub(crate) fn beat_arrives(&mut self, host: usize, process: Process) {
        let seen = self.hosts[host].seen.entry(process.worker).or_insert((process.boot, self.now));
        if process.boot >= seen.0 {
            *seen = (process.boot, self.now);
        }
    }

    /// Tasks whose process is silent, or was replaced, have failed as far as this coordinator knows.
    pub(crate) fn host_check(&mut self, host: usize) {
        let Some(coordinator) = self.hosts[host].coordinator.as_ref().filter(|_| self.hosts[host].is_active()) else {
            return;
        };
        let (now, incarnation) = (self.now, coordinator.incarnation());
        let at_work = !matches!(coordinator.phase(), Phase::Starting | Phase::Pausing);
        let Host { seen, placement, .. } = &self.hosts[host];
        let lost = |process: &Process| {
            !seen.get(&process.worker).is_some_and(|(boot, at)| *boot == process.boot && now.since(*at) < SILENCE)
        };
        let lost: Vec<TaskId> = placement.iter().filter(|(_, p)| at_work && lost(p)).map(|(task, _)| *task).collect();
        for task in lost {
            // A task that has left in order no longer fails; one whose last messages are missing has not.
            let heard = (host, incarnation, task);
            if !self.left.contains(&heard) || !self.finished.contains(&heard) {
                self.input(host, Input::Task(incarnation, task, Report::Failed { retry: true }));
            }
        }
        self.later(CHECK_EVERY, Event::HostCheck(host));
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
