//! Which threads run or help which tasks, by their names.
//!
//! Names of tasks are not unique: two jobs may have vertices of one name, and so may one job. Nothing that
//! Flink and the JVM tell joins a thread with the identifier of its vertex, so their threads are
//! distinguished by their process, and by the order in which they were started. Where that is not clear,
//! tasks of one job are alike ([`Graph::alike`](anabranch_schedule::Graph::alike)), and threads of several
//! jobs are left alone. A notice says so.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_schedule::{TaskIndex, Thread, ThreadId, ThreadKind};

use super::graph::Built;
use super::names::{cut, named};
use super::rest::Subtask;
use crate::driver::local::ProcessThreads;
use crate::kernel::NamedThread;

/// Two starts that are closer say nothing about their order.
const APART_MS: i64 = 100;
/// Starts are exact to this.
const CLOCK_MS: i64 = 20;

/// One process with tasks.
pub(super) struct Host {
    /// The TaskManager that it is, if that is known.
    pub(super) task_manager: Option<String>,
    pub(super) threads: ProcessThreads,
}

/// Tasks of a name, with when they were deployed and where: job, vertex, to its subtasks. Only for names that
/// occur several times.
pub(super) type Starts = BTreeMap<(String, String), Vec<Subtask>>;

/// A vertex' name, a subtask, and the parallelism.
type Key = (String, usize, usize);

/// The vertices whose tasks have the names of other vertices' tasks.
pub(super) fn equal_names(built: &Built) -> Vec<(String, String)> {
    let mut by_name: BTreeMap<(&str, usize), Vec<(String, String)>> = BTreeMap::new();
    for vertex in &built.vertices {
        let of_name = by_name.entry((&vertex.name, vertex.tasks.len())).or_default();
        of_name.push((vertex.job.clone(), vertex.vertex.clone()));
    }
    by_name.into_values().filter(|vertices| vertices.len() > 1).flatten().collect()
}

/// What threads do.
pub(super) struct Assigned {
    /// Without those that are left alone.
    pub(super) threads: Vec<Thread>,
    pub(super) alike: Vec<Vec<TaskIndex>>,
    pub(super) notices: Vec<String>,
}

/// What the threads of `hosts` do. `started_ms` is when a thread started.
pub(super) fn assign(
    built: &Built,
    hosts: &[Host],
    starts: &Starts,
    started_ms: &dyn Fn(&NamedThread) -> i64,
) -> Assigned {
    let candidates = candidates(built);
    let mut assigner = Assigner {
        built,
        candidates: &candidates,
        starts,
        started_ms,
        kinds: BTreeMap::new(),
        alike: Vec::new(),
        names_alike: BTreeSet::new(),
        left_alone: BTreeSet::new(),
        unclear: BTreeSet::new(),
    };
    for host in hosts {
        assigner.add_tasks(host);
    }
    for host in hosts {
        assigner.add_helpers(host);
    }
    let unclear = assigner.unclear.iter().map(|name| {
        format!(
            "the threads '{name}' belong to different tasks and cannot be distinguished, so they are left alone: \
             give the operators different names (.name(\"...\")), or start the jobs one after the other"
        )
    });
    let alike = assigner.names_alike.iter().map(|name| {
        format!(
            "the threads '{name}' belong to different tasks of a job and cannot be distinguished, so all have the \
             priority of the most urgent one: give the operators different names (.name(\"...\")) to order each"
        )
    });
    let notices = unclear.chain(alike).collect();
    let kind = |thread: &NamedThread| assigner.kinds.get(&thread.id).copied().unwrap_or(ThreadKind::Engine);
    let all = hosts.iter().flat_map(|host| &host.threads.threads);
    let all = all.filter(|thread| !assigner.left_alone.contains(&thread.id));
    let threads = all.map(|thread| Thread { id: thread.id, name: thread.name.clone(), kind: kind(thread) }).collect();
    Assigned { threads, alike: assigner.alike, notices }
}

