//! Rates and shares from readings of a job's metrics. Pure: the time is part of a reading.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anabranch_model::{EventTime, LatencySummary, LookupReading, Nanos, StageId, TaskId, TaskMetrics};

/// All metrics of a job at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// When, since the job's start or any other fixed point.
    pub(crate) at: Nanos,
    /// When, by the wall clock.
    pub(crate) wall_ms: i64,
    pub(crate) tasks: Vec<TaskMetrics>,
    /// Why there are no results, or where the job waits.
    pub(crate) why: Option<String>,
}

/// A job as the live view, the lines and the summary show it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JobView {
    /// Rows that sources have read, in all.
    pub(crate) events: u64,
    /// Rows that sources read per second, over the last moments.
    pub(crate) events_per_s: f64,
    /// Bytes that sources read per second, over the last moments.
    pub(crate) bytes_per_s: f64,
    /// Rows that sinks have written, in all.
    pub(crate) results: u64,
    /// How far event time at the sinks is behind the wall clock; `None` before the first watermark and after
    /// the end.
    pub(crate) lag_ms: Option<i64>,
    /// From a record's reading until the last stage has processed it, since the start: for each percentile,
    /// that of the slowest task.
    pub(crate) row_latency: LatencySummary,
    /// From the reading of what caused a result until its sink has it, likewise.
    pub(crate) result_latency: LatencySummary,
    /// Late rows, which are dropped or go to a table of their own.
    pub(crate) late: u64,
    /// Rows dropped because they have no event time.
    pub(crate) without_event_time: u64,
    /// Rows dropped for NULL in a NOT NULL column.
    pub(crate) with_null: u64,
    pub(crate) malformed: u64,
    /// Calls to tables outside.
    pub(crate) lookups: LookupReading,
    /// Why there are no results, if there are none, or where it waits.
    pub(crate) stall: Option<String>,
    /// The last epoch that every sink has ended.
    pub(crate) epoch: u64,
    /// The stages, in the plan's order.
    pub(crate) stages: Vec<StageView>,
}

/// A stage as the live view shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StageView {
    pub(crate) id: StageId,
    pub(crate) name: String,
    pub(crate) tasks: u32,
    pub(crate) is_sink: bool,
    pub(crate) rows_out: u64,
    pub(crate) rows_in_per_s: f64,
    pub(crate) rows_out_per_s: f64,
    /// Where its tasks' time went; `None` if they finished no piece of work and no wait in the meantime.
    pub(crate) shares: Option<Shares>,
    /// Bytes that wait in the input queues.
    pub(crate) queue_bytes: u64,
    /// Age of the oldest batch in the input queues.
    pub(crate) oldest_queued_ns: u64,
}

/// Where time went, as parts of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shares {
    /// Processing.
    pub(crate) busy: f64,
    /// Waiting for room downstream.
    pub(crate) backpressured: f64,
    /// Waiting for input.
    pub(crate) idle: f64,
}

/// Recent readings: rates are computed over them, so that they neither flicker nor lag.
#[derive(Debug)]
pub(crate) struct History {
    span: Duration,
    readings: VecDeque<Reading>,
}

impl History {
    /// A history that computes rates over about `span`.
    pub(crate) fn new(span: Duration) -> Self {
        History { span, readings: VecDeque::new() }
    }

    /// Adds a reading and shows the job by it and the oldest one within the span.
    pub(crate) fn push(&mut self, reading: Reading) -> JobView {
        // One reading at or beyond the span stays: the other end of the rate.
        while self.readings.get(1).is_some_and(|second| second.at.plus(self.span) <= reading.at) {
            self.readings.pop_front();
        }
        let view = view(&reading, self.readings.front());
        self.readings.push_back(reading);
        view
    }
}

