//! The protocol of one job alone, with many workers: the real coordinator, its peers and the workers as
//! values, in virtual time. Only the tasks, the messages' way and the store are models. What is measured is
//! the processor time of the coordinator's side.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use anabranch_model::{Epoch, Error, Incarnation, Nanos, PlanVersion, Result, Rng, StageId, TaskId};
use anabranch_protocol::coordinator::{Answer, Command, Config, GroupSizing, Input, Owner, Report, Tasks, turn};
use anabranch_protocol::membership::{Process, WorkerId};
use anabranch_protocol::worker::{self, FromCoordinator, Order, ToCoordinator};
use anabranch_protocol::{Coordinator, Peers, Worker};

/// Tasks of a worker: half of them sources, half of them sinks.
pub(crate) const TASKS: u32 = 8;
/// Length of an epoch.
pub(crate) const EPOCH: Duration = Duration::from_millis(100);
/// A message's way.
const WAY: Duration = Duration::from_millis(1);
/// The store's answer.
const STORE: Duration = Duration::from_millis(5);
/// From a source's cut to the sinks' end of the epoch.
const THROUGH: Duration = Duration::from_millis(3);
/// Sources cut late by up to this time.
const JITTER: Duration = Duration::from_millis(5);
/// A message is sent again after this time without an effect.
const REPEAT: Duration = Duration::from_millis(500);

/// A job to simulate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Workers.
    pub(crate) workers: u32,
    /// Epochs of a group.
    pub(crate) group: u64,
    /// Epochs that are simulated.
    pub(crate) epochs: u64,
    /// Whether each group ends with a checkpoint.
    pub(crate) checkpoints: bool,
}

/// What a simulated job has shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Groups that were granted.
    pub(crate) groups: u64,
    /// Checkpoints that were committed.
    pub(crate) checkpoints: u64,
    /// Summaries that workers sent, and messages that the coordinator did.
    pub(crate) summaries: u64,
    /// Messages that the coordinator sent.
    pub(crate) orders: u64,
    /// Processor time of the coordinator's side.
    pub(crate) busy: Duration,
    /// Time of the job.
    pub(crate) elapsed: Duration,
    /// How long cuts waited for their grants, in nanoseconds.
    pub(crate) waits_ns: Vec<u64>,
}

impl Outcome {
    /// The 99th percentile of the time that cuts waited for their grants.
    pub(crate) fn wait_p99(&self) -> Duration {
        let mut waits = self.waits_ns.clone();
        waits.sort_unstable();
        Duration::from_nanos(waits.get(waits.len() * 99 / 100).copied().unwrap_or(0))
    }
}

enum Event {
    ToWorker(usize, FromCoordinator<u64>),
    ToCoordinator(usize, ToCoordinator<u64>),
    Stored(u64, Answer<u64>),
    /// The time of the worker's next epoch is over.
    Due(usize),
    /// The worker's sinks have all rows of an epoch.
    Through(usize, Epoch),
    Tick,
    WorkerTick(usize),
}

/// A worker and its tasks.
struct Host {
    process: Process,
    worker: Worker<u64>,
    tasks: Tasks,
    incarnation: Incarnation,
    granted: Epoch,
    turn: Epoch,
    cut: Epoch,
    /// When the time of each epoch was over that is not cut.
    due: VecDeque<Nanos>,
    /// Epochs that end with a checkpoint.
    checkpoints: BTreeSet<Epoch>,
    /// What was granted when sinks reported last.
    told_under: Epoch,
    tick: Option<Nanos>,
}

/// A job with all its processes.
struct Job {
    now: Nanos,
    next: u64,
    events: BTreeMap<(Nanos, u64), Event>,
    coordinator: Coordinator<u64>,
    peers: Peers<u64>,
    tasks: Tasks,
    hosts: Vec<Host>,
    tick: Option<Nanos>,
    rng: Rng,
    outcome: Outcome,
}

/// Runs a job until it has cut its epochs.
pub(crate) fn simulate(setup: Setup) -> Result<Outcome> {
    let mut job = Job::new(setup);
    job.coordinate(|_, _, _| {});
    while job.hosts.iter().any(|host| host.cut < Epoch(setup.epochs)) {
        let Some(((now, _), event)) = job.events.pop_first() else {
            return Err(Error::internal("the simulated job stands still"));
        };
        job.now = now;
        job.event(event);
    }
    job.outcome.elapsed = Duration::from_nanos(job.now.0);
    Ok(job.outcome)
}

fn task(stage: u32, index: u32) -> TaskId {
    TaskId { stage: StageId(stage), index }
}

fn tasks(indexes: std::ops::Range<u32>) -> Tasks {
    let sources: BTreeSet<TaskId> = indexes.clone().map(|index| task(0, index)).collect();
    let sinks: BTreeSet<TaskId> = indexes.map(|index| task(1, index)).collect();
    Tasks { version: PlanVersion(1), all: sources.union(&sinks).copied().collect(), sources, sinks }
}

