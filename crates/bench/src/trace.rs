//! When rows have arrived, and how long they took: what a user sees of a job while it is changed.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rows are counted for a percentile in steps of this length.
const STEP: Duration = Duration::from_secs(1);

/// A row that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// When it arrived.
    pub(crate) at: Instant,
    /// Time since it was due at its source. Rows that wait while no task runs are due all the same.
    pub(crate) took: Duration,
}

/// Rows in the order in which they have arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(pub(crate) Vec<Row>);

/// What a change did to the rows that pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Longest time without a row in the second before the request.
    pub(crate) gap_before: Duration,
    /// The same from the request on.
    pub(crate) gap: Duration,
    /// From the request until the change is settled.
    pub(crate) time: Duration,
    /// The 99th percentile of the latency in the second before the request.
    pub(crate) p99_before: Duration,
    /// The same in the worst second from the request on.
    pub(crate) p99: Duration,
}

impl Seen {
    /// How much the change adds to the 99th percentile, in milliseconds.
    pub(crate) fn added_p99_ms(&self) -> f64 {
        millis(self.p99) - millis(self.p99_before)
    }
}

impl Trace {
    /// What was seen of a change from its request at `begun` until `until`, at which all rows of the change
    /// have arrived.
    pub(crate) fn seen(&self, begun: Instant, time: Duration, until: Instant) -> Seen {
        let before = begun.checked_sub(STEP).unwrap_or(begun);
        let (gap_before, p99_before) = (self.longest_gap(before, begun), self.p99(before, begun));
        let starts = (0..).map(|step| begun + STEP * step).take_while(|start| *start + STEP <= until);
        let p99 = starts.map(|start| self.p99(start, start + STEP)).max().unwrap_or_default();
        Seen { gap_before, gap: self.longest_gap(begun, until), time, p99_before, p99 }
    }

    /// The longest time without a row between two moments, with the time since the last row before them.
    pub(crate) fn longest_gap(&self, from: Instant, until: Instant) -> Duration {
        let first = self.0.partition_point(|row| row.at < from).saturating_sub(1);
        let within = self.0[first..].iter().map(|row| row.at).take_while(|at| *at < until);
        let mut arrived: Vec<Instant> = within.collect();
        arrived.push(until);
        let gaps = arrived.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0]));
        gaps.max().unwrap_or(until.saturating_duration_since(from))
    }

    /// The 99th percentile of the latency of the rows that were due between two moments.
    fn p99(&self, from: Instant, until: Instant) -> Duration {
        let arrived = self.0.partition_point(|row| row.at < from);
        let due = |row: &&Row| row.at.checked_sub(row.took).is_some_and(|due| (from..until).contains(&due));
        let mut latencies: Vec<Duration> = self.0[arrived..].iter().filter(due).map(|row| row.took).collect();
        latencies.sort_unstable();
        let rank = (latencies.len() * 99).div_ceil(100);
        rank.checked_sub(1).map_or(Duration::ZERO, |at| latencies[at])
    }
}

/// Milliseconds since 1970.
pub(crate) fn wall_ms() -> f64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Time from a moment of the wall clock until another one, both in milliseconds since 1970.
pub(crate) fn between(due_ms: f64, now_ms: f64) -> Duration {
    Duration::from_secs_f64((now_ms - due_ms).max(0.0) / 1e3)
}

/// A time in milliseconds.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A row each millisecond that takes 2 ms, and none between `pause` and `pause + 60`: those come at its
    /// end.
    fn paused(start: Instant, pause: u64, until: u64) -> Trace {
        let rows = (0..until).map(|due| {
            let at = if (pause..pause + 60).contains(&due) { pause + 60 } else { due } + 2;
            Row { at: start + ms(at), took: ms(at - due) }
        });
        Trace(rows.collect())
    }

    #[test]
    fn a_pause_is_a_gap_and_adds_to_the_latency_of_rows_that_were_due_meanwhile() {
        let start = Instant::now();
        let trace = paused(start, 2500, 5000);
        let seen = trace.seen(start + ms(2000), ms(700), start + ms(4500));
        assert_eq!((seen.gap_before, seen.gap, seen.time), (ms(1), ms(61), ms(700)));
        // Of 1000 rows 60 waited; the tenth of those that waited longest is the 99th percentile.
        assert_eq!((seen.p99_before, seen.p99), (ms(2), ms(52)));
        assert!((seen.added_p99_ms() - 50.0).abs() < 1e-9);
    }

    #[test]
    fn rows_that_do_not_come_again_are_a_gap_until_the_end() {
        let start = Instant::now();
        let trace = paused(start, 9000, 2500);
        assert_eq!(trace.longest_gap(start + ms(1000), start + ms(2000)), ms(1));
        assert_eq!(trace.longest_gap(start + ms(2000), start + ms(4000)), ms(1499));
        assert_eq!(trace.longest_gap(start + ms(3000), start + ms(4000)), ms(1499));
        assert_eq!(Trace::default().longest_gap(start, start + ms(10)), ms(10));
    }
}
