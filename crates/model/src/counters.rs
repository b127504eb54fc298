//! Per-task counters: written by the running task, read by any thread at any time, without a lock on the hot
//! path. The live view, the group-size tuner and the scheduling policies all read these.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{
    EventTime, KeyGroupReading, KeyGroupRows, KeyGroups, LookupCounters, LookupReading, Nanos, SourceProgress, StageId,
    TaskId,
};

/// The lag of a task without a table, or with a table that does not say how many rows are left.
const LAG_UNKNOWN: u64 = u64::MAX;

/// Counters of one task. Each is written by one thread.
#[derive(Debug)]
pub struct TaskCounters {
    /// The operating system's identifier of the thread that runs the task; 0 before it starts and after it
    /// ends.
    pub thread: AtomicU32,
    /// Whether the task has restored its state and read its static tables.
    pub is_prepared: AtomicBool,
    /// Rows that entered the task: read by its source or received from its exchanges.
    pub rows_in: AtomicU64,
    /// Bytes of the rows that entered.
    pub bytes_in: AtomicU64,
    /// Rows that left the task: sent to exchanges or written to its sink.
    pub rows_out: AtomicU64,
    /// Bytes of the rows that left.
    pub bytes_out: AtomicU64,
    /// Time spent processing, in nanoseconds.
    pub busy_ns: AtomicU64,
    /// Time spent waiting for input, in nanoseconds.
    pub idle_ns: AtomicU64,
    /// Time spent waiting for room downstream, in nanoseconds.
    pub backpressured_ns: AtomicU64,
    /// Rows that came after their windows had fired, or too late in their partition: they are dropped, or go
    /// to a table of their own.
    pub late_rows: AtomicU64,
    /// Rows dropped because they belong to no window.
    pub rows_without_event_time: AtomicU64,
    /// Rows dropped because they had NULL for a NOT NULL column of the table that is written.
    pub rows_with_null: AtomicU64,
    /// Records that could not be decoded.
    pub malformed_rows: AtomicU64,
    /// Rows of the task's partitions that it has not read yet; `u64::MAX` if its table does not tell.
    pub lag_rows: AtomicU64,
    /// The task's watermark, in milliseconds; `i64::MIN` before the first.
    pub watermark_ms: AtomicI64,
    /// The last epoch that the task ended; 0 before the first.
    pub epoch: AtomicU64,
    /// Event time of the partitions that the task reads. Written a few times per second.
    progress: Mutex<Option<Arc<SourceProgress>>>,
    /// Its calls to a table outside.
    pub lookups: Arc<LookupCounters>,
    /// The rows of each key group that the task has sent to other stages.
    key_groups: Mutex<BTreeMap<StageId, Arc<KeyGroupRows>>>,
    /// From a row's reading by a source until this task has processed it.
    pub latency: Latencies,
    /// From the reading of the row that caused a result until this task has written the result to its sink.
    pub result_latency: Latencies,
}

/// A latency histogram: 1 µs to 1 h with two significant digits. Written once per batch.
#[derive(Debug)]
pub struct Latencies(Mutex<Recorded>);

#[derive(Debug)]
struct Recorded {
    histogram: Histogram<u64>,
    /// Of all values, in microseconds.
    sum_us: u64,
    /// The last summary: it costs a look at every value of the histogram.
    summary: LatencySummary,
}

impl Default for Latencies {
    fn default() -> Self {
        #[expect(clippy::unwrap_used, reason = "the bounds are constants that the library accepts")]
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 2).unwrap();
        Latencies(Mutex::new(Recorded { histogram, sum_us: 0, summary: LatencySummary::default() }))
    }
}

