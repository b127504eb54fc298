//! A metric that a target cannot give.

use std::fmt;

use anabranch_model::Error;

use super::Unresolved;
use crate::Metric;

/// A metric that can neither be fetched from a target nor derived from what it offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub(super) wanted: Metric,
    /// What the engine would have to report, by the alternative that lacks the fewest metrics.
    pub(super) leaves: Vec<Metric>,
    cycle: Option<Metric>,
}

impl Missing {
    pub(super) fn new(wanted: Metric, unresolved: &Unresolved) -> Missing {
        Missing { wanted, leaves: unresolved.leaves.iter().copied().collect(), cycle: unresolved.cycle }
    }

    /// What to do so that the engine reports it, one sentence for all leaves.
    #[must_use]
    pub fn remedy(&self) -> String {
        let mut remedies: Vec<&str> = self.leaves.iter().map(|leaf| leaf.remedy()).collect();
        remedies.dedup();
        remedies.join("; ")
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cycle) = self.cycle {
            return write!(
                f,
                "the metric '{}' would be derived from itself, by '{}'",
                self.wanted.name(),
                cycle.name()
            );
        }
        let leaves: Vec<&str> = self.leaves.iter().map(|leaf| leaf.name()).collect();
        if self.leaves == [self.wanted] {
            return write!(f, "nothing reports '{}'", self.wanted.name());
        }
        write!(f, "nothing reports {}, from which '{}' is derived", leaves.join(" and "), self.wanted.name())
    }
}

impl From<Missing> for Error {
    fn from(missing: Missing) -> Error {
        match missing.cycle {
            Some(_) => Error::internal(missing.to_string()),
            None => Error::user(missing.to_string()).remedy(missing.remedy()),
        }
    }
}
