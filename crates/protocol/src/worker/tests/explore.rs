//! Small instances of a worker in all interleavings: a source and a sink, a coordinator that sends a few
//! messages, and a network that delivers each of them never, once or again, at any time and in any order.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;
use crate::table::Taken;

/// One step of time.
const UNIT: u64 = 10 * MS;
const LEASE: u64 = 3;
/// A larger instance than the tests have time for.
const STATES_MAX: usize = 20_000;

const SOURCE: usize = 0;
const SINK: usize = 1;

/// The two tasks as they are.
#[derive(Clone, Debug, Default)]
struct Real {
    incarnation: u64,
    alive: [bool; 2],
    started: [bool; 2],
    finished: [bool; 2],
    cancelled: bool,
    granted: u64,
    checkpoints: BTreeSet<u64>,
    stop: Option<u64>,
    cut: u64,
    ended: u64,
    done: u64,
}

/// A state of everything.
#[derive(Clone)]
struct World {
    worker: Worker<u32>,
    now: u64,
    /// What the coordinator has sent: the fence, when it heard the worker last, and the order.
    posted: Vec<(Fence, u64, Option<Order<u32>>)>,
    real: Real,
    newest: Option<ToCoordinator<u32>>,
    /// The checkpoints that the coordinator of the newest term has received.
    known: BTreeSet<u64>,
    /// The newest fence that has reached the worker.
    fence: Fence,
    /// When the worker sent the last heartbeat that the coordinator of this fence has answered.
    contact: u64,
}

impl World {
    fn new() -> Self {
        let unit = |count: u64| Duration::from_nanos(count * UNIT);
        let config = Config { lease: unit(LEASE), linger: unit(1), resend: unit(2) };
        World {
            worker: Worker::new(config),
            now: 0,
            posted: Vec::new(),
            real: Real::default(),
            newest: None,
            known: BTreeSet::new(),
            fence: Fence::NONE,
            contact: 0,
        }
    }

    /// What identifies the state: not what only counts.
    fn key(&self) -> u64 {
        let mut worker = self.worker.clone();
        worker.refused = 0;
        let World { now, posted, real, newest, known, fence, contact, .. } = self;
        let mut hasher = DefaultHasher::new();
        let posted: Vec<u64> = posted.iter().map(|(_, heard, _)| *heard).collect();
        format!("{worker:?} {now} {posted:?} {real:?} {newest:?} {known:?} {fence:?} {contact}").hash(&mut hasher);
        hasher.finish()
    }

