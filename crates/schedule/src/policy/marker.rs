//! The task whose epoch is furthest behind matters most: checkpoints and changes under load complete sooner.

use anabranch_model::Result;

use super::{Goal, Policy, column};
use crate::{Metric, Metrics, Nodes};

/// The task whose epoch is furthest behind matters most: checkpoints and changes under load complete sooner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marker;

impl Policy for Marker {
    fn name(&self) -> &str {
        "marker"
    }

    fn needs(&self) -> Vec<Metric> {
        vec![Metric::EpochsBehind]
    }

    fn goal(&self) -> Goal {
        Goal::None
    }

    fn priorities(&mut self, _: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        let behind = column(self, metrics, Metric::EpochsBehind)?;
        // A task that does not report its epoch does not hold one up as far as anybody knows.
        Ok(behind.iter().map(|epochs| if epochs.is_nan() { 0.0 } else { *epochs }).collect())
    }
}
