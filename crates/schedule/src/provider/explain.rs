//! How a value came about, for people.

use std::fmt;

use super::definitions::From;
use super::{Metrics, Provider};
use crate::{Metric, Nodes};

/// Neighbours of a node that are listed; the others are only counted.
const NEIGHBOURS_MAX: usize = 8;

/// A value of a metric at a node, with the values that it was derived from.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What it is.
    pub metric: Metric,
    /// The full name of the node.
    pub node: String,
    /// In the metric's unit, NaN if it is not known.
    pub value: f64,
    /// In words: reported, or from what it was derived.
    pub how: String,
    /// What it was derived from: the needs at the same node, explained in turn, then the values of
    /// neighbours.
    pub from: Vec<Explanation>,
}

impl Provider {
    /// Says how the value of a metric at a node came about. `metrics` are what [`Provider::evaluate`] made of
    /// `nodes`. None if the metric is not computed or there is no such node.
    #[must_use]
    pub fn explain(&self, nodes: &Nodes, metrics: &Metrics, metric: Metric, node: usize) -> Option<Explanation> {
        let step = self.steps.iter().find(|step| step.metric == metric)?;
        let at = nodes.all().get(node)?;
        let value = metrics.value(metric, node);
        let (mut how, mut from) = ("reported".to_string(), Vec::new());
        if let Some(alternative) = step.derived {
            how = alternative.how.to_string();
            from.extend(alternative.needs.iter().filter_map(|need| self.explain(nodes, metrics, *need, node)));
            let neighbours: &[usize] = match alternative.from {
                From::Itself => &[],
                From::Upstream => &at.upstream,
                From::Downstream => &at.downstream,
            };
            from.extend(neighbours.iter().take(NEIGHBOURS_MAX).map(|neighbour| Explanation {
                metric,
                node: nodes.node(*neighbour).name.clone(),
                value: metrics.value(metric, *neighbour),
                how: if alternative.from == From::Upstream { "upstream" } else { "downstream" }.to_string(),
                from: Vec::new(),
            }));
            if neighbours.len() > NEIGHBOURS_MAX {
                how = format!("{how} ({} more neighbours)", neighbours.len() - NEIGHBOURS_MAX);
            }
        }
        Some(Explanation { metric, node: at.name.clone(), value, how, from })
    }
}

impl Explanation {
    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let (indent, name, unit) = ("  ".repeat(depth), self.metric.name(), self.metric.unit());
        let value = if self.value.is_nan() { "unknown".to_string() } else { format!("{:.4} {unit}", self.value) };
        writeln!(f, "{indent}{name} of {} = {}: {}", self.node, value.trim_end(), self.how)?;
        self.from.iter().try_for_each(|part| part.write(f, depth + 1))
    }
}

/// One line for each value, indented below what was derived from it.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}
