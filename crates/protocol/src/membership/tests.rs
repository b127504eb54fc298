//! Single cases, and a small instance of membership and worker in all interleavings.

use std::hash::{DefaultHasher, Hash, Hasher};

use anabranch_model::{Incarnation, PlanVersion, StageId, TaskId};

use super::*;
use crate::coordinator::{Report, Tasks};
use crate::worker::{self, Command, Fence, FromCoordinator, Order, Term, Worker};

const MS: u64 = 1_000_000;

fn config() -> Config {
    Config { silence: Duration::from_millis(100), forget_after: Duration::from_millis(1_000) }
}

fn process(life: u64) -> Process {
    Process { worker: WorkerId(0), life }
}

fn member(life: u64) -> Member {
    Member { process: process(life), slots: 2, labels: Arc::default() }
}

fn heartbeat(life: u64, sent: u64) -> Input {
    Input::Heartbeat { member: member(life), sent: Nanos(sent * MS) }
}

/// A membership to which inputs come at given milliseconds.
struct Bench(Membership);

impl Bench {
    fn new() -> Self {
        Bench(Membership::new(config()))
    }

    fn at(&mut self, ms: u64, input: Input) -> Vec<Event> {
        self.0.handle(Nanos(ms * MS), input);
        std::iter::from_fn(|| self.0.poll()).collect()
    }
}

#[test]
fn a_worker_joins_with_its_first_heartbeat_and_is_lost_when_it_is_silent() {
    let mut bench = Bench::new();
    assert_eq!(bench.at(10, heartbeat(1, 5)), [Event::Joined(process(1))]);
    assert_eq!(bench.at(60, heartbeat(1, 50)), []);
    assert_eq!(bench.0.heard(process(1)), Some(Nanos(50 * MS)));
    // Repeated and late heartbeats are no sign of life.
    assert_eq!(bench.at(159, heartbeat(1, 50)), []);
    assert_eq!(bench.0.next_deadline(), Some(Nanos(160 * MS)));
    assert_eq!(bench.at(160, Input::Tick), [Event::Lost(process(1))]);
    assert_eq!((bench.0.heard(process(1)), bench.0.members().count()), (None, 0));
    assert_eq!(bench.at(170, heartbeat(1, 50)), [], "it was sent before");
    assert_eq!(bench.at(180, heartbeat(1, 175)), [Event::Joined(process(1))]);
}

#[test]
fn a_later_life_replaces_an_earlier_one_for_good() {
    let mut bench = Bench::new();
    bench.at(0, heartbeat(1, 0));
    assert_eq!(bench.at(10, heartbeat(2, 9)), [Event::Lost(process(1)), Event::Joined(process(2))]);
    assert_eq!(bench.at(20, heartbeat(1, 19)), []);
    assert_eq!(bench.at(30, Input::Leave(process(1))), []);
    assert!(bench.0.is_member(process(2)) && !bench.0.is_member(process(1)));
}

#[test]
fn a_worker_that_left_joins_again_only_in_a_later_life() {
    let mut bench = Bench::new();
    bench.at(0, heartbeat(1, 0));
    assert_eq!(bench.at(10, Input::Leave(process(1))), [Event::Lost(process(1))]);
    assert_eq!(bench.at(20, heartbeat(1, 9)), [], "it has overtaken no leave");
    assert_eq!(bench.at(30, heartbeat(2, 1)), [Event::Joined(process(2))]);
}

#[test]
fn a_drained_worker_gets_no_task_and_is_a_member_until_it_is_lost() {
    let mut bench = Bench::new();
    bench.at(0, heartbeat(1, 0));
    assert_eq!(bench.at(10, Input::Drain(WorkerId(0))), [Event::Drained(process(1))]);
    assert_eq!(bench.at(20, heartbeat(1, 19)), []);
    assert_eq!((bench.0.members().count(), bench.0.heard(process(1))), (0, Some(Nanos(19 * MS))));
    assert_eq!(bench.at(120, Input::Tick), [Event::Lost(process(1))]);
    assert_eq!(bench.0.next_deadline(), Some(Nanos(1_120 * MS)));
    assert_eq!(bench.at(1_120, Input::Tick), []);
    assert_eq!(bench.0.next_deadline(), None, "the name is forgotten");
}

