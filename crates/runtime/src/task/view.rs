//! A task for observers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use anabranch_model::{EventTime, LookupReading, Nanos, TaskCounters, TaskId, TaskMetrics};

use crate::task::inbox::{Inbox, QueueStats};
use crate::task::processor::{nice, processor_time};

/// A task for observers.
pub(crate) struct TaskView {
    pub(crate) id: TaskId,
    pub(crate) stage_name: String,
    pub(crate) is_source: bool,
    pub(crate) is_sink: bool,
    /// Whether it has state to restore before it has started.
    pub(crate) restores: bool,
    pub(crate) keeps_windows: bool,
    pub(crate) counters: Arc<TaskCounters>,
    pub(crate) inbox: Option<Arc<Inbox>>,
}

impl TaskView {
    /// Its activity so far.
    pub(crate) fn activity(&self) -> Activity {
        let counters = &self.counters;
        let rows = [
            &counters.rows_in,
            &counters.rows_out,
            &counters.late_rows,
            &counters.rows_without_event_time,
            &counters.rows_with_null,
            &counters.malformed_rows,
        ];
        Activity {
            task: self.id,
            thread: counters.thread.load(Relaxed),
            is_prepared: counters.is_prepared.load(Relaxed),
            rows: rows.map(|rows| rows.load(Relaxed)),
        }
    }

    /// The task's name in messages.
    pub(crate) fn place(&self) -> String {
        format!("{} task {} ({})", self.id.stage, self.id.index, self.stage_name)
    }

    pub(crate) fn metrics(&self, now: Nanos) -> TaskMetrics {
        let queue = self.inbox.as_ref().map_or(QueueStats::default(), |inbox| inbox.stats(now));
        let counters = &self.counters;
        let thread = Some(counters.thread.load(Relaxed)).filter(|thread| *thread != 0);
        let processor = thread.and_then(processor_time).unwrap_or_default();
        TaskMetrics {
            at: now,
            task: self.id,
            stage_name: self.stage_name.clone(),
            is_source: self.is_source,
            is_sink: self.is_sink,
            keeps_windows: self.keeps_windows,
            thread,
            is_prepared: counters.is_prepared.load(Relaxed),
            rows_in: counters.rows_in.load(Relaxed),
            bytes_in: counters.bytes_in.load(Relaxed),
            rows_out: counters.rows_out.load(Relaxed),
            bytes_out: counters.bytes_out.load(Relaxed),
            busy_ns: counters.busy_ns.load(Relaxed),
            idle_ns: counters.idle_ns.load(Relaxed),
            backpressured_ns: counters.backpressured_ns.load(Relaxed),
            late_rows: counters.late_rows.load(Relaxed),
            rows_without_event_time: counters.rows_without_event_time.load(Relaxed),
            rows_with_null: counters.rows_with_null.load(Relaxed),
            malformed_rows: counters.malformed_rows.load(Relaxed),
            lag_rows: counters.lag(),
            lookups: Some(counters.lookups.read()).filter(|lookups| *lookups != LookupReading::default()),
            watermark: EventTime(counters.watermark_ms.load(Relaxed)),
            epoch: counters.epoch.load(Relaxed),
            queue_batches: queue.batches,
            queue_rows: queue.rows,
            queue_bytes: queue.bytes,
            queue_share: queue.share,
            oldest_queued_ns: queue.oldest_ns,
            oldest_read_ns: queue.oldest_read_ns,
            cpu_ns: processor.cpu_ns,
            core_wait_ns: processor.core_wait_ns,
            nice: thread.map_or(0, nice),
            progress: counters.progress(),
            latency: counters.latency.summary(),
            result_latency: counters.result_latency.summary(),
        }
    }
}

/// The activity of a task so far.
#[derive(Debug)]
pub(crate) struct Activity {
    task: TaskId,
    thread: u32,
    is_prepared: bool,
    rows: [u64; 6],
}

impl Activity {
    /// Number of rows of all tasks since a reading, if these are the same tasks in the same condition.
    pub(crate) fn rows_since(now: &[Activity], then: &[Activity]) -> Option<u64> {
        let is_same = |(now, then): (&Activity, &Activity)| {
            (now.task, now.thread, now.is_prepared) == (then.task, then.thread, then.is_prepared)
        };
        if now.len() != then.len() || !now.iter().zip(then).all(is_same) {
            return None;
        }
        let rows = |activities: &[Activity]| activities.iter().flat_map(|task| task.rows).sum::<u64>();
        Some(rows(now).saturating_sub(rows(then)))
    }
}
