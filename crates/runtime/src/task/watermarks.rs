//! Event-time progress of a source task: a watermark per partition, the minimum over those that are active.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{EventTime, Nanos, PartitionId, PartitionProgress, Stamped};

use crate::task::merged_time::{InputState, InputTime, MergedTime, TimeProgress};

/// The longest time between two polls that counts as silence of the partitions. If a sink or back-pressure
/// delays a task for longer, it has not polled: rows may be waiting.
const LOOK_MAX: Duration = Duration::from_millis(50);

/// Watermarks of the partitions that a task reads.
pub(crate) struct Watermarks {
    partitions: BTreeMap<PartitionId, Partition>,
    /// The event time of the source when its last partition was closed, while it is unknown whether it waits
    /// for other partitions or ends. If it ends, windows fire. If another partition follows, it may be
    /// behind: event time must not advance past it.
    may_end: Option<EventTime>,
    idle_timeout: Option<Duration>,
    /// The longest time that the source waits for rows.
    wait_max: Duration,
    /// The event time that was passed on.
    time: MergedTime,
    /// The latest watermark of a partition that was closed.
    closed: Stamped<EventTime>,
    /// Watermarks of partitions by name, from the snapshot of the task that read them before.
    restored: BTreeMap<String, EventTime>,
    /// Time spent polling.
    looked: Duration,
    last_look: Option<Nanos>,
}

struct Partition {
    name: Arc<str>,
    watermark: EventTime,
    /// When the watermark last advanced, or the partition was opened.
    advanced_at: Nanos,
    had_rows_at: Option<Nanos>,
    /// Time spent polling when it last had rows.
    rows_at: Duration,
    idle: bool,
    /// Whether it is too far ahead of others.
    is_ahead: bool,
}

impl Watermarks {
    /// For a source that waits for rows for at most `wait_max`.
    pub(crate) fn new(
        idle_timeout: Option<Duration>,
        wait_max: Duration,
        restored: BTreeMap<String, EventTime>,
    ) -> Self {
        Watermarks {
            partitions: BTreeMap::new(),
            may_end: None,
            idle_timeout,
            wait_max,
            time: MergedTime::default(),
            closed: Stamped { value: EventTime::MIN, born: Nanos(0) },
            restored,
            looked: Duration::ZERO,
            last_look: None,
        }
    }

    /// The partitions continue with another plan version: their progress so far is announced again.
    pub(crate) fn go_on(&mut self, idle_timeout: Option<Duration>) {
        (self.idle_timeout, self.time) = (idle_timeout, MergedTime::default());
    }

    /// The partitions get another event time: their former progress does not count.
    pub(crate) fn begin_anew(&mut self) {
        self.partitions.values_mut().for_each(|partition| partition.watermark = EventTime::MIN);
        self.closed.value = EventTime::MIN;
        self.may_end = self.may_end.map(|_| EventTime::MIN);
        self.restored.clear();
    }

    /// The source was polled.
    pub(crate) fn note_poll(&mut self, now: Nanos) {
        let silence_max = self.silence_max();
        let passed = self.last_look.replace(now).map_or(Duration::ZERO, |last| Duration::from_nanos(now.since(last)));
        self.looked += passed.min(silence_max);
    }

    /// A new partition holds the watermark back until it has rows or is idle; a restored one holds it where
    /// it was.
    pub(crate) fn opened(&mut self, partition: PartitionId, name: String, now: Nanos) {
        let watermark = self.restored.remove(&name).unwrap_or(EventTime::MIN);
        let (name, rows_at) = (name.into(), self.looked);
        let new =
            Partition { name, watermark, advanced_at: now, had_rows_at: None, rows_at, idle: false, is_ahead: false };
        self.partitions.insert(partition, new);
        self.may_end = None;
    }

    pub(crate) fn closed(&mut self, partition: PartitionId) {
        let reached = self.reached();
        let closed = self.partitions.remove(&partition).filter(|closed| closed.watermark > self.closed.value);
        self.closed =
            closed.map_or(self.closed, |closed| Stamped { value: closed.watermark, born: closed.advanced_at });
        self.may_end = (self.partitions.is_empty() && !self.time.is_idle()).then_some(reached);
    }

    /// Whether the source may end: its last partition was closed, and since then it has neither opened one
    /// nor waited for one.
    pub(crate) fn may_end(&self) -> bool {
        self.may_end.is_some()
    }

    /// The source waits for rows of present or future partitions.
    pub(crate) fn waits(&mut self) {
        self.may_end = None;
    }

