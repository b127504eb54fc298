//! Priorities that somebody else decides: a program of the user's, which reads metrics and answers when it
//! can.

use std::collections::BTreeMap;

use crate::Nodes;

/// Periods for which the last answer stays in force. Then all nodes matter alike: an old answer is about
/// queues that are no longer there.
pub(super) const LAST_GOOD_PERIODS: u32 = 3;

/// Priorities that are set from outside.
#[derive(Clone, Debug)]
pub struct Given {
    /// By the full names of nodes.
    priorities: BTreeMap<String, f64>,
    /// Periods that began since the last answer.
    age_periods: u32,
}

/// No answer yet.
impl Default for Given {
    fn default() -> Self {
        Given { priorities: BTreeMap::new(), age_periods: LAST_GOOD_PERIODS }
    }
}

impl Given {
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

    /// One priority per node, NaN where the answer has none. Call it once per period: each call makes the
    /// answer one period older.
    pub fn priorities(&mut self, nodes: &Nodes) -> Vec<f64> {
        if self.is_stale() {
            return vec![1.0; nodes.len()];
        }
        self.age_periods += 1;
        let known = |name: &String| self.priorities.get(name).copied().unwrap_or(f64::NAN);
        nodes.all().iter().map(|node| known(&node.name)).collect()
    }
}
