//! When epochs end: at the same wall time at all sources of a job.
//!
//! A task with several inputs holds back the rows that follow the marker of an input, until the markers of
//! all inputs have arrived. Monotonic clocks begin with their processes. If sources used these, they would
//! cut up to an epoch apart, and rows would wait as long.

use std::time::Duration;

use anabranch_model::{Clock, Nanos};

/// Number of readings of both clocks. The quickest reading counts.
const READINGS: u32 = 8;

/// The times at which epochs end, by the monotonic clock of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CutTimes {
    interval_ns: u64,
    /// How far the wall clock is ahead, modulo the interval. Setting the wall clock later moves no cut.
    ahead_ns: u64,
}

impl CutTimes {
    pub(crate) fn new(clock: &dyn Clock, interval: Duration) -> CutTimes {
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let reading = |_| {
            let before = clock.now();
            let wall_ns = clock.wall_ns();
            (clock.now().since(before), i128::from(wall_ns) - i128::from(before.0))
        };
        let ahead = (0..READINGS).map(reading).min_by_key(|(took_ns, _)| *took_ns).map_or(0, |(_, ahead)| ahead);
        let ahead_ns = u64::try_from(ahead.rem_euclid(i128::from(interval_ns))).unwrap_or(0);
        CutTimes { interval_ns, ahead_ns }
    }

    /// The first cut after `now`.
    pub(crate) fn after(self, now: Nanos) -> Nanos {
        let wall_ns = u128::from(now.0) + u128::from(self.ahead_ns);
        let interval_ns = u128::from(self.interval_ns);
        let next_ns = (wall_ns / interval_ns + 1) * interval_ns - u128::from(self.ahead_ns);
        Nanos(u64::try_from(next_ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::ManualClock;

    use super::*;

    /// The monotonic clock of a process that started later than the other.
    struct Later(ManualClock, Duration);

    impl Clock for Later {
        fn now(&self) -> Nanos {
            Nanos(self.0.now().since(Nanos(0).plus(self.1)))
        }

        fn wall_ns(&self) -> i64 {
            self.0.wall_ns()
        }
    }

    #[test]
    fn processes_that_started_at_different_times_cut_at_the_same_time() {
        let interval = Duration::from_millis(100);
        for (started_ms, ahead_ms) in [(0, 0), (26, 0), (140, 7), (999, -30), (314, 1_700_000_000_123)] {
            let started = Duration::from_millis(started_ms);
            let clock = ManualClock::default();
            clock.advance(Duration::from_secs(1));
            clock.step_wall(ahead_ms);
            let first = CutTimes::new(&clock, interval);
            let later = Later(clock, started);
            let second = CutTimes::new(&later, interval);
            for _ in 0..30 {
                let (cut, cut_later) = (first.after(later.0.now()), second.after(later.now()));
                let left = cut.after(later.0.now());
                assert_eq!(cut_later.after(later.now()), left, "started {started_ms}, ahead {ahead_ms}");
                assert!(!left.is_zero() && left <= interval, "{left:?}");
                let wall_ns = later.wall_ns() + i64::try_from(left.as_nanos()).expect("small");
                assert_eq!(wall_ns % 100_000_000, 0);
                later.0.advance(Duration::from_millis(17));
            }
        }
    }

    #[test]
    fn an_epoch_that_is_longer_than_any_time_does_not_end() {
        let clock = ManualClock::default();
        assert_eq!(CutTimes::new(&clock, Duration::MAX).after(Nanos(5)), Nanos(u64::MAX));
        assert!(CutTimes::new(&clock, Duration::ZERO).after(Nanos(5)) > Nanos(5));
    }
}
