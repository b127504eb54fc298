//! What a policy tries to make small, as a number that a view can show with and without it.

use crate::{Metric, Metrics, Nodes, Role};

/// What a policy tries to make small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Variance of the rows that wait before nodes, sources left out: their queue is outside of the query.
    QueueVariance,
    /// The greatest age of a row that waits, in milliseconds.
    AgeMax,
    /// The mean latency at the sinks, weighted by their rows, in milliseconds.
    LatencyMean,
    /// No number.
    None,
}

impl Goal {
    /// The metric that it is computed from, if there is one. [`Metric::InRate`] weights [`Goal::LatencyMean`]
    /// if it is known.
    #[must_use]
    pub fn metric(self) -> Option<Metric> {
        match self {
            Goal::QueueVariance => Some(Metric::QueueRows),
            Goal::AgeMax => Some(Metric::AgeMs),
            Goal::LatencyMean => Some(Metric::LatencyMs),
            Goal::None => None,
        }
    }

    /// Its name with its unit, for views.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Goal::QueueVariance => "variance of queues (rows²)",
            Goal::AgeMax => "largest age (ms)",
            Goal::LatencyMean => "mean latency (ms)",
            Goal::None => "none",
        }
    }

    /// Its value now, NaN if it is not known.
    #[must_use]
    pub fn value(self, nodes: &Nodes, metrics: &Metrics) -> f64 {
        let Some(metric) = self.metric() else { return f64::NAN };
        let known = |node: &usize| !metrics.value(metric, *node).is_nan();
        let places: Vec<usize> = (0..nodes.len()).filter(known).collect();
        let value = |node: &usize| metrics.value(metric, *node);
        match self {
            Goal::QueueVariance => {
                let inner = |node: &&usize| nodes.node(**node).role != Role::Source;
                variance(&places.iter().filter(inner).map(value).collect::<Vec<f64>>())
            }
            Goal::AgeMax => places.iter().map(value).fold(f64::NAN, f64::max),
            Goal::LatencyMean => {
                let weights: Vec<f64> = places.iter().map(|node| metrics.value(Metric::InRate, *node)).collect();
                let weighted = weights.iter().sum::<f64>() > 0.0;
                let weight = |place: usize| if weighted { weights[place] } else { 1.0 };
                let sum: f64 = (0..places.len()).map(weight).sum();
                places.iter().enumerate().map(|(place, node)| weight(place) * value(node)).sum::<f64>() / sum
            }
            Goal::None => f64::NAN,
        }
    }
}

/// NaN of nothing.
fn variance(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count
}