    /// Moves the transitions that were taken out of the state.
    fn drain_taken(&mut self, all: &mut BTreeSet<(&'static str, &'static str, &'static str)>) {
        all.extend(self.worker.taken());
        self.worker.life.taken = Taken::new(life::TABLE);
        self.worker.grants.taken = Taken::new(grants::TABLE);
        self.worker.outbox.taken = Taken::new(outbox::TABLE);
    }

    fn handle(&mut self, input: Input<u32>) {
        self.worker.handle(Nanos(self.now * UNIT), input);
        while let Some(command) = self.worker.poll() {
            match command {
                Command::Tasks(incarnation, order) => self.carry_out(incarnation, order),
                Command::Send(message) => {
                    assert_eq!(message.fence, self.fence);
                    self.is_true(&message.summary);
                    self.newest = Some(message);
                }
            }
        }
        let over = self.contact + LEASE <= self.now;
        assert!(!over || !self.real.alive.contains(&true) || self.real.cancelled, "tasks outlive the lease");
    }

    fn carry_out(&mut self, incarnation: Incarnation, order: Order<u32>) {
        let real = &mut self.real;
        let present = real.incarnation == incarnation.0;
        match order {
            Order::Start { .. } => {
                assert!(!real.alive.contains(&true), "the tasks of two incarnations at once");
                assert!(real.incarnation < incarnation.0 && incarnation == self.fence.incarnation);
                *real = Real { incarnation: incarnation.0, alive: [true; 2], ..Real::default() };
            }
            Order::Grant { group, checkpoint, then, .. } => {
                assert!(present && !real.cancelled, "a grant for {incarnation:?}");
                assert_eq!(group.first.0, real.granted + 1, "a grant out of order");
                real.granted = group.last.0;
                real.checkpoints.extend(checkpoint.then_some(group.last.0));
                real.stop = then.ends().then_some(group.last.0);
            }
            Order::CheckpointDone(epoch) => {
                assert!(present && !real.cancelled && epoch.0 > real.done);
                real.done = epoch.0;
            }
            Order::Cancel => {
                assert!(present && !std::mem::replace(&mut real.cancelled, true), "cancelled twice");
            }
            order => panic!("{order:?} was never sent"),
        }
    }

    /// A summary says what is.
    fn is_true(&self, summary: &Summary<u32>) {
        let real = &self.real;
        if real.incarnation != self.fence.incarnation.0 {
            assert!(summary.gone && !summary.sources_finished || summary.checkpoints.is_empty());
            return;
        }
        assert_eq!(summary.gone, !real.alive.contains(&true));
        assert_eq!(summary.started, real.started == [true; 2]);
        assert_eq!((summary.cut.0, summary.ended.0), (real.cut, real.ended));
        assert_eq!(summary.sources_finished, real.finished[SOURCE]);
        assert_eq!((summary.taken.granted.0, summary.taken.checkpoint_done.0), (real.granted, real.done));
        for snapshots in &summary.checkpoints {
            assert!(self.acknowledged().contains(&snapshots.epoch.0));
            assert_eq!(snapshots.tasks.as_ref().map(Vec::len), Some(2));
        }
        assert!(summary.last.is_empty() || (real.finished == [true; 2] && summary.last.len() == 2));
    }

    /// The checkpoints that both tasks have acknowledged and that are not done.
    fn acknowledged(&self) -> BTreeSet<u64> {
        let real = &self.real;
        real.checkpoints.iter().copied().filter(|epoch| *epoch <= real.ended && *epoch > real.done).collect()
    }

    fn deliver(&mut self, at: usize) {
        let (fence, heard, order) = self.posted[at].clone();
        self.message(fence, heard, 0, order);
    }

    fn message(&mut self, fence: Fence, heard: u64, received: u64, order: Option<Order<u32>>) {
        let is_newer = fence.term > self.fence.term || fence.incarnation > self.fence.incarnation;
        if !self.fence.refuses(fence) {
            self.contact = if is_newer { heard } else { self.contact.max(heard) };
            if is_newer {
                self.known.clear();
                self.newest = None;
            }
            self.fence = fence;
        }
        let heard = Nanos(heard * UNIT);
        self.handle(Input::Message(FromCoordinator { fence, heard, received, order }));
    }

    /// A heartbeat and the newest summary arrive, and the answer too.
    fn answer(&mut self) {
        let Some(fence) = self.posted.last().map(|(fence, ..)| *fence) else { return };
        let newest = self.newest.as_ref().filter(|message| message.fence == fence);
        let number = newest.map_or(0, |message| message.summary.number);
        let checkpoints = newest.iter().flat_map(|message| &message.summary.checkpoints).map(|s| s.epoch.0);
        let last = newest.iter().flat_map(|message| &message.summary.last).map(|last| last.epoch.0);
        self.known.extend(checkpoints.chain(last));
        self.message(fence, self.now, number, None);
    }

    /// One step of a task, if it can do one.
    fn step(&mut self, index: usize) -> bool {
        let real = &mut self.real;
        if !real.alive[index] {
            return false;
        }
        let mut reports = Vec::new();
        let acknowledged = |epoch: u64, finished| {
            let snapshot = 10 * epoch as u32 + index as u32;
            Report::Acknowledged { epoch: Epoch(epoch), snapshot, finished }
        };
        if real.cancelled || real.finished[index] {
            real.alive[index] = false;
            reports.push(Report::Gone);
        } else if !std::mem::replace(&mut real.started[index], true) {
            reports.push(Report::Started);
        } else if index == SOURCE && real.cut < real.granted {
            real.cut += 1;
            reports.push(Report::EpochCut(Epoch(real.cut)));
            if real.stop == Some(real.cut) {
                real.finished[SOURCE] = true;
                reports.extend([Report::SourceFinished, acknowledged(real.cut, true)]);
            } else if real.checkpoints.contains(&real.cut) {
                reports.push(acknowledged(real.cut, false));
            }
        } else if index == SINK && real.ended < real.cut {
            real.ended += 1;
            reports.push(Report::EpochEnded(Epoch(real.ended)));
            if real.finished[SOURCE] && real.ended == real.cut {
                real.finished[SINK] = true;
                reports.extend([Report::SinkFinished, acknowledged(real.ended, true)]);
            } else if real.checkpoints.contains(&real.ended) {
                reports.push(acknowledged(real.ended, false));
            }
        } else {
            return false;
        }
        let incarnation = Incarnation(real.incarnation);
        // A task's step is one moment: the worker hears of it as a whole.
        let last = reports.len() - 1;
        for (at, report) in reports.into_iter().enumerate() {
            let input = Input::Task(incarnation, task(index as u32), report);
            match at == last {
                true => self.handle(input),
                false => self.worker.handle(Nanos(self.now * UNIT), input),
            }
        }
        true
    }

    fn pass(&mut self) {
        self.now += 1;
        self.handle(Input::Tick);
    }

    /// From here on nothing is lost, and the last coordinator repeats its orders: in the end it knows
    /// everything.
    fn settles(mut self, script: &[(Fence, Option<Order<u32>>)]) {
        let Some((newest, _)) = script.last() else { return };
        let posted = |(fence, order): &(Fence, Option<Order<u32>>)| {
            (fence.incarnation == newest.incarnation).then(|| (*newest, self.now, order.clone()))
        };
        self.posted = script.iter().filter_map(posted).collect();
        for _ in 0..8 {
            self.answer();
            (0..self.posted.len()).for_each(|at| self.deliver(at));
            while (0..2).any(|index| self.step(index)) {}
            self.answer();
            self.pass();
        }
        assert_eq!(
            self.worker.outbox.deadline().filter(|_| self.worker.is_present()),
            None,
            "something is left to send"
        );
        let Some(ToCoordinator { summary, .. }) = &self.newest else {
            panic!("the coordinator has heard nothing");
        };
        self.is_true(summary);
        assert!(self.known.is_superset(&self.acknowledged()), "{:?} of {:?}", self.known, self.acknowledged());
        let (granted, cancelled) = (self.real.granted, self.real.cancelled);
        let last = script.iter().filter(|(fence, _)| fence.incarnation == self.fence.incarnation);
        let groups = last.filter_map(|(_, order)| match order {
            Some(Order::Grant { group, .. }) => Some(group.last.0),
            _ => None,
        });
        assert!(cancelled || granted == groups.max().unwrap_or(granted), "a grant was lost");
    }
}

type AllTaken = BTreeSet<(&'static str, &'static str, &'static str)>;

/// Visits every state that can follow. Returns how many there are, and the transitions taken.
fn explore(time_max: u64, script: &[(Fence, Option<Order<u32>>)]) -> (usize, AllTaken) {
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let mut queue = VecDeque::from([World::new()]);
    while let Some(world) = queue.pop_front() {
        let mut visit = |mut next: World| {
            next.drain_taken(&mut taken);
            if seen.insert(next.key()) {
                assert!(seen.len() < STATES_MAX, "{} of {} messages", next.posted.len(), script.len());
                next.clone().settles(script);
                queue.push_back(next);
            }
        };
        let after = |change: &dyn Fn(&mut World)| {
            let mut next = world.clone();
            change(&mut next);
            next
        };
        if let Some((fence, order)) = script.get(world.posted.len()) {
            visit(after(&|next| next.posted.push((*fence, next.now, order.clone()))));
        }
        (0..world.posted.len()).for_each(|at| visit(after(&|next| next.deliver(at))));
        visit(after(&World::answer));
        (0..2).for_each(|index| visit(after(&|next| _ = next.step(index))));
        if world.now < time_max {
            visit(after(&World::pass));
        }
    }
    (seen.len(), taken)
}

fn start() -> Option<Order<u32>> {
    Some(Order::Start { tasks: tasks(2), from: None })
}

fn stop(epoch: u64) -> Option<Order<u32>> {
    let group = Group { first: Epoch(epoch), last: Epoch(epoch) };
    Some(Order::Grant { group, checkpoint: true, then: Then::Stop, pace: Pace::Steady })
}

#[test]
fn in_every_interleaving_the_worker_keeps_its_duties() {
    // For each, until when time may pass.
    let scripts = [
        (
            0,
            vec![
                (fence(1, 1), start()),
                (fence(1, 1), Some(grant(1, 1, true))),
                (fence(2, 1), stop(2)),
                (fence(2, 1), Some(Order::CheckpointDone(Epoch(1)))),
            ],
        ),
        (
            0,
            vec![
                (fence(1, 1), start()),
                (fence(1, 1), Some(grant(1, 1, false))),
                (fence(1, 1), Some(grant(2, 2, false))),
                (fence(1, 1), Some(grant(3, 3, false))),
            ],
        ),
        (
            0,
            vec![
                (fence(1, 1), start()),
                (fence(1, 1), Some(Order::Cancel)),
                (fence(1, 2), start()),
                (fence(3, 3), Some(Order::Cancel)),
                (fence(3, 4), start()),
            ],
        ),
        (4, vec![(fence(1, 1), start()), (fence(1, 1), Some(grant(1, 1, false)))]),
        (4, vec![(fence(1, 1), start()), (fence(2, 2), start())]),
    ];
    let mut taken = AllTaken::new();
    for (time_max, script) in scripts {
        let (states, more) = explore(time_max, &script);
        println!("{states} states");
        assert!(states > 500, "the exploration must not be trivial: {states}");
        taken.extend(more);
    }
    let rows = MACHINES.iter().flat_map(|(name, _, table)| table.iter().map(|row| (*name, row.state, row.next)));
    let listed: AllTaken = rows.collect();
    let unlisted: Vec<_> = taken.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in the tables: {unlisted:?}");
    let never: Vec<_> = listed.difference(&taken).collect();
    assert!(never.is_empty(), "never taken: {never:?}");
}
