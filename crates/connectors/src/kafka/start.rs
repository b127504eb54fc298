//! The start of each partition, and its end if the table is bounded: determined once, when the task opens.
//! All readers of a partition agree on its latest offset, so that they read the same records however long the
//! others take to open.
//!
//! Positions are requested rather than left to the client where they must be those of *now*: a record that is
//! written between the start of the job and the first fetch belongs to a job that reads from the latest
//! offset on.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_model::{Clock, Error, Result};
use anabranch_operators::Host;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client::{Consumer, is_passing, is_permanent, patiently, silent};
use super::places::Bound;
use super::table::Table;

/// Offsets by topic and partition; logical ones in librdkafka's encoding.
pub(super) type Offsets = BTreeMap<(String, i32), i64>;

/// The first offset of a partition, whatever it is when the fetch begins.
pub(super) const BEGINNING: i64 = rdkafka::bindings::RD_KAFKA_OFFSET_BEGINNING as i64;
const LATEST: i64 = rdkafka::bindings::RD_KAFKA_OFFSET_END as i64;

/// Requests offsets for the partitions of one task.
pub(super) struct Inquiry<'a> {
    pub(super) client: &'a Consumer,
    pub(super) clock: &'a dyn Clock,
    pub(super) host: &'a dyn Host,
    pub(super) table: &'a Table,
    pub(super) partitions: &'a [(String, i32)],
    pub(super) wait: Duration,
}

impl Inquiry<'_> {
    /// The start of each partition.
    pub(super) fn start(&self) -> Result<Offsets> {
        let mut offsets: Offsets = self.partitions.iter().map(|partition| (partition.clone(), BEGINNING)).collect();
        offsets.extend(self.at(&self.table.startup)?);
        Ok(offsets)
    }

    /// The end of each partition.
    pub(super) fn end(&self) -> Result<Offsets> {
        let Some(bound) = &self.table.end else { return Ok(Offsets::new()) };
        let mut offsets = self.at(bound)?;
        for partition in
            self.partitions.iter().filter(|partition| !offsets.contains_key(*partition)).collect::<Vec<_>>()
        {
            let (topic, number) = partition;
            match bound {
                // As in Flink, such a partition is not read.
                Bound::Specific(_) => drop(offsets.insert(partition.clone(), 0)),
                _ => {
                    return Err(Error::user(
                        "'scan.bounded.mode' is 'group-offsets', but the group has no position there",
                    )
                    .at(format!("topic {topic} partition {number}"))
                    .remedy("commit one, or end the table at 'latest-offset'"));
                }
            }
        }
        Ok(offsets)
    }

    /// The offsets of a bound, for the partitions that have one.
    fn at(&self, bound: &Bound) -> Result<Offsets> {
        let known = |offsets: Offsets| offsets.into_iter().filter(|(_, offset)| *offset >= 0);
        match bound {
            _ if self.partitions.is_empty() => Ok(Offsets::new()),
            Bound::Earliest => Ok(Offsets::new()),
            Bound::Latest => self.latest(),
            Bound::Timestamp { ms } => {
                // Requested first: a record that is written between the two requests has a later timestamp
                // and must not be missed.
                let mut offsets = self.latest()?;
                offsets.extend(known(self.by_time(*ms)?));
                Ok(offsets)
            }
            Bound::Group => Ok(known(self.committed()?).collect()),
            Bound::Specific(given) => {
                let offset = |partition: &(String, i32)| Some((partition.clone(), *given.get(&partition.1)?));
                Ok(self.partitions.iter().filter_map(offset).collect())
            }
        }
    }

    /// The offsets of the next records to be written, or those that another reader of the partition has found
    /// before.
    pub(super) fn latest(&self) -> Result<Offsets> {
        let config = self.table.consumer_config();
        let (servers, isolation) = (&self.table.servers, config.get("isolation.level").unwrap_or_default());
        let mut asked = None;
        let mut agreed = Offsets::new();
        for (topic, partition) in self.partitions {
            let name = (topic.clone(), *partition);
            let mut list = || {
                let offsets = match &asked {
                    Some(offsets) => offsets,
                    None => asked.insert(self.by_time(LATEST)?),
                };
                Ok(offsets.get(&name).map(i64::to_string).into_iter().collect())
            };
            let key = format!("latest offset of {topic}/{partition} at {servers}, {isolation}");
            let offset = self.host.agreed(&key, &mut list)?;
            agreed.extend(offset.first().and_then(|offset| Some((name, offset.parse().ok()?))));
        }
        Ok(agreed)
    }

    fn by_time(&self, time: i64) -> Result<Offsets> {
        let asked = self.list(Offset::from_raw(time))?;
        self.ask("their offsets", |wait| self.client.offsets_for_times(asked.clone(), wait))
    }

    fn committed(&self) -> Result<Offsets> {
        let asked = self.list(Offset::Invalid)?;
        self.ask("the offsets of the group", |wait| self.client.committed_offsets(asked.clone(), wait))
    }

    /// Repeats a request until every partition has its answer, or a permanent failure.
    fn ask(&self, what: &str, question: impl Fn(Duration) -> KafkaResult<TopicPartitionList>) -> Result<Offsets> {
        let answered = patiently(self.client, self.clock, self.wait, |wait| {
            let list = question(wait)?;
            for element in list.elements() {
                if let Err(error) = element.error()
                    && error.rdkafka_error_code().is_some_and(is_passing_or_new)
                {
                    return Err(error);
                }
            }
            Ok(list)
        });
        self.offsets(&answered.map_err(|error| self.failed(what, &error))?)
    }

    fn list(&self, offset: Offset) -> Result<TopicPartitionList> {
        let mut list = TopicPartitionList::with_capacity(self.partitions.len());
        for (topic, partition) in self.partitions {
            let added = list.add_partition_offset(topic, *partition, offset);
            added.map_err(|error| Error::internal(format!("offset {offset:?} cannot be asked for: {error}")))?;
        }
        Ok(list)
    }

    fn offsets(&self, list: &TopicPartitionList) -> Result<Offsets> {
        let mut offsets = Offsets::new();
        for element in list.elements() {
            element.error().map_err(|error| {
                self.failed("its offsets", &error).at(format!(
                    "topic {} partition {}",
                    element.topic(),
                    element.partition()
                ))
            })?;
            offsets
                .insert((element.topic().to_owned(), element.partition()), element.offset().to_raw().unwrap_or(LATEST));
        }
        Ok(offsets)
    }

    fn failed(&self, what: &str, error: &KafkaError) -> Error {
        match error.rdkafka_error_code() {
            Some(code) if is_permanent(code) => Error::outside(format!("the broker refuses to tell {what}: {code}")),
            code => silent(self.client.context(), self.table, self.wait, code),
        }
    }
}

/// Whether the error may be transient. The partition exists, because a broker has listed it; the answering
/// broker may not know it yet.
fn is_passing_or_new(code: RDKafkaErrorCode) -> bool {
    let is_unknown = matches!(
        code,
        RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition
    );
    is_unknown || is_passing(code)
}
