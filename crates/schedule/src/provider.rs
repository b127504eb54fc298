//! Metrics as a graph (section 5.2 and Algorithm 3 of the paper): a metric is fetched if the engine offers
//! it, else derived from others, recursively. Which way is taken is decided once, at the start; each period
//! computes each metric once.
//!
//! Two differences from the paper. A metric has several alternatives with a function each, and the first one
//! whose leaves are offered is taken. A leaf that is missing is found before anything runs.

mod definitions;
mod local;
mod memory;
mod missing;
mod paths;
mod queue;

use std::collections::{BTreeMap, BTreeSet};

pub use missing::Missing;

use self::definitions::{ALL, Alternative, Definition};
use self::memory::Memory;
use crate::{Level, Metric, Nodes};

/// Computes the metrics of one target. It remembers what a metric was where it cannot be computed for a time,
/// so one provider serves one target for as long as it is scheduled.
#[derive(Debug)]
pub struct Provider {
    definitions: &'static [Definition],
    offered: BTreeSet<Metric>,
    /// Each after those that it needs.
    steps: Vec<Step>,
    memory: BTreeMap<Level, Memory>,
}

/// How one metric comes about.
#[derive(Clone, Copy, Debug)]
struct Step {
    metric: Metric,
    /// None if it is fetched.
    derived: Option<&'static Alternative>,
}

/// What a derivation works on.
struct Scene<'a> {
    nodes: &'a Nodes,
    known: &'a BTreeMap<Metric, Vec<f64>>,
    memory: &'a mut Memory,
}

impl<'a> Scene<'a> {
    /// A metric that the derivation declares as needed, by node.
    fn get(&self, metric: Metric) -> &'a [f64] {
        self.known.get(&metric).map_or(&[], Vec::as_slice)
    }

    /// A metric that improves the derivation if it is known.
    fn find(&self, metric: Metric) -> Option<&'a [f64]> {
        self.known.get(&metric).map(Vec::as_slice)
    }
}

/// The values of metrics by node.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    columns: BTreeMap<Metric, Vec<f64>>,
}

impl Metrics {
    /// The values of a metric in the order of the nodes, NaN where it is not known. None if the provider was
    /// not asked for it.
    #[must_use]
    pub fn column(&self, metric: Metric) -> Option<&[f64]> {
        self.columns.get(&metric).map(Vec::as_slice)
    }

    /// The value of a metric at a node, NaN if it is not known.
    #[must_use]
    pub fn value(&self, metric: Metric, node: usize) -> f64 {
        self.column(metric).and_then(|column| column.get(node)).copied().unwrap_or(f64::NAN)
    }

    /// All metrics that are here.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, &[f64])> {
        self.columns.iter().map(|(metric, column)| (*metric, column.as_slice()))
    }
}

/// Metrics from columns, one value per node: for callers that have values from elsewhere, and for tests.
impl FromIterator<(Metric, Vec<f64>)> for Metrics {
    fn from_iter<T: IntoIterator<Item = (Metric, Vec<f64>)>>(columns: T) -> Self {
        Metrics { columns: columns.into_iter().collect() }
    }
}

impl Provider {
    /// A provider of the `wanted` metrics for a target that offers the `offered` ones (its engine's, and the
    /// kernel's [`Metric::CpuNs`] and [`Metric::WaitNs`]). Errors: a wanted metric can neither be fetched nor
    /// derived.
    pub fn new(
        offered: impl IntoIterator<Item = Metric>,
        wanted: impl IntoIterator<Item = Metric>,
    ) -> Result<Provider, Missing> {
        Provider::of_definitions(&ALL, offered, wanted)
    }

    fn of_definitions(
        definitions: &'static [Definition],
        offered: impl IntoIterator<Item = Metric>,
        wanted: impl IntoIterator<Item = Metric>,
    ) -> Result<Provider, Missing> {
        let offered = offered.into_iter().collect();
        let mut provider = Provider { definitions, offered, steps: Vec::new(), memory: BTreeMap::new() };
        for metric in wanted {
            provider.want(metric)?;
        }
        Ok(provider)
    }

