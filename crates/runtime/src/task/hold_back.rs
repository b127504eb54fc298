//! Detects a partition of a task that holds back the event time of the whole job, so that the user is
//! notified once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use anabranch_model::{EventTime, HELD_BACK_AFTER, HeldBack, Nanos, PartitionProgress};

/// The furthest watermark of any partition that the tasks of a job at one worker read.
#[derive(Debug)]
pub(crate) struct Foremost(AtomicI64);

impl Default for Foremost {
    fn default() -> Self {
        Foremost(AtomicI64::new(i64::MIN))
    }
}

impl Foremost {
    /// A partition has reached `time`. Returns the furthest time of all.
    fn reached(&self, time: EventTime) -> EventTime {
        EventTime(self.0.fetch_max(time.0, SeqCst).max(time.0))
    }
}

/// The slowest partition of a task.
#[derive(Default)]
pub(crate) struct HoldBack {
    slowest: Option<Slowest>,
}

struct Slowest {
    name: Arc<str>,
    watermark: EventTime,
    /// Time spent polling, and the furthest watermark at this worker, when this partition became the slowest.
    since: Duration,
    foremost: EventTime,
    reported: bool,
}

impl HoldBack {
    /// Checks the partitions of a task that has polled for `polled`. Returns a notice, once, if a partition
    /// has not advanced for long although the task polled it, while another partition at this worker has.
    pub(crate) fn check(
        &mut self,
        table: &str,
        partitions: &[PartitionProgress],
        job: &Foremost,
        polled: Duration,
        now: Nanos,
    ) -> Option<HeldBack> {
        let latest = partitions.iter().map(|partition| partition.watermark).max()?;
        let foremost = job.reached(latest);
        let Some(slowest) = partitions.iter().filter(|p| !p.is_idle).min_by_key(|p| p.watermark) else {
            self.slowest = None;
            return None;
        };
        let known = self.slowest.take().filter(|k| k.watermark == slowest.watermark && k.name == slowest.name);
        let (name, watermark) = (Arc::clone(&slowest.name), slowest.watermark);
        let known = known.unwrap_or(Slowest { name, watermark, since: polled, foremost, reported: false });
        let stands = polled.saturating_sub(known.since) >= HELD_BACK_AFTER;
        let reported = known.reported;
        let report = stands && !reported && foremost > known.foremost && foremost > watermark;
        self.slowest = Some(Slowest { reported: reported || report, ..known });
        let since = |then: Nanos| now.after(then);
        report.then(|| HeldBack {
            table: table.to_owned(),
            partition: Arc::clone(&slowest.name),
            watermark,
            foremost,
            stalled: since(slowest.advanced_at),
            silent: slowest.rows_at.map(since),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(name: &str, ms: i64) -> PartitionProgress {
        let (watermark, advanced_at) = (EventTime(ms), Nanos(0));
        PartitionProgress { name: name.into(), watermark, advanced_at, rows_at: None, is_idle: false }
    }

    #[test]
    fn a_partition_that_stands_while_others_advance_is_reported_once() {
        let (job, mut hold_back) = (Foremost::default(), HoldBack::default());
        let mut look = |seconds: u64, partitions: &[PartitionProgress]| {
            let found =
                hold_back.check("t", partitions, &job, Duration::from_secs(seconds), Nanos(seconds * 1_000_000_000));
            found.map(|held| held.partition.to_string())
        };
        assert_eq!(look(0, &[partition("a", 5), partition("b", 9)]), None);
        assert_eq!(look(11, &[partition("a", 5), partition("b", 9)]), None, "no other one advances");
        assert_eq!(look(12, &[partition("a", 5), partition("b", 10)]), Some("a".into()));
        assert_eq!(look(30, &[partition("a", 5), partition("b", 20)]), None, "once");
        assert_eq!(look(31, &[partition("a", 6), partition("b", 20)]), None, "it moves");
        assert_eq!(look(42, &[partition("a", 6), partition("b", 21)]), Some("a".into()));
        // The other partitions may be in other tasks.
        job.reached(EventTime(100));
        assert_eq!(look(50, &[partition("a", 50)]), None);
        job.reached(EventTime(200));
        assert_eq!(look(60, &[partition("a", 50)]), Some("a".into()));
        let idle = PartitionProgress { is_idle: true, ..partition("a", 50) };
        assert_eq!(look(99, &[idle]), None);
    }
}
