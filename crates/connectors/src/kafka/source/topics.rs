//! Topics appear, disappear and are created anew while they are read.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Error, HASH_SEED, Result, hash_bytes};
use anabranch_operators::{Polled, TaskContext};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode;

use super::super::client::patiently;
use super::super::native::{Topic, describe};
use super::super::partition::{Partition, Presence, partition_id};
use super::super::position::{self, KnownPositions, Position};
use super::super::start::BEGINNING;
use super::super::table::Table;
use super::super::topic_id::TopicId;
use super::super::topics::{FoundTopic, may_be};
use super::super::watch::Observation;
use super::{KafkaSource, LAST_QUESTION, ReadTopic};

impl KafkaSource {
    /// Adds a topic. Returns its index.
    pub(super) fn add_topic(&mut self, name: String, id: Option<TopicId>) -> Result<usize> {
        let (index, handle) = (self.topics.len(), Topic::new(&self.client, &name)?);
        let first = match self.table.subscription.pattern() {
            Some(_) => hashed(&name),
            None => partition_id(index, 0).0,
        };
        if let Some(commits) = &mut self.commits {
            commits.add_topic(name.clone());
        }
        self.slots.add_topic(&name, index);
        self.topics.push(ReadTopic { name, id, handle, first });
        Ok(index)
    }

    /// Notifies the user of topics whose positions at the start are void or unverified. One task does so for
    /// all.
    pub(super) fn notify_of_positions(&self, known: &KnownPositions) {
        let names = |topics: &BTreeSet<String>| topics.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        if self.index != 0 {
            return;
        }
        if !known.renewed.is_empty() {
            let topics = names(&known.renewed);
            self.host.notify(format!(
                "topics were deleted and created again: {topics}; the job reads the new ones from their beginning"
            ));
        }
        if !known.unidentified.is_empty() {
            let topics = names(&known.unidentified);
            self.host.notify(format!(
                "the checkpoint has positions in {topics} without the identity of the topic, as brokers without identities gave them; the job takes them \
                 this once; if a topic was deleted and created again since, start the job without the checkpoint"
            ));
        }
    }

    /// Keeps the positions of this task's partitions whose topics are missing. Partitions that exist and
    /// cannot be read hold event time back.
    pub(super) fn miss(
        &mut self,
        missing: BTreeMap<(String, i32), Position>,
        away: &BTreeMap<String, RDKafkaErrorCode>,
    ) -> Result<()> {
        let is_own = |topic: &str, partition: i32| self.is_task_of(hashed(topic), partition);
        let own: Vec<_> = missing.into_iter().filter(|((topic, partition), _)| is_own(topic, *partition)).collect();
        let mut gone = BTreeSet::new();
        for ((name, number), position) in own {
            let topic = match self.slots.topic(name.as_bytes()) {
                Some(topic) => topic,
                None => self.add_topic(name.clone(), position.topic_id)?,
            };
            let mut partition = Partition::new(topic, number, position);
            if away.contains_key(&name) {
                partition.presence = Presence::Away;
                self.ready
                    .push_back((Polled::Opened { partition: partition.id, name: position::name(&name, number) }, None));
            } else {
                partition.presence = Presence::Gone;
                gone.insert(name);
            }
            self.add(partition);
        }
        let servers = &self.table.servers;
        if !gone.is_empty() {
            let topics = gone.into_iter().collect::<Vec<_>>().join(", ");
            self.host.notify(format!(
                "topics that were read are not at {servers} any more: {topics}; the job continues without them"
            ));
        }
        let of_own = |topic: &str| self.slots.topic(topic.as_bytes()).is_some();
        let away: Vec<String> =
            away.iter().filter(|(topic, _)| of_own(topic)).map(|(topic, code)| format!("{topic} ({code})")).collect();
        if !away.is_empty() {
            let topics = away.join(", ");
            self.host.notify(format!(
                "topics that were read cannot be read at {servers} now: {topics}; event time waits for them, and the job will resume them at its positions; \
                 grant the right to read them, or delete them"
            ));
        }
        Ok(())
    }

    /// Starts new partitions of topics, and the partitions of new topics of a pattern. All of their records
    /// are newer than the job, so they are read from the beginning. Partitions of a topic that has come back
    /// are resumed.
    pub(super) fn follow_topics(&mut self) -> Result<()> {
        while let Some(seen) = self.watch.next() {
            match seen {
                Observation::Silence => self.outage.begins(self.clock.now(), &self.client.context().reason()),
                Observation::Topics { found, gone } => {
                    self.outage.ends();
                    gone.iter().try_for_each(|topic| self.lose_topic(topic))?;
                    found.iter().try_for_each(|topic| self.follow_topic(topic))?;
                }
            }
        }
        Ok(())
    }

