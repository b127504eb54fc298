//! Why nothing comes out: what holds event time back, or leaves the rows out. Pure functions of a reading of all tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{EventTime, Nanos, StageId, TaskMetrics};

/// A partition that stands still for this time while others advance causes a notice. One that is behind others by less event time, and
/// advances, holds nothing back.
pub const HELD_BACK_AFTER: Duration = Duration::from_secs(10);

/// Event time of the partitions that one source task reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceProgress {
    /// The table.
    pub table: String,
    /// Its open partitions that the task reads.
    pub partitions: Vec<PartitionProgress>,
}

/// Event time of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionProgress {
    /// Name of the partition.
    pub name: Arc<str>,
    /// Its watermark.
    pub watermark: EventTime,
    /// When the watermark last advanced, or the partition was opened.
    pub advanced_at: Nanos,
    /// When it last had rows.
    pub rows_at: Option<Nanos>,
    /// Whether it is idle, so that it does not hold event time back.
    pub is_idle: bool,
}

/// The partition that holds event time back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The table.
    pub table: String,
    /// Name of the partition.
    pub partition: Arc<str>,
    /// Its watermark.
    pub watermark: EventTime,
    /// The furthest watermark of any partition of the job.
    pub foremost: EventTime,
    /// For how long its watermark has not advanced.
    pub stalled: Duration,
    /// For how long it has had no row; `None` if it never had any.
    pub silent: Option<Duration>,
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HeldBack { table, partition, watermark, foremost, stalled, silent } = self;
        write!(f, "partition '{partition}' of table {table} holds event time back: ")?;
        let precise = watermark.0.div_euclid(1000) == foremost.0.div_euclid(1000);
        let others = Moment(*foremost, precise);
        let own = Moment(*watermark, precise);
        match silent {
            None => write!(f, "it has had no row in {}, while other partitions have reached {others}", Span(*stalled))?,
            Some(silent) if *silent >= HELD_BACK_AFTER => {
                write!(f, "it has had no row for {} and stands at {own}, ", Span(*silent))?;
                write!(f, "while other partitions have reached {others}")?;
            }
            Some(_) if *stalled >= HELD_BACK_AFTER => {
                write!(f, "its rows have not advanced it beyond {own} for {}, ", Span(*stalled))?;
                return write!(f, "while other partitions have reached {others}; check the event times of its rows");
            }
            Some(_) => {
                write!(f, "it stands at {own}, while other partitions have reached {others}; ")?;
                return f.write_str("a window's results come when it has passed the window's end too");
            }
        }
        f.write_str("; set 'scan.idle-timeout' for the table if a partition may be silent")
    }
}

/// The partition that holds event time back, if others are ahead of it: it has had no row, it stands still while others advance, or it is
/// far behind. Partitions that advance side by side hold nothing back, though one is always the slowest.
#[must_use]
pub fn held_back(tasks: &[TaskMetrics]) -> Option<HeldBack> {
    let running = tasks.iter().filter(|task| task.watermark != EventTime::MAX);
    let partitions = running.filter_map(|task| Some((task, task.progress.as_ref()?)));
    let partitions = partitions.flat_map(|(task, p)| p.partitions.iter().map(move |partition| (task, p, partition)));
    let foremost = partitions.clone().map(|(_, _, partition)| partition.watermark).max()?;
    let active = partitions.clone().filter(|(_, _, partition)| !partition.is_idle);
    let (task, source, slowest) = active.min_by_key(|(_, _, partition)| partition.watermark)?;
    let ahead = partitions.filter(|(_, _, partition)| partition.watermark > slowest.watermark);
    let others_advanced_at = ahead.map(|(_, _, partition)| partition.advanced_at).max()?;
    let since = |then: Nanos| then_to(task.at, then);
    let held = HeldBack {
        table: source.table.clone(),
        partition: Arc::clone(&slowest.name),
        watermark: slowest.watermark,
        foremost,
        stalled: since(slowest.advanced_at),
        silent: slowest.rows_at.map(since),
    };
    let behind_ms = foremost.0.saturating_sub(slowest.watermark.0);
    let is_far_behind = u128::try_from(behind_ms).is_ok_and(|ms| ms >= HELD_BACK_AFTER.as_millis());
    let stands_alone = then_to(others_advanced_at, slowest.advanced_at) >= HELD_BACK_AFTER;
    (is_far_behind || stands_alone).then_some(held)
}

