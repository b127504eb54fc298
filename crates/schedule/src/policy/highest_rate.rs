//! The node whose paths give the most results per processor time matters most (HR of the paper; Sharaf et al.
//! 2008).

use anabranch_model::Result;

use super::{Goal, Policy, column};
use crate::{Metric, Metrics, Nodes, Scale};

/// The node whose paths give the most results per processor time matters most (HR of the paper; Sharaf et al.
/// 2008).
#[derive(Clone, Copy, Debug, Default)]
pub struct HighestRate;

impl Policy for HighestRate {
    fn name(&self) -> &str {
        "highest-rate"
    }

    fn needs(&self) -> Vec<Metric> {
        vec![Metric::PathRate]
    }

    fn scale(&self) -> Scale {
        Scale::Logarithmic
    }

    fn goal(&self) -> Goal {
        Goal::LatencyMean
    }

    fn priorities(&mut self, _: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        Ok(column(self, metrics, Metric::PathRate)?.to_vec())
    }
}
