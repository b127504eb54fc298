//! Positions of a table's partitions: `ads/3` stands at `4711`, or at `4711..5000` if the table ends at offset 5000.
//!
//! The end is part of the position so that a bounded table that is read on ends where it would have ended. A partition that was
//! read from its beginning and has given nothing yet stands at `beginning`: its first offset is the broker's to know.

use std::collections::BTreeMap;

use anabranch_model::Result;
use anabranch_operators::Positions;

use super::start::BEGINNING;
use super::subscription::Subscription;
use crate::positions::{foreign, number, unreadable};

/// How the beginning of a partition is written.
const AT_BEGINNING: &str = "beginning";

/// Where a partition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The next offset, or [`BEGINNING`].
    pub(super) next: i64,
    /// Where a bounded table ends.
    pub(super) end: Option<i64>,
}

impl Position {
    fn parse(text: &str) -> Option<Position> {
        let (next, end) = match text.split_once("..") {
            Some((next, end)) => (next, Some(offset(end)?)),
            None => (text, None),
        };
        let next = if next == AT_BEGINNING { BEGINNING } else { offset(next)? };
        Some(Position { next, end })
    }

    /// In words.
    pub(super) fn text(self) -> String {
        let next = if self.next == BEGINNING { AT_BEGINNING.to_owned() } else { self.next.to_string() };
        match self.end {
            Some(end) => format!("{next}..{end}"),
            None => next,
        }
    }

    /// Nothing follows.
    pub(super) fn is_end(self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }
}

fn offset(text: &str) -> Option<i64> {
    number(text)
}

/// The name of a partition in positions.
pub(super) fn name(topic: &str, partition: i32) -> String {
    format!("{topic}/{partition}")
}

/// The topic of a partition with this name.
pub(super) fn topic_of(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(topic, _)| topic)
}

/// Positions as they were read.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By topic index and partition.
    pub(super) positions: BTreeMap<(usize, i32), Position>,
    /// Of topics of a pattern that are not there, by name and partition: they may come back.
    pub(super) missing: BTreeMap<(String, i32), Position>,
}

/// The positions in `from`, of topics that have these numbers of partitions. All are checked, not only those of this task.
pub(super) fn parse(
    from: &Positions,
    subscription: &Subscription,
    topics: &[(String, i32)],
    table_name: &str,
) -> Result<Known> {
    let index_of: BTreeMap<&str, usize> =
        topics.iter().enumerate().map(|(index, (name, _))| (name.as_str(), index)).collect();
    let missing = subscription.missing(from, topics);
    let mut known = Known::default();
    for (name, text) in from {
        let position = || {
            Position::parse(text).ok_or_else(|| {
                let forms = "an offset such as '4711', a range such as '4711..5000', or 'beginning'";
                unreadable(table_name, name, text, forms)
            })
        };
        let found = name.rsplit_once('/').and_then(|(topic, partition)| Some((topic, number::<i32>(partition)?)));
        match found.map(|(topic, partition)| (topic, partition, index_of.get(topic))) {
            Some((topic, partition, Some(index))) => {
                let count = topics[*index].1;
                if partition >= count {
                    return Err(foreign(table_name, name, &format!("topic {topic} has {count} partitions")));
                }
                known.positions.insert((*index, partition), position()?);
            }
            Some((topic, partition, None)) if missing.contains(topic) => {
                known.missing.insert((topic.to_owned(), partition), position()?);
            }
            _ => return Err(foreign(table_name, name, &format!("it has {}", subscription.text()))),
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
            assert_eq!(Position::parse(text).map(Position::text).as_deref(), Some(text));
        }
        for wrong in ["", "-1", "..", "4711..", "..5", "4711..beginning", "end", "1..2..3", "99999999999999999999"] {
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
