//! The branches of a query.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Graph, Level, Nodes, Readings};

/// The branch of each task, as `query/operator`, where the operator is the first by name that belongs to the
/// branch.
///
/// Two operators belong to one branch if their rows can reach the same sinks. A task belongs to the branch of
/// its first operator, whose rows reach all that those of the others do.
pub(super) fn names(graph: &Graph) -> Vec<String> {
    let nodes = Nodes::new(graph, &Readings::default(), Level::Operator);
    let mut sinks: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); nodes.len()];
    for &node in nodes.order().iter().rev() {
        let downstream = &nodes.node(node).downstream;
        sinks[node] = downstream.iter().flat_map(|to| sinks[*to].iter().copied()).collect();
        if downstream.is_empty() {
            sinks[node].insert(node);
        }
    }
    let mut first: BTreeMap<&BTreeSet<usize>, &str> = BTreeMap::new();
    for (node, sinks) in nodes.all().iter().zip(&sinks) {
        let name = first.entry(sinks).or_insert(&node.name);
        *name = (*name).min(&node.name);
    }
    let of_operator = |operator: usize| first.get(&sinks[operator]).map_or(String::new(), ToString::to_string);
    graph.tasks.iter().map(|task| task.runs.first().map_or(String::new(), |first| of_operator(first.0))).collect()
}
