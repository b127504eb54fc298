//! Nodes and edges of either level from a graph of operators and tasks.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Graph, Node, OperatorIndex, QueryIndex, Role, TaskIndex};

/// One node per operator, and an order in which each comes after its upstream.
pub(super) fn operators(graph: &Graph) -> (Vec<Node>, Vec<usize>) {
    let mut tasks: Vec<Vec<TaskIndex>> = vec![Vec::new(); graph.operators.len()];
    for (task, runs) in graph.tasks.iter().map(|task| &task.runs).enumerate() {
        for operator in runs {
            tasks[operator.0].push(TaskIndex(task));
        }
    }
    let nodes = graph.operators.iter().zip(tasks).enumerate().map(|(place, (operator, tasks))| Node {
        name: full_name(graph, operator.query, &operator.name),
        query: operator.query,
        role: operator.role,
        upstream: Vec::new(),
        downstream: Vec::new(),
        tasks,
        siblings: place,
    });
    connect(nodes.collect(), graph.edges.iter().map(|edge| (edge.from.0, edge.to.0)).collect())
}

/// One node per task, and an order in which each comes after its upstream.
pub(super) fn tasks(graph: &Graph) -> (Vec<Node>, Vec<usize>) {
    let mut groups: BTreeMap<&[OperatorIndex], usize> = BTreeMap::new();
    let mut running: Vec<Vec<usize>> = vec![Vec::new(); graph.operators.len()];
    let mut nodes = Vec::with_capacity(graph.tasks.len());
    for (place, task) in graph.tasks.iter().enumerate() {
        for operator in &task.runs {
            running[operator.0].push(place);
        }
        let next = groups.len();
        nodes.push(Node {
            name: graph.full_name(TaskIndex(place)),
            query: task.query,
            role: role_of_chain(graph, &task.runs),
            upstream: Vec::new(),
            downstream: Vec::new(),
            tasks: vec![TaskIndex(place)],
            siblings: *groups.entry(&task.runs).or_insert(next),
        });
    }
    let mut edges = BTreeSet::new();
    for edge in &graph.edges {
        for &from in &running[edge.from.0] {
            for &to in &running[edge.to.0] {
                // Rows of a fused edge stay in their task.
                let fused = graph.tasks[from].runs.contains(&edge.to) || graph.tasks[to].runs.contains(&edge.from);
                if !fused {
                    edges.insert((from, to));
                }
            }
        }
    }
    connect(nodes, edges)
}

fn role_of_chain(graph: &Graph, runs: &[OperatorIndex]) -> Role {
    let role = |operator: Option<&OperatorIndex>| operator.map(|operator| graph.operators[operator.0].role);
    match (role(runs.first()), role(runs.last())) {
        (Some(Role::Source), _) => Role::Source,
        (_, Some(Role::Sink)) => Role::Sink,
        _ => Role::Inner,
    }
}

fn full_name(graph: &Graph, query: QueryIndex, name: &str) -> String {
    format!("{}/{name}", graph.queries[query.0].name)
}

/// Puts the edges in, without those that close a cycle.
fn connect(mut nodes: Vec<Node>, edges: BTreeSet<(usize, usize)>) -> (Vec<Node>, Vec<usize>) {
    let order = order_of(nodes.len(), &edges);
    let mut place = vec![0; nodes.len()];
    for (at, node) in order.iter().enumerate() {
        place[*node] = at;
    }
    for (from, to) in edges {
        if place[from] < place[to] {
            nodes[from].downstream.push(to);
            nodes[to].upstream.push(from);
        }
    }
    (nodes, order)
}

/// An order in which each node comes after those that it receives rows from (Kahn 1962). Where a cycle leaves
/// no such node, the first one that is left comes next.
fn order_of(nodes: usize, edges: &BTreeSet<(usize, usize)>) -> Vec<usize> {
    let mut downstream = vec![Vec::new(); nodes];
    let mut waiting = vec![0_usize; nodes];
    for &(from, to) in edges {
        downstream[from].push(to);
        waiting[to] += 1;
    }
    let mut ready: BTreeSet<usize> = (0..nodes).filter(|node| waiting[*node] == 0).collect();
    let mut left: BTreeSet<usize> = (0..nodes).collect();
    let mut order = Vec::with_capacity(nodes);
    while let Some(next) = ready.pop_first().or_else(|| left.first().copied()) {
        left.remove(&next);
        order.push(next);
        for &to in &downstream[next] {
            waiting[to] -= 1;
            if waiting[to] == 0 && left.contains(&to) {
                ready.insert(to);
            }
        }
    }
    order
}