/// Why a job has no results, or why its results have stopped; `None` if there is nothing to explain.
#[must_use]
pub fn explain_stall(tasks: &[TaskMetrics]) -> Option<String> {
    let results: u64 = tasks.iter().filter(|task| task.is_sink).map(|task| task.rows_out).sum();
    let held_back = held_back(tasks);
    if results > 0 {
        let standing = held_back.filter(|of| of.stalled >= HELD_BACK_AFTER);
        return standing.map(|of| of.to_string());
    }
    nothing_read(tasks)
        .or_else(|| dropped(tasks))
        .or_else(|| filtered(tasks))
        .or_else(|| held_back.map(|of| of.to_string()))
        .or_else(|| behind(tasks))
        .or_else(|| waiting(tasks))
}

/// Sums over the tasks of each stage: rows in, rows out.
fn stages(tasks: &[TaskMetrics]) -> BTreeMap<StageId, (&TaskMetrics, u64, u64)> {
    let mut stages = BTreeMap::new();
    for task in tasks {
        let (_, rows_in, rows_out) = stages.entry(task.task.stage).or_insert((task, 0, 0));
        *rows_in += task.rows_in;
        *rows_out += task.rows_out;
    }
    stages
}

fn nothing_read(tasks: &[TaskMetrics]) -> Option<String> {
    let (source, ..) = stages(tasks).into_values().find(|(task, rows_in, _)| task.is_source && *rows_in == 0)?;
    let name = &source.stage_name;
    Some(format!("no row has been read by '{name}': check that its table has records, and where reading begins"))
}

fn dropped(tasks: &[TaskMetrics]) -> Option<String> {
    let sum = |of: fn(&TaskMetrics) -> u64| tasks.iter().map(of).sum::<u64>();
    let read = sum(|task| if task.is_source { task.rows_in } else { 0 });
    let (late, untimed) = (sum(|task| task.late_rows), sum(|task| task.rows_without_event_time));
    if read == 0 {
        return None;
    }
    if untimed * 2 >= read {
        return Some(format!(
            "{untimed} of {read} rows have NULL as event time and belong to no window: check the column of WATERMARK FOR"
        ));
    }
    (late * 2 >= read).then(|| {
        format!("{late} of {read} rows were late and count in no result: allow for more disorder in WATERMARK FOR, or check event times")
    })
}

/// A stage without windows emits everything at the end of each epoch.
fn filtered(tasks: &[TaskMetrics]) -> Option<String> {
    let drops = |(task, rows_in, rows_out): &(&TaskMetrics, u64, u64)| {
        *rows_in > 0 && *rows_out == 0 && task.epoch > 1 && !task.keeps_windows
    };
    let (stage, rows_in, _) = stages(tasks).into_values().find(drops)?;
    let name = &stage.stage_name;
    Some(format!(
        "'{name}' has taken {rows_in} rows and passed none on: so far no row meets the query's conditions and joins"
    ))
}

/// A batch that waits for so long in the input of a stage is not only on its way.
const BEHIND_AFTER: Duration = Duration::from_secs(1);

/// A stage that has more to do than it has done.
fn behind(tasks: &[TaskMetrics]) -> Option<String> {
    let sources = tasks.iter().filter(|task| task.progress.is_some()).map(|task| task.watermark).min()?;
    let slow = tasks.iter().filter(|task| !task.is_source && task.queue_bytes > 0 && task.watermark < sources);
    let slowest = slow.max_by_key(|task| task.oldest_queued_ns)?;
    if Duration::from_nanos(slowest.oldest_queued_ns) < BEHIND_AFTER {
        return None;
    }
    let (name, batches) = (&slowest.stage_name, slowest.queue_batches);
    let batches = if batches == 1 { "1 batch waits".to_owned() } else { format!("{batches} batches wait") };
    Some(format!("'{name}' holds event time back: {batches} in its input; see how busy the stages are"))
}

fn waiting(tasks: &[TaskMetrics]) -> Option<String> {
    let running = || tasks.iter().filter(|task| task.watermark != EventTime::MAX && task.progress.is_some());
    let partitions = || running().filter_map(|task| task.progress.as_ref()).flat_map(|p| &p.partitions);
    let first = running().next()?;
    let Some(last) = partitions().map(|partition| partition.watermark).max() else {
        return Some("the tables have no open partition".into());
    };
    if last == EventTime::MIN {
        return Some("no event time has come: final results come when all tables have been read, and results of windows when rows with \
                     an event time have come".into());
    }
    let silent = partitions().filter_map(|partition| partition.rows_at).max().map(|rows| then_to(first.at, rows));
    let silent = silent.filter(|silent| *silent >= HELD_BACK_AFTER);
    let silent = silent.map_or_else(String::new, |silent| format!("; no row has come for {}", Span(silent)));
    Some(format!(
        "event time has reached {}{silent}: a window's results come when rows have come that are beyond its end by more than \
         the bound of WATERMARK FOR",
        Moment(last, false)
    ))
}

fn then_to(now: Nanos, then: Nanos) -> Duration {
    Duration::from_nanos(now.since(then))
}

