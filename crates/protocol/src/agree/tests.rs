//! A small instance in all interleavings: two processes with two tasks each, which find different lists and
//! start again at any time.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;

const STATES_MAX: usize = 100_000;
const KEY: &str = "files of a";

#[derive(Clone, Debug)]
struct Process {
    incarnation: Incarnation,
    asking: Asking<usize>,
    /// What its tasks have been answered.
    answers: BTreeMap<usize, Vec<String>>,
    asked: BTreeSet<usize>,
    up: VecDeque<(Incarnation, Vec<String>)>,
    down: VecDeque<(Incarnation, Vec<String>)>,
}

#[derive(Clone, Debug)]
struct World {
    incarnation: Incarnation,
    lists: Lists,
    processes: [Process; 2],
}

impl World {
    fn new() -> World {
        let incarnation = Incarnation(1);
        let process = || Process {
            incarnation,
            asking: Asking::default(),
            answers: BTreeMap::new(),
            asked: BTreeSet::new(),
            up: VecDeque::new(),
            down: VecDeque::new(),
        };
        World { incarnation, lists: Lists::new(incarnation), processes: [process(), process()] }
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        hasher.finish()
    }

    fn asks(&mut self, at: usize, task: usize) {
        let process = &mut self.processes[at];
        if process.asked.insert(task) && process.asking.asks(KEY, task) {
            let list = vec![format!("{at} {task} of {:?}", process.incarnation)];
            process.up.push_back((process.incarnation, list));
        }
    }

    fn arrives_up(&mut self, at: usize) {
        let Some((incarnation, list)) = self.processes[at].up.pop_front() else { return };
        let found = self.lists.found(incarnation, KEY, list);
        assert_eq!(found.is_some(), incarnation == self.incarnation);
        let answer = found.map(|list| (incarnation, list.to_vec()));
        self.processes[at].down.extend(answer);
    }

    fn arrives_down(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some((incarnation, list)) = process.down.pop_front() else { return };
        if incarnation == process.incarnation {
            let tasks = process.asking.answered(KEY);
            process.answers.extend(tasks.into_iter().map(|task| (task, list.clone())));
        }
    }

    /// The coordinator begins the next incarnation.
    fn restarts(&mut self) {
        self.incarnation = Incarnation(self.incarnation.0 + 1);
        let taken = std::mem::replace(&mut self.lists.taken, Taken::new(LISTS));
        self.lists = Lists::new(self.incarnation);
        self.lists.taken = taken;
    }

    /// The tasks of a process end, and those of the next incarnation start.
    fn starts(&mut self, at: usize) {
        let process = &mut self.processes[at];
        process.asking.cancelled();
        process.incarnation = self.incarnation;
        (process.answers, process.asked) = (BTreeMap::new(), BTreeSet::new());
    }

    fn check(&self) {
        let present = self.processes.iter().filter(|process| process.incarnation == self.incarnation);
        let different: BTreeSet<_> = present.flat_map(|process| process.answers.values()).collect();
        assert!(different.len() < 2, "tasks use different lists: {different:?}");
        let text = format!("of {:?}", self.incarnation);
        assert!(different.iter().all(|list| list[0].ends_with(&text)), "a list of other tasks: {different:?}");
    }

    /// Everything arrives: every task that has asked is answered.
    fn settles(mut self) {
        for at in 0..2 {
            if self.processes[at].incarnation < self.incarnation {
                self.starts(at);
            }
            self.asks(at, 0);
        }
        for at in [0, 1, 0, 1] {
            while !self.processes[at].up.is_empty() {
                self.arrives_up(at);
            }
            while !self.processes[at].down.is_empty() {
                self.arrives_down(at);
            }
        }
        self.check();
        for Process { asked, answers, .. } in &self.processes {
            assert!(asked.iter().all(|task| answers.contains_key(task)), "{asked:?} of {answers:?}");
        }
    }
}

#[test]
fn in_every_interleaving_all_tasks_of_an_incarnation_use_one_list_and_each_is_answered() {
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
    let mut queue = VecDeque::from([World::new()]);
    while let Some(world) = queue.pop_front() {
        let mut visit = |change: &dyn Fn(&mut World)| {
            let mut next = world.clone();
            change(&mut next);
            taken.extend(next.lists.taken().chain(next.processes.iter().flat_map(|of| of.asking.taken())));
            next.lists.taken = Taken::new(LISTS);
            next.processes.iter_mut().for_each(|of| of.asking.taken = Taken::new(ASKING));
            if seen.insert(next.key()) {
                assert!(seen.len() < STATES_MAX, "a larger instance than the tests have time for");
                next.check();
                next.clone().settles();
                queue.push_back(next);
            }
        };
        for at in 0..2 {
            (0..2).for_each(|task| visit(&|next| next.asks(at, task)));
            visit(&|next| next.arrives_up(at));
            visit(&|next| next.arrives_down(at));
            if world.processes[at].incarnation < world.incarnation {
                visit(&|next| next.starts(at));
            }
        }
        if world.incarnation == Incarnation(1) {
            visit(&World::restarts);
        }
    }
    println!("{} states", seen.len());
    let rows = MACHINES.iter().flat_map(|(name, _, table)| table.iter().map(|row| (*name, row.state, row.next)));
    let listed: BTreeSet<_> = rows.collect();
    let never: Vec<_> = listed.symmetric_difference(&taken).collect();
    assert!(never.is_empty(), "not listed, or never taken: {never:?}");
}
