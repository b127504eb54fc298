//! Event-time progress of a source task: a watermark per partition, the minimum over those that are active.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{EventTime, Nanos, PartitionId};

/// Watermarks of the partitions that a task reads.
pub(crate) struct Watermarks {
    partitions: BTreeMap<PartitionId, Partition>,
    idle_timeout: Option<Duration>,
    emitted: EventTime,
    idle: bool,
}

struct Partition {
    watermark: EventTime,
    last_rows: Nanos,
    idle: bool,
}

/// What the task shall tell downstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Watermark(EventTime),
    Idle,
}

impl Watermarks {
    pub(crate) fn new(idle_timeout: Option<Duration>) -> Self {
        Watermarks { partitions: BTreeMap::new(), idle_timeout, emitted: EventTime::MIN, idle: false }
    }

    /// A new partition holds the watermark back until it has rows or is idle.
    pub(crate) fn opened(&mut self, partition: PartitionId, now: Nanos) {
        let new = Partition { watermark: EventTime::MIN, last_rows: now, idle: false };
        self.partitions.insert(partition, new);
    }

    pub(crate) fn closed(&mut self, partition: PartitionId) {
        self.partitions.remove(&partition);
    }

    /// Rows came; `watermark` is what the largest of their times says, `None` if none has a time.
    pub(crate) fn rows(&mut self, partition: PartitionId, watermark: Option<EventTime>, now: Nanos) {
        if let Some(state) = self.partitions.get_mut(&partition) {
            state.watermark = watermark.map_or(state.watermark, |w| w.max(state.watermark));
            state.last_rows = now;
            state.idle = false;
        }
    }

    /// When a partition may become idle next.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        let timeout = self.idle_timeout?;
        self.partitions.values().filter(|p| !p.idle).map(|p| p.last_rows.plus(timeout)).min()
    }

    /// News since the last call, if any.
    pub(crate) fn progress(&mut self, now: Nanos) -> Option<Progress> {
        if let Some(timeout) = self.idle_timeout {
            let timed_out = |p: &&mut Partition| now >= p.last_rows.plus(timeout);
            self.partitions.values_mut().filter(timed_out).for_each(|p| p.idle = true);
        }
        let minimum = self.partitions.values().filter(|p| !p.idle).map(|p| p.watermark).min();
        match minimum {
            None => (!std::mem::replace(&mut self.idle, true)).then_some(Progress::Idle),
            Some(minimum) => {
                self.idle = false;
                if minimum <= self.emitted {
                    return None;
                }
                self.emitted = minimum;
                Some(Progress::Watermark(minimum))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P0: PartitionId = PartitionId(0);
    const P1: PartitionId = PartitionId(1);

    #[test]
    fn the_slowest_active_partition_decides() {
        let mut marks = Watermarks::new(Some(Duration::from_nanos(10)));
        assert_eq!(marks.progress(Nanos(0)), Some(Progress::Idle), "no partition");
        marks.opened(P0, Nanos(0));
        marks.opened(P1, Nanos(0));
        marks.rows(P0, Some(EventTime(50)), Nanos(1));
        assert_eq!(marks.progress(Nanos(2)), None, "partition 1 holds it back");
        marks.rows(P1, Some(EventTime(30)), Nanos(3));
        assert_eq!(marks.progress(Nanos(3)), Some(Progress::Watermark(EventTime(30))));
        marks.rows(P1, Some(EventTime(20)), Nanos(4));
        assert_eq!(marks.progress(Nanos(4)), None, "it never falls");
        assert_eq!(marks.next_deadline(), Some(Nanos(11)));
        assert_eq!(marks.progress(Nanos(12)), None, "partition 0 is idle, partition 1 is not ahead");
        marks.rows(P0, Some(EventTime(60)), Nanos(13));
        assert_eq!(marks.progress(Nanos(14)), Some(Progress::Watermark(EventTime(60))), "partition 1 is idle now");
        assert_eq!(marks.progress(Nanos(30)), Some(Progress::Idle));
        assert_eq!(marks.progress(Nanos(31)), None, "said once");
    }

    #[test]
    fn a_closed_partition_no_longer_counts_and_without_timeout_none_is_idle() {
        let mut marks = Watermarks::new(None);
        marks.opened(P0, Nanos(0));
        marks.opened(P1, Nanos(0));
        marks.rows(P0, Some(EventTime(50)), Nanos(1));
        assert_eq!(marks.progress(Nanos(u64::MAX)), None);
        assert_eq!(marks.next_deadline(), None);
        marks.closed(P1);
        assert_eq!(marks.progress(Nanos(2)), Some(Progress::Watermark(EventTime(50))));
    }
}
