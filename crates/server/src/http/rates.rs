//! Rates over the last seconds, from readings that the server takes by itself, so that they do not depend on
//! how often anybody asks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anabranch_model::{Incarnation, LookupReading, Nanos, TaskId, TaskMetrics};

use super::jobs::Reading;

/// Time over which rates are taken.
const SPAN: Duration = Duration::from_secs(5);
/// Time between two samples.
pub(super) const SAMPLE: Duration = Duration::from_secs(1);

/// The counters of all tasks of a job at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) at: Nanos,
    pub(crate) incarnation: Incarnation,
    pub(crate) tasks: BTreeMap<TaskId, TaskMetrics>,
}

impl Counted {
    pub(crate) fn of(reading: &Reading) -> Counted {
        let tasks = reading.tasks.iter().map(|task| (task.metrics.task, task.metrics.clone())).collect();
        Counted { at: reading.at, incarnation: reading.status.incarnation, tasks }
    }
}

/// The samples of one job.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(VecDeque<Counted>);

/// The changes of each task's counters, with the time between.
#[derive(Debug, Default)]
pub(crate) struct Rates(BTreeMap<TaskId, Rate>);

/// What one task does per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    pub(crate) rows_in: f64,
    pub(crate) bytes_in: f64,
    pub(crate) rows_out: f64,
    /// Where the time went; `None` if no time has passed.
    pub(crate) shares: Option<Shares>,
    /// Processor time, in seconds.
    pub(crate) cpu: f64,
    /// Calls to a table outside, those of them that failed, and the milliseconds that they took.
    pub(crate) calls: f64,
    pub(crate) failed_calls: f64,
    pub(crate) call_ms: f64,
    /// Keys that no cache answered.
    pub(crate) misses: f64,
    /// Rows that are late, that cannot be decoded, that have no event time.
    pub(crate) late: f64,
    pub(crate) malformed: f64,
    pub(crate) untimed: f64,
}

/// Parts of the time that passed, each from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shares {
    pub(crate) busy: f64,
    pub(crate) idle: f64,
    pub(crate) backpressured: f64,
}

impl History {
    /// Keeps a sample, and drops the ones that are no longer needed.
    pub(crate) fn push(&mut self, reading: &Reading) {
        // One sample at or beyond the span stays: the other end of the rate.
        while self.0.get(1).is_some_and(|second| second.at.plus(SPAN) <= reading.at) {
            self.0.pop_front();
        }
        self.0.push_back(Counted::of(reading));
    }

    /// Rates since the oldest sample within the span.
    pub(crate) fn rates(&self, reading: &Reading) -> Rates {
        let within = |sample: &&Counted| sample.at.plus(SPAN) >= reading.at;
        let Some(before) = self.0.iter().find(within).or(self.0.back()) else { return Rates::default() };
        let elapsed_ns = reading.at.since(before.at);
        if elapsed_ns == 0 {
            return Rates::default();
        }
        let none = TaskMetrics::default();
        let rate = |now: &TaskMetrics| {
            // Counters begin again after a restart, and with a task that is new.
            let earlier = before.tasks.get(&now.task).filter(|earlier| earlier.rows_in <= now.rows_in);
            let elapsed_ns = earlier.map_or(elapsed_ns, |earlier| between(now, earlier, elapsed_ns));
            (now.task, rate(now, earlier.unwrap_or(&none), elapsed_ns))
        };
        Rates(reading.tasks.iter().map(|task| rate(&task.metrics)).collect())
    }
}

/// The time between two readings. A worker reads the counters of its tasks by its own clock, and less often
/// while they are idle. If another worker has the task, the clocks cannot be compared.
fn between(now: &TaskMetrics, before: &TaskMetrics, elapsed_ns: u64) -> u64 {
    let read_ns = now.at.since(before.at);
    if (1..2 * elapsed_ns).contains(&read_ns) { read_ns } else { elapsed_ns }
}

fn rate(now: &TaskMetrics, before: &TaskMetrics, elapsed_ns: u64) -> Rate {
    let difference = |of: fn(&TaskMetrics) -> u64| of(now).saturating_sub(of(before));
    let per_second = |of: fn(&TaskMetrics) -> u64| difference(of) as f64 * 1e9 / elapsed_ns as f64;
    let parts =
        [difference(|task| task.busy_ns), difference(|task| task.idle_ns), difference(|task| task.backpressured_ns)];
    // A wait is counted when it is over: then it may be longer than the time that passed.
    let all = parts.iter().sum::<u64>().max(elapsed_ns) as f64;
    let [busy, idle, backpressured] = parts.map(|part| part as f64 / all);
    Rate {
        rows_in: per_second(|task| task.rows_in),
        bytes_in: per_second(|task| task.bytes_in),
        rows_out: per_second(|task| task.rows_out),
        shares: Some(Shares { busy, idle, backpressured }),
        cpu: per_second(|task| task.cpu_ns) / 1e9,
        calls: per_second(|task| lookups(task).calls),
        failed_calls: per_second(|task| lookups(task).failures),
        call_ms: per_second(|task| lookups(task).call_ns) / 1e6,
        misses: per_second(|task| lookups(task).keys.saturating_sub(lookups(task).hits)),
        late: per_second(|task| task.late_rows),
        malformed: per_second(|task| task.malformed_rows),
        untimed: per_second(|task| task.rows_without_event_time),
    }
}

fn lookups(task: &TaskMetrics) -> LookupReading {
    task.lookups.unwrap_or_default()
}

impl Rates {
    /// Those of a task; zero if it is new.
    pub(crate) fn of(&self, task: &TaskMetrics) -> Rate {
        self.0.get(&task.task).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_from_reading_to_reading() {
        let at = |ms: u64| TaskMetrics { at: Nanos(ms), ..TaskMetrics::default() };
        assert_eq!(between(&at(7_000), &at(3_000), 5_000), 4_000);
        assert_eq!(between(&at(3_000), &at(3_000), 5_000), 5_000, "no new reading");
        assert_eq!(between(&at(3_000), &at(9_000), 5_000), 5_000, "of another clock");
        assert_eq!(between(&at(90_000), &at(3_000), 5_000), 5_000, "of another clock");
    }

    #[test]
    fn a_rate_is_a_difference_over_time_and_shares_are_parts_of_it() {
        let second = 1_000_000_000;
        let before = TaskMetrics { rows_in: 100, bytes_in: 1000, busy_ns: second, ..TaskMetrics::default() };
        let now = TaskMetrics {
            rows_in: 500,
            bytes_in: 3000,
            rows_out: 50,
            busy_ns: 2 * second,
            backpressured_ns: second / 2,
            ..before.clone()
        };
        let shares = Some(Shares { busy: 0.5, idle: 0.0, backpressured: 0.25 });
        let expected = Rate { rows_in: 200.0, bytes_in: 1000.0, rows_out: 25.0, shares, ..Rate::default() };
        assert_eq!(rate(&now, &before, 2 * second), expected);
        // A wait of eight seconds has just ended.
        let after_wait = rate(&TaskMetrics { idle_ns: 8 * second, ..before.clone() }, &before, 2 * second);
        assert_eq!(after_wait.shares, Some(Shares { busy: 0.0, idle: 1.0, backpressured: 0.0 }));
    }
}
