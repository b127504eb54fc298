//! The brokers' descriptions of a table's topics: their names, identities and numbers of partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::{Error, by_likeness};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaResult, RDKafkaErrorCode};

use super::client::{Consumer, is_passing};
use super::native::{Described, describe};
use super::table::Table;
use super::topic_id::TopicId;

/// An existing topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundTopic {
    pub(super) name: String,
    /// `None`: the brokers are older than topic identities.
    pub(super) id: Option<TopicId>,
    pub(super) partitions: i32,
}

impl FoundTopic {
    /// The text form in which tasks share it.
    pub(super) fn text(&self) -> String {
        let id = self.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        format!("{} {id} {}", self.partitions, self.name)
    }

    pub(super) fn parse(text: &str) -> Option<FoundTopic> {
        let mut parts = text.splitn(3, ' ');
        let partitions = parts.next()?.parse().ok()?;
        let id = match parts.next()? {
            "-" => None,
            id => Some(TopicId::parse(id)?),
        };
        Some(FoundTopic { name: parts.next()?.to_owned(), id, partitions })
    }
}

/// Whether a topic may be the one whose identity is known. A topic without a known identity may be any.
pub(super) fn may_be(id: Option<TopicId>, known: Option<TopicId>) -> bool {
    id.is_none() || known.is_none() || id == known
}

/// The answer to one request.
#[derive(Debug, Default)]
pub(super) struct Topics {
    /// Sorted by name.
    pub(super) found: Vec<FoundTopic>,
    /// Known topics that the brokers do not know: they have been deleted.
    pub(super) gone: BTreeSet<String>,
    /// Known topics that may exist, but cannot be read, with the reason.
    pub(super) away: BTreeMap<String, RDKafkaErrorCode>,
    /// Whether another answer will follow soon: leaders are being elected.
    pub(super) passes: bool,
}

/// Requests these topics, some of which are known already. Of the others, only the readable ones count.
pub(super) fn ask(
    client: &Consumer,
    names: &BTreeSet<String>,
    known: &BTreeSet<String>,
    wait: Duration,
) -> KafkaResult<Topics> {
    let mut topics = Topics::default();
    if names.is_empty() {
        return Ok(topics);
    }
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    for (name, answer) in names.iter().zip(describe(client, &asked, wait)?) {
        match answer {
            Ok(Described { id, partitions }) => topics.found.push(FoundTopic { name: name.clone(), id, partitions }),
            Err(code) if is_passing(code) => topics.passes = true,
            Err(_) if !known.contains(name) => {}
            Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                topics.gone.insert(name.clone());
            }
            Err(code) => drop(topics.away.insert(name.clone(), code)),
        }
    }
    Ok(topics)
}

/// The error if a topic that the table names does not exist.
pub(super) fn unknown_topic(client: &Consumer, table: &Table, topic: &str, wait: Duration) -> Error {
    let error = Error::user(format!("topic '{topic}' does not exist at {}", table.servers));
    let Ok(metadata) = client.fetch_metadata(None, wait) else { return error };
    let names = metadata.topics().iter().map(|t| t.name()).filter(|name| !name.starts_with("__"));
    let near: Vec<&str> = by_likeness(topic, names).into_iter().take(5).collect();
    if near.is_empty() {
        return error.remedy("create it, or correct the option 'topic'");
    }
    error.remedy(format!("create it, or correct the option 'topic'; there are: {}", near.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_shared_as_text() {
        for text in ["3 - a", "1 ASNFZ4mrze8AESIzRFVm9w orders.eu"] {
            assert_eq!(FoundTopic::parse(text).map(|found| found.text()).as_deref(), Some(text));
        }
        for wrong in ["", "a", "3 a", "3 x a", "x - a"] {
            assert_eq!(FoundTopic::parse(wrong), None, "{wrong}");
        }
    }
}
