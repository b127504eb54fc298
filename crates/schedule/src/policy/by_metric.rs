//! Policies that compare one metric of the nodes.

use anabranch_model::Result;

use super::{Goal, Policy, column};
use crate::{Metric, Metrics, Nodes, Scale};

/// A policy that compares one metric of the nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByMetric {
    pub(super) name: &'static str,
    metric: Metric,
    scale: Scale,
    goal: Goal,
    /// The priorities that follow from the values of the metric.
    priorities: fn(&Nodes, &[f64]) -> Vec<f64>,
}

use self::Metric as M;

pub(super) const ALL: [ByMetric; 7] = [
    // The node whose window can close soonest matters most (after Klink, SIGMOD 2021): its result is due
    // next.
    linear("deadline", M::UntilWindowMs, Goal::LatencyMean, before_the_most_urgent_window),
    // The node that is nearest to a sink matters most: rows that are in the query leave it before others come
    // in.
    linear("drain", M::DistanceToSink, Goal::LatencyMean, |_, distances| negative(distances)),
    // The node whose input has been in the system for the longest time matters most (FCFS of the paper).
    linear("first-come", M::AgeMs, Goal::AgeMax, |_, ages| ages.to_vec()),
    // The node whose paths give the most results per processor time matters most (HR of the paper; Sharaf et
    // al. 2008).
    ByMetric {
        scale: Scale::Logarithmic,
        ..linear("highest-rate", M::PathRate, Goal::LatencyMean, |_, rates| rates.to_vec())
    },
    // The task whose epoch is furthest behind matters most: checkpoints and changes under load complete
    // sooner.
    linear("marker", M::EpochsBehind, Goal::None, |_, behind| {
        // A task that does not report its epoch does not hold one up as far as anybody knows.
        behind.iter().map(|epochs| if epochs.is_nan() { 0.0 } else { *epochs }).collect()
    }),
    // The node that relieves the queues the most per processor time matters most (Tassiulas and Ephremides
    // 1992).
    linear("max-weight", M::Relief, Goal::LatencyMean, |_, relief| relief.to_vec()),
    // The node before which the most rows wait matters most (QS of the paper): queues become equal.
    linear("queue-size", M::QueueRows, Goal::QueueVariance, |_, rows| rows.to_vec()),
];

const fn linear(
    name: &'static str,
    metric: Metric,
    goal: Goal,
    priorities: fn(&Nodes, &[f64]) -> Vec<f64>,
) -> ByMetric {
    ByMetric { name, metric, scale: Scale::Linear, goal, priorities }
}

fn negative(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| -value).collect()
}

/// The nodes before a window matter as much as the most urgent window that they lead to: its watermark comes
/// through them. A node that leads to no window is unknown, so it gets the middle of the range.
fn before_the_most_urgent_window(nodes: &Nodes, until: &[f64]) -> Vec<f64> {
    let mut until = until.to_vec();
    for &node in nodes.order().iter().rev() {
        // `min` takes the known one of two values.
        until[node] = nodes.node(node).downstream.iter().map(|to| until[*to]).fold(until[node], f64::min);
    }
    negative(&until)
}

impl Policy for ByMetric {
    fn name(&self) -> &str {
        self.name
    }

    fn needs(&self) -> Vec<Metric> {
        vec![self.metric]
    }

    fn scale(&self) -> Scale {
        self.scale
    }

    fn goal(&self) -> Goal {
        self.goal
    }

    fn priorities(&mut self, nodes: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        Ok((self.priorities)(nodes, column(self, metrics, self.metric)?))
    }
}
