//! All nodes matter alike: for groups without an order inside, and to take back what another policy did.

use anabranch_model::Result;

use super::Policy;
use crate::{Metrics, Nodes};

/// All nodes matter alike: for groups without an order inside, and to take back what another policy did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Constant;

impl Policy for Constant {
    fn name(&self) -> &str {
        "constant"
    }

    fn priorities(&mut self, nodes: &Nodes, _: &Metrics) -> Result<Vec<f64>> {
        Ok(vec![1.0; nodes.len()])
    }
}
