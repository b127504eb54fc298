//! Priorities by chance: the paper's control experiment. A policy that is worth something is better than this
//! one.

use anabranch_model::{Result, Rng};

use super::Policy;
use crate::{Metrics, Nodes};

/// Priorities by chance, new ones in each period. The same seed gives the same ones.
#[derive(Clone, Debug)]
pub(super) struct Random {
    rng: Rng,
}

impl Random {
    /// A policy that draws from this seed.
    pub(super) fn new(seed: u64) -> Self {
        Random { rng: Rng::new(seed) }
    }
}

impl Policy for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn priorities(&mut self, nodes: &Nodes, _: &Metrics) -> Result<Vec<f64>> {
        Ok((0..nodes.len()).map(|_| (self.rng.next_u64() >> 11) as f64).collect())
    }
}
