//! A small instance in all interleavings: three processes whose sinks become full and have room again at any
//! time, while another coordinator may adopt the tasks.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;
use crate::membership::WorkerId;

const PROCESSES: usize = 3;
const INCARNATION: Incarnation = Incarnation(1);
/// How often sinks become full or have room, and whether another coordinator adopts the tasks.
const INSTANCES: [(u32, bool); 2] = [(4, false), (2, true)];
const STATES_MAX: usize = 100_000;

fn process(at: usize) -> Process {
    Process { worker: WorkerId(at as u32), life: 1 }
}

/// From the coordinator of a term to a process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Down {
    Hold(bool),
    /// The first message of a new term.
    Adopts,
}

#[derive(Clone, Debug)]
struct World {
    sinks: Sinks,
    held: [Held; PROCESSES],
    full: [bool; PROCESSES],
    /// The term of the coordinator, and the newest that each process knows.
    term: u64,
    terms: [u64; PROCESSES],
    down: [VecDeque<(u64, Down)>; PROCESSES],
    up: [VecDeque<(u64, bool)>; PROCESSES],
    /// The processes that have heard of the newest request of each process.
    heard: [BTreeSet<usize>; PROCESSES],
    changes: u32,
}

impl World {
    fn new() -> World {
        World {
            sinks: Sinks::new(INCARNATION, (0..PROCESSES).map(process)),
            held: Default::default(),
            full: Default::default(),
            term: 1,
            terms: [1; PROCESSES],
            down: Default::default(),
            up: Default::default(),
            heard: Default::default(),
            changes: 0,
        }
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        hasher.finish()
    }

    fn changes(&mut self, at: usize) {
        self.changes += 1;
        self.full[at] = !self.full[at];
        self.heard[at].clear();
        self.held[at].says(INCARNATION, self.full[at]);
        self.up[at].push_back((self.terms[at], self.full[at]));
    }

    /// Another coordinator adopts the tasks.
    fn adopts(&mut self) {
        self.term += 1;
        let taken = std::mem::replace(&mut self.sinks.taken, Taken::new(SINKS));
        self.sinks = Sinks::new(INCARNATION, (0..PROCESSES).map(process));
        self.sinks.taken = taken;
        for down in &mut self.down {
            down.push_back((self.term, Down::Adopts));
        }
    }

    fn arrives_up(&mut self, at: usize) {
        let Some((term, full)) = self.up[at].pop_front() else { return };
        if term != self.term {
            return;
        }
        for (to, held) in self.sinks.says(process(at), INCARNATION, full) {
            let to = to.worker.0 as usize;
            self.down[to].push_back((term, Down::Hold(held)));
        }
        assert_eq!(self.sinks.says(process(at), INCARNATION, full), [], "it is said again");
        assert_eq!(self.sinks.says(process(at), Incarnation(9), !full), [], "it is of other tasks");
    }

    fn arrives_down(&mut self, at: usize) {
        let Some((term, message)) = self.down[at].pop_front() else { return };
        if term < self.terms[at] {
            return;
        }
        match message {
            Down::Hold(held) => {
                self.held[at].told(INCARNATION, held);
                if held {
                    self.heard.iter_mut().for_each(|heard| _ = heard.insert(at));
                }
            }
            Down::Adopts => {
                self.terms[at] = term;
                self.up[at].extend(self.held[at].adopted(INCARNATION).map(|full| (term, full)));
            }
        }
    }

    /// Everything arrives: the sources of each process wait if a sink elsewhere is full, and have heard of
    /// its request.
    fn settles(mut self) {
        while self.up.iter().any(|up| !up.is_empty()) || self.down.iter().any(|down| !down.is_empty()) {
            (0..PROCESSES).for_each(|at| self.arrives_up(at));
            (0..PROCESSES).for_each(|at| self.arrives_down(at));
        }
        for at in 0..PROCESSES {
            let others: Vec<usize> = (0..PROCESSES).filter(|other| *other != at && self.full[*other]).collect();
            let held = self.held[at].holds(INCARNATION) == Some(true);
            assert_eq!(held, !others.is_empty(), "process {at} of {self:?}");
            assert!(others.iter().all(|other| self.heard[*other].contains(&at)), "process {at} of {self:?}");
        }
    }
}

#[test]
fn in_every_interleaving_sources_wait_in_the_end_exactly_for_sinks_elsewhere_that_are_full() {
    let mut taken = BTreeSet::new();
    for (changes_max, adopts) in INSTANCES {
        explore(changes_max, adopts, &mut taken);
    }
    let rows = MACHINES.iter().flat_map(|(name, _, table)| table.iter().map(|row| (*name, row.state, row.next)));
    let listed: BTreeSet<_> = rows.collect();
    let never: Vec<_> = listed.symmetric_difference(&taken).collect();
    assert!(never.is_empty(), "not listed, or never taken: {never:?}");
}

fn explore(changes_max: u32, adopts: bool, taken: &mut BTreeSet<(&'static str, &'static str, &'static str)>) {
    let mut seen = BTreeSet::new();
    let mut queue = VecDeque::from([World::new()]);
    while let Some(world) = queue.pop_front() {
        let mut visit = |change: &dyn Fn(&mut World)| {
            let mut next = world.clone();
            change(&mut next);
            taken.extend(next.sinks.taken().chain(next.held.iter().flat_map(Held::taken)));
            next.sinks.taken = Taken::new(SINKS);
            next.held.iter_mut().for_each(|held| held.taken = Taken::new(HELD));
            if seen.insert(next.key()) {
                assert!(seen.len() < STATES_MAX, "a larger instance than the tests have time for");
                next.clone().settles();
                queue.push_back(next);
            }
        };
        for at in 0..PROCESSES {
            if world.changes < changes_max {
                visit(&|next| next.changes(at));
            }
            visit(&|next| next.arrives_up(at));
            visit(&|next| next.arrives_down(at));
        }
        if adopts && world.term == 1 {
            visit(&World::adopts);
        }
    }
    println!("{} states", seen.len());
    assert!(seen.len() > 1_000, "the exploration must not be trivial");
}

#[test]
fn what_is_said_of_other_tasks_does_not_count() {
    let mut held = Held::default();
    held.told(Incarnation(2), true);
    assert_eq!((held.holds(Incarnation(1)), held.holds(Incarnation(2))), (None, Some(true)));
    held.says(Incarnation(1), true);
    assert_eq!((held.adopted(Incarnation(1)), held.adopted(Incarnation(2))), (Some(true), None));
}