impl Job {
    fn new(setup: Setup) -> Job {
        let of_stage = TASKS / 2;
        let all = tasks(0..setup.workers * of_stage);
        let config = Config {
            group_size: GroupSizing::Fixed(setup.group),
            // Of the real time only the groups' ends matter.
            checkpoint_interval: setup.checkpoints.then_some(Duration::ZERO),
            ..Config::default()
        };
        // No heartbeats here.
        let of_worker = worker::Config { lease: Duration::from_secs(1 << 30), ..worker::Config::default() };
        let host = |number: u32| Host {
            process: Process { worker: WorkerId(number + 1), life: 1 },
            worker: Worker::new(of_worker.clone()),
            tasks: tasks(number * of_stage..(number + 1) * of_stage),
            incarnation: Incarnation(0),
            granted: Epoch(0),
            turn: Epoch(0),
            cut: Epoch(0),
            due: VecDeque::new(),
            checkpoints: BTreeSet::new(),
            told_under: Epoch(0),
            tick: None,
        };
        Job {
            now: Nanos(0),
            next: 0,
            events: BTreeMap::new(),
            coordinator: Coordinator::new(Nanos(0), config, Owner(1), [], all.clone(), None),
            peers: Peers::default(),
            tasks: all,
            hosts: (0..setup.workers).map(host).collect(),
            tick: None,
            rng: Rng::new(1),
            outcome: Outcome::default(),
        }
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.next += 1;
        self.events.insert((self.now.plus(time), self.next), event);
    }

    fn event(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::ToCoordinator(number, message) => {
                self.outcome.summaries += 1;
                let process = self.hosts[number].process;
                self.coordinate(|peers, inputs, sent| {
                    inputs.extend(peers.receive_summary(process, message));
                    // As in the engine, a summary is answered at once.
                    sent.extend(
                        peers.messages(process, Some(now), now, REPEAT).into_iter().map(|message| (process, message)),
                    );
                });
            }
            Event::Stored(sequence, answer) => {
                self.coordinate(|_, inputs, _| inputs.push_back(Input::Store(sequence, answer)));
            }
            Event::Tick => {
                self.tick = None;
                self.coordinate(|_, inputs, _| inputs.push_back(Input::Tick));
            }
            Event::ToWorker(number, message) => self.at_worker(number, [worker::Input::Message(message)]),
            Event::WorkerTick(number) => {
                self.hosts[number].tick = None;
                self.at_worker(number, [worker::Input::Tick]);
            }
            Event::Due(number) => {
                self.hosts[number].due.push_back(now);
                self.next_epoch(number);
                self.cut(number);
            }
            Event::Through(number, epoch) => self.through(number, epoch),
        }
    }

    /// The coordinator's side handles something, and its messages and requests leave. Only this is measured.
    fn coordinate(
        &mut self,
        begin: impl FnOnce(&mut Peers<u64>, &mut VecDeque<Input<u64>>, &mut Vec<(Process, FromCoordinator<u64>)>),
    ) {
        let begun = Instant::now();
        let (mut inputs, mut sent, mut requests) = (VecDeque::new(), Vec::new(), Vec::new());
        begin(&mut self.peers, &mut inputs, &mut sent);
        loop {
            while let Some(command) = self.coordinator.poll() {
                self.peers.command(&command);
                match command {
                    Command::Start { incarnation, from } => {
                        let of =
                            |host: &Host| host.tasks.all.iter().map(|task| (*task, host.process)).collect::<Vec<_>>();
                        let placement = self.hosts.iter().flat_map(of).collect();
                        self.peers.start((incarnation, self.coordinator.term()), from, &self.tasks, &placement);
                    }
                    Command::Append(sequence, _) => requests.push((sequence, Answer::Appended)),
                    Command::Read(sequence) => requests.push((sequence, Answer::Entry(None))),
                    Command::Grant { .. } => self.outcome.groups += 1,
                    Command::CheckpointDone(..) => self.outcome.checkpoints += 1,
                    _ => {}
                }
            }
            for process in self.peers.with_news() {
                let messages = self.peers.messages(process, Some(self.now), self.now, REPEAT);
                sent.extend(messages.into_iter().map(|message| (process, message)));
            }
            let Some(input) = inputs.pop_front() else { break };
            self.coordinator.handle(self.now, input);
        }
        self.outcome.busy += begun.elapsed();
        self.outcome.orders += sent.len() as u64;
        for (process, message) in sent {
            self.after(WAY, Event::ToWorker(process.worker.0 as usize - 1, message));
        }
        for (sequence, answer) in requests {
            self.after(STORE, Event::Stored(sequence, answer));
        }
        if let Some(at) = self.coordinator.next_deadline().filter(|at| self.tick.is_none_or(|tick| *at < tick)) {
            self.tick = Some(at);
            self.after(at.after(self.now), Event::Tick);
        }
    }

    /// A worker handles something, and its tasks what follows.
    fn at_worker(&mut self, number: usize, inputs: impl IntoIterator<Item = worker::Input<u64>>) {
        let mut inputs: VecDeque<_> = inputs.into_iter().collect();
        let mut granted = false;
        while let Some(input) = inputs.pop_front() {
            let host = &mut self.hosts[number];
            host.worker.handle(self.now, input);
            while let Some(command) = self.hosts[number].worker.poll() {
                let host = &mut self.hosts[number];
                match command {
                    worker::Command::Send(message) => self.after(WAY, Event::ToCoordinator(number, message)),
                    worker::Command::Tasks(incarnation, Order::Start { .. }) => {
                        host.incarnation = incarnation;
                        let started = |task: &TaskId| worker::Input::Task(incarnation, *task, Report::Started);
                        inputs.extend(host.tasks.all.iter().map(started));
                    }
                    worker::Command::Tasks(_, Order::Grant { group, checkpoint, .. }) => {
                        if host.granted == Epoch(0) {
                            self.next_epoch(number);
                        }
                        let host = &mut self.hosts[number];
                        (host.granted, host.turn) = (group.last, turn(group));
                        host.checkpoints.extend(checkpoint.then_some(group.last));
                        granted = true;
                    }
                    worker::Command::Tasks(..) => {}
                }
            }
        }
        let host = &mut self.hosts[number];
        if let Some(at) = host.worker.next_deadline().filter(|at| host.tick.is_none_or(|tick| *at < tick)) {
            host.tick = Some(at);
            let time = at.after(self.now);
            self.after(time, Event::WorkerTick(number));
        }
        if granted {
            self.cut(number);
        }
    }

    /// The next epoch's time begins at a worker. The time of epochs is the same at all workers but for the
    /// jitter.
    fn next_epoch(&mut self, number: usize) {
        let host = &self.hosts[number];
        let begun = host.cut.0 + host.due.len() as u64;
        let length_ns = EPOCH.as_nanos() as u64;
        // All workers have their first grant within the first epoch.
        let at = (begun + 2) * length_ns + self.rng.below(JITTER.as_nanos() as u64);
        let time = Nanos(at).after(self.now);
        self.after(time, Event::Due(number));
    }

    /// The sources of a worker cut what is due and granted.
    fn cut(&mut self, number: usize) {
        loop {
            let host = &mut self.hosts[number];
            let Some(due) = host.due.front().copied().filter(|_| host.cut < host.granted) else { return };
            host.due.pop_front();
            host.cut = host.cut.next();
            let (epoch, incarnation) = (host.cut, host.incarnation);
            let mut reports = Vec::new();
            if epoch == host.granted || epoch == host.turn {
                reports.extend(of(&host.tasks.sources, incarnation, &Report::EpochCut(epoch)));
            }
            if host.checkpoints.contains(&epoch) {
                let acknowledged = Report::Acknowledged { epoch, snapshot: epoch.0, finished: false };
                reports.extend(of(&host.tasks.sources, incarnation, &acknowledged));
            }
            self.outcome.waits_ns.push(self.now.since(due));
            self.at_worker(number, reports);
            self.after(THROUGH, Event::Through(number, epoch));
        }
    }

    /// The sinks of a worker have ended an epoch.
    fn through(&mut self, number: usize, epoch: Epoch) {
        let host = &mut self.hosts[number];
        let mut reports = Vec::new();
        if host.granted > host.told_under {
            host.told_under = host.granted;
            reports.extend(of(&host.tasks.sinks, host.incarnation, &Report::EpochEnded(epoch)));
        }
        if host.checkpoints.remove(&epoch) {
            let acknowledged = Report::Acknowledged { epoch, snapshot: epoch.0, finished: false };
            reports.extend(of(&host.tasks.sinks, host.incarnation, &acknowledged));
        }
        self.at_worker(number, reports);
    }
}