    /// A topic was deleted. If it could not be read before, it no longer holds event time back.
    fn lose_topic(&mut self, name: &str) -> Result<()> {
        let Some(topic) = self.slots.topic(name.as_bytes()) else { return Ok(()) };
        for partition in self.partitions.iter_mut().filter(|partition| partition.topic == topic) {
            if partition.is_read() {
                return Err(self.table.gone(name));
            }
            if partition.presence == Presence::Away {
                partition.presence = Presence::Gone;
                self.ready.push_back((Polled::Closed(partition.id), None));
            }
        }
        Ok(())
    }

    fn follow_topic(&mut self, found: &FoundTopic) -> Result<()> {
        let topic = match self.slots.topic(found.name.as_bytes()) {
            Some(topic) => topic,
            None if self.table.discovers => self.add_topic(found.name.clone(), found.id)?,
            None => return Ok(()),
        };
        if !may_be(found.id, self.topics[topic].id) {
            self.renew_topic(topic, found)?;
        }
        if !self.table.discovers {
            return Ok(());
        }
        for partition in (0..found.partitions).filter(|partition| self.owns(topic, *partition)).collect::<Vec<_>>() {
            match self.slots.find(topic, partition) {
                None => self.start(topic, partition, Position { next: BEGINNING, end: None, topic_id: None })?,
                Some(slot) if self.partitions[slot].presence == Presence::Here => {}
                Some(slot) => self.come_back(slot)?,
            }
        }
        Ok(())
    }

    /// A topic was created anew. The former topic may have been read already; if it was missing, the new one
    /// is read from its beginning.
    fn renew_topic(&mut self, topic: usize, found: &FoundTopic) -> Result<()> {
        let is_read = self.partitions.iter().any(|partition| partition.topic == topic && partition.is_read());
        if is_read || !self.table.reads_renewed() {
            return Err(self.table.renewed(&found.name));
        }
        self.topics[topic].id = found.id;
        for partition in self.partitions.iter_mut().filter(|partition| partition.topic == topic) {
            let presence = match partition.presence {
                _ if partition.partition >= found.partitions => Presence::Forgotten,
                presence => presence,
            };
            if partition.presence == Presence::Away && presence == Presence::Forgotten {
                self.ready.push_back((Polled::Closed(partition.id), None));
            }
            let beginning = Position { next: BEGINNING, end: None, topic_id: None };
            *partition = Partition::new(partition.topic, partition.partition, beginning);
            partition.presence = presence;
        }
        Ok(())
    }

    /// Resumes a partition that was missing.
    fn come_back(&mut self, slot: usize) -> Result<()> {
        let partition = &mut self.partitions[slot];
        let (id, topic, number, next) = (partition.id, partition.topic, partition.partition, partition.next());
        let presence = std::mem::replace(&mut partition.presence, Presence::Here);
        let started = self.queue.start(&self.topics[topic].handle, number, next);
        started.map_err(|code| self.unreadable(topic, number, code, ""))?;
        if presence != Presence::Away {
            let name = position::name(&self.topics[topic].name, number);
            self.ready.push_back((Polled::Opened { partition: id, name }, None));
        }
        Ok(())
    }

    /// Fails if a topic was created anew since it was read. The client does not report it: it continues in
    /// the new topic, at the offset of the former one. So the rows in a checkpoint come from the topics with
    /// its identities. While no broker answers, the checkpoint does not wait.
    pub(super) fn verify_topics(&self) -> Result<()> {
        let is_read = |topic: usize| self.partitions.iter().any(|p| p.topic == topic && p.is_read());
        if !self.is_unverified.get() || self.outage.since().is_some() {
            return Ok(());
        }
        let known =
            |(index, topic): (usize, &ReadTopic)| Some((topic.name.clone(), topic.id?)).filter(|_| is_read(index));
        let known: Vec<(String, TopicId)> = self.topics.iter().enumerate().filter_map(known).collect();
        if known.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        let ask = |wait| describe(&self.client, &names, wait);
        let Ok(answers) = patiently(&*self.client, self.clock.as_ref(), LAST_QUESTION, ask) else { return Ok(()) };
        for ((name, id), answer) in known.iter().zip(answers) {
            if answer.is_ok_and(|topic| !may_be(topic.id, Some(*id))) {
                return Err(self.table.renewed(name));
            }
        }
        self.is_unverified.set(false);
        Ok(())
    }
}

/// For a topic of a pattern: the task that reads partition 0, modulo the number of tasks. The index of the
/// topic does not decide it, because that depends on when a task was opened.
fn hashed(topic: &str) -> u32 {
    hash_bytes(HASH_SEED, topic.as_bytes()) as u32
}

/// No topic matches. A table that discovers topics waits for one; for any other table this is an error.
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
