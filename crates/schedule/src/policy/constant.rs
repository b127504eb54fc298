//! All nodes matter alike: for groups without an order inside, and to take back what another policy did.

use anabranch_model::Result;

use super::{Goal, Policy};
use crate::{Metric, Metrics, Nodes};

/// All nodes matter alike: for groups without an order inside, and to take back what another policy did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Constant;

impl Policy for Constant {
    fn name(&self) -> &str {
        "constant"
    }

    fn needs(&self) -> Vec<Metric> {
        Vec::new()
    }

    fn goal(&self) -> Goal {
        Goal::None
    }

    fn priorities(&mut self, nodes: &Nodes, _: &Metrics) -> Result<Vec<f64>> {
        Ok(vec![1.0; nodes.len()])
    }
}