/// The job by one reading, with rates since an earlier one. Without an earlier one rates are 0.
pub(crate) fn view(now: &Reading, before: Option<&Reading>) -> JobView {
    let seconds = before.map_or(0.0, |b| now.at.since(b.at) as f64 / 1e9);
    let earlier: BTreeMap<TaskId, &TaskMetrics> =
        before.map(|b| b.tasks.iter().map(|t| (t.task, t)).collect()).unwrap_or_default();
    let rate = |delta: u64| if seconds > 0.0 { delta as f64 / seconds } else { 0.0 };
    let delta = |task: &TaskMetrics, counter: fn(&TaskMetrics) -> u64| {
        before.map_or(0, |_| counter(task).saturating_sub(earlier.get(&task.task).map_or(0, |t| counter(t))))
    };
    let mut view = JobView::default();
    let mut stages: BTreeMap<StageId, StageView> = BTreeMap::new();
    let mut times: BTreeMap<StageId, [u64; 3]> = BTreeMap::new();
    for task in &now.tasks {
        view.late += task.late_rows;
        view.without_event_time += task.rows_without_event_time;
        view.with_null += task.rows_with_null;
        view.malformed += task.malformed_rows;
        view.lookups += task.lookups.unwrap_or_default();
        if task.is_source {
            view.events += task.rows_in;
            view.events_per_s += rate(delta(task, |t| t.rows_in));
            view.bytes_per_s += rate(delta(task, |t| t.bytes_in));
        }
        if task.is_sink {
            view.results += task.rows_out;
        }
        let stage = stages.entry(task.task.stage).or_insert_with(|| StageView::new(task));
        stage.tasks += 1;
        stage.rows_out += task.rows_out;
        stage.rows_in_per_s += rate(delta(task, |t| t.rows_in));
        stage.rows_out_per_s += rate(delta(task, |t| t.rows_out));
        stage.queue_bytes += task.queue_bytes;
        stage.oldest_queued_ns = stage.oldest_queued_ns.max(task.oldest_queued_ns);
        let time = times.entry(task.task.stage).or_default();
        time[0] += delta(task, |t| t.busy_ns);
        time[1] += delta(task, |t| t.backpressured_ns);
        time[2] += delta(task, |t| t.idle_ns);
    }
    for (id, stage) in &mut stages {
        let elapsed_ns = before.map_or(0, |b| now.at.since(b.at)) * u64::from(stage.tasks);
        stage.shares = times.get(id).and_then(|times| Shares::from_times(times, elapsed_ns));
    }
    let sinks = || now.tasks.iter().filter(|t| t.is_sink);
    view.lag_ms = lag_ms(now.wall_ms, sinks().map(|t| t.watermark).min());
    view.row_latency = slowest(sinks().map(|t| &t.latency));
    view.result_latency = slowest(sinks().map(|t| &t.result_latency));
    view.stall.clone_from(&now.why);
    view.epoch = sinks().map(|t| t.epoch).min().unwrap_or(0);
    view.stages = stages.into_values().collect();
    view
}

fn lag_ms(wall_ms: i64, watermark: Option<EventTime>) -> Option<i64> {
    match watermark {
        None | Some(EventTime::MIN | EventTime::MAX) => None,
        Some(EventTime(ms)) => Some(wall_ms.saturating_sub(ms)),
    }
}

/// Percentiles of different tasks cannot be merged; the slowest task's are a bound for all. The sum is that
/// of all.
fn slowest<'a>(latencies: impl Iterator<Item = &'a LatencySummary>) -> LatencySummary {
    latencies.filter(|l| l.rows > 0).fold(LatencySummary::default(), |all, one| LatencySummary {
        rows: all.rows + one.rows,
        p50_us: all.p50_us.max(one.p50_us),
        p99_us: all.p99_us.max(one.p99_us),
        p999_us: all.p999_us.max(one.p999_us),
        max_us: all.max_us.max(one.max_us),
        sum_us: all.sum_us + one.sum_us,
    })
}

impl StageView {
    fn new(task: &TaskMetrics) -> Self {
        let (id, name, is_sink) = (task.task.stage, task.stage_name.clone(), task.is_sink);
        StageView { id, name, is_sink, ..StageView::default() }
    }
}

