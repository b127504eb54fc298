//! Records of one partition between the client's queue and the decoder.

use anabranch_model::PartitionId;
use arrow::array::{BinaryArray, BinaryBuilder};

use super::metadata::GatheredMetadata;
use super::position::Position;

/// Distance between the identifiers of two topics' partitions. A prime: whatever the parallelism, the first
/// partitions of several topics belong to different tasks, and so do adjacent partitions of one topic.
const TOPIC_STRIDE: u32 = 65_537;

/// A block is decoded when it holds this many bytes, even if more records are waiting.
const BLOCK_BYTES: usize = 8 << 20;

/// The identifier of a partition within its reader, which never changes, however many partitions are added to
/// any topic.
pub(super) fn partition_id(topic: usize, partition: i32) -> PartitionId {
    let topic = u32::try_from(topic).unwrap_or(u32::MAX);
    PartitionId(topic.wrapping_mul(TOPIC_STRIDE).wrapping_add(partition.unsigned_abs()))
}

/// A partition that this task reads.
pub(super) struct Partition {
    pub(super) id: PartitionId,
    /// Index into the table's topics.
    pub(super) topic: usize,
    pub(super) partition: i32,
    /// The end of a bounded table; `None` if it is unbounded.
    pub(super) end: Option<i64>,
    /// Whether the end has been reached: later records do not belong to the table.
    pub(super) ended: bool,
    /// Whether the source has announced the end, or queued the announcement.
    pub(super) closed: bool,
    /// Where reading began: an offset or [`super::start::BEGINNING`].
    start: i64,
    /// The offset after the last record that has left the source.
    pub(super) position: Option<i64>,
    /// The offset after the last record that was received.
    received: Option<i64>,
    /// The offset at the last start of the partition: earlier records are dropped.
    floor: i64,
    /// Whether it is stopped for now.
    pub(super) held: bool,
    pub(super) presence: Presence,
    block: Block,
}

/// Whether a partition's topic exists. Topics of a pattern may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Here,
    /// It cannot be read for now. It holds event time back, like any partition without rows.
    Away,
    /// It was deleted. Its position is kept.
    Gone,
    /// The topic was created anew with fewer partitions.
    Forgotten,
}

/// Gathered records, with their offsets.
pub(super) struct Block {
    records: BinaryBuilder,
    offsets: Vec<i64>,
    pub(super) gathered: GatheredMetadata,
}

impl Block {
    fn with_capacity(records: usize, bytes: usize) -> Block {
        Block {
            records: BinaryBuilder::with_capacity(records, bytes),
            offsets: Vec::with_capacity(records),
            gathered: GatheredMetadata::default(),
        }
    }

    /// The raw records and their offsets.
    pub(super) fn finish(mut self) -> (BinaryArray, Vec<i64>, GatheredMetadata) {
        (self.records.finish(), self.offsets, self.gathered)
    }
}

impl Partition {
    pub(super) fn new(topic: usize, partition: i32, Position { next: start, end, .. }: Position) -> Partition {
        let (id, block) = (partition_id(topic, partition), Block::with_capacity(0, 0));
        let (position, received) = (None, None);
        Partition {
            id,
            topic,
            partition,
            end,
            ended: false,
            closed: false,
            start,
            position,
            received,
            floor: start,
            held: false,
            presence: Presence::Here,
            block,
        }
    }

    /// The next offset to read, or [`super::start::BEGINNING`].
    pub(super) fn next(&self) -> i64 {
        self.received.unwrap_or(self.start)
    }

    /// The position after the rows that have left the source.
    pub(super) fn output_position(&self) -> Position {
        Position { next: self.position.unwrap_or(self.start), end: self.end, topic_id: None }
    }

    /// Whether its records are being fetched.
    pub(super) fn is_read(&self) -> bool {
        self.presence == Presence::Here && !self.ended
    }

    /// Fetching resumes at [`Partition::next`].
    pub(super) fn resume(&mut self) {
        (self.floor, self.held) = (self.next(), false);
    }

