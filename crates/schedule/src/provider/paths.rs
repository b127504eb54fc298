//! Metrics over the paths from a node to the sinks.
//!
//! Rows that fan out: each output takes a share of the rows, and a metric of the paths is the sum over the
//! outputs, weighted by these shares. The public code of the paper combines the selectivities of two outputs
//! as the probability that one of them passes a row, s1 + s2 - s1 s2. That is wrong above 1 (two outputs of 2
//! would give 0), and rows that reach two sinks are two results, so we sum. A row that is copied to several
//! outputs counts once for each of them in [`Metric::RowsOut`](crate::Metric::RowsOut), so copies are in the
//! selectivity already.

use super::Scene;
use crate::Metric::{self, CostNs, InRate, OutRate, PathCostNs, PathSelectivity, QueueRows};
use crate::Nodes;

/// Rows that reach a sink per row received.
pub(super) fn selectivity(scene: &mut Scene) -> Vec<f64> {
    let (nodes, own) = (scene.nodes, scene.get(Metric::Selectivity));
    let mut paths = vec![f64::NAN; nodes.len()];
    for &node in nodes.order().iter().rev() {
        let behind = weighted(scene, node, &paths);
        paths[node] = known_or(own[node], 1.0) * behind.unwrap_or(1.0);
    }
    paths
}

/// Processor time per row received, here and behind.
pub(super) fn cost(scene: &mut Scene) -> Vec<f64> {
    let (nodes, own, selectivity) = (scene.nodes, scene.get(CostNs), scene.get(Metric::Selectivity));
    let mut paths = vec![f64::NAN; nodes.len()];
    for &node in nodes.order().iter().rev() {
        let behind = weighted(scene, node, &paths).unwrap_or(0.0);
        paths[node] = own[node] + known_or(selectivity[node], 1.0) * behind;
    }
    paths
}

/// Rows that reach a sink per second of processor time spent on them (Sharaf et al. 2008, the paper's policy
/// HR).
pub(super) fn rate(scene: &mut Scene) -> Vec<f64> {
    let (selectivity, cost) = (scene.get(PathSelectivity), scene.get(PathCostNs));
    selectivity.iter().zip(cost).map(|(selectivity, cost)| selectivity / cost * 1e9).collect()
}

/// Edges of the longest path to a sink.
pub(super) fn distance(scene: &mut Scene) -> Vec<f64> {
    let nodes = scene.nodes;
    let mut distances = vec![0.0; nodes.len()];
    for &node in nodes.order().iter().rev() {
        let downstream = &nodes.node(node).downstream;
        distances[node] = downstream.iter().map(|to| distances[*to] + 1.0).fold(0.0, f64::max);
    }
    distances
}

/// The weight of max-weight scheduling with back-pressure (Tassiulas and Ephremides 1992), for operators:
/// serving one row takes it from the own queue and adds `selectivity` rows to those behind; a second serves 1
/// / cost rows. An unknown queue behind counts as empty.
pub(super) fn relief(scene: &mut Scene) -> Vec<f64> {
    let (queues, costs) = (scene.get(QueueRows), scene.get(CostNs));
    let selectivity = scene.get(Metric::Selectivity);
    let known: Vec<f64> = queues.iter().map(|rows| known_or(*rows, 0.0)).collect();
    (0..scene.nodes.len())
        .map(|node| {
            let behind = weighted(scene, node, &known).unwrap_or(0.0);
            (queues[node] - known_or(selectivity[node], 1.0) * behind) * 1e9 / costs[node]
        })
        .collect()
}

/// The mean of `values` over the outputs of a node, weighted by the share of its rows that each takes. None
/// without outputs.
fn weighted(scene: &Scene, node: usize, values: &[f64]) -> Option<f64> {
    let downstream = &scene.nodes.node(node).downstream;
    if downstream.is_empty() {
        return None;
    }
    let shares = match (scene.find(InRate), scene.find(OutRate)) {
        (Some(taken), Some(emitted)) => shares(scene.nodes, node, taken, emitted),
        _ => vec![1.0 / downstream.len() as f64; downstream.len()],
    };
    Some(downstream.iter().zip(shares).map(|(to, share)| share * values[*to]).sum())
}

/// The share of a node's rows that each of its outputs takes: what the output receives, times the part of it
/// that comes from this node. Of what a join receives, each input is taken to give a part by its rate. Equal
/// shares if a rate is unknown or nothing flows.
fn shares(nodes: &Nodes, node: usize, taken: &[f64], emitted: &[f64]) -> Vec<f64> {
    let downstream = &nodes.node(node).downstream;
    let flows = downstream.iter().map(|to| {
        let all: f64 = nodes.node(*to).upstream.iter().map(|from| emitted[*from]).sum();
        taken[*to] * if all > 0.0 { emitted[node] / all } else { f64::NAN }
    });
    let flows: Vec<f64> = flows.collect();
    let sum: f64 = flows.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        flows.iter().map(|flow| flow / sum).collect()
    } else {
        vec![1.0 / downstream.len() as f64; downstream.len()]
    }
}

fn known_or(value: f64, otherwise: f64) -> f64 {
    if value.is_nan() { otherwise } else { value }
}
