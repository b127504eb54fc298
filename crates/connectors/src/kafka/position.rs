//! Positions of a table's partitions: `ads/3` is at `4711 topic-id ASNFZ4mrze8AESIzRFVm9w`, or at `4711..5000
//! topic-id ...` if the table ends at offset 5000.
//!
//! The topic's identity is part of the position: an offset means nothing in another topic of the same name.
//! Old brokers give no identity, so some positions lack it. The end is part of the position so that a bounded
//! table that is resumed keeps its end. A partition that is read from its beginning and has returned nothing
//! yet is at `beginning`: only the broker knows its first offset.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::Result;
use anabranch_operators::Positions;

use super::start::BEGINNING;
use super::table::Table;
use super::topic_id::TopicId;
use super::topics::{FoundTopic, may_be};
use crate::positions::{foreign, number, unreadable};

/// The text for the beginning of a partition.
const AT_BEGINNING: &str = "beginning";
/// Separates the offsets from the identity of the topic.
const OF_TOPIC: &str = " topic-id ";

/// The position of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The next offset, or [`BEGINNING`].
    pub(super) next: i64,
    /// The end of a bounded table.
    pub(super) end: Option<i64>,
    /// The identity of its topic, if it is known.
    pub(super) topic_id: Option<TopicId>,
}

impl Position {
    fn parse(text: &str) -> Option<Position> {
        let (offsets, topic_id) = match text.split_once(OF_TOPIC) {
            Some((offsets, id)) => (offsets, Some(TopicId::parse(id)?)),
            None => (text, None),
        };
        let (next, end) = match offsets.split_once("..") {
            Some((next, end)) => (next, Some(number(end)?)),
            None => (offsets, None),
        };
        let next = if next == AT_BEGINNING { BEGINNING } else { number(next)? };
        Some(Position { next, end, topic_id })
    }

    /// The position as text.
    pub(super) fn text(self) -> String {
        let next = if self.next == BEGINNING { AT_BEGINNING.to_owned() } else { self.next.to_string() };
        let end = self.end.map(|end| format!("..{end}")).unwrap_or_default();
        let topic = self.topic_id.map(|id| format!("{OF_TOPIC}{id}")).unwrap_or_default();
        format!("{next}{end}{topic}")
    }

    /// Whether nothing follows.
    pub(super) fn is_end(self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }
}

/// The name of a partition in positions.
pub(super) fn name(topic: &str, partition: i32) -> String {
    format!("{topic}/{partition}")
}

/// The topic of a partition with this name.
pub(super) fn topic_of(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(topic, _)| topic)
}

/// Parsed positions.
#[derive(Debug, Default)]
pub(super) struct KnownPositions {
    /// By topic index and partition.
    pub(super) positions: BTreeMap<(usize, i32), Position>,
    /// For missing topics of a pattern, by name and partition: the topics may come back.
    pub(super) missing: BTreeMap<(String, i32), Position>,
    /// Topics of a pattern that were created anew: their positions are void.
    pub(super) renewed: BTreeSet<String>,
    /// Topics whose positions have no identity, although the brokers give one.
    pub(super) unidentified: BTreeSet<String>,
}

/// The positions in `from` for these topics. All are checked, not only those of this task.
pub(super) fn parse(
    from: &Positions,
    table: &Table,
    topics: &[FoundTopic],
    table_name: &str,
) -> Result<KnownPositions> {
    let index_of: BTreeMap<&str, usize> =
        topics.iter().enumerate().map(|(index, topic)| (topic.name.as_str(), index)).collect();
    let mut known = KnownPositions::default();
    for (name, text) in from {
        let position = || {
            Position::parse(text).ok_or_else(|| {
                let forms =
                    "an offset such as '4711', a range such as '4711..5000', or 'beginning', and 'topic-id ...'";
                unreadable(table_name, name, text, forms)
            })
        };
        let found = name.rsplit_once('/').and_then(|(topic, partition)| Some((topic, number::<i32>(partition)?)));
        match found.map(|(topic, partition)| (topic, partition, index_of.get(topic))) {
            Some((topic, partition, Some(index))) => {
                let (position, found) = (position()?, &topics[*index]);
                if !may_be(found.id, position.topic_id) {
                    if !table.reads_renewed() {
                        return Err(table.renewed(topic).at(format!("table {table_name}")));
                    }
                    known.renewed.insert(topic.to_owned());
                    continue;
                }
                if partition >= found.partitions {
                    let reason = format!("topic {topic} has {} partitions", found.partitions);
                    return Err(foreign(table_name, name, &reason));
                }
                if position.topic_id.is_none() && found.id.is_some() {
                    known.unidentified.insert(topic.to_owned());
                }
                known.positions.insert((*index, partition), position);
            }
            Some((topic, partition, None)) if table.subscription.matches(topic) => {
                known.missing.insert((topic.to_owned(), partition), position()?);
            }
            _ => return Err(foreign(table_name, name, &format!("it has {}", table.subscription.text()))),
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_are_written() {
        for text in ["0", "4711", "4711..5000", "5000..5000", "beginning", "beginning..17"] {
            let with_id = format!("{text} topic-id ASNFZ4mrze8AESIzRFVm9w");
            assert_eq!(Position::parse(&with_id).map(Position::text), Some(with_id));
            assert_eq!(Position::parse(text).map(Position::text).as_deref(), Some(text));
        }
        for wrong in [
            "",
            "1 topic-id x",
            "topic-id ASNFZ4mrze8AESIzRFVm9w",
            "-1",
            "..",
            "4711..",
            "..5",
            "4711..beginning",
            "end",
            "1..2..3",
            "99999999999999999999",
        ] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_end_is_reached_at_or_beyond_it() {
        let is_end = |text: &str| Position::parse(text).is_some_and(Position::is_end);
        assert!(is_end("5..5") && is_end("6..5") && is_end("0..0"));
        assert!(!is_end("4..5") && !is_end("5") && !is_end("beginning..5"));
    }
}