fn of(tasks: &BTreeSet<TaskId>, incarnation: Incarnation, report: &Report<u64>) -> Vec<worker::Input<u64>> {
    tasks.iter().map(|task| worker::Input::Task(incarnation, *task, report.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_costs_few_summaries_per_worker_whatever_its_size() {
        for group in [1, 4, 16] {
            let setup = Setup { workers: 3, group, epochs: 64, checkpoints: false };
            let outcome = simulate(setup).unwrap();
            let of_groups = outcome.summaries as f64 / (outcome.groups * 3) as f64;
            // In a long group some changes do not wait for the next turn.
            let most = if group == 1 { 1.1 } else { 4.0 };
            assert!((0.5..most).contains(&of_groups), "{group}: {of_groups}");
            assert!(outcome.wait_p99().is_zero(), "{group}: {:?}", outcome.wait_p99());
            assert_eq!(outcome.waits_ns.len() as u64, 3 * 64);
        }
    }

    #[test]
    fn groups_end_with_a_checkpoint_if_wanted() {
        let outcome = simulate(Setup { workers: 2, group: 4, epochs: 40, checkpoints: true }).unwrap();
        // The next group may be granted before the checkpoint of the last one is complete: then it has none.
        assert!((5..=10).contains(&outcome.checkpoints), "{}", outcome.checkpoints);
        assert!(outcome.elapsed >= EPOCH * 40 && outcome.orders > 0);
    }
}