    /// Rows were read; `watermark` follows from the largest of their times, `None` if none has a time.
    pub(crate) fn rows(&mut self, partition: PartitionId, watermark: Option<EventTime>, now: Nanos) {
        if let Some(state) = self.partitions.get_mut(&partition) {
            if let Some(watermark) = watermark.filter(|watermark| *watermark > state.watermark) {
                (state.watermark, state.advanced_at) = (watermark, now);
            }
            state.had_rows_at = Some(now);
            state.rows_at = self.looked;
            state.idle = false;
        }
    }

    /// The time of all partitions advances without rows.
    pub(crate) fn advance(&mut self, watermark: EventTime, now: Nanos) {
        for state in self.partitions.values_mut().filter(|state| state.watermark < watermark) {
            (state.watermark, state.advanced_at) = (watermark, now);
        }
    }

    /// The watermark of a partition.
    pub(crate) fn of_partition(&self, partition: PartitionId) -> EventTime {
        self.partitions.get(&partition).map_or(EventTime::MIN, |partition| partition.watermark)
    }

    /// The watermark of each partition, by its name.
    pub(crate) fn partitions(&self) -> BTreeMap<String, EventTime> {
        self.partitions.values().map(|partition| (partition.name.to_string(), partition.watermark)).collect()
    }

    /// Each partition, for observers.
    pub(crate) fn report(&self) -> Vec<PartitionProgress> {
        let report = |partition: &Partition| PartitionProgress {
            name: Arc::clone(&partition.name),
            watermark: partition.watermark,
            advanced_at: partition.advanced_at,
            rows_at: partition.had_rows_at,
            is_idle: partition.idle,
        };
        self.partitions.values().map(report).collect()
    }

    /// The least time of a partition that is neither idle nor ended, if there is one. A source that may end
    /// has come no further than its last partition.
    pub(crate) fn least(&self) -> Option<EventTime> {
        self.may_end.or_else(|| self.partitions.values().filter(|p| !p.idle).map(|p| p.watermark).min())
    }

    /// Event time before the next rows. If no progress was announced before the first rows, it follows from
    /// the restored partitions.
    pub(crate) fn reached(&self) -> EventTime {
        self.least().map_or(EventTime::MIN, |least| least).max(self.time.watermark())
    }

    /// The partitions whose time is after `bound`. They are not polled, so they do not count as silent
    /// meanwhile.
    pub(crate) fn ahead_of(&mut self, bound: EventTime) -> BTreeSet<PartitionId> {
        let looked = self.looked;
        for partition in self.partitions.values_mut() {
            if partition.is_ahead {
                partition.rows_at = looked;
            }
            partition.is_ahead = !partition.idle && partition.watermark > bound;
        }
        self.partitions.iter().filter(|(_, p)| p.is_ahead).map(|(id, _)| *id).collect()
    }

    /// Whether all partitions that are not idle, and at least one, are ahead.
    pub(crate) fn are_all_ahead(&self) -> bool {
        let mut active = self.partitions.values().filter(|p| !p.idle).peekable();
        active.peek().is_some() && active.all(|p| p.is_ahead)
    }

    /// Time spent polling.
    pub(crate) fn polled(&self) -> Duration {
        self.looked
    }

    /// The longest time between two polls that counts as silence. A table without a timeout counts as silent
    /// while its source waits.
    fn silence_max(&self) -> Duration {
        self.idle_timeout.map_or(self.wait_max, |timeout| LOOK_MAX.min(timeout / 4))
    }

    /// How long the next poll may wait: until a partition may become idle, but no longer than counts as
    /// silence.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let timeout = self.idle_timeout?;
        let left = |p: &Partition| (p.rows_at + timeout).saturating_sub(self.looked);
        self.partitions.values().filter(|p| !p.idle).map(left).min().map(|left| left.min(self.silence_max()))
    }

    /// The progress since the last call, if any.
    pub(crate) fn progress(&mut self) -> Option<TimeProgress> {
        if let Some(timeout) = self.idle_timeout {
            let timed_out = |p: &&mut Partition| !p.is_ahead && self.looked >= p.rows_at + timeout;
            self.partitions.values_mut().filter(timed_out).for_each(|p| p.idle = true);
        }
        // Future partitions hold nothing back, unless the source is about to end.
        let to_come = match self.may_end {
            Some(value) => InputTime { reached: Stamped { value, ..self.closed }, state: InputState::Active },
            None => InputTime { reached: self.closed, state: InputState::Idle },
        };
        let partitions = self.partitions.values().map(Partition::time);
        self.time.progress(partitions.chain([to_come]))
    }
}