impl Shares {
    /// Parts of the time that passed, so that a stage that has ended is not busy with its last row. A wait is
    /// counted when it is over: then it may be longer than the time that passed.
    fn from_times(times: &[u64; 3], elapsed_ns: u64) -> Option<Self> {
        let counted: u64 = times.iter().sum();
        let all = counted.max(elapsed_ns);
        let share = |part: u64| part as f64 / all as f64;
        (counted > 0).then(|| Shares { busy: share(times[0]), backpressured: share(times[1]), idle: share(times[2]) })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A task with nothing counted yet.
    pub(crate) fn task(stage: u32, index: u32) -> TaskMetrics {
        TaskMetrics {
            task: TaskId { stage: StageId(stage), index },
            stage_name: format!("stage-{stage}"),
            is_source: stage == 0,
            is_sink: stage == 1,
            is_prepared: true,
            ..TaskMetrics::default()
        }
    }

    fn reading(at_ms: u64, tasks: Vec<TaskMetrics>) -> Reading {
        Reading { at: Nanos(at_ms * 1_000_000), wall_ms: 1_000_000, tasks, why: None }
    }

    #[test]
    fn rates_are_differences_over_time_and_sums_over_tasks() {
        let ms = 1_000_000;
        let before = reading(
            1000,
            vec![
                TaskMetrics { rows_in: 100, bytes_in: 1000, rows_out: 50, busy_ns: ms, idle_ns: ms, ..task(0, 0) },
                task(0, 1),
                task(1, 0),
            ],
        );
        let first = TaskMetrics { rows_in: 300, bytes_in: 3000, rows_out: 150, ..task(0, 0) };
        let second = TaskMetrics { rows_in: 100, bytes_in: 1000, rows_out: 100, ..task(0, 1) };
        let now = reading(
            1500,
            vec![
                TaskMetrics { busy_ns: 251 * ms, idle_ns: 251 * ms, ..first },
                TaskMetrics { backpressured_ns: 500 * ms, ..second },
                TaskMetrics { rows_in: 200, rows_out: 7, late_rows: 3, queue_bytes: 64, ..task(1, 0) },
            ],
        );
        let view = view(&now, Some(&before));
        assert_eq!((view.events, view.results, view.late), (400, 7, 3));
        assert_eq!((view.events_per_s, view.bytes_per_s), (600.0, 6000.0));
        let [source, sink] = view.stages.as_slice() else { panic!("two stages: {view:?}") };
        assert_eq!((source.tasks, source.rows_in_per_s, source.rows_out_per_s), (2, 600.0, 400.0));
        assert_eq!(source.shares, Some(Shares { busy: 0.25, backpressured: 0.5, idle: 0.25 }));
        assert_eq!((sink.queue_bytes, sink.rows_out_per_s, sink.shares), (64, 14.0, None));
    }

    #[test]
    fn shares_are_parts_of_the_time_that_passed() {
        let shares = |busy_ns, idle_ns| {
            let now = reading(1000, vec![TaskMetrics { busy_ns, idle_ns, ..task(0, 0) }]);
            view(&now, Some(&reading(0, vec![task(0, 0)]))).stages[0].shares
        };
        let ended = shares(1_000_000, 0);
        assert_eq!(ended, Some(Shares { busy: 0.001, backpressured: 0.0, idle: 0.0 }));
        let after_a_long_wait = shares(1_000_000_000, 3_000_000_000);
        assert_eq!(after_a_long_wait, Some(Shares { busy: 0.25, backpressured: 0.0, idle: 0.75 }));
        assert_eq!(shares(0, 0), None);
    }

    #[test]
    fn the_first_reading_has_totals_but_no_rates() {
        let view = view(&reading(5000, vec![TaskMetrics { rows_in: 9, busy_ns: 4, ..task(0, 0) }]), None);
        assert_eq!((view.events, view.events_per_s), (9, 0.0));
        assert_eq!(view.stages[0].shares, None);
    }

    #[test]
    fn lag_and_epoch_follow_the_slowest_sink() {
        let at = |ms, epoch| TaskMetrics { watermark: EventTime(ms), epoch, ..task(1, 0) };
        let lag = |tasks: Vec<TaskMetrics>| view(&reading(0, tasks), None);
        assert_eq!(lag(vec![at(999_000, 7), at(998_500, 9)]).lag_ms, Some(1500));
        assert_eq!(lag(vec![at(999_000, 7), at(998_500, 9)]).epoch, 7);
        assert_eq!(lag(vec![at(999_000, 7), at(i64::MIN, 0)]).lag_ms, None);
        assert_eq!(lag(vec![at(i64::MAX, 7)]).lag_ms, None);
    }

    #[test]
    fn latency_is_that_of_the_slowest_task_that_has_any() {
        let with = |p50_us, p99_us, rows| TaskMetrics {
            latency: LatencySummary { rows, p50_us, p99_us, ..LatencySummary::default() },
            ..task(1, 0)
        };
        let view = view(&reading(0, vec![with(5, 50, 10), with(7, 40, 10), with(99, 99, 0)]), None);
        assert_eq!((view.row_latency.p50_us, view.row_latency.p99_us, view.row_latency.rows), (7, 50, 20));
        assert_eq!(view.result_latency, LatencySummary::default());
    }

    #[test]
    fn history_takes_rates_over_its_span_and_forgets_what_is_older() {
        let mut history = History::new(Duration::from_millis(1000));
        // 1 row per ms for two seconds, then nothing.
        let rows = |at_ms: u64| vec![TaskMetrics { rows_in: at_ms.min(2000), ..task(0, 0) }];
        let rates: Vec<f64> =
            (0..=16).map(|i| i * 250).map(|at| history.push(reading(at, rows(at))).events_per_s).collect();
        assert_eq!(rates[0], 0.0);
        assert!(rates[1..=8].iter().all(|r| *r == 1000.0), "{rates:?}");
        assert_eq!(rates[10], 500.0);
        assert_eq!(rates[12..], [0.0; 5]);
        assert!(history.readings.len() <= 6);
    }
}