fn candidates(built: &Built) -> BTreeMap<Key, Vec<TaskIndex>> {
    let mut candidates: BTreeMap<Key, Vec<TaskIndex>> = BTreeMap::new();
    for vertex in &built.vertices {
        for (subtask, task) in vertex.tasks.iter().enumerate() {
            candidates.entry((vertex.name.clone(), subtask, vertex.tasks.len())).or_default().push(*task);
        }
    }
    candidates
}

/// Tasks by what the kernel has of their threads' names. A cut name with its end is known for the first
/// attempt only.
fn cuts(candidates: &BTreeMap<Key, Vec<TaskIndex>>) -> BTreeMap<String, BTreeSet<&Key>> {
    let mut cuts: BTreeMap<String, BTreeSet<&Key>> = BTreeMap::new();
    for key in candidates.keys() {
        for name in cut(&format!("{} ({}/{})#0", key.0, key.1 + 1, key.2)) {
            cuts.entry(name).or_default().insert(key);
        }
    }
    cuts
}

struct Assigner<'a> {
    built: &'a Built,
    candidates: &'a BTreeMap<Key, Vec<TaskIndex>>,
    starts: &'a Starts,
    started_ms: &'a dyn Fn(&NamedThread) -> i64,
    kinds: BTreeMap<ThreadId, ThreadKind>,
    /// Tasks of one job whose threads are not distinguished, and the names of these threads.
    alike: Vec<Vec<TaskIndex>>,
    names_alike: BTreeSet<String>,
    /// Threads that may run one task or another, and their names.
    left_alone: BTreeSet<ThreadId>,
    unclear: BTreeSet<String>,
}

impl<'a> Assigner<'a> {
    /// Threads that run tasks.
    fn add_tasks(&mut self, host: &Host) {
        let mut of_key: BTreeMap<&Key, Vec<&NamedThread>> = BTreeMap::new();
        let cuts = if host.threads.are_cut { cuts(self.candidates) } else { BTreeMap::new() };
        for thread in &host.threads.threads {
            // Of a process that does not tell names now, some may be known from before.
            let key = self.of_full(&thread.name).or_else(|| self.of_cut(thread, &cuts));
            if let Some(key) = key {
                of_key.entry(key).or_default().push(thread);
            }
        }
        for (key, threads) in of_key {
            self.resolve(key, threads, host);
        }
    }

