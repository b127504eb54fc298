//! Any process, by the names of its threads: for engines without a driver, as tenants beside others. The
//! kernel's metrics are all there is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Error, Nanos, Result};
use anabranch_schedule::{
    Edge, Graph, Metric, Operator, OperatorIndex, Query, QueryIndex, Readings, Role, Task, TaskIndex, Thread,
    ThreadKind,
};
use regex::Regex;

use super::local::Local;
use super::{Driver, set_roles};
use crate::kernel::{NamedThread, Process};

#[cfg(test)]
mod tests;

/// The group of a pattern that names the task which a thread runs.
const TASK: &str = "task";
/// The group that names the query: of the pattern of threads, or of that of processes.
const QUERY: &str = "query";
/// The group that, where it matches, makes a thread a helper of its task.
const HELPER: &str = "helper";

/// Which processes, and what the names of their threads mean.
pub struct ProcessOptions {
    /// A regular expression that the command lines of the processes match, with a group `query` that names
    /// the query (default: the program's name); or numbers of processes with commas between them.
    pub process: String,
    /// A regular expression for threads that run tasks: the group `task` names the task, `query` the query,
    /// and where `helper` matches the thread works for the task. None: threads of equal names, without
    /// numbers at the end, are a task.
    pub threads: Option<String>,
    /// Tasks with those that they get rows from, for policies that look at the graph.
    pub inputs: BTreeMap<String, Vec<String>>,
}

/// The driver of some processes.
pub struct OtherProcess {
    processes: Which,
    threads: Option<Regex>,
    inputs: BTreeMap<String, Vec<String>>,
    /// What the last look did not find.
    notices: Vec<String>,
    local: Box<dyn Local>,
    /// The processes of the last look, with the times at which they started.
    seen: BTreeSet<(u32, u64)>,
    searched_at: Nanos,
    /// Whether there are other processes now.
    is_stale: bool,
}

/// Time between two searches for processes that have come or gone.
const SEARCH: Duration = Duration::from_secs(1);

/// Which processes a target is about.
enum Which {
    Numbers(Vec<u32>),
    Pattern(Regex),
}

impl OtherProcess {
    /// A driver. `Err`: a pattern is wrong, or that of threads has no group `task`.
    pub fn new(options: ProcessOptions, local: Box<dyn Local>) -> Result<OtherProcess> {
        let numbers: Option<Vec<u32>> = options.process.split(',').map(|number| number.trim().parse().ok()).collect();
        let processes = match numbers {
            Some(numbers) => Which::Numbers(numbers),
            None => Which::Pattern(pattern("process", &options.process)?),
        };
        let threads = options.threads.map(|text| pattern("threads", &text)).transpose()?;
        let has_task = |pattern: &Regex| pattern.capture_names().flatten().any(|name| name == TASK);
        if let Some(pattern) = threads.as_ref().filter(|pattern| !has_task(pattern)) {
            let error = Error::user(format!("the pattern '{pattern}' does not name the task that a thread runs"));
            return Err(error.at("threads").remedy("put its name into a group: threads = \"(?P<task>worker-[0-9]+)\""));
        }
        let (seen, searched_at) = (BTreeSet::new(), Nanos(0));
        let (inputs, notices) = (options.inputs, Vec::new());
        Ok(OtherProcess { processes, threads, inputs, notices, local, seen, searched_at, is_stale: false })
    }

    fn processes(&mut self) -> Result<Vec<(Process, String)>> {
        let is_one = |process: &Process| match &self.processes {
            Which::Numbers(numbers) => numbers.contains(&process.pid),
            Which::Pattern(pattern) => pattern.is_match(&process.command),
        };
        let found = self.local.find(&is_one)?;
        if found.is_empty() {
            let which = match &self.processes {
                Which::Numbers(numbers) => format!("with the number {numbers:?}"),
                Which::Pattern(pattern) => format!("whose command line matches '{pattern}'"),
            };
            let error = Error::outside(format!("there is no process {which}"));
            return Err(error.at("process").remedy("start it, or correct the pattern"));
        }
        let pattern = match &self.processes {
            Which::Pattern(pattern) => Some(pattern),
            Which::Numbers(_) => None,
        };
        let query = |process: &Process| {
            let captures = pattern.and_then(|pattern| pattern.captures(&process.command));
            captures.and_then(|captures| Some(captures.name(QUERY)?.as_str().to_owned()))
        };
        let mut processes: Vec<(Process, String)> = Vec::new();
        for process in found {
            let name = query(&process).unwrap_or_else(|| {
                let program = process.command.split(' ').next().and_then(|path| path.rsplit('/').next());
                program.filter(|name| !name.is_empty()).unwrap_or(&process.name).to_owned()
            });
            let is_known = processes.iter().any(|(_, known)| *known == name);
            let name = if is_known { format!("{name} {}", process.pid) } else { name };
            processes.push((process, name));
        }
        Ok(processes)
    }

