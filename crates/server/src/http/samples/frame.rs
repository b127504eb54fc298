//! One sample of a job, in few bytes.

mod documents;

use std::sync::Arc;

use anabranch_dataflow::Plan;
use anabranch_model::{EventTime, LatencySummary, TaskMetrics};

use super::super::jobs::{JobState, Placed, Reading};
use super::super::rates::{Rate, Rates, Shares};
use crate::why::Why;
pub(in crate::http) use documents::HistoryFrame;

/// A job at one moment, or over some seconds.
#[derive(Clone, Debug)]
pub(in crate::http) struct Frame {
    pub(super) number: u64,
    /// When, in milliseconds since 1970.
    pub(super) at_ms: i64,
    /// How many seconds it stands for.
    pub(super) seconds: u8,
    pub(super) job: JobFrame,
    pub(super) names: Arc<[String]>,
    workers: Arc<[String]>,
    stages: Box<[StageFrame]>,
    pub(super) tasks: Box<[TaskFrame]>,
    why: Arc<Why>,
}

/// The job in numbers.
#[derive(Clone, Debug)]
pub(super) struct JobFrame {
    pub(super) state: JobState,
    ready: bool,
    waits_for: Option<Arc<str>>,
    failure: Option<Arc<str>>,
    changing: Option<Arc<str>>,
    started_at_ms: i64,
    pub(super) plan_version: u32,
    incarnation: u64,
    pub(super) restarts: u64,
    epoch: u64,
    watermark: EventTime,
    rows_read: u64,
    rows_written: u64,
    rows_read_per_second: f32,
    bytes_read_per_second: f32,
    rows_written_per_second: f32,
    late_rows: u64,
    malformed_rows: u64,
    rows_without_event_time: u64,
    rows_with_null: u64,
    /// `None` before the first result.
    result_p50_ms: Option<f32>,
    result_p99_ms: Option<f32>,
    group_epochs: u64,
    coordination_share: Option<f32>,
    completed: u64,
    pub(super) abandoned: u64,
    pub(super) checkpoint: Option<CheckpointFrame>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CheckpointFrame {
    pub(super) epoch: u64,
    pub(super) at_ms: i64,
    pub(super) took_ms: f32,
    pub(super) bytes: u64,
}

/// A stage.
#[derive(Clone, Copy, Debug)]
struct StageFrame {
    tasks: u32,
    rows_in: u64,
    rows_out: u64,
    malformed_rows: u64,
    busiest: u8,
    load: LoadFrame,
}

/// A task.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskFrame {
    stage: u32,
    task: u32,
    worker: u32,
    thread: u32,
    load: LoadFrame,
}

/// What one task does, or several: sums, means of the shares of time, and the task that is the furthest
/// behind.
#[derive(Clone, Copy, Debug)]
struct LoadFrame {
    rows_in_per_second: f32,
    rows_out_per_second: f32,
    queue_rows: u32,
    oldest_queued_ms: u32,
    watermark: EventTime,
    late_rows: u64,
    epoch: u64,
    p99_ms: f32,
    cpu: f32,
    busy: u8,
    idle: u8,
    backpressured: u8,
    queue: u8,
}

/// A task with its rates.
type Rated<'a> = (&'a TaskMetrics, Rate);