    /// Whether a record of this offset shows that the log was truncated.
    pub(super) fn is_before(&self, offset: i64) -> bool {
        offset < self.floor
    }

    /// Adds a record, unless it lies beyond the end. Returns where to gather its metadata. `None` is a
    /// tombstone.
    pub(super) fn push(&mut self, offset: i64, record: Option<&[u8]>) -> Option<&mut GatheredMetadata> {
        if self.received.is_some_and(|next| offset < next) {
            // The partition was started again while later records were in flight.
            return None;
        }
        if self.ended || self.end.is_some_and(|end| offset >= end) {
            self.ended = true;
            return None;
        }
        self.received = Some(offset + 1);
        self.block.offsets.push(offset);
        self.block.records.append_option(record);
        self.nothing_before(offset + 1);
        Some(&mut self.block.gathered)
    }

    /// No further record before `offset` will arrive: a bounded table ends if this is at or beyond its end.
    /// Offsets have gaps (compaction, transactions), so the last record need not be right before the end.
    pub(super) fn nothing_before(&mut self, offset: i64) {
        self.ended |= self.end.is_some_and(|end| offset >= end);
    }

    /// Whether the block should be decoded before more is added.
    pub(super) fn is_full(&self) -> bool {
        self.block.records.values_slice().len() >= BLOCK_BYTES
    }

    /// Takes the gathered records, if there are any; the next block is expected to be as large.
    pub(super) fn take_block(&mut self) -> Option<Block> {
        let records = self.block.offsets.len();
        if records == 0 {
            return None;
        }
        let next = Block::with_capacity(records, self.block.records.values_slice().len());
        Some(std::mem::replace(&mut self.block, next))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow::array::Array;

    use super::*;

    #[test]
    fn identifiers_are_unique_and_spread_over_tasks() {
        let ids: BTreeSet<_> = (0..20).flat_map(|t| (0..100).map(move |p| partition_id(t, p))).collect();
        assert_eq!(ids.len(), 2000);
        for parallelism in 2..=16 {
            let owners: BTreeSet<_> = (0..parallelism).map(|t| partition_id(t, 0).0 % parallelism as u32).collect();
            assert_eq!(owners.len(), parallelism, "one-partition topics at parallelism {parallelism}");
        }
        assert_eq!(partition_id(0, 7), PartitionId(7), "a single topic's partitions keep their numbers");
    }

    #[test]
    fn records_that_come_again_are_taken_once() {
        let mut partition = Partition::new(0, 0, Position { next: 7, end: None, topic_id: None });
        assert_eq!(partition.next(), 7);
        for offset in [8, 9, 8, 9, 11, 9, 12] {
            partition.push(offset, Some(b"a"));
        }
        assert_eq!(partition.take_block().expect("records").finish().1, [8, 9, 11, 12]);
        assert_eq!((partition.next(), partition.output_position().next), (13, 7));
    }

    #[test]
    fn a_bounded_partition_ends_at_a_record_beyond_or_where_nothing_follows() {
        let mut beyond = Partition::new(0, 0, Position { next: 0, end: Some(2), topic_id: None });
        beyond.push(0, Some(b"a"));
        beyond.push(5, Some(b"b"));
        assert!(beyond.ended);
        let (records, offsets, _) = beyond.take_block().expect("one record").finish();
        assert_eq!((records.len(), offsets), (1, vec![0]));

        let mut gap = Partition::new(0, 0, Position { next: 0, end: Some(2), topic_id: None });
        gap.nothing_before(1);
        assert!(!gap.ended);
        gap.nothing_before(2);
        assert!(gap.ended);

        let mut last = Partition::new(0, 0, Position { next: 0, end: Some(2), topic_id: None });
        last.push(0, Some(b"a"));
        assert!(!last.ended);
        last.push(1, Some(b"b"));
        assert!(last.ended, "the record before the end is the last");
        assert_eq!(last.take_block().expect("two records").finish().1, [0, 1]);
    }
}