    /// Adds the edges that are configured, within each query. Returns notices about tasks that are not there.
    fn connect(&self, graph: &mut Graph) -> Vec<String> {
        let named = |graph: &Graph, name: &str| -> Vec<OperatorIndex> {
            let operators = graph.operators.iter().enumerate().filter(|(_, operator)| operator.name == name);
            operators.map(|(index, _)| OperatorIndex(index)).collect()
        };
        for (to, inputs) in &self.inputs {
            for (to, from) in named(graph, to).into_iter().flat_map(|to| inputs.iter().map(move |from| (to, from))) {
                let of_query = |from: &OperatorIndex| graph.operators[from.0].query == graph.operators[to.0].query;
                let from = named(graph, from).into_iter().find(of_query);
                graph.edges.extend(from.map(|from| Edge { from, to }));
            }
        }
        set_roles(graph, 0);
        let names: BTreeSet<&String> = self.inputs.iter().flat_map(|(to, from)| from.iter().chain([to])).collect();
        let missing = names.into_iter().filter(|name| named(graph, name).is_empty());
        let notice = |name: &String| {
            let tasks: BTreeSet<&str> = graph.tasks.iter().map(|task| task.name.as_str()).collect();
            let tasks = tasks.into_iter().collect::<Vec<_>>().join(", ");
            format!("no thread runs the task '{name}' of 'inputs': the tasks are {tasks}")
        };
        missing.map(notice).collect()
    }

    /// What the name of a thread says. None: it runs no task.
    fn meaning(&self, thread: &NamedThread, query: &str) -> Option<Meaning> {
        let Some(pattern) = &self.threads else {
            let task = thread
                .name
                .trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_' | '#' | ' ' | ':' | '.'));
            let task = if task.is_empty() { &thread.name } else { task };
            return Some(Meaning { query: query.to_owned(), task: task.to_owned(), is_helper: false });
        };
        let captures = pattern.captures(&thread.name)?;
        let group = |name| captures.name(name).map(|found| found.as_str());
        Some(Meaning {
            query: group(QUERY).unwrap_or(query).to_owned(),
            task: group(TASK)?.to_owned(),
            is_helper: group(HELPER).is_some_and(|found| !found.is_empty()),
        })
    }
}

/// A regular expression of the configuration. `Err`: it is none.
pub(super) fn pattern(key: &str, text: &str) -> Result<Regex> {
    if text.is_empty() {
        return Err(Error::user("the pattern is empty, which all match")
            .at(key)
            .remedy("give a part of the command line"));
    }
    Regex::new(text).map_err(|error| {
        let why = error.to_string();
        let error = Error::user(format!("this is no regular expression: {}", why.lines().last().unwrap_or(&why)));
        error.at(format!("{key} = '{text}'")).remedy("put a backslash before characters with a meaning, such as ( or *")
    })
}

struct Meaning {
    query: String,
    task: String,
    is_helper: bool,
}

impl Driver for OtherProcess {
    fn look(&mut self) -> Result<Graph> {
        let mut found = Vec::new();
        let processes = self.processes()?;
        self.seen = processes.iter().map(|(process, _)| (process.pid, process.start)).collect();
        self.is_stale = false;
        for (process, query) in processes {
            for thread in self.local.threads(&process)?.threads {
                let meaning = self.meaning(&thread, &query);
                found.push((thread, meaning));
            }
        }
        let mut graph = Graph::default();
        // In the order of names, so that equal threads give an equal graph.
        let tasks: BTreeMap<(&str, &str), ()> =
            found.iter().filter_map(|(_, m)| m.as_ref()).map(|m| ((m.query.as_str(), m.task.as_str()), ())).collect();
        for (query, task) in tasks.keys() {
            if graph.queries.last().is_none_or(|last| last.name != *query) {
                graph.queries.push(Query { name: (*query).to_owned() });
            }
            let query = QueryIndex(graph.queries.len() - 1);
            let operator = OperatorIndex(graph.operators.len());
            graph.operators.push(Operator { query, name: (*task).to_owned(), role: Role::Source });
            graph.tasks.push(Task { query, name: (*task).to_owned(), runs: vec![operator] });
        }
        self.notices = self.connect(&mut graph);
        let place = |meaning: &Meaning| {
            tasks.keys().position(|key| *key == (meaning.query.as_str(), meaning.task.as_str())).map(TaskIndex)
        };
        let kind = |meaning: &Option<Meaning>| match meaning
            .as_ref()
            .and_then(|meaning| Some((place(meaning)?, meaning.is_helper)))
        {
            Some((task, true)) => ThreadKind::Helper(task),
            Some((task, false)) => ThreadKind::Task(task),
            None => ThreadKind::Engine,
        };
        graph.threads = found
            .iter()
            .map(|(thread, meaning)| Thread { id: thread.id, name: thread.name.clone(), kind: kind(meaning) })
            .collect();
        Ok(graph)
    }

    fn read(&mut self, now: Nanos) -> Result<Readings> {
        // Numbers that are given stay the same; a process that has ended has no threads.
        if matches!(self.processes, Which::Pattern(_)) && now.after(self.searched_at) >= SEARCH {
            self.searched_at = now;
            let present = self.processes()?.into_iter().map(|(process, _)| (process.pid, process.start));
            self.is_stale |= present.collect::<BTreeSet<_>>() != self.seen;
        }
        Ok(Readings { at: now, values: Vec::new() })
    }

    fn offers(&self) -> Vec<Metric> {
        Vec::new()
    }

    fn is_stale(&self) -> bool {
        self.is_stale || self.local.is_incomplete()
    }

    fn advice(&self) -> Vec<String> {
        self.local.notices().into_iter().chain(self.notices.iter().cloned()).collect()
    }
}