impl Default for TaskCounters {
    fn default() -> Self {
        TaskCounters {
            thread: AtomicU32::new(0),
            is_prepared: AtomicBool::new(false),
            rows_in: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            rows_out: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            idle_ns: AtomicU64::new(0),
            backpressured_ns: AtomicU64::new(0),
            late_rows: AtomicU64::new(0),
            rows_without_event_time: AtomicU64::new(0),
            rows_with_null: AtomicU64::new(0),
            malformed_rows: AtomicU64::new(0),
            lag_rows: AtomicU64::new(LAG_UNKNOWN),
            watermark_ms: AtomicI64::new(i64::MIN),
            epoch: AtomicU64::new(0),
            progress: Mutex::default(),
            lookups: Arc::default(),
            key_groups: Mutex::default(),
            latency: Latencies::default(),
            result_latency: Latencies::default(),
        }
    }
}

impl Latencies {
    /// Records that `rows` rows took `nanos`.
    pub fn record(&self, nanos: u64, rows: u64) {
        if let Ok(mut recorded) = self.0.lock() {
            let us = (nanos / 1000).max(1);
            recorded.histogram.saturating_record_n(us, rows);
            recorded.sum_us = recorded.sum_us.saturating_add(us.saturating_mul(rows));
        }
    }

    /// Percentiles and the sum so far.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let Ok(mut recorded) = self.0.lock() else { return LatencySummary::default() };
        if recorded.summary.rows != recorded.histogram.len() {
            recorded.summary = LatencySummary::of(&recorded.histogram, recorded.sum_us);
        }
        recorded.summary
    }

    /// Removes what was recorded: for measurements, after the warm-up.
    pub fn reset(&self) {
        if let Ok(mut recorded) = self.0.lock() {
            recorded.histogram.reset();
            recorded.sum_us = 0;
            recorded.summary = LatencySummary::default();
        }
    }
}

impl TaskCounters {
    /// Adds to a counter.
    #[inline]
    pub fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Relaxed);
    }

    /// Publishes how many rows the task has not read yet.
    pub fn set_lag(&self, rows: Option<u64>) {
        self.lag_rows.store(rows.unwrap_or(LAG_UNKNOWN), Relaxed);
    }

    /// How many rows the task has not read yet, if its table tells.
    #[must_use]
    pub fn lag(&self) -> Option<u64> {
        Some(self.lag_rows.load(Relaxed)).filter(|rows| *rows != LAG_UNKNOWN)
    }

    /// Publishes the event time of the task's partitions.
    pub fn set_progress(&self, progress: SourceProgress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(progress));
    }

    /// Where the task counts the rows of each key group that it sends to a stage.
    #[must_use]
    pub fn key_groups_of(&self, to: StageId, groups: KeyGroups) -> Arc<KeyGroupRows> {
        let mut all = self.key_groups.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(to).or_insert_with(|| Arc::new(KeyGroupRows::new(groups))))
    }

    /// The rows of each key group that the task has sent so far, for each stage.
    #[must_use]
    pub fn key_groups(&self, from: TaskId) -> Vec<KeyGroupReading> {
        let all = self.key_groups.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(to, rows)| KeyGroupReading { from, to: *to, rows: rows.read() }).collect()
    }

    /// The last published event time; `None` for a task without partitions.
    #[must_use]
    pub fn progress(&self) -> Option<Arc<SourceProgress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Percentiles and the sum of a latency histogram, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Rows recorded.
    pub rows: u64,
    /// Median.
    pub p50_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// Largest.
    pub max_us: u64,
    /// Sum over all rows.
    #[serde(default)]
    pub sum_us: u64,
}

impl LatencySummary {
    fn of(histogram: &Histogram<u64>, sum_us: u64) -> Self {
        LatencySummary {
            rows: histogram.len(),
            p50_us: histogram.value_at_quantile(0.5),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
            sum_us,
        }
    }

    /// The mean over all rows; 0 before the first.
    #[must_use]
    pub fn mean_us(&self) -> f64 {
        self.sum_us as f64 / self.rows.max(1) as f64
    }
}

