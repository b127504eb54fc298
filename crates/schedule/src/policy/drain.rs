//! The node that is nearest to a sink matters most: rows that are in the query leave it before others come
//! in.

use anabranch_model::Result;

use super::{Goal, Policy, column};
use crate::{Metric, Metrics, Nodes};

/// The node that is nearest to a sink matters most: rows that are in the query leave it before others come
/// in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drain;

impl Policy for Drain {
    fn name(&self) -> &str {
        "drain"
    }

    fn needs(&self) -> Vec<Metric> {
        vec![Metric::DistanceToSink]
    }

    fn goal(&self) -> Goal {
        Goal::LatencyMean
    }

    fn priorities(&mut self, _: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        Ok(column(self, metrics, Metric::DistanceToSink)?.iter().map(|distance| -distance).collect())
    }
}
