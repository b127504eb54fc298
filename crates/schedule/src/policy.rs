//! What matters now: a policy makes a priority of each node's metrics (section 5.1 of the paper).

mod by_metric;
mod constant;
mod formula;
mod given;
mod goal;
mod random;

use anabranch_model::{Error, Result, nearest};

pub use constant::Constant;
pub use formula::{Formula, FormulaPolicy};
pub use given::Given;
pub use goal::Goal;
use random::Random;

use crate::{Level, Metric, Metrics, Nodes, Scale};

/// Decides which nodes matter now.
pub trait Policy: Send {
    /// As users call it.
    fn name(&self) -> &str;

    /// Which nodes it compares.
    fn level(&self) -> Level {
        Level::Task
    }

    /// The metrics that it reads. Its caller makes a [`Provider`](crate::Provider) of them.
    fn needs(&self) -> Vec<Metric> {
        Vec::new()
    }

    /// How its priorities compare with each other.
    fn scale(&self) -> Scale {
        Scale::Linear
    }

    /// What it tries to make small.
    fn goal(&self) -> Goal {
        Goal::None
    }

    /// One priority per node, a greater one matters more; NaN where the policy knows nothing about the node.
    /// `metrics` has [`Policy::needs`] for `nodes`, which are of [`Policy::level`]. Errors: what a user gave
    /// failed on these values.
    fn priorities(&mut self, nodes: &Nodes, metrics: &Metrics) -> Result<Vec<f64>>;
}

/// The names of all policies that need nothing but a name.
pub const POLICY_NAMES: [&str; 9] =
    ["constant", "deadline", "drain", "first-come", "highest-rate", "marker", "max-weight", "queue-size", "random"];

/// The policy of a name. `seed` is for the ones that draw numbers. Errors: the name is unknown.
pub fn by_name(name: &str, seed: u64) -> Result<Box<dyn Policy>> {
    if let Some(policy) = by_metric::ALL.iter().find(|policy| policy.name == name) {
        return Ok(Box::new(*policy));
    }
    Ok(match name {
        "constant" => Box::new(Constant),
        "random" => Box::new(Random::new(seed)),
        _ => {
            let remedy = match nearest(name, POLICY_NAMES) {
                Some(meant) => format!("did you mean '{meant}'?"),
                None => format!("use one of: {}", POLICY_NAMES.join(", ")),
            };
            return Err(Error::user(format!("unknown policy '{name}'")).remedy(remedy));
        }
    })
}

/// The values of a metric that a policy needs. Errors: its caller's provider does not compute it.
fn column<'a>(policy: &dyn Policy, metrics: &'a Metrics, metric: Metric) -> Result<&'a [f64]> {
    metrics.column(metric).ok_or_else(|| {
        Error::internal(format!("the metric '{}' was not computed", metric.name()))
            .at(format!("policy '{}'", policy.name()))
    })
}

#[cfg(test)]
mod tests;
