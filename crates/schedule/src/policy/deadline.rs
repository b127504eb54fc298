//! The node whose window can close soonest matters most (after Klink, SIGMOD 2021): its result is due next.

use anabranch_model::Result;

use super::{Goal, Policy, column};
use crate::{Metric, Metrics, Nodes};

/// The node whose window can close soonest matters most. So do the nodes before it, as much as the most
/// urgent window that they lead to: its watermark comes through them. A node that leads to no window is
/// unknown, so it gets the middle of the range.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadline;

impl Policy for Deadline {
    fn name(&self) -> &str {
        "deadline"
    }

    fn needs(&self) -> Vec<Metric> {
        vec![Metric::UntilWindowMs]
    }

    fn goal(&self) -> Goal {
        Goal::LatencyMean
    }

    fn priorities(&mut self, nodes: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        let mut until = column(self, metrics, Metric::UntilWindowMs)?.to_vec();
        for &node in nodes.order().iter().rev() {
            // `min` takes the known one of two values.
            until[node] = nodes.node(node).downstream.iter().map(|to| until[*to]).fold(until[node], f64::min);
        }
        Ok(until.iter().map(|until| -until).collect())
    }
}