/// A share of 1 in percent.
fn percent(share: f64) -> u8 {
    (share.clamp(0.0, 2.5) * 100.0).round() as u8
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Frame {
    pub(super) fn of(number: u64, plan: &Plan, reading: &Reading, rates: &Rates, why: Why) -> Frame {
        let mut workers: Vec<String> = reading.tasks.iter().map(|placed| placed.worker.clone()).collect();
        workers.sort();
        workers.dedup();
        let tasks: Vec<Rated<'_>> =
            reading.tasks.iter().map(|placed| (&placed.metrics, rates.of(&placed.metrics))).collect();
        let mut of_stages: Vec<Vec<&Rated<'_>>> = vec![Vec::new(); plan.stages.len()];
        for task in &tasks {
            of_stages.get_mut(task.0.task.stage.0 as usize).into_iter().for_each(|stage| stage.push(task));
        }
        let worker = |name: &String| small(workers.binary_search(name).unwrap_or_default() as u64);
        let task = |(placed, rated): (&Placed, &Rated<'_>)| TaskFrame {
            stage: rated.0.task.stage.0,
            task: rated.0.task.index,
            worker: worker(&placed.worker),
            thread: rated.0.thread.unwrap_or_default(),
            load: LoadFrame::of(&[rated]),
        };
        Frame {
            number,
            at_ms: reading.wall_ms,
            seconds: 1,
            job: JobFrame::of(plan, reading, &tasks),
            names: plan.stages.iter().map(|stage| stage.name.clone()).collect(),
            stages: of_stages.iter().map(|tasks| StageFrame::of(tasks)).collect(),
            tasks: reading.tasks.iter().zip(&tasks).map(task).collect(),
            workers: workers.into(),
            why: Arc::new(why),
        }
    }

    /// Takes what does not change from the sample before.
    pub(super) fn share_with(&mut self, before: &Frame) {
        let share = |own: &mut Arc<[String]>, other: &Arc<[String]>| {
            if *own == *other {
                *own = Arc::clone(other);
            }
        };
        share(&mut self.names, &before.names);
        share(&mut self.workers, &before.workers);
        let text = |own: &mut Option<Arc<str>>, other: &Option<Arc<str>>| {
            if own == other {
                own.clone_from(other);
            }
        };
        text(&mut self.job.waits_for, &before.job.waits_for);
        text(&mut self.job.failure, &before.job.failure);
        text(&mut self.job.changing, &before.job.changing);
        // Two clocks that are read one after the other differ by a millisecond now and then.
        if let (Some(own), Some(other)) = (&mut self.job.checkpoint, &before.job.checkpoint)
            && own.epoch == other.epoch
        {
            own.at_ms = other.at_ms;
        }
    }

    /// Bytes that it takes, without parts that it shares with other frames.
    pub(super) fn bytes(&self) -> usize {
        // The answer to why is some sentences.
        size_of::<Frame>() + size_of_val(&*self.stages) + size_of_val(&*self.tasks) + self.why_bytes()
    }

    fn why_bytes(&self) -> usize {
        let links: usize = self.why.chain.iter().map(|link| link.text.len() + link.name.len() + 64).sum();
        size_of::<Why>() + self.why.text.len() + links + self.why.remedies.len() * 512
    }

    /// This one and others before it, as one: rates are means, shares and waits are the largest, counters the
    /// last.
    pub(super) fn together(frames: &[&Frame], seconds: u8) -> Option<Frame> {
        let mut all = (*frames.last()?).clone();
        (all.seconds, all.tasks) = (seconds, Box::default());
        let mean = |of: &dyn Fn(&Frame) -> f32| frames.iter().map(|frame| of(frame)).sum::<f32>() / frames.len() as f32;
        all.job.rows_read_per_second = mean(&|frame| frame.job.rows_read_per_second);
        all.job.bytes_read_per_second = mean(&|frame| frame.job.bytes_read_per_second);
        all.job.rows_written_per_second = mean(&|frame| frame.job.rows_written_per_second);
        for (at, stage) in all.stages.iter_mut().enumerate() {
            let others = || frames.iter().filter_map(|frame| frame.stages.get(at));
            let mean = |rate: fn(&LoadFrame) -> f32| {
                mean(&|frame| frame.stages.get(at).map_or(0.0, |stage| rate(&stage.load)))
            };
            stage.load.rows_in_per_second = mean(|load| load.rows_in_per_second);
            stage.load.rows_out_per_second = mean(|load| load.rows_out_per_second);
            let largest = |of: fn(&StageFrame) -> u8| others().map(of).max().unwrap_or_default();
            stage.busiest = largest(|of| of.busiest);
            stage.load.queue = largest(|of| of.load.queue);
            stage.load.backpressured = largest(|of| of.load.backpressured);
            stage.load.oldest_queued_ms = others().map(|of| of.load.oldest_queued_ms).max().unwrap_or_default();
        }
        // A problem that lasted for a while must be visible.
        if all.why.text.is_empty()
            && let Some(wrong) = frames.iter().rev().find(|frame| !frame.why.text.is_empty())
        {
            all.why = Arc::clone(&wrong.why);
        }
        Some(all)
    }

    /// Since when the verdict is this one.
    pub(super) fn since_of(&self, why: &Why, now_ms: i64) -> Option<i64> {
        let is_same = self.why.verdict == why.verdict && self.why.stage == why.stage;
        if is_same { self.why.since_ms } else { Some(now_ms) }
    }
}

impl JobFrame {
    fn of(plan: &Plan, reading: &Reading, tasks: &[Rated<'_>]) -> JobFrame {
        let status = &reading.status;
        let sources = || tasks.iter().filter(|(task, _)| task.is_source);
        let sinks = || tasks.iter().filter(|(task, _)| task.is_sink);
        let sum = |of: fn(&TaskMetrics) -> u64| tasks.iter().map(|(task, _)| of(task)).sum();
        let slowest = |of: fn(&LatencySummary) -> u64| {
            let known = sinks().filter(|(task, _)| task.result_latency.rows > 0);
            known.map(|(task, _)| of(&task.result_latency)).max().map(|us| us as f32 / 1e3)
        };
        let shared = |text: &Option<String>| text.as_deref().map(Arc::from);
        JobFrame {
            state: reading.state(),
            ready: reading.is_ready(),
            waits_for: shared(&status.waits_for),
            failure: shared(&status.failure),
            changing: status.changing.map(|changing| changing.to_string().into()),
            started_at_ms: reading.started_ms,
            plan_version: plan.version.0,
            incarnation: status.incarnation.0,
            restarts: status.restarts,
            epoch: sinks().map(|(task, _)| task.epoch).min().unwrap_or_default(),
            watermark: sinks().map(|(task, _)| task.watermark).min().unwrap_or(EventTime::MIN),
            rows_read: sources().map(|(task, _)| task.rows_in).sum(),
            rows_written: sinks().map(|(task, _)| task.rows_out).sum(),
            rows_read_per_second: sources().map(|(_, rate)| rate.rows_in as f32).sum(),
            bytes_read_per_second: sources().map(|(_, rate)| rate.bytes_in as f32).sum(),
            rows_written_per_second: sinks().map(|(_, rate)| rate.rows_out as f32).sum(),
            late_rows: sum(|task| task.late_rows),
            malformed_rows: sum(|task| task.malformed_rows),
            rows_without_event_time: sum(|task| task.rows_without_event_time),
            rows_with_null: sum(|task| task.rows_with_null),
            result_p50_ms: slowest(|latency| latency.p50_us),
            result_p99_ms: slowest(|latency| latency.p99_us),
            group_epochs: reading.coordination.group_epochs,
            coordination_share: reading.coordination.overhead.map(|share| share as f32),
            completed: status.checkpoints_completed,
            abandoned: status.checkpoints_abandoned,
            checkpoint: status.last_checkpoint.map(|last| CheckpointFrame {
                epoch: last.committed.epoch.0,
                at_ms: reading.wall_ms_of(last.at),
                took_ms: last.took.as_secs_f32() * 1e3,
                bytes: last.bytes,
            }),
        }
    }
}

impl StageFrame {
    fn of(tasks: &[&Rated<'_>]) -> StageFrame {
        let sum = |of: fn(&TaskMetrics) -> u64| tasks.iter().map(|(task, _)| of(task)).sum();
        let busy = tasks.iter().filter_map(|(_, rate)| rate.shares).map(|shares| percent(shares.busy));
        StageFrame {
            tasks: small(tasks.len() as u64),
            rows_in: sum(|task| task.rows_in),
            rows_out: sum(|task| task.rows_out),
            malformed_rows: sum(|task| task.malformed_rows),
            busiest: busy.max().unwrap_or_default(),
            load: LoadFrame::of(tasks),
        }
    }
}

impl LoadFrame {
    /// Without tasks, the watermark is the least possible one and the epoch is 0.
    fn of(tasks: &[&Rated<'_>]) -> LoadFrame {
        let counters = || tasks.iter().map(|(task, _)| *task);
        let largest = |of: fn(&TaskMetrics) -> u64| counters().map(of).max().unwrap_or_default();
        let rates = |of: fn(&Rate) -> f64| tasks.iter().map(|(_, rate)| of(rate) as f32).sum();
        let share = |of: fn(&Shares) -> f64| {
            let shares = tasks.iter().filter_map(|(_, rate)| rate.shares.as_ref());
            percent(shares.map(of).sum::<f64>() / tasks.len().max(1) as f64)
        };
        LoadFrame {
            rows_in_per_second: rates(|rate| rate.rows_in),
            rows_out_per_second: rates(|rate| rate.rows_out),
            queue_rows: small(counters().map(|task| task.queue_rows).sum()),
            oldest_queued_ms: small(largest(|task| task.oldest_queued_ns) / 1_000_000),
            watermark: counters().map(|task| task.watermark).min().unwrap_or(EventTime::MIN),
            late_rows: counters().map(|task| task.late_rows).sum(),
            epoch: counters().map(|task| task.epoch).min().unwrap_or_default(),
            p99_ms: largest(|task| task.latency.p99_us) as f32 / 1e3,
            cpu: rates(|rate| rate.cpu),
            busy: share(|shares| shares.busy),
            idle: share(|shares| shares.idle),
            backpressured: share(|shares| shares.backpressured),
            queue: counters().map(|task| percent(task.queue_share)).max().unwrap_or_default(),
        }
    }
}
