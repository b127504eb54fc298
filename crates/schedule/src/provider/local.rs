//! Metrics of a node from its own readings, and ages along the way of the rows.

use super::Scene;
use super::memory::median;
use crate::Metric::{self, CostNs, CpuShare, InRate, OutRate, QueueRows, QueuedMs, Selectivity};
use crate::Role;

/// Rows per second from which a ratio to rows means something: below, what a thread does without rows
/// (timers, heartbeats) would count as the cost of rows.
const RATE_MIN: f64 = 1.0;

/// The least cost that is believed: a thread that used no measurable time is cheap, not free.
const COST_MIN_NS: f64 = 1.0;

/// A rate that the window has made from its counter.
pub(super) fn windowed(scene: &mut Scene, rate: Metric) -> Vec<f64> {
    scene.nodes.reading(rate).map_or_else(|| vec![f64::NAN; scene.nodes.len()], <[f64]>::to_vec)
}

/// Rows emitted per row received: 1 for sources and sinks (see [`Nodes::is_end`](crate::Nodes::is_end)).
/// Without enough rows it is the last known value, else 1.
pub(super) fn selectivity(scene: &mut Scene) -> Vec<f64> {
    let (nodes, taken, emitted) = (scene.nodes, scene.get(InRate), scene.get(OutRate));
    let column = (0..nodes.len())
        .map(|node| match taken[node] {
            _ if nodes.is_end(node) => 1.0,
            rate if rate >= RATE_MIN => emitted[node] / rate,
            _ => f64::NAN,
        })
        .collect();
    scene.memory.filled(Selectivity, nodes, column, |_| 1.0)
}

/// Processor time per row. A source that does not count what it reads is measured by what it emits. Without
/// enough rows the cost is the last known one, else the median of the other nodes', so that a node that is
/// starved from the start is neither preferred nor put last; NaN if no cost is known.
///
/// Both rates are smoothed with the same weights, so their quotient is the mean cost of recent rows.
pub(super) fn cost(scene: &mut Scene) -> Vec<f64> {
    let (nodes, used, taken) = (scene.nodes, scene.get(CpuShare), scene.get(InRate));
    let emitted = scene.find(OutRate);
    let column = (0..nodes.len())
        .map(|node| {
            let rows = match (nodes.node(node).role, emitted) {
                _ if taken[node] >= RATE_MIN => taken[node],
                (Role::Source, Some(emitted)) => emitted[node],
                _ => f64::NAN,
            };
            if rows >= RATE_MIN { (used[node] * 1e9 / rows).max(COST_MIN_NS) } else { f64::NAN }
        })
        .map(|cost: f64| if cost.is_finite() { cost } else { f64::NAN })
        .collect();
    scene.memory.filled(CostNs, nodes, column, median)
}

/// Age from the time in the own queue: the oldest row waited there after it had left the nodes before, whose
/// present age stands for the time that it took until then. An unknown time in the queue counts as none.
pub(super) fn age_from_queued(scene: &mut Scene) -> Vec<f64> {
    let queued = scene.get(QueuedMs);
    along_the_rows(scene, |node| queued[node])
}

/// Age by Little's law: what stands in the queue takes rows / rate to leave it. A rate below one row per
/// second counts as one, so that a node that is starved is old, but comparable.
pub(super) fn age_by_little(scene: &mut Scene) -> Vec<f64> {
    let (rows, rate) = (scene.get(QueueRows), scene.get(InRate));
    along_the_rows(scene, |node| 1e3 * rows[node] / if rate[node] >= RATE_MIN { rate[node] } else { RATE_MIN })
}

/// Adds to each node's own waiting time the greatest age of those before it. NaN where neither is known.
fn along_the_rows(scene: &Scene, own: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut ages = vec![f64::NAN; scene.nodes.len()];
    for &node in scene.nodes.order() {
        // `max` takes the known one of two values.
        let before = scene.nodes.node(node).upstream.iter().map(|from| ages[*from]).fold(f64::NAN, f64::max);
        ages[node] = match (own(node), before) {
            (own, before) if own.is_nan() => before,
            (own, before) if before.is_nan() => own,
            (own, before) => own + before,
        };
    }
    ages
}

/// Latency of a sink from the age of what waits before it. NaN for other nodes.
pub(super) fn latency(scene: &mut Scene) -> Vec<f64> {
    let ages = scene.get(Metric::AgeMs);
    (0..scene.nodes.len())
        .map(|node| if scene.nodes.node(node).role == Role::Sink { ages[node] } else { f64::NAN })
        .collect()
}
