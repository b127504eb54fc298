//! The node that relieves the queues the most per processor time matters most (Tassiulas and Ephremides
//! 1992).

use anabranch_model::Result;

use super::{Goal, Policy, column};
use crate::{Metric, Metrics, Nodes};

/// The node that relieves the queues the most per processor time matters most (Tassiulas and Ephremides
/// 1992).
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxWeight;

impl Policy for MaxWeight {
    fn name(&self) -> &str {
        "max-weight"
    }

    fn needs(&self) -> Vec<Metric> {
        vec![Metric::Relief]
    }

    fn goal(&self) -> Goal {
        Goal::LatencyMean
    }

    fn priorities(&mut self, _: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        Ok(column(self, metrics, Metric::Relief)?.to_vec())
    }
}
