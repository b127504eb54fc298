//! What a provider remembers from period to period, for one level: names of operators and tasks may be equal.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Metric, Nodes};

/// The last known values of metrics, and the baselines of counters.
#[derive(Debug, Default)]
pub(super) struct Memory {
    last: BTreeMap<Metric, BTreeMap<String, f64>>,
    queues: BTreeMap<String, Standing>,
    routed: BTreeSet<String>,
}

/// What is known about the counters before and after a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Rows emitted upstream less rows received here, when the queue was empty.
    pub(super) baseline: f64,
    /// The counters at the last look: lower ones mean that a task began anew.
    pub(super) emitted: f64,
    pub(super) received: f64,
    /// How many tasks the counters are summed over, on either side: other tasks count from another beginning.
    pub(super) tasks: (usize, usize),
}

impl Memory {
    /// The column with each unknown value replaced by the last known one of the node, else by what
    /// `otherwise` makes of the known ones. Nodes that are gone are forgotten.
    pub(super) fn filled(
        &mut self,
        metric: Metric,
        nodes: &Nodes,
        mut column: Vec<f64>,
        otherwise: fn(&[f64]) -> f64,
    ) -> Vec<f64> {
        let last = self.last.entry(metric).or_default();
        if last.len() > nodes.len() {
            let names = names(nodes);
            last.retain(|name, _| names.contains(name.as_str()));
        }
        for (node, value) in nodes.all().iter().zip(&mut column) {
            match last.get_mut(&node.name) {
                Some(last) if value.is_nan() => *value = *last,
                Some(last) => *last = *value,
                None if value.is_nan() => {}
                None => drop(last.insert(node.name.clone(), *value)),
            }
        }
        let known: Vec<f64> = column.iter().copied().filter(|value| !value.is_nan()).collect();
        if known.len() < column.len() {
            let otherwise = otherwise(&known);
            column.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = otherwise);
        }
        column
    }

    /// The counters of a queue at the last look.
    pub(super) fn standing(&self, name: &str) -> Option<Standing> {
        self.queues.get(name).copied()
    }

    pub(super) fn set_standing(&mut self, name: &str, standing: Standing) {
        match self.queues.get_mut(name) {
            Some(former) => *former = standing,
            None => drop(self.queues.insert(name.to_string(), standing)),
        }
    }

    pub(super) fn forget_standing(&mut self, name: &str) {
        self.queues.remove(name);
    }

    /// Forgets the queues of nodes that are gone, once there are many.
    pub(super) fn retain_queues(&mut self, nodes: &Nodes) {
        if self.queues.len() + self.routed.len() > nodes.len() {
            let names = names(nodes);
            self.queues.retain(|name, _| names.contains(name.as_str()));
            self.routed.retain(|name| names.contains(name.as_str()));
        }
    }

    /// Whether a node was seen to send its rows to one of several outputs each, and not to all of them.
    pub(super) fn is_routed(&self, name: &str) -> bool {
        self.routed.contains(name)
    }

    pub(super) fn set_routed(&mut self, name: &str) {
        self.routed.insert(name.to_string());
    }
}

fn names(nodes: &Nodes) -> BTreeSet<&str> {
    nodes.all().iter().map(|node| node.name.as_str()).collect()
}

/// The median, NaN of nothing.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => sorted[len / 2 - 1].midpoint(sorted[len / 2]),
    }
}