/// A duration for people.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            seconds @ ..120 => write!(f, "{seconds} s"),
            seconds @ ..7200 => write!(f, "{} min", seconds / 60),
            seconds => write!(f, "{} h", seconds / 3600),
        }
    }
}

/// An event time for people, in UTC; with milliseconds if that is asked for.
struct Moment(EventTime, bool);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventTime(ms) = self.0;
        let days = ms.div_euclid(86_400_000);
        // Years from 1 to 9999; beyond that the number says more.
        if self.0 == EventTime::MIN || !(-719_162..=2_932_896).contains(&days) {
            return self.0.fmt(f);
        }
        let (year, month, day) = civil(days);
        let seconds = ms.rem_euclid(86_400_000) / 1000;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")?;
        if self.1 { write!(f, ".{:03}", ms.rem_euclid(1000)) } else { Ok(()) }
    }
}

/// Year, month and day of a day since 1970: years begin in March, so that a leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_400_YEARS: i64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(DAYS_PER_400_YEARS), days.rem_euclid(DAYS_PER_400_YEARS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LatencySummary, TaskId};

    const SECOND: u64 = 1_000_000_000;
    const NOW: Nanos = Nanos(100 * SECOND);

    fn task(stage: u32, index: u32) -> TaskMetrics {
        TaskMetrics {
            at: NOW,
            task: TaskId { stage: StageId(stage), index },
            stage_name: ["source ads", "aggregate", "sink results"][stage as usize].into(),
            is_source: stage == 0,
            is_sink: stage == 2,
            keeps_windows: stage == 1,
            thread: None,
            is_prepared: true,
            rows_in: if stage == 2 { 0 } else { 100 },
            bytes_in: 0,
            rows_out: if stage == 2 { 0 } else { 100 },
            bytes_out: 0,
            busy_ns: 0,
            idle_ns: 0,
            backpressured_ns: 0,
            late_rows: 0,
            rows_without_event_time: 0,
            rows_with_null: 0,
            malformed_rows: 0,
            lag_rows: None,
            lookups: None,
            watermark: EventTime(0),
            epoch: 7,
            queue_batches: 0,
            queue_rows: 0,
            queue_bytes: 0,
            queue_share: 0.0,
            oldest_queued_ns: 0,
            oldest_read_ns: 0,
            cpu_ns: 0,
            core_wait_ns: 0,
            nice: 0,
            progress: None,
            latency: LatencySummary::default(),
            result_latency: LatencySummary::default(),
        }
    }

    fn partition(name: &str, ms: i64, advanced_s: u64, rows_s: Option<u64>) -> PartitionProgress {
        let rows_at = rows_s.map(|at| Nanos(at * SECOND));
        let (watermark, advanced_at) = (EventTime(ms), Nanos(advanced_s * SECOND));
        PartitionProgress { name: name.into(), watermark, advanced_at, rows_at, is_idle: false }
    }

    fn source(partitions: Vec<PartitionProgress>) -> TaskMetrics {
        let progress = SourceProgress { table: "ads".into(), partitions };
        TaskMetrics { progress: Some(Arc::new(progress)), ..task(0, 0) }
    }

    fn explain(first: TaskMetrics) -> String {
        explain_stall(&[first, task(1, 0), task(2, 0)]).expect("there is something to explain")
    }

    #[test]
    fn the_partition_that_holds_event_time_back_is_named() {
        let ahead = || partition("ads/0", 1_700_000_000_000, 99, Some(99));
        assert_eq!(
            explain(source(vec![ahead(), partition("ads/1", 1_600_000_000_000, 40, Some(40))])),
            "partition 'ads/1' of table ads holds event time back: it has had no row for 60 s and stands at \
             2020-09-13 12:26:40, while other partitions have reached 2023-11-14 22:13:20; set 'scan.idle-timeout' for the \
             table if a partition may be silent"
        );
        assert_eq!(
            explain(source(vec![ahead(), partition("ads/1", i64::MIN, 0, None)])),
            "partition 'ads/1' of table ads holds event time back: it has had no row in 100 s, while other partitions have \
             reached 2023-11-14 22:13:20; set 'scan.idle-timeout' for the table if a partition may be silent"
        );
        let stale = explain(source(vec![ahead(), partition("ads/1", -1, 40, Some(99))]));
        assert!(stale.contains("its rows have not advanced it beyond 1969-12-31 23:59:59 for 60 s"), "{stale}");
        let catching_up = explain(source(vec![ahead(), partition("ads/1", 0, 99, Some(99))]));
        assert!(catching_up.ends_with("when it has passed the window's end too"), "{catching_up}");
        // Across tasks too; idle partitions hold nothing back, and ended tasks have none.
        let other = TaskMetrics { task: TaskId { stage: StageId(0), index: 1 }, ..source(vec![ahead()]) };
        let slow = source(vec![partition("ads/1", 5, 40, Some(40))]);
        assert_eq!(held_back(&[slow.clone(), other.clone()]).expect("held back").partition.as_ref(), "ads/1");
        let idle = source(vec![PartitionProgress { is_idle: true, ..partition("ads/1", 5, 40, Some(40)) }]);
        assert_eq!(held_back(&[idle, other.clone()]), None);
        assert_eq!(held_back(&[TaskMetrics { watermark: EventTime::MAX, ..slow }, other]), None);
    }

    /// One partition is always the slowest. While all advance side by side, or none does, the open window is why nothing comes.
    #[test]
    fn the_slowest_of_partitions_side_by_side_holds_nothing_back() {
        for (ahead_s, own_s) in [(99, 99), (99, 92), (40, 39), (40, 40)] {
            let partitions = vec![
                partition("ads/0", 1_700_000_000_900, ahead_s, Some(ahead_s)),
                partition("ads/1", 1_700_000_000_100, own_s, Some(own_s)),
            ];
            let text = explain(source(partitions));
            assert!(text.starts_with("event time has reached 2023-11-14 22:13:20"), "{ahead_s} {own_s}: {text}");
        }
        let partitions = vec![
            partition("ads/0", 1_700_000_000_900, 99, Some(99)),
            partition("ads/1", 1_700_000_000_100, 50, Some(50)),
        ];
        let text = explain(source(partitions));
        assert!(text.contains("stands at 2023-11-14 22:13:20.100, while other partitions"), "{text}");
    }

    #[test]
    fn a_job_with_results_is_explained_only_when_it_stands_still() {
        let results = TaskMetrics { rows_out: 5, ..task(2, 0) };
        let of = |advanced_s| {
            let partitions =
                vec![partition("ads/0", 9, 99, Some(99)), partition("ads/1", 5, advanced_s, Some(advanced_s))];
            explain_stall(&[source(partitions), results.clone()])
        };
        assert_eq!(of(95), None);
        assert!(of(80).expect("it stands still").contains("no row for 20 s"));
    }

    #[test]
    fn rows_that_never_come_or_are_all_dropped_are_told() {
        let none = TaskMetrics { rows_in: 0, rows_out: 0, ..task(0, 0) };
        assert!(explain(none).starts_with("no row has been read by 'source ads'"));
        let untimed = TaskMetrics { rows_without_event_time: 90, ..task(0, 0) };
        assert!(explain(untimed).starts_with("90 of 100 rows have NULL as event time"));
        let late = TaskMetrics { late_rows: 60, ..task(0, 0) };
        assert!(explain(late).starts_with("60 of 100 rows were late and count in no result"));
        let filtered = TaskMetrics { rows_out: 0, ..task(0, 0) };
        assert!(explain(filtered).contains("has taken 100 rows and passed none on"));
    }

    #[test]
    fn a_slow_stage_or_an_open_window_is_told() {
        let one = || source(vec![partition("ads/0", 5000, 80, Some(80))]);
        let slow = |oldest_queued_ns| {
            let watermark = EventTime(-1);
            let slow = TaskMetrics { queue_bytes: 9, queue_batches: 3, oldest_queued_ns, watermark, ..task(1, 0) };
            explain_stall(&[one(), slow, task(2, 0)]).expect("a reason")
        };
        let text = slow(2 * SECOND);
        assert!(text.starts_with("'aggregate' holds event time back: 3 batches wait"), "{text}");
        let text = slow(SECOND / 100);
        assert!(text.starts_with("event time has reached"), "batches that are on their way are no reason: {text}");
        let text = explain(one());
        assert!(text.starts_with("event time has reached 1970-01-01 00:00:05; no row has come for 20 s"), "{text}");
        let text = explain(source(vec![partition("a", i64::MIN, 0, None)]));
        assert!(
            text.starts_with("no event time has come: final results come when all tables have been read"),
            "{text}"
        );
        assert_eq!(explain(source(Vec::new())), "the tables have no open partition");
    }

    #[test]
    fn moments_are_dates_within_the_calendar() {
        let shown = |ms| Moment(EventTime(ms), false).to_string();
        assert_eq!(shown(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(shown(-62_135_596_800_000), "0001-01-01 00:00:00");
        assert_eq!(shown(253_402_300_799_000), "9999-12-31 23:59:59");
        assert_eq!(Moment(EventTime(-1), true).to_string(), "1969-12-31 23:59:59.999");
        assert_eq!(shown(i64::MIN), "-inf");
        assert_eq!(shown(1 << 60), format!("{} ms", 1_i64 << 60));
    }
}
