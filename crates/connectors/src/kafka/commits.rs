//! Commits positions to the consumer group as epochs are done: at least once, after a restart with `group-offsets`.
//!
//! Positions of an epoch are noted when it is cut and committed when every sink has handed over what came before. One commit
//! is under way at a time; positions that are done meanwhile wait and go together, so that short epochs do not flood
//! the broker. A commit that fails for a passing reason is made good by the next one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Epoch, Error, Result};
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client::{Consumer, is_permanent};

/// How often, and how long each time, the end of the job waits for the last commit.
const LAST_COMMIT_LOOKS: u32 = 100;
const LAST_COMMIT_LOOK: Duration = Duration::from_millis(50);

/// Positions by topic index and partition.
pub(super) type GroupOffsets = BTreeMap<(usize, i32), i64>;

/// The positions of one task on their way to the group.
pub(super) struct Commits {
    client: Arc<Consumer>,
    group: String,
    topics: Vec<String>,
    /// GroupOffsets at the cuts of epochs that are not done, ascending.
    cuts: VecDeque<(Epoch, GroupOffsets)>,
    /// Done but not yet sent.
    due: GroupOffsets,
    /// Sent last: what needs no second commit.
    sent: GroupOffsets,
}

impl Commits {
    pub(super) fn new(client: Arc<Consumer>, group: String, topics: Vec<String>) -> Commits {
        Commits { client, group, topics, cuts: VecDeque::new(), due: GroupOffsets::new(), sent: GroupOffsets::new() }
    }

    /// Epoch `epoch` was cut at these positions.
    pub(super) fn cut(&mut self, epoch: Epoch, positions: GroupOffsets) {
        self.cuts.push_back((epoch, positions));
    }

    /// Everything up to the cut of `epoch` has been handed over.
    pub(super) fn done(&mut self, epoch: Epoch) -> Result<()> {
        while self.cuts.front().is_some_and(|(cut, _)| *cut <= epoch) {
            if let Some((_, positions)) = self.cuts.pop_front() {
                self.due.extend(positions);
            }
        }
        self.advance()
    }

    /// Sends what is due, unless a commit is under way.
    pub(super) fn advance(&mut self) -> Result<()> {
        let reports = self.client.context();
        if reports.is_committing() {
            return Ok(());
        }
        if let Some(code) = reports.take_commit_error() {
            if is_permanent(code) {
                return Err(Error::outside(format!("positions cannot be committed to group '{}': {code}", self.group))
                    .remedy("grant the right to read with this group, or leave out 'properties.group.id'"));
            }
            // Not known to be stored: send everything again.
            for (partition, position) in std::mem::take(&mut self.sent) {
                self.due.entry(partition).or_insert(position);
            }
        }
        self.due.retain(|partition, position| self.sent.get(partition) != Some(position));
        if self.due.is_empty() {
            return Ok(());
        }
        let mut list = TopicPartitionList::with_capacity(self.due.len());
        for ((topic, partition), position) in &self.due {
            list.add_partition_offset(&self.topics[*topic], *partition, Offset::Offset(*position))
                .map_err(|error| Error::internal(format!("position {position} cannot be committed: {error}")))?;
        }
        let begun = self.client.commit(&list, CommitMode::Async);
        begun.map_err(|error| {
            Error::outside(format!("positions cannot be committed to group '{}': {error}", self.group))
        })?;
        // The answer is taken by this thread, later.
        self.client.context().commit_begins();
        self.sent.append(&mut self.due);
        Ok(())
    }

    /// Waits, for a bounded time, until what is due has been committed.
    pub(super) fn finish(&mut self) {
        for _ in 0..LAST_COMMIT_LOOKS {
            // An error cannot be told to anybody any more, and costs only that records are read again.
            if self.advance().is_err() || !self.client.context().is_committing() {
                return;
            }
            let _ = self.client.poll(LAST_COMMIT_LOOK);
        }
    }
}
