//! The graph that metrics and policies work on: one node per task, or one per logical operator, with its
//! readings.

mod spread;
mod wiring;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::metric::{Combine, Kind};
use crate::{Graph, Metric, QueryIndex, Readings, Role, TaskIndex};

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// One node per logical operator.
    Operator,
    /// One node per task: what a thread runs. Operators that the engine has fused are one node.
    Task,
}

/// A task or an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique within the target and the level, and the same at each look: the query's name, a slash, and its
    /// own.
    pub name: String,
    /// The query that it belongs to.
    pub query: QueryIndex,
    /// Its place in the query. A task that runs a source and more is a source; else one that runs a sink is a
    /// sink.
    pub role: Role,
    /// Nodes whose rows it receives, in ascending order.
    pub upstream: Vec<usize>,
    /// Nodes that receive its rows, in ascending order.
    pub downstream: Vec<usize>,
    /// The tasks that it stands for.
    pub tasks: Vec<TaskIndex>,
    /// Nodes with the same number run the same operators and share their input: parallel tasks. Numbers are
    /// dense.
    pub siblings: usize,
}

/// The nodes of one target at one level, with the readings of one moment.
#[derive(Clone, Debug)]
pub struct Nodes {
    level: Level,
    wired: Arc<Wired>,
    columns: BTreeMap<Metric, Vec<f64>>,
}

/// What follows from the graph alone.
#[derive(Debug)]
struct Wired {
    nodes: Vec<Node>,
    order: Vec<usize>,
}

impl Nodes {
    /// The nodes of a graph. `readings` are of its tasks, with rates (from [`Window`](crate::Window)).
    ///
    /// Edges that close a cycle are left out: metrics over paths need an order. At [`Level::Operator`]
    /// readings of parallel tasks are combined as `Metric::combine` says: amounts are summed, ages are the
    /// greatest. A counter is unknown if one of its tasks did not report, because a sum without that task
    /// would look like a restart.
    #[must_use]
    pub fn new(graph: &Graph, readings: &Readings, level: Level) -> Nodes {
        let (nodes, order) = match level {
            Level::Operator => wiring::operators(graph),
            Level::Task => wiring::tasks(graph),
        };
        Nodes::of_wired(Arc::new(Wired { nodes, order }), graph, readings, level)
    }

    /// The same nodes with later readings, without finding edges and names again. `graph` is the one that
    /// they were made of: make new nodes after each look that changed it.
    #[must_use]
    pub fn later(&self, graph: &Graph, readings: &Readings) -> Nodes {
        Nodes::of_wired(Arc::clone(&self.wired), graph, readings, self.level)
    }

    fn of_wired(wired: Arc<Wired>, graph: &Graph, readings: &Readings, level: Level) -> Nodes {
        let of_tasks = columns_of_tasks(graph, readings);
        let columns = match level {
            Level::Task => of_tasks,
            Level::Operator => columns_of_operators(graph, &wired.nodes, &of_tasks),
        };
        Nodes { level, wired, columns }
    }

    /// What a node stands for.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.wired.nodes.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wired.nodes.is_empty()
    }

    /// All nodes. At [`Level::Operator`] they are in the order of [`Graph::operators`], else of
    /// [`Graph::tasks`].
    #[must_use]
    pub fn all(&self) -> &[Node] {
        &self.wired.nodes
    }

    /// One node. `node` is below [`Nodes::len`].
    #[must_use]
    pub fn node(&self, node: usize) -> &Node {
        &self.wired.nodes[node]
    }

    /// The places of all nodes, each after all of its upstream.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.wired.order
    }

    /// Whether a node passes on what it receives as far as selectivity goes: what it does to rows happens
    /// outside of the query. A source emits what it reads, and each row that reaches a sink is a result.
    #[must_use]
    pub fn is_end(&self, node: usize) -> bool {
        let node = &self.wired.nodes[node];
        node.role != Role::Inner || node.upstream.is_empty() || node.downstream.is_empty()
    }

    /// The readings of a metric by node, NaN where it is not known. None if no task reported it.
    #[must_use]
    pub fn reading(&self, metric: Metric) -> Option<&[f64]> {
        self.columns.get(&metric).map(Vec::as_slice)
    }
}

fn columns_of_tasks(graph: &Graph, readings: &Readings) -> BTreeMap<Metric, Vec<f64>> {
    let mut columns: BTreeMap<Metric, Vec<f64>> = BTreeMap::new();
    for reading in &readings.values {
        if reading.task.0 < graph.tasks.len() {
            let column = columns.entry(reading.metric).or_insert_with(|| vec![f64::NAN; graph.tasks.len()]);
            column[reading.task.0] = if reading.value.is_finite() { reading.value } else { f64::NAN };
        }
    }
    columns
}

fn columns_of_operators(
    graph: &Graph,
    nodes: &[Node],
    of_tasks: &BTreeMap<Metric, Vec<f64>>,
) -> BTreeMap<Metric, Vec<f64>> {
    let mut columns = BTreeMap::new();
    for metric in of_tasks.keys() {
        let mut values: Vec<Vec<f64>> = vec![Vec::new(); nodes.len()];
        for (task, runs) in graph.tasks.iter().map(|task| &task.runs).enumerate() {
            let source = runs.first().is_some_and(|first| graph.operators[first.0].role == Role::Source);
            let shares = spread::over_chain(*metric, of_tasks, task, runs.len(), source);
            for (operator, value) in runs.iter().zip(shares) {
                values[operator.0].push(value);
            }
        }
        columns.insert(*metric, values.iter().map(|values| combined(*metric, values)).collect());
    }
    columns
}

/// One value of an operator from those of its tasks.
fn combined(metric: Metric, values: &[f64]) -> f64 {
    if metric.kind() == Kind::Counter && values.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    let known: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    if known.is_empty() {
        return f64::NAN;
    }
    match metric.combine() {
        Combine::Sum => known.iter().sum(),
        Combine::Max => known.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Combine::Min => known.iter().copied().fold(f64::INFINITY, f64::min),
        Combine::Mean => known.iter().sum::<f64>() / known.len() as f64,
    }
}

#[cfg(test)]
mod tests;
