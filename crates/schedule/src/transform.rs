//! From priorities of nodes to priorities of threads, and to groups of threads (sections 5.1 and 5.3 of the
//! paper).

mod branch;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Graph, Group, Level, Nodes, Schedule, TaskIndex, ThreadKind};

/// Which threads are scheduled together against others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// No groups.
    None,
    /// A group per query.
    Query,
    /// A group per branch of a query: tasks whose rows can reach the same sinks. What comes before a fan-out
    /// is a branch of its own, and so is what comes after a join of two branches.
    Branch,
    /// A group per task, with its helper threads: the paper's way to give each operator a weight.
    Task,
}

/// How the priority of a group follows from those of its tasks. Unknown ones do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Large queries get more.
    Sum,
    /// A group matters as much as its most urgent task.
    Max,
    /// Groups are compared regardless of their size.
    Mean,
}

/// How a schedule is made of priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transform {
    /// Which threads are scheduled together.
    pub grouping: Grouping,
    /// The priority of a group.
    pub aggregate: Aggregate,
    /// Whether threads that work for the whole engine ([`ThreadKind::Engine`]) are scheduled before all
    /// tasks, with an infinite priority; else they are not in the schedule. They are never in a group.
    pub engine_first: bool,
}

/// Priorities of tasks, in the order of [`Graph::tasks`], from those of the nodes (Algorithm 2 of the paper):
/// a task takes the highest priority of the operators that it runs, and all tasks of an operator take the
/// operator's. Tasks whose threads cannot be distinguished share the highest of their priorities. Unknown
/// ones do not count; a task of which none is known gets NaN. `nodes` are of `graph`, with one priority each.
#[must_use]
pub fn to_tasks(graph: &Graph, nodes: &Nodes, priorities: &[f64]) -> Vec<f64> {
    let of_nodes = |node: usize| priorities.get(node).copied().unwrap_or(f64::NAN);
    let mut of_tasks: Vec<f64> = match nodes.level() {
        Level::Task => (0..graph.tasks.len()).map(of_nodes).collect(),
        Level::Operator => {
            let highest = |runs: &[crate::OperatorIndex]| {
                runs.iter().map(|operator| of_nodes(operator.0)).fold(f64::NAN, f64::max)
            };
            graph.tasks.iter().map(|task| highest(&task.runs)).collect()
        }
    };
    for set in &graph.alike {
        let highest = set.iter().map(|task| of_tasks[task.0]).fold(f64::NAN, f64::max);
        set.iter().for_each(|task| of_tasks[task.0] = highest);
    }
    of_tasks
}

impl Transform {
    /// The schedule of a graph's threads from the priorities of its tasks, in the order of [`Graph::tasks`].
    /// Helper threads take the priority of their task. A thread of a task without a known priority has NaN:
    /// it is neither preferred nor put behind.
    #[must_use]
    pub fn to_schedule(&self, graph: &Graph, priorities: &[f64]) -> Schedule {
        let of_task = |task: TaskIndex| priorities.get(task.0).copied().unwrap_or(f64::NAN);
        let mut schedule = Schedule::default();
        for thread in &graph.threads {
            match thread.kind {
                ThreadKind::Task(task) | ThreadKind::Helper(task) => {
                    schedule.threads.insert(thread.id, of_task(task));
                }
                ThreadKind::Engine if self.engine_first => {
                    schedule.threads.insert(thread.id, f64::INFINITY);
                }
                ThreadKind::Engine => {}
            }
        }
        let threads = graph.threads_of_tasks();
        for (name, tasks) in self.groups(graph) {
            let members: Vec<f64> = tasks.iter().map(|task| of_task(*task)).collect();
            let threads: BTreeSet<_> = tasks.iter().flat_map(|task| threads[task.0].iter().copied()).collect();
            schedule.groups.insert(name, Group { priority: self.aggregate.of(&members), threads });
        }
        schedule
    }

    /// The tasks of each group, by a name that is the same at each look.
    fn groups(&self, graph: &Graph) -> BTreeMap<String, Vec<TaskIndex>> {
        let branches = if self.grouping == Grouping::Branch { branch::names(graph) } else { Vec::new() };
        let mut groups: BTreeMap<String, Vec<TaskIndex>> = BTreeMap::new();
        for (place, task) in graph.tasks.iter().enumerate() {
            let name = match self.grouping {
                Grouping::None => continue,
                Grouping::Query => graph.queries[task.query.0].name.clone(),
                Grouping::Branch => branches[place].clone(),
                Grouping::Task => graph.full_name(TaskIndex(place)),
            };
            groups.entry(name).or_default().push(TaskIndex(place));
        }
        groups
    }
}

impl Aggregate {
    fn of(self, members: &[f64]) -> f64 {
        let known: Vec<f64> = members.iter().copied().filter(|priority| !priority.is_nan()).collect();
        match self {
            _ if known.is_empty() => f64::NAN,
            Aggregate::Sum => known.iter().sum(),
            Aggregate::Max => known.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Aggregate::Mean => known.iter().sum::<f64>() / known.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests;
