//! When a policy acts: comparisons over what is known about a target, as `pressure > 0.05 and queue_rows_max
//! > 1000`.
//!
//! ```text
//! condition  = all { "or" all }
//! all        = comparison { "and" comparison }
//! comparison = quantity ( ">" | ">=" | "<" | "<=" ) number [ unit ]
//! ```
//!
//! A comparison that became true stays true until the value is [`HYSTERESIS`] beyond the threshold: else a
//! value near it would switch policies in each period.

mod parse;

use anabranch_model::Result;

use crate::{Goal, Metric, Metrics, Nodes, Role};

/// The part of a threshold by which a value has to go back until a comparison is no longer true.
const HYSTERESIS: f64 = 0.2;

/// What is known about a target as a whole. NaN where it is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Share of the time in which some thread waited for a core (`cpu.pressure`, some): 0 to 1.
    pub pressure: f64,
    /// Share of the cores it may use that it uses: 0 to 1.
    pub cpu_share: f64,
    /// The greatest share of the time for which one of its tasks waits for a core.
    pub wait_share: f64,
    /// Rows that wait inside of its queries, all together.
    pub queue_rows: f64,
    /// Rows that wait before one task, the greatest of all.
    pub queue_rows_max: f64,
    /// The greatest age of a row that waits.
    pub age_ms_max: f64,
    /// Mean latency of results.
    pub latency_ms: f64,
}

impl Target {
    /// What metrics say about the target: all but [`Target::pressure`] and [`Target::cpu_share`], which the
    /// kernel knows. Queues are those inside: of all nodes but sources.
    #[must_use]
    pub fn of(nodes: &Nodes, metrics: &Metrics) -> Target {
        let known = |metric: Metric, inside: bool| -> Vec<f64> {
            (0..nodes.len())
                .filter(|node| !inside || nodes.node(*node).role != Role::Source)
                .map(|node| metrics.value(metric, node))
                .filter(|value| !value.is_nan())
                .collect()
        };
        let greatest = |values: &[f64]| values.iter().copied().fold(f64::NAN, f64::max);
        let queues = known(Metric::QueueRows, true);
        Target {
            wait_share: greatest(&known(Metric::WaitShare, false)),
            queue_rows: if queues.is_empty() { f64::NAN } else { queues.iter().sum() },
            queue_rows_max: greatest(&queues),
            age_ms_max: Goal::AgeMax.value(nodes, metrics),
            latency_ms: Goal::LatencyMean.value(nodes, metrics),
            ..Target::default()
        }
    }
}

/// Nothing is known.
impl Default for Target {
    fn default() -> Self {
        Target {
            pressure: f64::NAN,
            cpu_share: f64::NAN,
            wait_share: f64::NAN,
            queue_rows: f64::NAN,
            queue_rows_max: f64::NAN,
            age_ms_max: f64::NAN,
            latency_ms: f64::NAN,
        }
    }
}

/// What a quantity is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// 0 to 1, also written as `5%`.
    Share,
    /// Rows.
    Rows,
    /// Milliseconds, also written with `ms`, `s` or `min`.
    Milliseconds,
}

/// A name in a condition.
struct Quantity {
    name: &'static str,
    unit: Unit,
    of: fn(&Target) -> f64,
    /// What [`Target::of`] makes it of.
    from: Option<Metric>,
}

const QUANTITIES: [Quantity; 7] = [
    quantity("pressure", Unit::Share, |target| target.pressure, None),
    quantity("cpu_share", Unit::Share, |target| target.cpu_share, None),
    quantity("wait_share", Unit::Share, |target| target.wait_share, Some(Metric::WaitShare)),
    quantity("queue_rows", Unit::Rows, |target| target.queue_rows, Some(Metric::QueueRows)),
    quantity("queue_rows_max", Unit::Rows, |target| target.queue_rows_max, Some(Metric::QueueRows)),
    quantity("age_ms_max", Unit::Milliseconds, |target| target.age_ms_max, Some(Metric::AgeMs)),
    quantity("latency_ms", Unit::Milliseconds, |target| target.latency_ms, Some(Metric::LatencyMs)),
];

const fn quantity(name: &'static str, unit: Unit, of: fn(&Target) -> f64, from: Option<Metric>) -> Quantity {
    Quantity { name, unit, of, from }
}

/// A condition with its state.
#[derive(Clone, Debug)]
pub struct Condition {
    text: String,
    /// True if all comparisons of one of them are.
    any: Vec<Vec<Comparison>>,
}

#[derive(Clone, Copy, Debug)]
struct Comparison {
    /// Place in [`QUANTITIES`].
    quantity: usize,
    above: bool,
    or_equal: bool,
    threshold: f64,
    holds: bool,
}

impl Condition {
    /// A condition from its text. Errors name the place in the text and what is expected there.
    pub fn parse(text: &str) -> Result<Condition> {
        parse::condition(text)
    }

    /// Its text, as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The metrics that [`Target::of`] needs for it: its caller adds them to the provider.
    #[must_use]
    pub fn needs(&self) -> Vec<Metric> {
        let mut needs: Vec<Metric> =
            self.any.iter().flatten().filter_map(|comparison| QUANTITIES[comparison.quantity].from).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// Whether it holds now. A comparison whose quantity is not known stays as it was; at first it does not
    /// hold.
    pub fn update(&mut self, target: &Target) -> bool {
        for comparison in self.any.iter_mut().flatten() {
            comparison.update(target);
        }
        self.any.iter().any(|all| all.iter().all(|comparison| comparison.holds))
    }
}

impl Comparison {
    fn update(&mut self, target: &Target) {
        let value = (QUANTITIES[self.quantity].of)(target);
        if value.is_nan() {
            return;
        }
        let margin = if self.holds { self.threshold.abs() * HYSTERESIS } else { 0.0 };
        // From here on a greater value is nearer to true.
        let sign = if self.above { 1.0 } else { -1.0 };
        let (value, threshold) = (sign * value, sign * self.threshold - margin);
        self.holds = value > threshold || (value == threshold && (self.or_equal || margin > 0.0));
    }
}

#[cfg(test)]
mod tests;
