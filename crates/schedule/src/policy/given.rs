//! Priorities that somebody else decides: a program of the user's, which reads metrics and answers when it
//! can.

use std::collections::BTreeMap;

use anabranch_model::Result;

use super::{Goal, Policy};
use crate::{Level, Metric, Metrics, Nodes, Scale};

/// Periods for which the last answer stays in force. Then all nodes matter alike: an old answer is about
/// queues that are no longer there.
pub const LAST_GOOD_PERIODS: u32 = 3;

/// A policy whose priorities are set from outside.
#[derive(Clone, Debug)]
pub struct Given {
    name: String,
    level: Level,
    needs: Vec<Metric>,
    scale: Scale,
    priorities: BTreeMap<String, f64>,
    /// Periods that began since the last answer.
    age_periods: u32,
}

impl Given {
    /// A policy of this name, whose answers are by the full names of nodes of `level`, and which wants to
    /// read `needs`.
    #[must_use]
    pub fn new(name: impl Into<String>, level: Level, needs: Vec<Metric>, scale: Scale) -> Self {
        Given { name: name.into(), level, needs, scale, priorities: BTreeMap::new(), age_periods: LAST_GOOD_PERIODS }
    }

    /// Takes an answer: priorities by the full names of nodes. Values that are not finite are left out.
    pub fn set(&mut self, priorities: BTreeMap<String, f64>) {
        self.priorities = priorities;
        self.priorities.retain(|_, priority| priority.is_finite());
        self.age_periods = 0;
    }

    /// Whether the last answer is too old to be used.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.age_periods >= LAST_GOOD_PERIODS
    }
}

impl Policy for Given {
    fn name(&self) -> &str {
        &self.name
    }

    fn level(&self) -> Level {
        self.level
    }

    fn needs(&self) -> Vec<Metric> {
        self.needs.clone()
    }

    fn scale(&self) -> Scale {
        self.scale
    }

    fn goal(&self) -> Goal {
        Goal::None
    }

    /// Call it once per period: each call makes the answer one period older.
    fn priorities(&mut self, nodes: &Nodes, _: &Metrics) -> Result<Vec<f64>> {
        if self.is_stale() {
            return Ok(vec![1.0; nodes.len()]);
        }
        self.age_periods += 1;
        let known = |name: &String| self.priorities.get(name).copied().unwrap_or(f64::NAN);
        Ok(nodes.all().iter().map(|node| known(&node.name)).collect())
    }
}
