//! Commits positions to the consumer group as epochs are done: at least once, after a restart with
//! `group-offsets`.
//!
//! Positions of an epoch are noted when it is cut and committed when every sink has written the rows before
//! them. One commit is in progress at a time. Positions of further epochs wait for it and are committed
//! together, so that short epochs do not flood the broker. The next commit makes up for one with a transient
//! failure. A group with members, to which it assigns partitions, refuses commits from others: the user is
//! notified, because the members may stay.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Epoch, Error, Result};
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client::{Consumer, is_permanent};

/// Number and length of the waits for the last commit at the end of the job.
const LAST_COMMIT_LOOKS: u32 = 100;
const LAST_COMMIT_LOOK: Duration = Duration::from_millis(50);

/// Positions by topic index and partition.
pub(super) type GroupOffsets = BTreeMap<(usize, i32), i64>;

/// The positions of one task that are to be committed to the group.
pub(super) struct Commits {
    client: Arc<Consumer>,
    group: String,
    topics: Vec<String>,
    /// The offsets at the cuts of epochs that are not done, ascending.
    cuts: VecDeque<(Epoch, GroupOffsets)>,
    /// Offsets that are done and not yet sent.
    due: GroupOffsets,
    /// Offsets that were sent last, which need no second commit.
    sent: GroupOffsets,
}

impl Commits {
    pub(super) fn new(client: Arc<Consumer>, group: String) -> Commits {
        let topics = Vec::new();
        Commits { client, group, topics, cuts: VecDeque::new(), due: GroupOffsets::new(), sent: GroupOffsets::new() }
    }

    /// Adds a topic, whose index is the next one.
    pub(super) fn add_topic(&mut self, topic: String) {
        self.topics.push(topic);
    }

    pub(super) fn cut(&mut self, epoch: Epoch, positions: GroupOffsets) {
        self.cuts.push_back((epoch, positions));
    }

    /// All rows up to the cut of `epoch` were written.
    pub(super) fn done(&mut self, epoch: Epoch) -> Result<()> {
        while self.cuts.front().is_some_and(|(cut, _)| *cut <= epoch) {
            if let Some((_, positions)) = self.cuts.pop_front() {
                self.due.extend(positions);
            }
        }
        self.advance()
    }

    /// Sends the due positions, unless a commit is in progress.
    pub(super) fn advance(&mut self) -> Result<()> {
        let reports = self.client.context();
        if reports.is_committing() {
            return Ok(());
        }
        if let Some(code) = reports.take_commit_error() {
            if matches!(code, RDKafkaErrorCode::UnknownMemberId | RDKafkaErrorCode::IllegalGeneration) {
                let group = &self.group;
                return Err(Error::outside(format!(
                    "positions cannot be committed to group '{group}', which has members of its own: {code}"
                ))
                .remedy(
                    "set 'properties.group.id' to a group that no other program reads with, or stop that program",
                ));
            }
            if is_permanent(code) {
                return Err(Error::outside(format!("positions cannot be committed to group '{}': {code}", self.group))
                    .remedy("grant the right to read with this group, or leave out 'properties.group.id'"));
            }
            // They may not be stored: they are sent again.
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
        // This thread receives the answer later.
        self.client.context().commit_begins();
        self.sent.append(&mut self.due);
        Ok(())
    }

    /// Waits, for a bounded time, until the due positions are committed.
    pub(super) fn finish(&mut self) {
        for _ in 0..LAST_COMMIT_LOOKS {
            // The job has ended, so an error has no receiver. Its only effect is that records are read again.
            if self.advance().is_err() || !self.client.context().is_committing() {
                return;
            }
            let _ = self.client.poll(LAST_COMMIT_LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::consumer::ConsumerContext as _;
    use rdkafka::error::KafkaError;

    use super::super::client::consumer;
    use super::super::table::tests::parse;
    use super::*;

    #[test]
    fn a_group_with_members_of_its_own_is_told() {
        let table = parse(&[("properties.bootstrap.servers", "localhost:1"), ("properties.group.id", "g")]).unwrap();
        let answer = |code| {
            let client = consumer(&table).unwrap();
            client.context().commit_callback(Err(KafkaError::ConsumerCommit(code)), &TopicPartitionList::new());
            Commits::new(client, "g".into()).advance().map_err(|error| error.to_string())
        };
        for code in [RDKafkaErrorCode::UnknownMemberId, RDKafkaErrorCode::IllegalGeneration] {
            let error = answer(code).unwrap_err();
            assert!(error.contains("group 'g', which has members of its own"), "{error}");
            assert!(error.contains("a group that no other program reads with"), "{error}");
        }
        assert_eq!(answer(RDKafkaErrorCode::RequestTimedOut), Ok(()));
    }
}