#[test]
fn a_worker_gets_tasks_again_when_its_drain_is_undone() {
    let mut bench = Bench::new();
    bench.at(0, heartbeat(1, 0));
    assert_eq!(bench.at(5, Input::Undrain(WorkerId(0))), [], "it is not drained");
    bench.at(10, Input::Drain(WorkerId(0)));
    assert_eq!(bench.at(20, Input::Undrain(WorkerId(0))), [Event::Joined(process(1))]);
    assert_eq!(bench.0.members().count(), 1);
    assert_eq!(bench.at(120, Input::Tick), [Event::Lost(process(1))], "the silence goes on");
}

/// One step of time; lease and silence last for two.
const UNIT: u64 = 10 * MS;
const TIME_MAX: u64 = 4;
const STATES_MAX: usize = 300_000;

/// Everything: the coordinator's side, and a worker with one task in its first life. Its second life only
/// joins.
#[derive(Clone)]
struct World {
    membership: Membership,
    worker: Worker<u32>,
    now: u64,
    /// Until when the first life sends heartbeats. Any of them may arrive at any later time, or never.
    beats_end: Option<u64>,
    /// Messages on their way: incarnation, what the coordinator had heard, and whether it is a start.
    messages: BTreeSet<(u64, u64, bool)>,
    /// The incarnation that the coordinator placed at the first life.
    incarnation: u64,
    lost: bool,
    left: bool,
    drained: bool,
    /// The incarnation of the task that runs.
    runs: Option<u64>,
    restarted: bool,
}

impl World {
    fn new() -> Self {
        let time = |count: u64| Duration::from_nanos(count * UNIT);
        let worker = worker::Config { lease: time(2), linger: time(1), resend: time(100) };
        World {
            membership: Membership::new(Config { silence: time(2), forget_after: time(100) }),
            worker: Worker::new(worker),
            now: 0,
            beats_end: None,
            messages: BTreeSet::new(),
            incarnation: 0,
            lost: false,
            left: false,
            drained: false,
            runs: None,
            restarted: false,
        }
    }

    fn key(&self) -> u64 {
        let World { membership, worker, now, beats_end, messages, incarnation, .. } = self;
        let flags =
            (self.lost, self.left, self.drained, self.runs, self.restarted, worker.phase(), worker.next_deadline());
        let (known, fence, heard) = (&membership.workers, worker.fence(), membership.heard(process(1)));
        let mut hasher = DefaultHasher::new();
        format!("{known:?} {fence:?} {heard:?} {now} {beats_end:?} {messages:?} {incarnation} {flags:?}")
            .hash(&mut hasher);
        hasher.finish()
    }

    fn time(&self) -> Nanos {
        Nanos(self.now * UNIT)
    }

    /// The membership handles an input; the coordinator starts the task wherever the first life joins.
    fn coordinate(&mut self, input: Input) {
        self.membership.handle(self.time(), input);
        while let Some(event) = self.membership.poll() {
            match event {
                Event::Joined(joined) if joined == process(1) => {
                    assert!(!self.left, "a process that has left joins again");
                    if self.incarnation == 0 {
                        self.begin();
                    }
                }
                Event::Lost(lost) if lost == process(1) => {
                    self.lost = true;
                }
                _ => {}
            }
        }
    }

    /// The coordinator begins an incarnation with the task at the first life.
    fn begin(&mut self) {
        self.lost = false;
        self.incarnation += 1;
        self.message(true);
    }

    /// A heartbeat arrives and is answered.
    fn heartbeat(&mut self, life: u64, sent: u64) {
        self.coordinate(Input::Heartbeat { member: member(life), sent: Nanos(sent * UNIT) });
        self.message(false);
    }

