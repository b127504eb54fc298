//! Errors of single partitions.

use anabranch_model::{Error, Result};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode;

use super::super::client::is_passing;
use super::{KafkaSource, LAST_QUESTION};

impl KafkaSource {
    /// Handles an error of one partition: the client retries transient ones, the others end the job.
    pub(super) fn check_failure(&self, slot: Option<usize>, code: RDKafkaErrorCode, reason: &str) -> Result<()> {
        match slot.map(|slot| &self.partitions[slot]) {
            _ if is_passing(code) => Ok(()),
            Some(partition) => Err(self.unreadable(partition.topic, partition.partition, code, reason)),
            None => Err(Error::outside(format!("reading from {} failed: {code} {reason}", self.table.servers))),
        }
    }

    pub(super) fn unreadable(&self, topic: usize, partition: i32, code: RDKafkaErrorCode, reason: &str) -> Error {
        let reason = if reason.is_empty() { code.to_string() } else { reason.to_owned() };
        let name = &self.topics[topic].name;
        let error = match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => {
                // The topic may have been created anew, with fewer records.
                if let Err(renewed) = self.verify_topics() {
                    return renewed;
                }
                self.out_of_range(topic, partition)
            }
            RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownPartition => Error::outside(format!("cannot be read any further: {reason}"))
                .remedy(format!("if the topic was deleted, {}", self.table.remedy_of_gone())),
            _ => Error::outside(format!("cannot be read any further: {reason}")),
        };
        error.at(format!("topic {name} partition {partition}"))
    }

    /// The error of a partition without the offset at which it should continue.
    fn out_of_range(&self, topic: usize, partition: i32) -> Error {
        let slot = self.slots.find(topic, partition);
        let next = slot.map_or(0, |slot| self.partitions[slot].next());
        let log = self.client.fetch_watermarks(&self.topics[topic].name, partition, LAST_QUESTION);
        self.table.out_of_range(next, log.ok())
    }
}
