//! The queue of events, the processes that they concern, the network between them, and their faults.

use std::collections::BTreeMap;
use std::rc::Rc;

use anabranch_model::{Incarnation, Nanos, Rng};
use anabranch_protocol::coordinator::Input;
use anabranch_protocol::membership::{self, Process};

use crate::check::Truth;
use crate::host::Host;
use crate::log::Log;
use crate::scenario::{FAULTS_END, MS, PROGRESS_WITHIN, Scenario};
use crate::worker::Worker;
use crate::{Checked, Options, Run, Violation};

const BEAT_EVERY: u64 = 40 * MS;
/// How long a run continues after its job has ended, in which zombies may act.
const AFTERMATH: u64 = 1_500 * MS;
/// Far more events than a job needs.
const EVENTS_MAX: u64 = 1_000_000;

/// Where an event happens. In a process that is gone nothing happens, and a suspended one does it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Outside,
    Worker(Process),
    Host(usize),
}

/// The way of a message: from a coordinator to a worker, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Link {
    host: usize,
    worker: usize,
    down: bool,
}

#[derive(Clone)]
struct Event {
    at: At,
    /// It is the arrival of a message.
    link: Option<Link>,
    act: Rc<dyn Fn(&mut World)>,
}

/// The whole state of a run.
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) now: Nanos,
    pub(crate) rng: Rng,
    /// Events in the order of their times; those of the same time in the order of their creation.
    queue: BTreeMap<(Nanos, u64), Event>,
    made: u64,
    pub(crate) scenario: Scenario,
    pub(crate) log: Log,
    pub(crate) truth: Truth,
    pub(crate) workers: Vec<Worker>,
    pub(crate) hosts: Vec<Host>,
    /// Links that are cut, until when.
    cuts: BTreeMap<Link, Nanos>,
    pub(crate) stop_asked: bool,
    finished_at: Option<Nanos>,
    pub(crate) run: Run,
}

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng);
        let mut world = World {
            options,
            now: Nanos(0),
            rng,
            queue: BTreeMap::new(),
            made: 0,
            log: Log::default(),
            truth: Truth::default(),
            workers: (0..scenario.slots.len()).map(|worker| Worker::new(scenario.member(worker, 1))).collect(),
            hosts: Vec::new(),
            cuts: BTreeMap::new(),
            stop_asked: false,
            finished_at: None,
            run: Run { seed, ..Run::default() },
            scenario,
        };
        let scenario = world.scenario.clone();
        world.note(|| format!("{scenario:?}"));
        (0..world.workers.len()).for_each(|worker| world.beat(world.workers[worker].member.process));
        world.later(30 * MS, At::Outside, World::supervise);
        for at in scenario.requests {
            world.later(at, At::Outside, |world| world.all_hosts(World::request_checkpoint));
        }
        for at in scenario.changes {
            world.later(at, At::Outside, |world| world.all_hosts(World::change));
        }
        if let Some(at) = scenario.stop_at {
            world.later(at, At::Outside, |world| {
                world.stop_asked = world.finished_at.is_none();
                world.all_hosts(|world, host| world.input(host, Input::Stop));
            });
        }
        world.fault_later();
        world
    }

    pub(crate) fn run(mut self) -> Run {
        let mut events = 0;
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now = at;
            events += 1;
            self.happen(event);
            if self.run.violation.is_some() || self.finished_at.is_some_and(|end| at.since(end) > AFTERMATH) {
                break;
            }
            if self.finished_at.is_none() && (events > EVENTS_MAX || at.0 > FAULTS_END + PROGRESS_WITHIN) {
                self.violated("progress", "the job has not ended though nothing goes wrong any more".into());
            }
        }
        (0..self.workers.len()).for_each(|worker| self.worker_is_seen(worker));
        self.hosts.iter().for_each(|host| host.is_seen(&mut self.run.seen));
        self.run
    }

    fn happen(&mut self, event: Event) {
        let suspended_until = match event.at {
            At::Outside => Nanos(0),
            At::Worker(process) => match self.living(process) {
                Some(worker) => worker.suspended_until,
                None => return,
            },
            At::Host(host) if !self.hosts[host].is_active() => return,
            At::Host(host) => self.hosts[host].suspended_until,
        };
        if suspended_until > self.now {
            let wait = self.rng.below(MS);
            return self.push(Nanos(suspended_until.0 + wait), event);
        }
        if let At::Worker(process) = event.at {
            // A worker handles the time before anything else happens in its process.
            self.wake(process);
        }
        if event.link.is_none_or(|link| self.passes(link)) {
            (event.act)(self);
        }
    }

    /// Whether a message arrives.
    fn passes(&mut self, link: Link) -> bool {
        let cut = self.cuts.get(&link).is_some_and(|until| *until > self.now);
        let of_1000 = self.scenario.lost;
        let is_lost = cut || (self.faulty() && self.chance(of_1000));
        !is_lost
    }

    pub(crate) fn worker(&mut self, process: Process) -> &mut Worker {
        &mut self.workers[process.worker.0 as usize]
    }

    /// The worker, if this process of it lives.
    pub(crate) fn living(&mut self, process: Process) -> Option<&mut Worker> {
        Some(self.worker(process)).filter(|worker| worker.up && worker.member.process == process)
    }

    fn push(&mut self, at: Nanos, event: Event) {
        self.made += 1;
        self.queue.insert((at.max(self.now), self.made), event);
    }

    pub(crate) fn at(&mut self, time: Nanos, at: At, act: impl Fn(&mut World) + 'static) {
        self.push(time, Event { at, link: None, act: Rc::new(act) });
    }

    pub(crate) fn later(&mut self, wait: u64, at: At, act: impl Fn(&mut World) + 'static) {
        self.at(Nanos(self.now.0 + wait), at, act);
    }

    /// After the time that the store takes.
    pub(crate) fn after_store(&mut self, at: At, act: impl Fn(&mut World) + 'static) {
        let wait = self.rng.below(self.scenario.store_delay + 1);
        self.later(wait, at, act);
    }

    /// A message from a coordinator to a worker.
    pub(crate) fn post_down(&mut self, host: usize, process: Process, act: impl Fn(&mut World) + 'static) {
        let link = Link { host, worker: process.worker.0 as usize, down: true };
        self.post(Event { at: At::Worker(process), link: Some(link), act: Rc::new(act) });
    }

    /// A message from a worker to a coordinator.
    pub(crate) fn post_up(&mut self, process: Process, host: usize, act: impl Fn(&mut World) + 'static) {
        let link = Link { host, worker: process.worker.0 as usize, down: false };
        self.post(Event { at: At::Host(host), link: Some(link), act: Rc::new(act) });
    }

    /// Sends a message, which may be repeated and reordered.
    fn post(&mut self, event: Event) {
        let repeated = self.scenario.repeated;
        if self.faulty() && self.chance(repeated) {
            let wait = self.rng.below(10 * self.scenario.delay + 1);
            self.push(Nanos(self.now.0 + wait), event.clone());
        }
        let wait = self.rng.below(self.scenario.delay + 1);
        self.push(Nanos(self.now.0 + wait), event);
    }

    /// A worker's process sends heartbeats.
    fn beat(&mut self, process: Process) {
        let (sent, member) = (self.now, self.worker(process).member.clone());
        for host in 0..self.hosts.len() {
            let member = member.clone();
            self.post_up(process, host, move |world| world.beat_arrives(host, member.clone(), sent));
        }
        self.later(BEAT_EVERY, At::Worker(process), move |world| world.beat(process));
    }

    /// Ensures that there is a coordinator that is neither suspended nor gone, until the job has ended.
    fn supervise(&mut self) {
        let awake = self.hosts.iter().any(|host| host.is_active() && host.suspended_until <= self.now);
        if !awake && self.finished_at.is_none() {
            self.start_host();
        }
        self.later(50 * MS, At::Outside, World::supervise);
    }

    /// Something reaches all coordinators that there are.
    fn all_hosts(&mut self, act: impl Fn(&mut World, usize) + Copy + 'static) {
        for host in 0..self.hosts.len() {
            self.later(0, At::Host(host), move |world| act(world, host));
        }
    }

    pub(crate) fn finished(&mut self, incarnation: Incarnation) {
        let checked = self.truth.finished(incarnation, self.stop_asked, &self.scenario);
        self.check(checked);
        self.finished_at.get_or_insert(self.now);
    }

    pub(crate) fn faulty(&self) -> bool {
        self.scenario.fault_every.is_some() && self.now.0 < FAULTS_END
    }

    fn fault_later(&mut self) {
        if let Some(every) = self.scenario.fault_every {
            let wait = self.rng.below(2 * every);
            self.later(wait, At::Outside, World::fault);
        }
    }

    fn fault(&mut self) {
        if !self.faulty() {
            return;
        }
        let worker = self.rng.below(self.workers.len() as u64) as usize;
        let host = self.rng.below(self.hosts.len().max(1) as u64) as usize;
        let until = Nanos(self.now.0 + self.rng.below(800) * MS);
        match self.rng.below(10) {
            0 => self.crash_worker(worker),
            1 => {
                self.note(|| format!("worker {worker} is suspended until {until:?}"));
                self.workers[worker].suspended_until = until;
            }
            2 | 3 => {
                // In one direction or both.
                let ways: &[bool] = [&[true][..], &[false], &[true, false]][self.rng.below(3) as usize];
                self.note(|| {
                    format!("links {ways:?} of coordinator {host} and worker {worker} are cut until {until:?}")
                });
                self.cuts.extend(ways.iter().map(|down| (Link { host, worker, down: *down }, until)));
            }
            4 if host < self.hosts.len() => self.crash_host(host),
            5 if host < self.hosts.len() => {
                self.note(|| format!("coordinator {host} is suspended until {until:?}"));
                self.hosts[host].suspended_until = until;
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

    /// A worker gets no further task, and later leaves.
    fn drain_worker(&mut self, worker: usize) {
        let process = self.workers[worker].member.process;
        self.all_hosts(move |world, host| {
            // A coordinator that was suspended must not drain the process that followed.
            if world.living(process).is_some() {
                world.member(host, membership::Input::Drain(process.worker));
            }
        });
        let wait = self.rng.below(400) * MS;
        self.later(wait, At::Worker(process), move |world| {
            world.note(|| format!("{process:?} leaves"));
            for host in 0..world.hosts.len() {
                world.post_up(process, host, move |world| world.member(host, membership::Input::Leave(process)));
            }
            world.down(worker);
        });
    }

    pub(crate) fn crash_worker(&mut self, worker: usize) {
        if self.workers[worker].up {
            self.note(|| format!("worker {worker} crashes"));
            self.run.seen.add("worker crashes", 1);
            self.down(worker);
        }
    }

    /// A worker's process is gone; another one follows.
    fn down(&mut self, worker: usize) {
        self.workers[worker].up = false;
        let wait = self.rng.below(400) * MS;
        self.later(wait, At::Outside, move |world| {
            world.worker_is_seen(worker);
            let life = world.workers[worker].member.process.life + 1;
            world.workers[worker] = Worker::new(world.scenario.member(worker, life));
            world.beat(world.workers[worker].member.process);
        });
    }

    /// Keeps what the machine of a worker's process has done.
    fn worker_is_seen(&mut self, worker: usize) {
        let machine = &self.workers[worker].machine;
        self.run.seen.add("refused commands", machine.refused());
        let taken = machine.taken().map(|(machine, from, to)| ["worker", machine, from, to]);
        self.run.seen.transitions.extend(taken);
    }

    pub(crate) fn chance(&mut self, of_1000: u64) -> bool {
        self.rng.below(1000) < of_1000
    }

    pub(crate) fn check(&mut self, checked: Checked) {
        checked.unwrap_or_else(|(invariant, message)| self.violated(invariant, message));
    }

    pub(crate) fn violated(&mut self, invariant: &'static str, message: String) {
        let when = format!("at {} us", self.now.0 / 1000);
        self.run.violation.get_or_insert(Violation { invariant, message, when });
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.options.trace {
            self.run.trace.push(format!("{:>9} us  {}", self.now.0 / 1000, text()));
        }
    }
}
