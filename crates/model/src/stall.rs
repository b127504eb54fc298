//! The partition that holds event time back: a pure function of a reading of all tasks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{EventTime, Nanos, TaskMetrics};

/// A partition that stands still for this time while others advance causes a notice. A partition that is
/// behind others by less event time, and advances, does not count.
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
        let shown = |time: &EventTime| match precise {
            true => format!("{:#}", Moment(*time)),
            false => Moment(*time).to_string(),
        };
        let (others, own) = (shown(foremost), shown(watermark));
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

/// The partition that holds event time back, if others are ahead of it: it has had no row, it stands still
/// while others advance, or it is far behind. Partitions that advance side by side do not count, although one
/// is always the slowest.
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

fn then_to(now: Nanos, then: Nanos) -> Duration {
    Duration::from_nanos(now.since(then))
}

/// A duration for people.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            seconds @ ..120 => write!(f, "{seconds} s"),
            seconds @ ..7200 => write!(f, "{} min", seconds / 60),
            seconds => write!(f, "{} h", seconds / 3600),
        }
    }
}

/// An event time for people, in UTC; with milliseconds in the alternate form `{:#}`.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub EventTime);

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
        if f.alternate() { write!(f, ".{:03}", ms.rem_euclid(1000)) } else { Ok(()) }
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
    use crate::{StageId, TaskId};

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
            is_prepared: true,
            rows_in: if stage == 2 { 0 } else { 100 },
            rows_out: if stage == 2 { 0 } else { 100 },
            watermark: EventTime(0),
            epoch: 7,
            ..TaskMetrics::default()
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
        held_back(&[first, task(1, 0), task(2, 0)]).expect("it is held back").to_string()
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

    /// One partition is always the slowest.
    #[test]
    fn the_slowest_of_partitions_side_by_side_holds_nothing_back() {
        let of = |ahead_s, own_s| {
            source(vec![
                partition("ads/0", 1_700_000_000_900, ahead_s, Some(ahead_s)),
                partition("ads/1", 1_700_000_000_100, own_s, Some(own_s)),
            ])
        };
        for (ahead_s, own_s) in [(99, 99), (99, 92), (40, 39), (40, 40)] {
            assert_eq!(held_back(&[of(ahead_s, own_s)]), None, "{ahead_s} {own_s}");
        }
        let text = explain(of(99, 50));
        assert!(text.contains("stands at 2023-11-14 22:13:20.100, while other partitions"), "{text}");
    }

    #[test]
    fn moments_are_dates_within_the_calendar() {
        let shown = |ms| Moment(EventTime(ms)).to_string();
        assert_eq!(shown(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(shown(-62_135_596_800_000), "0001-01-01 00:00:00");
        assert_eq!(shown(253_402_300_799_000), "9999-12-31 23:59:59");
        assert_eq!(format!("{:#}", Moment(EventTime(-1))), "1969-12-31 23:59:59.999");
        assert_eq!(shown(i64::MIN), "-inf");
        assert_eq!(shown(1 << 60), format!("{} ms", 1_i64 << 60));
    }
}