    fn of_full(&self, name: &str) -> Option<&'a Key> {
        let found = named(name).filter(|found| found.is_end)?;
        let key = (found.vertex.to_owned(), found.subtask, found.parallelism);
        self.candidates.get_key_value(&key).map(|(key, _)| key)
    }

    fn of_cut(&mut self, thread: &NamedThread, cuts: &BTreeMap<String, BTreeSet<&'a Key>>) -> Option<&'a Key> {
        let keys = cuts.get(&thread.name)?;
        if keys.len() > 1 {
            self.leave(&[thread]);
            return None;
        }
        keys.first().copied()
    }

    fn resolve(&mut self, key: &Key, mut threads: Vec<&NamedThread>, host: &Host) {
        let mut tasks: Vec<(TaskIndex, Option<i64>)> = Vec::new();
        for task in &self.candidates[key] {
            let subtask = self.subtask(*task, key.1);
            let elsewhere =
                host.task_manager.as_ref().zip(subtask).is_some_and(|(here, there)| *here != there.task_manager);
            if !elsewhere {
                tasks.push((*task, subtask.map(|subtask| subtask.start_ms)));
            }
        }
        if let [(only, _)] = tasks[..] {
            self.kinds.extend(threads.iter().map(|thread| (thread.id, ThreadKind::Task(only))));
            return;
        }
        threads.sort_by_key(|thread| thread.id.start);
        tasks.sort_by_key(|(_, start)| *start);
        let deployed: Option<Vec<i64>> = tasks.iter().map(|(_, start)| *start).collect();
        let started: Vec<i64> = threads.iter().map(|thread| (self.started_ms)(thread)).collect();
        let are_apart = |times: &[i64]| times.windows(2).all(|pair| pair[1] - pair[0] >= APART_MS);
        let is_clear =
            tasks.len() == threads.len() && deployed.is_some_and(|times| are_apart(&times)) && are_apart(&started);
        let built = self.built;
        let query = |task: TaskIndex| built.graph.tasks[task.0].query;
        let are_of_one_job = tasks.windows(2).all(|pair| query(pair[0].0) == query(pair[1].0));
        if !is_clear && (tasks.len() != threads.len() || !are_of_one_job) {
            self.leave(&threads);
            return;
        }
        if !is_clear {
            self.names_alike.insert(threads[0].name.clone());
            self.alike.push(tasks.iter().map(|(task, _)| *task).collect());
        }
        for (thread, (task, _)) in threads.iter().zip(&tasks) {
            self.kinds.insert(thread.id, ThreadKind::Task(*task));
        }
    }

    fn leave(&mut self, threads: &[&NamedThread]) {
        self.left_alone.extend(threads.iter().map(|thread| thread.id));
        self.unclear.extend(threads.iter().map(|thread| thread.name.clone()));
    }

    fn subtask(&self, task: TaskIndex, subtask: usize) -> Option<&Subtask> {
        let vertex = self.built.vertices.iter().find(|vertex| vertex.tasks.contains(&task))?;
        let of_vertex = self.starts.get(&(vertex.job.clone(), vertex.vertex.clone()))?;
        of_vertex.iter().find(|found| found.subtask == subtask)
    }

    /// Threads that work for a task.
    fn add_helpers(&mut self, host: &Host) {
        let mut of_name: BTreeMap<&str, Vec<&NamedThread>> = BTreeMap::new();
        for thread in host.threads.threads.iter().filter(|thread| !self.kinds.contains_key(&thread.id)) {
            of_name.entry(&thread.name).or_default().push(thread);
        }
        for (name, threads) in of_name {
            if let Some(key) = self.helped(name) {
                self.resolve_helpers(key, threads, host);
            }
        }
    }

    /// The task that a helper's name ends with: the longest one that follows a space.
    fn helped(&self, name: &str) -> Option<&'a Key> {
        let found = named(name)?;
        let is_it = |name: &str| {
            let before = found.vertex.strip_suffix(name);
            before.is_some_and(|before| before.ends_with(' ') || (before.is_empty() && !found.is_end))
        };
        let of_place = |key: &&Key| key.1 == found.subtask && key.2 == found.parallelism;
        self.candidates.keys().filter(of_place).filter(|key| is_it(&key.0)).max_by_key(|key| key.0.len())
    }

    /// Helpers of one name. Of several tasks with that name, the one that started first has the helpers that
    /// started first; each task has as many as the others.
    fn resolve_helpers(&mut self, key: &Key, mut helpers: Vec<&NamedThread>, host: &Host) {
        let tasks = &self.candidates[key];
        if let [only] = tasks[..] {
            self.kinds.extend(helpers.iter().map(|thread| (thread.id, ThreadKind::Helper(only))));
            return;
        }
        let own = |thread: &NamedThread| match self.kinds.get(&thread.id) {
            Some(ThreadKind::Task(task)) if tasks.contains(task) => Some(((self.started_ms)(thread), *task)),
            _ => None,
        };
        let mut here: Vec<(i64, TaskIndex)> = host.threads.threads.iter().filter_map(own).collect();
        if here.is_empty() || !helpers.len().is_multiple_of(here.len()) {
            self.left_alone.extend(helpers.iter().map(|thread| thread.id));
            return;
        }
        here.sort_unstable();
        helpers.sort_by_key(|thread| (self.started_ms)(thread));
        let each = helpers.len() / here.len();
        for (threads, (started, task)) in helpers.chunks(each).zip(here) {
            if threads.iter().all(|thread| (self.started_ms)(thread) >= started - CLOCK_MS) {
                self.kinds.extend(threads.iter().map(|thread| (thread.id, ThreadKind::Helper(task))));
            }
        }
    }
}
