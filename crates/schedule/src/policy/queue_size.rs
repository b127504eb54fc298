//! The node before which the most rows wait matters most (QS of the paper): queues become equal.

use anabranch_model::Result;

use super::{Goal, Policy, column};
use crate::{Metric, Metrics, Nodes};

/// The node before which the most rows wait matters most (QS of the paper): queues become equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueSize;

impl Policy for QueueSize {
    fn name(&self) -> &str {
        "queue-size"
    }

    fn needs(&self) -> Vec<Metric> {
        vec![Metric::QueueRows]
    }

    fn goal(&self) -> Goal {
        Goal::QueueVariance
    }

    fn priorities(&mut self, _: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        Ok(column(self, metrics, Metric::QueueRows)?.to_vec())
    }
}
