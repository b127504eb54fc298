//! The queue of events, the processes that they concern, and their faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_model::{Incarnation, Nanos, Rng, TaskId};
use anabranch_protocol::coordinator::{Answer, Entry, Input};
use anabranch_protocol::membership::{self, Process};
use anabranch_protocol::worker::Input as WorkerInput;

use crate::check::{Truth, Violation};
use crate::event::{Event, Handle, Queue, index};
use crate::host::Host;
use crate::scenario::{FAULTS_END, MS, PROGRESS_WITHIN, Scenario};
use crate::store::Store;
use crate::task::Envelope;
use crate::worker::Worker;
use crate::{Options, Run, Seen};

const BEAT_EVERY: u64 = 40 * MS;
/// How long a run continues after its job has ended, in which zombies may act.
const AFTERMATH: u64 = 1_500 * MS;

/// Far more events than a job needs.
const EVENTS_MAX: u64 = 1_000_000;

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    ToWorker,
    ToHost,
}

/// The whole state of a run.
pub(crate) struct World {
    seed: u64,
    pub(crate) options: Options,
    pub(crate) now: Nanos,
    pub(crate) rng: Rng,
    queue: Queue,
    pub(crate) scenario: Scenario,
    pub(crate) store: Store,
    pub(crate) truth: Truth,
    pub(crate) workers: Vec<Worker>,
    pub(crate) hosts: Vec<Host>,
    /// Links between a coordinator and a worker that are cut, in which direction and until when.
    cut_links: BTreeMap<(usize, usize, Direction), Nanos>,
    pub(crate) channels: BTreeMap<(Incarnation, TaskId, TaskId), VecDeque<Envelope>>,
    pub(crate) started: BTreeSet<(Incarnation, TaskId)>,
    pub(crate) stop_asked: bool,
    finished_at: Option<Nanos>,
    pub(crate) seen: Seen,
    violation: Option<Violation>,
    trace: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng);
        let mut world = World {
            seed,
            options,
            now: Nanos(0),
            rng,
            queue: Queue::default(),
            store: Store::default(),
            truth: Truth::new(),
            workers: (0..scenario.slots.len()).map(|worker| Worker::new(scenario.member(worker, 1))).collect(),
            hosts: Vec::new(),
            cut_links: BTreeMap::new(),
            channels: BTreeMap::new(),
            started: BTreeSet::new(),
            stop_asked: false,
            finished_at: None,
            seen: Seen::default(),
            violation: None,
            trace: Vec::new(),
            scenario,
        };
        let text = format!("{:?}", world.scenario);
        world.note(|| text);
        for worker in 0..world.workers.len() {
            world.later(0, Event::Beat(world.workers[worker].member.process));
        }
        world.later(30 * MS, Event::Supervise);
        for at in world.scenario.requests.clone() {
            world.later(at, Event::Request);
        }
        for at in world.scenario.changes.clone() {
            world.later(at, Event::Change);
        }
        if let Some(stop_at) = world.scenario.stop_at {
            world.later(stop_at, Event::Stop);
        }
        world.fault_later();
        world
    }

    pub(crate) fn run(mut self) -> Run {
        while let Some((at, event)) = self.queue.pop() {
            self.now = at;
            self.seen.events += 1;
            self.happen(event);
            if self.violation.is_some() || self.finished_at.is_some_and(|end| at.since(end) > AFTERMATH) {
                break;
            }
            let endless = self.seen.events > EVENTS_MAX;
            if self.finished_at.is_none() && (endless || at.0 > FAULTS_END + PROGRESS_WITHIN) {
                self.violated("progress", "the job has not ended though nothing goes wrong any more".into());
            }
        }
        self.seen.repeated_commits = self.store.repeated_commits;
        self.seen.refused_reports = self.hosts.iter().map(Host::refused).sum();
        self.seen.transitions = self.hosts.iter().flat_map(Host::transitions).collect();
        for worker in 0..self.workers.len() {
            self.worker_is_seen(worker);
        }
        self.seen.member_transitions = self.hosts.iter().flat_map(|host| host.membership.taken()).collect();
        self.seen.ended_ms = self.finished_at.map_or(0, |end| end.0 / MS);
        Run { seed: self.seed, seen: self.seen, violation: self.violation, trace: self.trace }
    }

    fn happen(&mut self, event: Event) {
        let Some(event) = self.unless_paused(event) else { return };
        match event {
            Event::ToWorker { process, host, message } => {
                self.note(|| format!("{process:?} hears {message:?}"));
                self.command(process, host, message);
            }
            Event::Heard { process, term, sent, .. } => self.work(process, WorkerInput::Heard(term, sent)),
            Event::ToHost { host, process, message } => self.reported(host, process, *message),
            Event::Beat(process) => self.beat(process),
            Event::BeatArrives { host, member, sent } => self.beat_arrives(host, member, sent),
            Event::Leaves { host, process } => self.member(host, membership::Input::Leave(process)),
            Event::WorkerTick(process) => self.worker_tick(process),
            Event::Ended(place) => self.report_of(place, anabranch_protocol::coordinator::Report::Gone),
            Event::LateCommand(process, command) => self.carry_out_command(process, *command),
            Event::HostTick(host) => self.tick(host),
            Event::NotPlaced { host, incarnation } => self.not_placed(host, incarnation),
            Event::HostReady { host, log, hosted } => self.host_ready(host, log, hosted),
            Event::Supervise => self.supervise(),
            Event::LogPut { host, sequence, entry, answered } => self.log_put(host, sequence, &entry, answered),
            Event::LogRead { host, sequence } => {
                let answer = self.store.read(sequence);
                self.after_store(Event::LogAnswer { host, sequence, answer });
            }
            Event::LogRemove(sequence) => {
                self.seen.removed_entries += u64::from(self.store.log.remove(&sequence).is_some());
            }
            Event::Forget(epoch, incarnation) => self.store.forget(epoch, incarnation),
            Event::LogAnswer { host, sequence, answer } => self.input(host, Input::Store(sequence, answer)),
            Event::Source(place) => self.turn(place),
            Event::Deliver { incarnation, from, to } => self.deliver(incarnation, from, to),
            Event::Restored { place, snapshot, checkpoint } => self.restored(place, snapshot, checkpoint),
            Event::Upload(upload, fate) => self.upload_ends(upload, fate),
            Event::Uploaded(upload, snapshot) => self.uploaded(upload, snapshot),
            Event::Publish(publish) => self.publish(publish),
            Event::Published(publish) => self.published(&publish),
            Event::Fault => self.fault(),
            Event::WorkerUp(worker) => self.worker_up(worker),
            Event::WorkerLeaves(process) => self.worker_leaves(process),
            Event::Request => (0..self.hosts.len()).for_each(|host| self.request_checkpoint(host)),
            Event::Change => (0..self.hosts.len()).for_each(|host| self.change(host)),
            Event::Stop => {
                self.stop_asked = self.finished_at.is_none();
                (0..self.hosts.len()).for_each(|host| self.input(host, Input::Stop));
            }
        }
    }

    /// An event for a process that is paused waits until it continues; a message may be lost.
    fn unless_paused(&mut self, event: Event) -> Option<Event> {
        let (process, host) = match &event {
            Event::ToWorker { process, .. } | Event::Heard { process, .. } => (Some(*process), None),
            Event::Source(place) | Event::Restored { place, .. } => (Some(place.process), None),
            Event::Uploaded(upload, _) => (Some(upload.place.process), None),
            Event::Published(publish) => (Some(publish.place.process), None),
            Event::Ended(place) => (Some(place.process), None),
            Event::LateCommand(process, _) => (Some(*process), None),
            Event::Beat(process) | Event::WorkerTick(process) | Event::WorkerLeaves(process) => (Some(*process), None),
            Event::ToHost { host, .. }
            | Event::BeatArrives { host, .. }
            | Event::Leaves { host, .. }
            | Event::NotPlaced { host, .. }
            | Event::HostTick(host)
            | Event::HostReady { host, .. }
            | Event::LogAnswer { host, .. } => (None, Some(*host)),
            _ => return Some(event),
        };
        let until = match (process, host) {
            (Some(process), _) => {
                let worker = &self.workers[index(process)];
                if !self.is_alive(process) {
                    return None;
                }
                worker.paused_until
            }
            (None, Some(host)) => self.hosts[host].paused_until,
            (None, None) => return Some(event),
        };
        if until > self.now {
            let wait = self.rng.below(MS);
            self.at(Nanos(until.0 + wait), event);
            return None;
        }
        // A worker handles the time before anything else happens in its process.
        process.into_iter().for_each(|process| self.wake(process));
        self.unless_lost(event)
    }

    fn unless_lost(&mut self, event: Event) -> Option<Event> {
        let link = match &event {
            Event::ToWorker { process, host, .. } | Event::Heard { process, host, .. } => {
                (*host, index(*process), Direction::ToWorker)
            }
            Event::ToHost { host, process, .. } | Event::Leaves { host, process } => {
                (*host, index(*process), Direction::ToHost)
            }
            Event::BeatArrives { host, member, .. } => (*host, index(member.process), Direction::ToHost),
            _ => return Some(event),
        };
        let cut = self.cut_links.get(&link).is_some_and(|until| *until > self.now);
        let of_1000 = self.scenario.lost;
        let lost = cut || (self.faulty() && self.chance(of_1000));
        (!lost).then_some(event)
    }

    fn is_alive(&self, process: Process) -> bool {
        let worker = &self.workers[index(process)];
        worker.up && worker.member.process == process
    }

    /// Sends a message between coordinator and worker; it may be repeated and reordered.
    pub(crate) fn post(&mut self, event: Event) {
        let repeated = self.scenario.repeated;
        if self.faulty() && self.chance(repeated) {
            let wait = self.rng.below(10 * self.scenario.delay + 1);
            self.later(wait, event.clone());
        }
        let wait = self.rng.below(self.scenario.delay + 1);
        self.later(wait, event);
    }

    fn beat(&mut self, process: Process) {
        let (sent, member) = (self.now, self.workers[index(process)].member.clone());
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_active() {
                self.post(Event::BeatArrives { host, member: member.clone(), sent });
            }
        }
        self.later(BEAT_EVERY, Event::Beat(process));
    }

    fn log_put(&mut self, host: usize, sequence: u64, entry: &Entry<Handle>, answered: bool) {
        let answer = self.store.put(sequence, entry, self.options.mutation);
        if answer == Answer::Appended {
            let checked = self.truth.logged(sequence, entry, &self.scenario, &self.store);
            self.check(checked);
            self.seen.open_answers += u64::from(!answered);
            match entry {
                Entry::Begins(..) => self.seen.incarnations += 1,
                Entry::Adopts(..) => self.seen.adoptions += 1,
                Entry::Checkpoint(_) => self.seen.checkpoints += 1,
                Entry::Ended(_) => self.seen.ended_jobs += 1,
                Entry::Unusable(_) => self.violated("commit", "an entry was written that is never written".into()),
            }
        }
        if answered {
            self.after_store(Event::LogAnswer { host, sequence, answer });
        }
    }

    /// Ensures that there is a coordinator that is neither paused nor gone, until the job has ended.
    fn supervise(&mut self) {
        let now = self.now;
        let awake = self.hosts.iter().any(|host| host.is_active() && host.paused_until <= now);
        if !awake && self.finished_at.is_none() {
            self.start_host();
        }
        self.later(50 * MS, Event::Supervise);
    }

    pub(crate) fn finished(&mut self, incarnation: Incarnation) {
        let checked = self.truth.finished(incarnation, self.stop_asked, &self.scenario, &self.store);
        self.check(checked);
        self.finished_at.get_or_insert(self.now);
    }

    pub(crate) fn faulty(&self) -> bool {
        self.scenario.fault_every.is_some() && self.now.0 < FAULTS_END
    }

    fn fault_later(&mut self) {
        if let Some(every) = self.scenario.fault_every {
            let wait = self.rng.below(2 * every);
            self.later(wait, Event::Fault);
        }
    }

    fn fault(&mut self) {
        if !self.faulty() {
            return;
        }
        let worker = self.rng.below(self.workers.len() as u64) as usize;
        let host = self.rng.below(self.hosts.len().max(1) as u64) as usize;
        let until = self.now.0 + self.rng.below(800) * MS;
        match self.rng.below(10) {
            0 => self.crash_worker(worker),
            1 => {
                self.note(|| format!("worker {worker} pauses until {} us", until / 1000));
                self.workers[worker].paused_until = Nanos(until);
            }
            2 | 3 => self.cut_link(host, worker, Nanos(until)),
            4 if host < self.hosts.len() => self.crash_host(host),
            5 if host < self.hosts.len() => {
                self.note(|| format!("coordinator {host} pauses until {} us", until / 1000));
                self.hosts[host].paused_until = Nanos(until);
            }
            6 | 7 => {
                // The new one finds all tasks, unless others fail too.
                if self.rng.below(2) == 0 {
                    (0..self.hosts.len()).for_each(|host| self.crash_host(host));
                }
                self.start_host();
            }
            8 => self.drain_worker(worker),
            _ => self.start_host(),
        }
        self.fault_later();
    }

    /// Cuts a link in one direction or both.
    fn cut_link(&mut self, host: usize, worker: usize, until: Nanos) {
        let directions: &[Direction] = match self.rng.below(3) {
            0 => &[Direction::ToWorker],
            1 => &[Direction::ToHost],
            _ => &[Direction::ToWorker, Direction::ToHost],
        };
        self.note(|| format!("no link of coordinator {host} and worker {worker} {directions:?} until {until:?}"));
        for direction in directions {
            self.cut_links.insert((host, worker, *direction), until);
        }
    }

    /// A worker gets no further task, and later leaves.
    fn drain_worker(&mut self, worker: usize) {
        let process = self.workers[worker].member.process;
        for host in 0..self.hosts.len() {
            self.member(host, membership::Input::Drain(process.worker));
        }
        let wait = self.rng.below(400) * MS;
        self.later(wait, Event::WorkerLeaves(process));
    }

    fn worker_leaves(&mut self, process: Process) {
        self.note(|| format!("{process:?} leaves"));
        for host in 0..self.hosts.len() {
            self.post(Event::Leaves { host, process });
        }
        self.workers[index(process)].up = false;
        let wait = self.rng.below(400) * MS;
        self.later(wait, Event::WorkerUp(index(process)));
    }

    pub(crate) fn crash_worker(&mut self, worker: usize) {
        if self.workers[worker].up {
            self.note(|| format!("worker {worker} crashes"));
            self.workers[worker].up = false;
            self.seen.worker_crashes += 1;
            let wait = self.rng.below(400) * MS;
            self.later(wait, Event::WorkerUp(worker));
        }
    }

    fn worker_up(&mut self, worker: usize) {
        self.worker_is_seen(worker);
        let life = self.workers[worker].member.process.life + 1;
        let member = self.scenario.member(worker, life);
        self.later(0, Event::Beat(member.process));
        self.workers[worker] = Worker::new(member);
    }

    /// Keeps what the machine of a worker's process has done.
    fn worker_is_seen(&mut self, worker: usize) {
        let machine = &self.workers[worker].machine;
        self.seen.refused_commands += machine.refused();
        self.seen.worker_transitions.extend(machine.taken());
    }

    pub(crate) fn chance(&mut self, of_1000: u64) -> bool {
        self.rng.below(1000) < of_1000
    }

    pub(crate) fn later(&mut self, wait: u64, event: Event) {
        self.at(Nanos(self.now.0 + wait), event);
    }

    pub(crate) fn at(&mut self, at: Nanos, event: Event) {
        self.queue.push(at.max(self.now), event);
    }

    /// After the time that the store takes.
    pub(crate) fn after_store(&mut self, event: Event) {
        let wait = self.rng.below(self.scenario.store_delay + 1);
        self.later(wait, event);
    }

    pub(crate) fn check(&mut self, checked: Result<(), (&'static str, String)>) {
        if let Err((invariant, message)) = checked {
            self.violated(invariant, message);
        }
    }

    pub(crate) fn violated(&mut self, invariant: &'static str, message: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { invariant, message, at });
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.options.trace {
            self.trace.push(format!("{:>9} us  {}", self.now.0 / 1000, text()));
        }
    }
}
