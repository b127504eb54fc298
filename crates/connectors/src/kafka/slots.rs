//! Assigns elements of the client's queue to the partitions of a reader.

use std::collections::BTreeMap;
use std::ffi::CStr;

use rdkafka::error::RDKafkaErrorCode;

use super::metadata::WantedMetadata;
use super::native::{Element, Received};
use super::partition::Partition;

/// Finds a partition's slot by the topic name and number of a record. Records come in runs of one partition,
/// so the last slot is tried first.
#[derive(Default)]
pub(super) struct Slots {
    topics: BTreeMap<Vec<u8>, usize>,
    by_partition: BTreeMap<(usize, i32), usize>,
    last: Option<LastSlot>,
}

/// The slot of a partition.
struct LastSlot {
    topic: Vec<u8>,
    partition: i32,
    slot: usize,
}

impl Slots {
    pub(super) fn add_topic(&mut self, name: &str, topic: usize) {
        self.topics.insert(name.as_bytes().to_vec(), topic);
    }

    /// The index of a topic.
    pub(super) fn topic(&self, name: &[u8]) -> Option<usize> {
        self.topics.get(name).copied()
    }

    pub(super) fn add(&mut self, topic: usize, partition: i32, slot: usize) {
        self.by_partition.insert((topic, partition), slot);
    }

    pub(super) fn find(&self, topic: usize, partition: i32) -> Option<usize> {
        self.by_partition.get(&(topic, partition)).copied()
    }

    fn find_named(&mut self, topic: &CStr, partition: i32) -> Option<usize> {
        let name = topic.to_bytes();
        if let Some(last) = &self.last
            && last.partition == partition
            && last.topic.as_slice() == name
        {
            return Some(last.slot);
        }
        let slot = self.find(self.topic(name)?, partition)?;
        self.last = Some(LastSlot { topic: name.to_vec(), partition, slot });
        Some(slot)
    }
}

/// An error that arrived among the records.
pub(super) struct Failure {
    pub(super) slot: Option<usize>,
    pub(super) code: RDKafkaErrorCode,
    pub(super) reason: String,
}

/// Adds a received element to its partition. Fails for an error of the client, for an element of a partition
/// that is not read, and for a record that precedes the offset at which the partition was started.
pub(super) fn accept(
    partitions: &mut [Partition],
    slots: &mut Slots,
    wanted: WantedMetadata,
    received: &Received<'_>,
) -> Result<(), Failure> {
    let slot = slots.find_named(received.topic, received.partition);
    match (&received.what, slot) {
        (Element::Record(_), Some(slot)) if partitions[slot].is_before(received.offset) => {
            return Err(Failure { slot: Some(slot), code: RDKafkaErrorCode::OffsetOutOfRange, reason: String::new() });
        }
        (Element::Record(record), Some(slot)) => {
            if let Some(gathered) = partitions[slot].push(received.offset, *record) {
                gathered.push(wanted, received);
            }
        }
        (Element::End, Some(slot)) => partitions[slot].nothing_before(received.offset),
        (Element::Error(code, reason), slot) => return Err(Failure { slot, code: *code, reason: reason.clone() }),
        (Element::Record(_) | Element::End, None) => {
            let (code, reason) = (RDKafkaErrorCode::UnknownPartition, "a record of a partition that was not asked for");
            return Err(Failure { slot: None, code, reason: reason.into() });
        }
    }
    Ok(())
}