impl Partition {
    fn time(&self) -> InputTime {
        let reached = Stamped { value: self.watermark, born: self.advanced_at };
        InputTime { reached, state: if self.idle { InputState::Idle } else { InputState::Active } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT_MAX: Duration = Duration::from_millis(200);

    const P0: PartitionId = PartitionId(0);
    const P1: PartitionId = PartitionId(1);

    fn rows(marks: &mut Watermarks, partition: PartitionId, watermark: i64) {
        marks.rows(partition, Some(EventTime(watermark)), Nanos(0));
    }

    #[derive(Debug, PartialEq)]
    enum Said {
        Watermark(EventTime),
        Idle(Option<EventTime>),
    }

    fn said(marks: &mut Watermarks) -> Option<Said> {
        marks.progress().map(|progress| match progress {
            TimeProgress::Watermark(watermark) => Said::Watermark(watermark.value),
            TimeProgress::Idle(watermark) => Said::Idle(watermark.map(|watermark| watermark.value)),
        })
    }

    fn watermark(ms: i64) -> Option<Said> {
        Some(Said::Watermark(EventTime(ms)))
    }

    #[test]
    fn the_slowest_active_partition_decides() {
        let mut marks = Watermarks::new(Some(Duration::from_nanos(40)), WAIT_MAX, BTreeMap::new());
        let mut now = 0;
        let mut wait = |marks: &mut Watermarks, ns: u64| {
            for _ in 0..ns {
                now += 1;
                marks.note_poll(Nanos(now));
            }
        };
        assert_eq!(said(&mut marks), Some(Said::Idle(None)), "no partition");
        marks.opened(P0, "a".into(), Nanos(0));
        marks.opened(P1, "b".into(), Nanos(0));
        assert_eq!(said(&mut marks), Some(Said::Watermark(EventTime::MIN)), "no longer idle");
        rows(&mut marks, P0, 50);
        assert_eq!(said(&mut marks), None, "partition 1 holds it back");
        rows(&mut marks, P1, 30);
        assert_eq!(said(&mut marks), watermark(30));
        wait(&mut marks, 20);
        rows(&mut marks, P1, 20);
        assert_eq!(said(&mut marks), None, "it never falls");
        assert_eq!(marks.next_deadline(), Some(Duration::from_nanos(10)), "21 are left, 10 count at most");
        wait(&mut marks, 25);
        assert_eq!(said(&mut marks), None, "partition 0 is idle, partition 1 is not ahead");
        rows(&mut marks, P0, 60);
        wait(&mut marks, 20);
        assert_eq!(said(&mut marks), watermark(60), "partition 1 is idle now");
        wait(&mut marks, 40);
        assert_eq!(said(&mut marks), Some(Said::Idle(None)));
        assert_eq!(said(&mut marks), None, "said once");
        rows(&mut marks, P1, 40);
        assert_eq!(said(&mut marks), watermark(60), "no longer idle");
    }

    /// Each poll waits as long as it may, and nothing else takes time.
    #[test]
    fn a_silent_partition_is_idle_when_its_timeout_is_over() {
        for timeout_ms in [1, 10, 100, 200, 1000] {
            let timeout = Duration::from_millis(timeout_ms);
            let mut marks = Watermarks::new(Some(timeout), WAIT_MAX, BTreeMap::new());
            let mut now = Nanos(0);
            marks.note_poll(now);
            marks.opened(P0, "a".into(), now);
            rows(&mut marks, P0, 50);
            assert_eq!(said(&mut marks), watermark(50));
            while let Some(wait) = marks.next_deadline() {
                assert!(!wait.is_zero() && now <= Nanos(0).plus(timeout), "{timeout:?}: still waiting at {now:?}");
                now = now.plus(wait);
                marks.note_poll(now);
                let idle = said(&mut marks);
                assert!(idle.is_none() || idle == Some(Said::Idle(None)));
            }
            assert_eq!(now, Nanos(0).plus(timeout));
        }
    }

    #[test]
    fn partitions_that_become_idle_in_one_look_pass_on_what_the_slowest_held_back() {
        let timeout = Duration::from_secs(1);
        let mut marks = Watermarks::new(Some(timeout), WAIT_MAX, BTreeMap::new());
        let mut now = Nanos(0);
        marks.note_poll(now);
        marks.opened(P0, "a".into(), now);
        marks.opened(P1, "b".into(), now);
        rows(&mut marks, P0, 5);
        rows(&mut marks, P1, 25);
        assert_eq!(said(&mut marks), watermark(5));
        while let Some(wait) = marks.next_deadline() {
            now = now.plus(wait);
            marks.note_poll(now);
            if let Some(progress) = said(&mut marks) {
                assert_eq!(progress, Said::Idle(Some(EventTime(25))));
            }
        }
        assert_eq!(said(&mut marks), None, "said once");
    }

    #[test]
    fn what_a_closed_partition_had_reached_counts_once_the_others_are_idle() {
        for closes_first in [false, true] {
            let mut marks = Watermarks::new(Some(Duration::from_nanos(4)), WAIT_MAX, BTreeMap::new());
            marks.opened(P0, "a".into(), Nanos(0));
            marks.opened(P1, "b".into(), Nanos(0));
            rows(&mut marks, P0, 5);
            rows(&mut marks, P1, 25);
            assert_eq!(said(&mut marks), watermark(5));
            if closes_first {
                marks.closed(P1);
                assert_eq!(said(&mut marks), None);
            }
            (0..6).for_each(|now| marks.note_poll(Nanos(now)));
            assert_eq!(said(&mut marks), Some(Said::Idle(Some(EventTime(25)))));
            marks.closed(P1);
            assert_eq!(said(&mut marks), None);
        }
    }

    #[test]
    fn partitions_with_another_event_time_begin_without_one() {
        let mut marks = Watermarks::new(None, WAIT_MAX, BTreeMap::new());
        marks.opened(P0, "a".into(), Nanos(0));
        rows(&mut marks, P0, 5_000_000);
        assert_eq!(said(&mut marks), watermark(5_000_000));
        marks.begin_anew();
        marks.go_on(None);
        assert_eq!(marks.of_partition(P0), EventTime::MIN);
        rows(&mut marks, P0, 5_000);
        assert_eq!(said(&mut marks), watermark(5_000));
    }

    #[test]
    fn a_task_that_was_held_up_has_not_seen_silence() {
        let mut marks = Watermarks::new(Some(Duration::from_secs(1)), WAIT_MAX, BTreeMap::new());
        marks.note_poll(Nanos(0));
        marks.opened(P0, "a".into(), Nanos(0));
        marks.opened(P1, "b".into(), Nanos(0));
        rows(&mut marks, P0, 50);
        rows(&mut marks, P1, 30);
        assert_eq!(said(&mut marks), watermark(30));
        marks.note_poll(Nanos(60_000_000_000));
        rows(&mut marks, P0, 90);
        assert_eq!(said(&mut marks), None, "rows of partition 1 may wait unpolled");
    }

    #[test]
    fn a_closed_partition_no_longer_counts_and_without_timeout_none_is_idle() {
        let mut marks = Watermarks::new(None, WAIT_MAX, BTreeMap::new());
        marks.opened(P0, "a".into(), Nanos(0));
        marks.opened(P1, "b".into(), Nanos(0));
        rows(&mut marks, P0, 50);
        marks.note_poll(Nanos(0));
        marks.note_poll(Nanos(u64::MAX));
        assert_eq!(said(&mut marks), None);
        assert_eq!(marks.next_deadline(), None);
        marks.closed(P1);
        assert_eq!(said(&mut marks), watermark(50));
    }

    #[test]
    fn event_time_of_restored_partitions_is_known_before_the_first_rows() {
        let restored = BTreeMap::from([("a".to_owned(), EventTime(50)), ("b".to_owned(), EventTime(30))]);
        let mut marks = Watermarks::new(None, WAIT_MAX, restored);
        assert_eq!(marks.reached(), EventTime::MIN);
        marks.opened(P0, "a".into(), Nanos(0));
        marks.opened(P1, "b".into(), Nanos(0));
        assert_eq!(marks.reached(), EventTime(30));
        assert_eq!(said(&mut marks), watermark(30));
        rows(&mut marks, P1, 40);
        assert_eq!(said(&mut marks), watermark(40));
        marks.opened(PartitionId(2), "new".into(), Nanos(0));
        assert_eq!(marks.reached(), EventTime(40), "it never falls");
    }

    #[test]
    fn event_time_does_not_pass_a_source_by_that_is_about_to_end() {
        let mut marks = Watermarks::new(None, WAIT_MAX, BTreeMap::new());
        marks.opened(P0, "a".into(), Nanos(0));
        rows(&mut marks, P0, 50);
        assert_eq!(said(&mut marks), watermark(50));
        rows(&mut marks, P0, 60);
        marks.closed(P0);
        assert_eq!(said(&mut marks), watermark(60), "as far as its rows were");
        assert_eq!(said(&mut marks), None, "the end may follow, and with it the last windows");
        marks.waits();
        assert_eq!(said(&mut marks), Some(Said::Idle(None)), "it waits for further partitions");
        marks.opened(P1, "b".into(), Nanos(0));
        assert_eq!(said(&mut marks), watermark(60));
    }
}
