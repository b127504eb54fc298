//! The queue of events, the processes that they concern, and their faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_model::{Incarnation, Nanos, Rng, TaskId};
use anabranch_protocol::coordinator::{Answer, Entry, Input, Report};

use crate::check::{Truth, Violation};
use crate::event::{Event, Handle, Process, Queue};
use crate::host::Host;
use crate::scenario::{FAULTS_END, MS, PROGRESS_WITHIN, Scenario};
use crate::store::Store;
use crate::task::Envelope;
use crate::worker::Worker;
use crate::{Options, Run, Seen};

const BEAT_EVERY: u64 = 20 * MS;
/// How long a run continues after its job has ended, in which zombies may act.
const AFTERMATH: u64 = 1_500 * MS;
const RESEND: u64 = 20 * MS;

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
    /// Links between a coordinator and a worker that are cut, and until when.
    cut_links: BTreeMap<(usize, usize), Nanos>,
    pub(crate) channels: BTreeMap<(Incarnation, TaskId, TaskId), VecDeque<Envelope>>,
    pub(crate) started: BTreeSet<(Incarnation, TaskId)>,
    /// Tasks that a coordinator knows to be gone, and those whose last acknowledgement it has received.
    pub(crate) left: BTreeSet<(usize, Incarnation, TaskId)>,
    pub(crate) finished: BTreeSet<(usize, Incarnation, TaskId)>,
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
            workers: (0..scenario.workers).map(|_| Worker::new(1)).collect(),
            hosts: Vec::new(),
            cut_links: BTreeMap::new(),
            channels: BTreeMap::new(),
            started: BTreeSet::new(),
            left: BTreeSet::new(),
            finished: BTreeSet::new(),
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
            world.later(0, Event::Beat(Process { worker, boot: 1 }));
        }
        world.later(30 * MS, Event::Supervise);
        for at in world.scenario.requests.clone() {
            world.later(at, Event::Request);
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
            if self.finished_at.is_none() && at.0 > FAULTS_END + PROGRESS_WITHIN {
                self.violated("progress", "the job has not ended though nothing goes wrong any more".into());
            }
        }
        self.seen.repeated_commits = self.store.repeated_commits;
        self.seen.refused_reports = self.hosts.iter().map(Host::refused).sum();
        self.seen.transitions = self.hosts.iter().flat_map(Host::transitions).collect();
        self.seen.ended_ms = self.finished_at.map_or(0, |end| end.0 / MS);
        Run { seed: self.seed, seen: self.seen, violation: self.violation, trace: self.trace }
    }

    fn happen(&mut self, event: Event) {
        let Some(event) = self.unless_paused(event) else { return };
        match event {
            Event::ToWorker { process, host, incarnation, message } => {
                self.note(|| format!("{process:?} of incarnation {} hears {message:?}", incarnation.0));
                self.command(process, host, incarnation, message);
            }
            Event::ToHost { host, place, report } => {
                let task = (host, place.incarnation, place.task);
                match report {
                    Report::Gone => _ = self.left.insert(task),
                    Report::Acknowledged { finished: true, .. } => _ = self.finished.insert(task),
                    _ => {}
                }
                self.reported(host, place, &report);
            }
            Event::Beat(process) => self.beat(process),
            Event::BeatArrives { host, process } => self.beat_arrives(host, process),
            Event::HostCheck(host) => self.host_check(host),
            Event::HostTick(host) => self.tick(host),
            Event::HostReady { host, log } => self.host_ready(host, log),
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
            Event::Request => (0..self.hosts.len()).for_each(|host| self.request_checkpoint(host)),
            Event::Stop => {
                self.stop_asked = self.finished_at.is_none();
                (0..self.hosts.len()).for_each(|host| self.input(host, Input::Stop));
            }
        }
    }

    /// An event for a process that is paused waits until it continues; a message may be lost and is sent again.
    fn unless_paused(&mut self, event: Event) -> Option<Event> {
        let (process, host) = match &event {
            Event::ToWorker { process, .. } => (Some(*process), None),
            Event::Source(place) | Event::Restored { place, .. } => (Some(place.process), None),
            Event::Uploaded(upload, _) => (Some(upload.place.process), None),
            Event::Published(publish) => (Some(publish.place.process), None),
            Event::Beat(process) => (Some(*process), None),
            Event::ToHost { host, .. }
            | Event::BeatArrives { host, .. }
            | Event::HostCheck(host)
            | Event::HostTick(host)
            | Event::HostReady { host, .. }
            | Event::LogAnswer { host, .. } => (None, Some(*host)),
            _ => return Some(event),
        };
        let until = match (process, host) {
            (Some(process), _) => {
                let worker = &self.workers[process.worker];
                if !worker.up || worker.boot != process.boot {
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
        self.unless_lost(event)
    }

    fn unless_lost(&mut self, event: Event) -> Option<Event> {
        let link = match &event {
            Event::ToWorker { process, host, .. } => (*host, process.worker),
            Event::ToHost { host, place, .. } => (*host, place.process.worker),
            Event::BeatArrives { host, process } => (*host, process.worker),
            _ => return Some(event),
        };
        let cut = self.cut_links.get(&link).is_some_and(|until| *until > self.now);
        let of_1000 = self.scenario.lost;
        let lost = cut || (self.faulty() && self.chance(of_1000));
        if !lost {
            return Some(event);
        }
        let sender_lives = match &event {
            Event::ToWorker { host, .. } => self.hosts[*host].up,
            Event::ToHost { place, .. } => self.is_alive(place.process),
            _ => false,
        };
        if sender_lives {
            let wait = RESEND + self.rng.below(RESEND);
            self.later(wait, event);
        }
        None
    }

    fn is_alive(&self, process: Process) -> bool {
        let worker = &self.workers[process.worker];
        worker.up && worker.boot == process.boot
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
        for host in 0..self.hosts.len() {
            if self.hosts[host].up {
                let wait = self.rng.below(self.scenario.delay + 1);
                self.later(wait, Event::BeatArrives { host, process });
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
        match self.rng.below(6) {
            0 => self.crash_worker(worker),
            1 => {
                self.note(|| format!("worker {worker} pauses until {} us", until / 1000));
                self.workers[worker].paused_until = Nanos(until);
            }
            2 => {
                self.note(|| format!("no link of coordinator {host} to worker {worker} until {} us", until / 1000));
                self.cut_links.insert((host, worker), Nanos(until));
            }
            3 if host < self.hosts.len() => self.crash_host(host),
            4 if host < self.hosts.len() => {
                self.note(|| format!("coordinator {host} pauses until {} us", until / 1000));
                self.hosts[host].paused_until = Nanos(until);
            }
            _ => self.start_host(),
        }
        self.fault_later();
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
        let boot = self.workers[worker].boot + 1;
        self.workers[worker] = Worker::new(boot);
        self.later(0, Event::Beat(Process { worker, boot }));
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
