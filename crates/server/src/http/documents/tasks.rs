//! The documents of tasks.

use anabranch_model::{LatencySummary, LookupReading};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::jobs::{Placed, Reading};
use super::super::rates::{Rates, Shares};
use super::known_ms;

/// All tasks of a job, in the order of their stages.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::http) struct TaskList {
    tasks: Vec<TaskDocument>,
}

/// A task.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Task")]
struct TaskDocument {
    stage: u32,
    stage_name: String,
    /// Its index within the stage.
    task: u32,
    /// Name of the worker that runs it.
    worker: String,
    /// The operating system's identifier of its thread (Linux). Null when it does not run.
    thread: Option<u32>,
    /// Whether its state is restored and its static tables are read.
    prepared: bool,
    reads_table: bool,
    writes_table: bool,
    rows_in: u64,
    bytes_in: u64,
    rows_out: u64,
    bytes_out: u64,
    /// Over the last five seconds.
    rows_in_per_second: f64,
    /// Over the last five seconds.
    rows_out_per_second: f64,
    /// Share of the last five seconds that it processed, 0 to 1.
    busy_share: Option<f64>,
    /// Share that it waited for input. A wait counts when it is over.
    idle_share: Option<f64>,
    /// Share that it waited for room downstream. A wait counts when it is over.
    backpressured_share: Option<f64>,
    /// Batches in its input queue.
    queue_batches: u64,
    /// Rows in its input queue.
    queue_rows: u64,
    /// Bytes in its input queue.
    queue_bytes: u64,
    /// How full the fullest channel of its input queue is: at 1 its sender waits. A single large batch may
    /// exceed it.
    queue_share: f64,
    /// Time since the oldest batch there was queued.
    oldest_queued_ms: f64,
    /// Time since a source read the oldest row there.
    oldest_read_ms: f64,
    /// Processor time of its thread (Linux).
    cpu_ms: f64,
    /// Time for which its thread could run and waited for a core (Linux).
    core_wait_ms: f64,
    /// The nice value of its thread (Linux): a thread below 0 runs before others, a thread above 0 after
    /// them.
    nice: i32,
    /// Its event time, in milliseconds since 1970.
    watermark_ms: Option<i64>,
    /// The last epoch that it ended.
    epoch: u64,
    late_rows: u64,
    malformed_rows: u64,
    rows_without_event_time: u64,
    rows_with_null: u64,
    /// Null: it calls no table outside, or has not yet.
    lookups: Option<Lookups>,
    /// From the reading of a row until the task has processed it.
    latency: Latency,
    /// From the reading of the row that caused a result until the sink has the result.
    result_latency: Latency,
}

/// Calls of a task to a table outside, since the task's start.
#[derive(Debug, Serialize, JsonSchema)]
struct Lookups {
    /// Keys that rows asked for.
    keys: u64,
    /// Those of them that a cache answered.
    hits: u64,
    calls: u64,
    /// Calls that failed.
    failures: u64,
    /// Time that threads spent in calls.
    call_ms: f64,
}

/// Percentiles and the mean of a latency, since the task's start.
#[derive(Debug, Serialize, JsonSchema)]
struct Latency {
    /// Rows recorded.
    rows: u64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    /// 0 before the first row.
    mean_ms: f64,
}

impl TaskList {
    pub(in crate::http) fn of(reading: &Reading, rates: &Rates) -> Self {
        TaskList { tasks: reading.tasks.iter().map(|task| TaskDocument::of(task, rates)).collect() }
    }
}

impl TaskDocument {
    fn of(placed: &Placed, rates: &Rates) -> Self {
        let Placed { worker, metrics: task } = placed;
        let rate = rates.of(task);
        let share = |of: fn(&Shares) -> f64| rate.shares.as_ref().map(of);
        TaskDocument {
            stage: task.task.stage.0,
            stage_name: task.stage_name.clone(),
            task: task.task.index,
            worker: worker.clone(),
            thread: task.thread,
            prepared: task.is_prepared,
            reads_table: task.is_source,
            writes_table: task.is_sink,
            rows_in: task.rows_in,
            bytes_in: task.bytes_in,
            rows_out: task.rows_out,
            bytes_out: task.bytes_out,
            rows_in_per_second: rate.rows_in,
            rows_out_per_second: rate.rows_out,
            busy_share: share(|shares| shares.busy),
            idle_share: share(|shares| shares.idle),
            backpressured_share: share(|shares| shares.backpressured),
            queue_batches: task.queue_batches,
            queue_rows: task.queue_rows,
            queue_bytes: task.queue_bytes,
            queue_share: task.queue_share,
            oldest_queued_ms: task.oldest_queued_ns as f64 / 1e6,
            oldest_read_ms: task.oldest_read_ns as f64 / 1e6,
            cpu_ms: task.cpu_ns as f64 / 1e6,
            core_wait_ms: task.core_wait_ns as f64 / 1e6,
            nice: task.nice,
            watermark_ms: known_ms(task.watermark),
            epoch: task.epoch,
            late_rows: task.late_rows,
            malformed_rows: task.malformed_rows,
            rows_without_event_time: task.rows_without_event_time,
            rows_with_null: task.rows_with_null,
            lookups: task.lookups.map(Lookups::from),
            latency: Latency::from(&task.latency),
            result_latency: Latency::from(&task.result_latency),
        }
    }
}

impl From<LookupReading> for Lookups {
    fn from(lookups: LookupReading) -> Self {
        let LookupReading { keys, hits, calls, failures, call_ns } = lookups;
        Lookups { keys, hits, calls, failures, call_ms: call_ns as f64 / 1e6 }
    }
}

impl From<&LatencySummary> for Latency {
    fn from(of: &LatencySummary) -> Self {
        let [p50_ms, p99_ms, p999_ms, max_ms] = [of.p50_us, of.p99_us, of.p999_us, of.max_us].map(|us| us as f64 / 1e3);
        Latency { rows: of.rows, p50_ms, p99_ms, p999_ms, max_ms, mean_ms: of.mean_us() / 1e3 }
    }
}