/// A reading of one task's counters and of its input queue. The default is a task that has done nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TaskMetrics {
    /// When the counters were read, by the job's clock.
    pub at: Nanos,
    /// Which task.
    pub task: TaskId,
    /// Name of its stage, as `explain` shows it.
    pub stage_name: String,
    /// Whether the task reads a source.
    pub is_source: bool,
    /// Whether the task writes a sink.
    pub is_sink: bool,
    /// Whether the task holds rows back until event time has passed them or their windows.
    pub keeps_windows: bool,
    /// The operating system's identifier of its thread (Linux); `None` before it starts and after it ends.
    pub thread: Option<u32>,
    /// Whether the task has restored its state and read its static tables.
    pub is_prepared: bool,
    /// Rows in.
    pub rows_in: u64,
    /// Bytes in.
    pub bytes_in: u64,
    /// Rows out.
    pub rows_out: u64,
    /// Bytes out.
    pub bytes_out: u64,
    /// Nanoseconds busy.
    pub busy_ns: u64,
    /// Nanoseconds waiting for input.
    pub idle_ns: u64,
    /// Nanoseconds waiting for room downstream.
    pub backpressured_ns: u64,
    /// Late rows, which are dropped or go to a table of their own.
    pub late_rows: u64,
    /// Rows dropped because they have no event time.
    pub rows_without_event_time: u64,
    /// Rows dropped because they had NULL for a NOT NULL column of the table that is written.
    pub rows_with_null: u64,
    /// Malformed records.
    pub malformed_rows: u64,
    /// Rows of its partitions that it has not read yet, if its table tells.
    #[serde(default)]
    pub lag_rows: Option<u64>,
    /// Its calls to a table outside, if it asks one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookups: Option<LookupReading>,
    /// Watermark.
    pub watermark: EventTime,
    /// Last epoch ended.
    pub epoch: u64,
    /// Batches waiting in the input queue.
    pub queue_batches: u64,
    /// Rows waiting in the input queue.
    #[serde(default)]
    pub queue_rows: u64,
    /// Bytes waiting in the input queue.
    pub queue_bytes: u64,
    /// How full the fullest channel of the input queue is: 1 if its sender has to wait. A single large batch
    /// may exceed it.
    #[serde(default)]
    pub queue_share: f64,
    /// Age of the oldest waiting batch since it was queued, in nanoseconds.
    pub oldest_queued_ns: u64,
    /// Age of the oldest waiting row since a source read it, in nanoseconds.
    #[serde(default)]
    pub oldest_read_ns: u64,
    /// Processor time of its thread, in nanoseconds (Linux).
    #[serde(default)]
    pub cpu_ns: u64,
    /// Time for which its thread could run and waited for a core, in nanoseconds (Linux).
    #[serde(default)]
    pub core_wait_ns: u64,
    /// The nice value of its thread (Linux): below 0 it goes before others, above 0 behind them.
    #[serde(default)]
    pub nice: i32,
    /// Event time of the partitions that the task reads, if their table has a watermark.
    pub progress: Option<Arc<SourceProgress>>,
    /// From a row's reading by a source until this task has processed it.
    pub latency: LatencySummary,
    /// From the reading of the row that caused a result until this task has written the result to its sink.
    pub result_latency: LatencySummary,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_follows_what_was_recorded() {
        let latencies = Latencies::default();
        assert_eq!(latencies.summary(), LatencySummary::default());
        for (recorded, rows, max_us, mean_us) in [(1_000, 1, 1, 1.0), (9_000, 2, 9, 5.0), (5_000, 3, 9, 5.0)] {
            latencies.record(recorded, 1);
            let summary = latencies.summary();
            assert_eq!((summary.rows, summary.max_us, summary.mean_us()), (rows, max_us, mean_us));
            assert_eq!(latencies.summary(), summary);
        }
        latencies.reset();
        assert_eq!(latencies.summary(), LatencySummary::default());
        latencies.record(2_000, 3);
        let summary = latencies.summary();
        assert_eq!((summary.rows, summary.max_us, summary.mean_us()), (3, 2, 2.0), "as many as before");
    }
}
