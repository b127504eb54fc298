//! A policy that a user writes as an expression over metrics. The caller brings the language: SQL lives
//! elsewhere.

use anabranch_model::{Error, Result};

use super::{Policy, column};
use crate::{Level, Metric, Metrics, Nodes};

/// An expression over metrics.
pub struct Formula {
    /// The metrics that it reads.
    pub metrics: Vec<Metric>,
    /// Computes its values, one per node, from one column per metric, in the order of the metrics. A column
    /// has one value per node, NaN where the metric is not known. Errors: the expression fails on these
    /// values.
    pub evaluate: Box<Evaluate>,
}

type Evaluate = dyn FnMut(&[Vec<f64>]) -> Result<Vec<f64>> + Send;

/// A policy whose priorities are the values of a formula.
pub struct FormulaPolicy {
    formula: Formula,
    text: String,
    level: Level,
}

impl FormulaPolicy {
    /// A policy of a formula, which `text` shows to people.
    #[must_use]
    pub fn new(formula: Formula, text: impl Into<String>, level: Level) -> Self {
        FormulaPolicy { formula, text: text.into(), level }
    }
}

impl Policy for FormulaPolicy {
    fn name(&self) -> &str {
        &self.text
    }

    fn level(&self) -> Level {
        self.level
    }

    fn needs(&self) -> Vec<Metric> {
        self.formula.metrics.clone()
    }

    fn priorities(&mut self, nodes: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        let place = || format!("priority = \"{}\"", self.text);
        let columns: Result<Vec<Vec<f64>>> =
            self.formula.metrics.iter().map(|metric| Ok(column(self, metrics, *metric)?.to_vec())).collect();
        let values = (self.formula.evaluate)(&columns?).map_err(|error| error.at(place()))?;
        if values.len() != nodes.len() {
            let message = format!("the formula gave {} values for {} nodes", values.len(), nodes.len());
            return Err(Error::internal(message).at(place()));
        }
        Ok(values)
    }
}
