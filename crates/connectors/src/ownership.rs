//! Which task reads which partition, and the order in which a source announces them.

use std::collections::VecDeque;

use anabranch_model::PartitionId;
use anabranch_operators::{Polled, TaskContext};

/// Partitions of `0..count` that belong to the task.
pub(crate) fn owned_partitions(count: u32, context: &TaskContext) -> impl Iterator<Item = u32> {
    (context.index..count).step_by(context.parallelism.max(1) as usize)
}

/// Announcements that a source must make before it returns more rows.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    queue: VecDeque<Polled>,
}

impl Announcements {
    /// Announces that a partition now belongs to this task.
    pub(crate) fn open(&mut self, partition: u32, name: String) {
        self.queue.push_back(Polled::Opened { partition: PartitionId(partition), name });
    }

    /// Announces that a partition has ended.
    pub(crate) fn close(&mut self, partition: u32) {
        self.queue.push_back(Polled::Closed(PartitionId(partition)));
    }

    /// The next announcement.
    pub(crate) fn next(&mut self) -> Option<Polled> {
        self.queue.pop_front()
    }
}