    /// Computes one more metric from now on: for what a view shows if it is there, as a policy's goal.
    /// Errors: it can neither be fetched nor derived; all others stay as they were.
    pub fn want(&mut self, metric: Metric) -> Result<(), Missing> {
        let known = self.steps.len();
        self.resolve(metric, &mut Vec::new()).map_err(|unresolved| {
            self.steps.truncate(known);
            Missing::new(metric, &unresolved)
        })
    }

    /// Whether a metric is computed.
    #[must_use]
    pub fn has(&self, metric: Metric) -> bool {
        self.steps.iter().any(|step| step.metric == metric)
    }

    /// Adds the steps for a metric. `path` has those that wait for it: one that waits for itself is a cycle,
    /// which another alternative may avoid.
    fn resolve(&mut self, metric: Metric, path: &mut Vec<Metric>) -> Result<(), Unresolved> {
        if self.has(metric) {
            return Ok(());
        }
        if self.offered.contains(&metric) {
            self.steps.push(Step { metric, derived: None });
            return Ok(());
        }
        if path.contains(&metric) {
            return Err(Unresolved { leaves: BTreeSet::new(), cycle: Some(metric) });
        }
        let definition = self.definitions.iter().find(|definition| definition.metric == metric);
        let Some(definition) = definition else {
            return Err(Unresolved { leaves: BTreeSet::from([metric]), cycle: None });
        };
        path.push(metric);
        let mut best: Option<Unresolved> = None;
        for alternative in definition.alternatives {
            match self.resolve_all(alternative, path) {
                Ok(()) => {
                    path.pop();
                    self.steps.push(Step { metric, derived: Some(alternative) });
                    return Ok(());
                }
                Err(unresolved) => best = Some(best.map_or(unresolved.clone(), |best| best.nearer(unresolved))),
            }
        }
        path.pop();
        Err(best.unwrap_or(Unresolved { leaves: BTreeSet::from([metric]), cycle: None }))
    }

    fn resolve_all(&mut self, alternative: &Alternative, path: &mut Vec<Metric>) -> Result<(), Unresolved> {
        let known = self.steps.len();
        let mut all = Unresolved { leaves: BTreeSet::new(), cycle: None };
        for need in alternative.needs {
            if let Err(unresolved) = self.resolve(*need, path) {
                all.leaves.extend(unresolved.leaves);
                all.cycle = all.cycle.or(unresolved.cycle);
            }
        }
        if all.leaves.is_empty() && all.cycle.is_none() {
            return Ok(());
        }
        self.steps.truncate(known);
        Err(all)
    }

    /// Computes each metric once (Algorithm 3). Call it once per period and level: some metrics follow from
    /// how counters went on since the last call.
    pub fn evaluate(&mut self, nodes: &Nodes) -> Metrics {
        let mut known: BTreeMap<Metric, Vec<f64>> = BTreeMap::new();
        let memory = self.memory.entry(nodes.level()).or_default();
        for step in &self.steps {
            let column = match step.derived {
                None => nodes.reading(step.metric).map_or_else(|| vec![f64::NAN; nodes.len()], <[f64]>::to_vec),
                Some(alternative) => (alternative.derive)(&mut Scene { nodes, known: &known, memory }),
            };
            known.insert(step.metric, column);
        }
        Metrics { columns: known }
    }
}

/// Why a metric cannot be had.
#[derive(Clone, Debug)]
struct Unresolved {
    /// What an engine would have to report, by the alternative that lacks the least.
    leaves: BTreeSet<Metric>,
    /// A metric that would be derived from itself.
    cycle: Option<Metric>,
}

impl Unresolved {
    /// The one that lacks less; a cycle cannot be helped by any engine.
    fn nearer(self, other: Unresolved) -> Unresolved {
        let rank = |unresolved: &Unresolved| (unresolved.cycle.is_some(), unresolved.leaves.len());
        if rank(&other) < rank(&self) { other } else { self }
    }
}

#[cfg(test)]
mod tests;