    /// The coordinator sends a message to the first life.
    fn message(&mut self, start: bool) {
        let heard = self.membership.heard(process(1)).map(|heard| heard.0 / UNIT);
        self.messages.extend(heard.map(|heard| (self.incarnation, heard, start)));
    }

    fn work(&mut self, input: worker::Input<u32>) {
        self.worker.handle(self.time(), input);
        while let Some(command) = self.worker.poll() {
            match command {
                Command::Tasks(incarnation, Order::Start { .. }) => self.runs = Some(incarnation.0),
                Command::Tasks(incarnation, Order::Cancel) => {
                    self.runs = None;
                    let gone = worker::Input::Task(incarnation, TASK, Report::Gone);
                    self.worker.handle(self.time(), gone);
                }
                _ => {}
            }
        }
    }

    fn deliver(&mut self, (incarnation, heard, start): (u64, u64, bool)) {
        let fence = Fence { term: Term(1), incarnation: Incarnation(incarnation), version: PlanVersion(1) };
        let one: BTreeSet<TaskId> = [TASK].into();
        let tasks = Tasks { version: PlanVersion(1), all: one.clone(), sources: one.clone(), sinks: one };
        let order = start.then_some(Order::Start { tasks, from: None });
        let heard = Nanos(heard * UNIT);
        self.work(worker::Input::Message(FromCoordinator { fence, heard, received: 0, order }));
    }

    fn pass(&mut self) {
        self.now += 1;
        if !self.restarted && !self.left {
            self.work(worker::Input::Tick);
        }
        self.coordinate(Input::Tick);
    }
}

const TASK: TaskId = TaskId { stage: StageId(0), index: 0 };

#[test]
fn in_every_interleaving_the_task_of_a_silent_worker_has_ended_when_it_is_lost() {
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let mut queue = VecDeque::from([World::new()]);
    let mut runs = 0;
    while let Some(world) = queue.pop_front() {
        let mut visit = |change: &dyn Fn(&mut World)| {
            let mut next = world.clone();
            change(&mut next);
            taken.extend(next.membership.taken());
            next.membership.taken = Taken::new(TABLE);
            let may_run = !next.lost || next.runs.is_none();
            assert!(may_run, "a task runs in a worker that is lost: {:?} of {}", next.runs, next.incarnation);
            if seen.insert(next.key()) {
                assert!(seen.len() < STATES_MAX, "a larger instance than the tests have time for");
                runs += u64::from(next.runs.is_some());
                queue.push_back(next);
            }
        };
        if !world.left && !world.restarted {
            world.messages.iter().for_each(|message| visit(&|next| next.deliver(*message)));
            // A worker that has never joined would be lost by silence.
            if world.incarnation > 0 {
                visit(&|next| {
                    next.runs = None;
                    next.left = true;
                    next.beats_end = Some(next.now);
                    next.coordinate(Input::Leave(process(1)));
                });
            }
            visit(&|next| {
                next.runs = None;
                next.restarted = true;
                next.beats_end = Some(next.now);
            });
        }
        if !world.drained && world.now == 1 {
            visit(&|next| {
                next.drained = true;
                next.coordinate(Input::Drain(WorkerId(0)));
            });
        }
        for sent in 0..=world.beats_end.unwrap_or(world.now) {
            visit(&|next| next.heartbeat(1, sent));
        }
        if world.restarted {
            visit(&|next| next.heartbeat(2, next.now));
        }
        if world.lost && world.membership.is_member(process(1)) {
            visit(&World::begin);
        }
        if world.now < TIME_MAX {
            visit(&World::pass);
        }
    }
    println!("{} states", seen.len());
    assert!(runs > 100, "the task runs in {runs} states");
    let listed: BTreeSet<_> = TABLE.iter().map(|row| ("member", row.state, row.next)).collect();
    assert_eq!(taken, listed);
}
