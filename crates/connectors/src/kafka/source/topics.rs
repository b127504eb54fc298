//! Topics come and go while they are read.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Error, HASH_SEED, Result, hash_bytes};
use anabranch_operators::TaskContext;
use rdkafka::consumer::Consumer as _;

use super::super::native::Topic;
use super::super::partition::partition_id;
use super::super::position::Position;
use super::super::start::BEGINNING;
use super::super::table::Table;
use super::super::watch::Seen;
use super::{KafkaSource, ReadTopic};

impl KafkaSource {
    /// A further topic. Returns its index.
    pub(super) fn add_topic(&mut self, name: String) -> Result<usize> {
        let (index, handle) = (self.topics.len(), Topic::of_consumer(&self.client, &name)?);
        let first = match self.table.subscription.pattern() {
            Some(_) => hashed(&name),
            None => partition_id(index, 0).0,
        };
        if let Some(commits) = &mut self.commits {
            commits.add_topic(name.clone());
        }
        self.slots.add_topic(&name, index);
        self.topics.push(ReadTopic { name, handle, first });
        Ok(index)
    }

    /// Keeps the positions of partitions whose topics are not there.
    pub(super) fn miss(&mut self, missing: BTreeMap<(String, i32), Position>) {
        let is_own = |(topic, partition): &(String, i32)| self.is_task_of(hashed(topic), *partition);
        self.missing = missing.into_iter().filter(|(partition, _)| is_own(partition)).collect();
        let topics: BTreeSet<&str> = self.missing.keys().map(|(topic, _)| topic.as_str()).collect();
        if !topics.is_empty() {
            let (topics, servers) = (topics.into_iter().collect::<Vec<_>>().join(", "), &self.table.servers);
            self.host.notify(format!(
                "topics that were read are not at {servers} any more: {topics}; the job goes on without them, and where it was in them if they come back"
            ));
        }
    }

    /// Starts partitions that have been added to a topic, and those of new topics of a pattern. Their records are all newer than the job: read from
    /// the first. Those of a topic that has come back are read on.
    pub(super) fn follow_topics(&mut self) -> Result<()> {
        while let Some(seen) = self.watch.next() {
            match seen {
                Seen::Silence => self.outage.begins(self.clock.now(), &self.client.context().reason()),
                Seen::Gone(topic) => return Err(self.gone(&topic)),
                Seen::Partitions(topics) => {
                    self.outage.ends(self.clock.now());
                    if self.table.discovers {
                        topics.iter().try_for_each(|(topic, count)| self.follow_topic(topic, *count))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn follow_topic(&mut self, name: &str, count: i32) -> Result<()> {
        let topic = match self.slots.topic(name.as_bytes()) {
            Some(topic) => topic,
            None => self.add_topic(name.to_owned())?,
        };
        for partition in 0..count {
            if self.owns(topic, partition) && self.slots.find(topic, partition).is_none() {
                let known = self.missing.remove(&(name.to_owned(), partition));
                self.start(topic, partition, known.unwrap_or(Position { next: BEGINNING, end: None }))?;
            }
        }
        Ok(())
    }

    fn gone(&self, topic: &str) -> Error {
        let error = Error::outside(format!("topic '{topic}' does not exist any more at {}", self.table.servers));
        error.remedy(self.remedy_of_loss())
    }

    /// What to do when a topic is lost.
    pub(super) fn remedy_of_loss(&self) -> &'static str {
        match self.table.subscription.pattern() {
            Some(_) => {
                "restart the job, which goes on with the topics that there are; grant the right to read the topic if it exists"
            }
            None => "create it again and restart the job",
        }
    }
}

/// The first task of a topic of a pattern, modulo their count: which topics come before it depends on when a task was opened.
fn hashed(topic: &str) -> u32 {
    hash_bytes(HASH_SEED, topic.as_bytes()) as u32
}

/// No topic matches: a table that goes on waits for one.
pub(super) fn none_found(table: &Table, context: &TaskContext) -> Result<()> {
    let none = format!("there are no {} at {}", table.subscription.text(), table.servers);
    if !table.discovers {
        return Err(Error::user(none).remedy("create one, or correct 'topic-pattern'"));
    }
    if context.index == 0 {
        context.host.notify(format!("{none}; the job waits for one; create it, or correct 'topic-pattern'"));
    }
    Ok(())
}
