//! The number of epochs of a group (Drizzle, section 3.4): the smallest that keeps the share of coordination
//! within the bounds, because small groups let the plan change sooner.
//!
//! The share is averaged exponentially, so that a single pause has little effect. Above the upper bound the
//! size is multiplied, below the lower bound it is reduced by a step: multiplicative increase, additive
//! decrease.

use std::time::Duration;

use super::config::{Adaptive, GroupSizing};
use crate::table::{Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row(
        "adaptive",
        "overhead measured, average above the upper bound",
        "adaptive",
        "size x factor, at most the maximum",
    ),
    row(
        "adaptive",
        "overhead measured, average below the lower bound",
        "adaptive",
        "size - step, at least the minimum",
    ),
    row("adaptive", "overhead measured, average in bounds", "adaptive", "-"),
    row("adaptive", "overhead measured, soon after sources waited because they had passed nothing on", "adaptive", "-"),
    row("fixed", "overhead measured", "fixed", "- (the average is kept)"),
];

/// The size of the next group.
#[derive(Debug)]
pub(super) struct GroupSize {
    size: u64,
    adaptive: Option<Adaptive>,
    weight: f64,
    average: Option<f64>,
}

impl GroupSize {
    pub(super) fn new(sizing: &GroupSizing) -> Self {
        let (size, adaptive) = match sizing {
            GroupSizing::Fixed(size) => (*size, None),
            GroupSizing::Adaptive(adaptive) => (adaptive.min, Some(adaptive.clone())),
        };
        let weight = adaptive.as_ref().map_or(Adaptive::default().weight, |adaptive| adaptive.weight);
        GroupSize { size: size.max(1), adaptive, weight, average: None }
    }

    pub(super) fn epochs(&self) -> u64 {
        self.size
    }

    /// Share of coordination, averaged; none before the first group.
    pub(super) fn overhead(&self) -> Option<f64> {
        self.average
    }

    /// Adds the cost of one group to the average.
    pub(super) fn measured(&mut self, coordinating: Duration, group: Duration) {
        if group.is_zero() {
            return;
        }
        let share = (coordinating.as_secs_f64() / group.as_secs_f64()).clamp(0.0, 1.0);
        let average = match self.average {
            None => share,
            Some(average) => self.weight * share + (1.0 - self.weight) * average,
        };
        self.average = Some(average);
        let Some(adaptive) = &self.adaptive else { return };
        if average > adaptive.overhead_high {
            self.size = self.size.saturating_mul(adaptive.factor.max(1)).min(adaptive.max.max(1));
        } else if average < adaptive.overhead_low {
            self.size = self.size.saturating_sub(adaptive.step).max(adaptive.min.max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of a job whose coordination costs `cost_ms` each, whatever their size, with epochs of
    /// `epoch_ms`.
    fn settle(cost_ms: u64, epoch_ms: u64, groups: u32) -> Vec<u64> {
        let mut size = GroupSize::new(&GroupSizing::default());
        let mut sizes = Vec::new();
        for _ in 0..groups {
            let group = cost_ms + epoch_ms * size.epochs();
            size.measured(Duration::from_millis(cost_ms), Duration::from_millis(group));
            sizes.push(size.epochs());
        }
        sizes
    }

    #[test]
    fn grows_fast_then_shrinks_slowly_into_the_bounds_as_in_the_paper() {
        let sizes = settle(250, 100, 200);
        let top = sizes.iter().position(|s| s == sizes.iter().max().unwrap()).unwrap();
        assert!(top < 8, "multiplicative: {sizes:?}");
        assert!(sizes[top..].windows(2).all(|w| w[0] >= w[1] && w[0] - w[1] <= 1), "additive: {sizes:?}");
        let last = *sizes.last().unwrap() as f64;
        let share = 250.0 / (250.0 + 100.0 * last);
        assert!((0.045..=0.10).contains(&share), "settles in bounds: {share} at {last}");
        assert!(settle(250, 250, 200).last() < sizes.last(), "longer epochs need fewer of them");
    }

    #[test]
    fn one_pause_does_not_count_and_a_fixed_size_stays() {
        let mut size = GroupSize::new(&GroupSizing::Adaptive(Adaptive { weight: 0.1, ..Adaptive::default() }));
        size.measured(Duration::from_millis(7), Duration::from_millis(100));
        size.measured(Duration::from_millis(30), Duration::from_millis(100));
        assert_eq!(size.epochs(), 1);
        let mut fixed = GroupSize::new(&GroupSizing::Fixed(5));
        fixed.measured(Duration::from_secs(1), Duration::from_secs(1));
        fixed.measured(Duration::ZERO, Duration::from_secs(1));
        assert_eq!((fixed.epochs(), fixed.overhead()), (5, Some(0.5)));
    }

    #[test]
    fn stays_between_minimum_and_maximum() {
        let bounds = Adaptive { min: 4, max: 20, ..Adaptive::default() };
        let mut size = GroupSize::new(&GroupSizing::Adaptive(bounds));
        for _ in 0..20 {
            size.measured(Duration::from_secs(1), Duration::from_secs(1));
        }
        assert_eq!(size.epochs(), 20);
        for _ in 0..50 {
            size.measured(Duration::ZERO, Duration::from_secs(1));
        }
        assert_eq!(size.epochs(), 4);
    }
}
