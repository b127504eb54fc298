//! The topics that a table reads: the topics that it names, or all topics whose names match a pattern,
//! including topics that are created later.

use std::collections::BTreeSet;

use std::time::Duration;

use anabranch_model::{Clock, Error, Result};
use anabranch_operators::{Host, Positions};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use regex::Regex;

use super::client::{Consumer, patiently, unanswered};
use super::position::topic_of;
use super::table::{Table, fields};
use super::topics::{self, FoundTopic, Topics, unknown_topic};
use crate::Options;

/// Internal topics of the brokers.
const INTERNAL: &[&str] = &["__consumer_offsets", "__transaction_state"];

/// The option `topic` or `topic-pattern`.
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
    /// Reads the option of a table that may have a pattern.
    pub(super) fn read(options: &mut Options<'_>) -> Result<Subscription> {
        let Some(text) = options.string("topic-pattern").map(str::to_owned) else {
            return Subscription::named(options);
        };
        if options.string("topic").is_some() {
            return Err(Error::user("options 'topic' and 'topic-pattern' are given").remedy("leave one of them out"));
        }
        Ok(Subscription::Pattern(Pattern::new(text)?))
    }

    /// Reads the option of a table that names its topics.
    pub(super) fn named(options: &mut Options<'_>) -> Result<Subscription> {
        Ok(Subscription::Topics(topics(options.required("topic")?)?))
    }

    pub(super) fn pattern(&self) -> Option<&Pattern> {
        match self {
            Subscription::Pattern(pattern) => Some(pattern),
            Subscription::Topics(_) => None,
        }
    }

    /// Whether a missing topic may be one of these.
    pub(super) fn matches(&self, topic: &str) -> bool {
        self.pattern().is_some_and(|pattern| pattern.matches(topic))
    }

    /// The existing topics. All readers of a bounded table get the same list, and so do all readers that
    /// start without positions.
    pub(super) fn topics(
        &self,
        client: &Consumer,
        table: &Table,
        (name, positions): (&str, Option<&Positions>),
        (clock, host): (&dyn Clock, &dyn Host),
    ) -> Result<Topics> {
        let with_positions = self.with_positions(positions);
        let ask = || self.wait_for(client, table, &with_positions, clock);
        if let Subscription::Topics(_) = self {
            let topics = ask()?;
            if let Some(gone) = topics.gone.first() {
                return Err(unknown_topic(client, table, gone, table.first_answer));
            }
            return none_away(topics);
        }
        if positions.is_some() && table.discovers {
            // Some topics may have been created after the other readers were opened.
            return ask();
        }
        let mut list = || Ok(none_away(ask()?)?.found.iter().map(FoundTopic::text).collect());
        let agreed = host.agreed(&format!("{} of table {name}", self.text()), &mut list)?;
        let found = agreed.iter().map(|text| FoundTopic::parse(text)).collect::<Option<Vec<_>>>();
        let mut found = found.ok_or_else(|| Error::internal("topics without their partitions"))?;
        if positions.is_some() {
            // The topics of a bounded table were determined at its start.
            found.retain(|topic| with_positions.contains(&topic.name));
        }
        Ok(Topics { found, ..Topics::default() })
    }

    /// Requests the topics. The brokers have listed the topics `known` before. `wait` is the longest time
    /// that a request may take.
    pub(super) fn ask(&self, client: &Consumer, known: &BTreeSet<String>, wait: Duration) -> KafkaResult<Topics> {
        match self {
            Subscription::Topics(topics) => {
                let names = topics.iter().cloned().collect();
                topics::ask(client, &names, &names, wait)
            }
            Subscription::Pattern(pattern) => {
                let metadata = client.fetch_metadata(None, wait)?;
                let all = metadata.topics().iter().map(|topic| topic.name());
                let matching = all.filter(|name| pattern.matches(name)).map(str::to_owned);
                topics::ask(client, &matching.chain(known.iter().cloned()).collect(), known, wait)
            }
        }
    }

    /// Repeats the request until the brokers know all topics. Topics with positions are waited for: a broker
    /// that has just started may not know them yet.
    fn wait_for(
        &self,
        client: &Consumer,
        table: &Table,
        with_positions: &BTreeSet<String>,
        clock: &dyn Clock,
    ) -> Result<Topics> {
        let wait = table.first_answer;
        let patience = clock.now().plus(if self.pattern().is_some() { wait / 2 } else { Duration::ZERO });
        let found = patiently(client, clock, wait, |wait| {
            let topics = self.ask(client, with_positions, wait)?;
            let misses = !topics.gone.is_empty() || !topics.away.is_empty();
            // Transient errors: the request is repeated.
            match topics.passes || (misses && clock.now() < patience) {
                true => Err(KafkaError::MetadataFetch(RDKafkaErrorCode::LeaderNotAvailable)),
                false => Ok(topics),
            }
        });
        found.map_err(|error| unanswered(client, table, wait, &error))
    }

    /// Topics of a pattern that have positions.
    fn with_positions(&self, positions: Option<&Positions>) -> BTreeSet<String> {
        let Some(pattern) = self.pattern() else { return BTreeSet::new() };
        let topics = positions.into_iter().flat_map(|positions| positions.keys()).filter_map(|name| topic_of(name));
        topics.filter(|topic| pattern.matches(topic)).map(str::to_owned).collect()
    }

    /// The pattern that matches exactly these topics.
    pub(super) fn as_pattern(&self) -> String {
        match self {
            Subscription::Topics(topics) => {
                topics.iter().map(|topic| regex::escape(topic)).collect::<Vec<_>>().join("|")
            }
            Subscription::Pattern(pattern) => pattern.text.clone(),
        }
    }

    /// The topics or the pattern, for messages.
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
        // Compiled alone first: its unbalanced parentheses could be closed by ours.
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
}

/// Fails if a topic cannot be read now and would not be found later, because it is named or the table does
/// not discover topics.
fn none_away(topics: Topics) -> Result<Topics> {
    match topics.away.first_key_value() {
        Some((topic, code)) => Err(Error::outside(format!("topic '{topic}' cannot be read: {code}"))
            .remedy("grant the right to describe and read the topic")),
        None => Ok(topics),
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
