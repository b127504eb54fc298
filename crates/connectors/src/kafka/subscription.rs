//! Which topics a table reads: those that it names, or all whose names match a pattern, also those that come later.

use std::collections::BTreeSet;

use anabranch_model::{Clock, Error, Result};
use anabranch_operators::{Host, Positions};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::{Metadata, MetadataTopic};
use regex::Regex;

use super::client::{Consumer, count_of, is_passing, partition_count, patiently, unanswered};
use super::position::topic_of;
use super::table::{Table, fields};
use crate::Options;

/// Topics that the brokers keep for themselves.
const INTERNAL: &[&str] = &["__consumer_offsets", "__transaction_state"];

/// What `topic` or `topic-pattern` says.
#[derive(Clone, Debug)]
pub(super) enum Subscription {
    /// Sorted, without duplicates, never empty.
    Topics(Vec<String>),
    Pattern(Pattern),
}

/// Topics whose whole names match.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    regex: Regex,
}

impl Subscription {
    /// Of a table that may have a pattern.
    pub(super) fn read(options: &mut Options<'_>) -> Result<Subscription> {
        let Some(text) = options.string("topic-pattern").map(str::to_owned) else {
            return Subscription::named(options);
        };
        if options.string("topic").is_some() {
            return Err(Error::user("options 'topic' and 'topic-pattern' are given").remedy("leave one of them out"));
        }
        Ok(Subscription::Pattern(Pattern::new(text)?))
    }

    /// Of a table that names its topics.
    pub(super) fn named(options: &mut Options<'_>) -> Result<Subscription> {
        Ok(Subscription::Topics(topics(options.required("topic")?)?))
    }

    pub(super) fn pattern(&self) -> Option<&Pattern> {
        match self {
            Subscription::Pattern(pattern) => Some(pattern),
            Subscription::Topics(_) => None,
        }
    }

    /// The topics that there are now, each with the number of its partitions. All readers of a table that ends get the same ones, and so do those
    /// that begin without positions.
    pub(super) fn topics(
        &self,
        client: &Consumer,
        table: &Table,
        (name, positions): (&str, Option<&Positions>),
        (clock, host): (&dyn Clock, &dyn Host),
    ) -> Result<Vec<(String, i32)>> {
        let pattern = match self {
            Subscription::Topics(topics) => {
                let wait = table.first_answer;
                let counted = |topic: &String| Ok((topic.clone(), partition_count(client, table, topic, wait, clock)?));
                return topics.iter().map(counted).collect();
            }
            Subscription::Pattern(pattern) => pattern,
        };
        let ask = || pattern.ask(client, table, positions, clock);
        if positions.is_some() && table.discovers {
            // Some of them may have come since the others began.
            return ask();
        }
        let mut list = || Ok(ask()?.into_iter().map(|(topic, count)| format!("{count} {topic}")).collect());
        let agreed = host.agreed(&format!("{} of table {name}", self.text()), &mut list)?;
        let parse = |text: &String| {
            text.split_once(' ').and_then(|(count, topic)| Some((topic.to_owned(), count.parse().ok()?)))
        };
        let topics = agreed.iter().map(parse).collect::<Option<Vec<_>>>();
        let mut topics = topics.ok_or_else(|| Error::internal("topics without their partitions"))?;
        if let Some(positions) = positions {
            // What a table that ends has was found at its start.
            let first: BTreeSet<&str> = positions.keys().filter_map(|name| topic_of(name)).collect();
            topics.retain(|(topic, _)| first.contains(topic.as_str()));
        }
        Ok(topics)
    }

    /// Topics of a pattern that have positions and are not among these.
    pub(super) fn missing<'a>(&self, positions: &'a Positions, topics: &[(String, i32)]) -> BTreeSet<&'a str> {
        let Some(pattern) = self.pattern() else { return BTreeSet::new() };
        let there: BTreeSet<&str> = topics.iter().map(|(name, _)| name.as_str()).collect();
        let with_positions: BTreeSet<&str> = positions.keys().filter_map(|name| topic_of(name)).collect();
        with_positions.into_iter().filter(|topic| pattern.matches(topic) && !there.contains(topic)).collect()
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        match self {
            Subscription::Topics(topics) => format!("topic {}", topics.join(", ")),
            Subscription::Pattern(pattern) => format!("topics like '{}'", pattern.text),
        }
    }
}

impl Pattern {
    fn new(text: String) -> Result<Pattern> {
        if text.is_empty() {
            return Err(Error::user("option 'topic-pattern' is empty").remedy("give one such as 'orders-.*'"));
        }
        // Alone first: parentheses that are not closed could be closed by ours.
        match Regex::new(&text).and_then(|_| Regex::new(&format!("^(?:{text})$"))) {
            Ok(regex) => Ok(Pattern { text, regex }),
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let error = format!("option 'topic-pattern' is '{text}', which is no regular expression: {reason}");
                Err(Error::user(error).remedy("write one without look-around and back references, such as 'orders-.*'"))
            }
        }
    }

    pub(super) fn matches(&self, topic: &str) -> bool {
        self.regex.is_match(topic) && !INTERNAL.contains(&topic)
    }

    /// Asks for the topics that match. Those with positions are waited for: a broker that has just started may not know all topics yet.
    fn ask(
        &self,
        client: &Consumer,
        table: &Table,
        positions: Option<&Positions>,
        clock: &dyn Clock,
    ) -> Result<Vec<(String, i32)>> {
        let wait = table.first_answer;
        let patience = clock.now().plus(wait / 2);
        let found = patiently(client, clock, wait, |wait| {
            let found = self.found(&client.fetch_metadata(None, wait)?);
            let misses =
                || positions.is_some_and(|positions| !table.subscription.missing(positions, &found).is_empty());
            // An error that passes: it is asked again.
            match found.iter().any(|(_, count)| *count == 0) || (clock.now() < patience && misses()) {
                true => Err(KafkaError::MetadataFetch(RDKafkaErrorCode::LeaderNotAvailable)),
                false => Ok(found),
            }
        });
        found.map_err(|error| unanswered(client, table, wait, &error))
    }

    /// The topics that match, each with the number of its partitions, by name. A topic that has none for the moment has 0. Those that are being
    /// deleted, or are not for this reader, are left out.
    pub(super) fn found(&self, metadata: &Metadata) -> Vec<(String, i32)> {
        let counted = |topic: &MetadataTopic| match count_of(topic) {
            Ok(count) => Some((topic.name().to_owned(), count)),
            Err(code) if is_passing(code) => Some((topic.name().to_owned(), 0)),
            Err(_) => None,
        };
        let matching = metadata.topics().iter().filter(|topic| self.matches(topic.name()));
        let mut found: Vec<(String, i32)> = matching.filter_map(counted).collect();
        found.sort();
        found
    }
}

fn topics(text: &str) -> Result<Vec<String>> {
    let mut topics = fields(text);
    topics.sort();
    topics.dedup();
    if topics.is_empty() {
        return Err(Error::user("option 'topic' names no topic").remedy("name one, or several separated by ';'"));
    }
    for topic in &topics {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if topic.len() > 249 || !topic.chars().all(legal) {
            return Err(Error::user(format!("'{topic}' cannot be the name of a topic"))
                .remedy("names have at most 249 letters, digits, '.', '_' and '-'; for all topics that match, give 'topic-pattern'"));
        }
    }
    Ok(topics)
}
