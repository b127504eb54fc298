//! The node whose input has been in the system for the longest time matters most (FCFS of the paper).

use anabranch_model::Result;

use super::{Goal, Policy, column};
use crate::{Metric, Metrics, Nodes};

/// The node whose input has been in the system for the longest time matters most (FCFS of the paper).
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstCome;

impl Policy for FirstCome {
    fn name(&self) -> &str {
        "first-come"
    }

    fn needs(&self) -> Vec<Metric> {
        vec![Metric::AgeMs]
    }

    fn goal(&self) -> Goal {
        Goal::AgeMax
    }

    fn priorities(&mut self, _: &Nodes, metrics: &Metrics) -> Result<Vec<f64>> {
        Ok(column(self, metrics, Metric::AgeMs)?.to_vec())
    }
}
