//! The reader of one task.

mod failures;
mod topics;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Epoch, PartitionId, Result};
use anabranch_operators::{Host, Malformed, Polled, Positions, Rows, Source, TaskContext};
use arrow::array::Array;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode;

use super::client::{self, Consumer, is_permanent, outage, silent};
use super::commits::{Commits, GroupOffsets};
use super::metadata::{Records, RowReader};
use super::native::{Queue, Topic};
use super::outage::BrokerOutage;
use super::partition::{Block, Partition, Presence, partition_id};
use super::position::{self, Position};
use super::slots::{Failure, Slots, accept};
use super::start::{BEGINNING, Inquiry};
use super::table::Table;
use super::topic_id::TopicId;
use super::topics::Topics;
use super::watch::Watch;

/// Number of elements taken from the client's queue at a time. Then the source checks the size of its blocks.
const ELEMENTS_MAX: usize = 1024;

/// The longest wait for records: nothing interrupts it, and the task may have something else to do.
const POLL_MAX: Duration = Duration::from_millis(50);

/// Number of events of the client served at a time.
const LOOKS: u32 = 4;

/// Time limit of the last request to a silent broker.
const LAST_QUESTION: Duration = Duration::from_secs(2);

/// Reads the partitions that belong to one task.
pub(super) struct KafkaSource {
    table: Table,
    index: u32,
    parallelism: u32,
    batch_rows: usize,
    clock: Arc<dyn Clock>,
    host: Arc<dyn Host>,
    rows: RowReader,
    /// Rows and announcements that were not returned yet, with their slot and the position after them.
    ready: VecDeque<(Polled, Option<(usize, i64)>)>,
    partitions: Vec<Partition>,
    /// Whether records were read since the identities of the topics were last checked.
    is_unverified: Cell<bool>,
    slots: Slots,
    commits: Option<Commits>,
    watch: Watch,
    outage: BrokerOutage,
    topics: Vec<ReadTopic>,
    queue: Queue,
    client: Arc<Consumer>,
}

/// A topic of the table.
struct ReadTopic {
    name: String,
    /// Its identity, if the brokers or the positions have one.
    id: Option<TopicId>,
    handle: Topic,
    /// The task that reads partition 0, modulo the number of tasks. Further partitions belong to the tasks
    /// after it.
    first: u32,
}

impl KafkaSource {
    /// Connects, and starts this task's partitions.
    pub(super) fn open(
        table: Table,
        name: &str,
        rows: RowReader,
        context: &TaskContext,
        from: Option<&Positions>,
    ) -> Result<KafkaSource> {
        table.notify(context, from.is_none());
        let client = client::consumer(&table)?;
        let (clock, host) = (context.clock.clone(), context.host.clone());
        let clock_and_host = (clock.as_ref(), host.as_ref());
        let Topics { found, away, .. } = table.subscription.topics(&client, &table, (name, from), clock_and_host)?;
        if found.is_empty() && from.is_none() {
            topics::none_found(&table, context)?;
        }
        let known = from.map(|from| position::parse(from, &table, &found, name)).transpose()?;
        let counts: Vec<i32> = found.iter().map(|topic| topic.partitions).collect();
        let watched = found.iter().map(|topic| topic.name.clone()).chain(away.keys().cloned()).collect();
        let group = table.group.clone();
        let mut source = KafkaSource {
            index: context.index,
            parallelism: context.parallelism,
            batch_rows: context.batch_rows,
            clock,
            host,
            rows,
            ready: VecDeque::new(),
            partitions: Vec::new(),
            is_unverified: Cell::new(false),
            slots: Slots::default(),
            commits: group.map(|group| Commits::new(client.clone(), group)),
            watch: Watch::start(client.clone(), table.subscription.clone(), watched, table.watch_interval)?,
            outage: BrokerOutage::of_reader(&table, context),
            topics: Vec::new(),
            queue: Queue::new(&client)?,
            client,
            table,
        };
        for topic in found {
            source.add_topic(topic.name, topic.id)?;
        }
        let wait = source.table.first_answer;
        source.start_owned(&counts, known.as_ref().map(|known| &known.positions), wait)?;
        let known = known.unwrap_or_default();
        source.notify_of_positions(&known);
        source.miss(known.missing, &away)?;
        Ok(source)
    }

    /// Starts this task's share of the partitions, whose numbers per topic are `counts`: at the positions in
    /// `from`, or where the table's options say.
    fn start_owned(
        &mut self,
        counts: &[i32],
        from: Option<&BTreeMap<(usize, i32), Position>>,
        wait: Duration,
    ) -> Result<()> {
        let owned: Vec<(usize, i32)> = counts
            .iter()
            .enumerate()
            .flat_map(|(topic, count)| (0..*count).map(move |partition| (topic, partition)))
            .filter(|(topic, partition)| self.owns(*topic, *partition))
            .collect();
        let mut others = Vec::new();
        for partition in owned {
            match from.and_then(|from| from.get(&partition)) {
                Some(position) => self.resume_partition(partition, *position, wait)?,
                None => others.push(partition),
            }
        }
        let named = self.named(&others);
        let ask = self.inquiry(&named, wait);
        let ends = ask.end()?;
        // If other partitions have positions, a partition without one was created since.
        let starts = if from.is_some() { BTreeMap::new() } else { ask.start()? };
        for ((topic, partition), name) in others.into_iter().zip(&named) {
            let end = ends.get(name).copied();
            let next = starts.get(name).copied().unwrap_or(BEGINNING);
            self.start(topic, partition, Position { next, end, topic_id: None })?;
        }
        Ok(())
    }

    fn named(&self, partitions: &[(usize, i32)]) -> Vec<(String, i32)> {
        partitions.iter().map(|(topic, partition)| (self.topics[*topic].name.clone(), *partition)).collect()
    }

    fn inquiry<'a>(&'a self, partitions: &'a [(String, i32)], wait: Duration) -> Inquiry<'a> {
        let (clock, host) = (self.clock.as_ref(), self.host.as_ref());
        Inquiry { client: &self.client, clock, host, table: &self.table, partitions, wait }
    }

    /// Resumes a partition at its position. The declaration decides whether the partition ends, and the
    /// position where.
    fn resume_partition(&mut self, (topic, partition): (usize, i32), position: Position, wait: Duration) -> Result<()> {
        let end = match (self.table.end.is_some(), position.end) {
            (false, _) => None,
            (true, Some(end)) => Some(end),
            (true, None) => {
                let named = self.named(&[(topic, partition)]);
                self.inquiry(&named, wait).end()?.remove(&named[0])
            }
        };
        let position = Position { end, ..position };
        let known = &mut self.topics[topic].id;
        *known = known.or(position.topic_id);
        if !position.is_end() {
            return self.start(topic, partition, position);
        }
        let mut ended = Partition::new(topic, partition, position);
        (ended.ended, ended.closed) = (true, true);
        self.add(ended);
        Ok(())
    }

    fn owns(&self, topic: usize, partition: i32) -> bool {
        self.is_task_of(self.topics[topic].first, partition)
    }

    /// Whether a partition belongs to this task, for a topic whose partition 0 belongs to task `first`.
    fn is_task_of(&self, first: u32, partition: i32) -> bool {
        first.wrapping_add(partition.unsigned_abs()) % self.parallelism == self.index
    }

    fn start(&mut self, topic: usize, partition: i32, position: Position) -> Result<()> {
        let started = self.queue.start(&self.topics[topic].handle, partition, position.next);
        started.map_err(|code| self.unreadable(topic, partition, code, ""))?;
        let name = position::name(&self.topics[topic].name, partition);
        self.ready.push_back((Polled::Opened { partition: partition_id(topic, partition), name }, None));
        self.add(Partition::new(topic, partition, position));
        Ok(())
    }

    fn add(&mut self, partition: Partition) {
        self.slots.add(partition.topic, partition.partition, self.partitions.len());
        self.partitions.push(partition);
    }

    /// Takes records off the client's queue until a batch is full or the queue is empty, and decodes them.
    fn gather(&mut self, wait: Duration) -> Result<()> {
        let mut room = self.batch_rows.max(1);
        let mut wait = wait;
        let mut failed = None;
        let mut any = false;
        while room > 0 && failed.is_none() {
            let elements_max = room.min(ELEMENTS_MAX);
            let (partitions, slots, wanted) = (&mut self.partitions, &mut self.slots, self.rows.wanted);
            let count = self.queue.receive(elements_max, wait, |received| {
                if let Err(failure) = accept(partitions, slots, wanted, &received) {
                    failed.get_or_insert(failure);
                }
            });
            any |= count > 0;
            room -= count;
            wait = Duration::ZERO;
            if count < elements_max || self.partitions.iter().any(Partition::is_full) {
                break;
            }
        }
        if any {
            self.is_unverified.set(true);
            self.client.context().answered();
            if self.outage.since().is_some() {
                self.outage.ends();
            }
        }
        if let Some(Failure { slot, code, reason }) = failed {
            self.check_failure(slot, code, &reason)?;
        }
        for slot in 0..self.partitions.len() {
            self.hand_over(slot)?;
        }
        Ok(())
    }

    /// Decodes a partition's gathered records, and closes the partition if it has ended.
    fn hand_over(&mut self, slot: usize) -> Result<()> {
        let partition = &mut self.partitions[slot];
        let (id, topic, number) = (partition.id, partition.topic, partition.partition);
        let just_ended = partition.ended && !std::mem::replace(&mut partition.closed, partition.ended);
        let end = partition.end;
        if let Some(block) = partition.take_block() {
            let name = &self.topics[topic].name;
            let name_of_partition = PartitionName { id, topic: name, partition: number };
            let (rows, position) = decode(&mut self.rows, &name_of_partition, block)
                .map_err(|error| error.at(name_of_partition.text()))?;
            self.ready.push_back((Polled::Rows(rows), position.map(|position| (slot, position))));
        }
        if just_ended {
            self.queue.stop(&self.topics[topic].handle, number);
            // The end is reached even if the last offsets have no records (transaction markers, compacted
            // records).
            self.ready.push_back((Polled::Closed(id), end.map(|end| (slot, end))));
        }
        Ok(())
    }

    /// Handles the client's other reports: errors, acknowledged commits, new partitions.
    fn handle_reports(&mut self) -> Result<()> {
        // A poll that finds a log line returns nothing, so one poll is not enough.
        for report in (0..LOOKS).filter_map(|_| self.client.poll(Duration::ZERO)) {
            let Err(error) = report else { continue };
            match error.rdkafka_error_code() {
                // The client also reports this if a broker has closed an idle connection. Only a request
                // shows whether brokers answer.
                Some(RDKafkaErrorCode::AllBrokersDown) => self.watch.request_now(),
                Some(code) if is_permanent(code) => {
                    return Err(silent(self.client.context(), &self.table, Duration::ZERO, Some(code)));
                }
                // The client retries by itself.
                _ => {}
            }
        }
        if let Some(commits) = &mut self.commits {
            commits.advance()?;
        }
        self.follow_topics()?;
        self.check_silence()
    }

    /// Fails when no broker has been reachable for the table's timeout. On an idle topic only a request shows
    /// whether a broker is back.
    fn check_silence(&mut self) -> Result<()> {
        let Some(since) = self.outage.since() else { return Ok(()) };
        if self.clock.now() < since.plus(self.table.connection_timeout) {
            return Ok(());
        }
        match self.client.fetch_metadata(self.topics.first().map(|topic| topic.name.as_str()), LAST_QUESTION) {
            Ok(_) => {
                self.outage.ends();
                Ok(())
            }
            Err(_) => Err(outage(self.client.context(), &self.table)),
        }
    }
}

impl Source for KafkaSource {
    fn poll(&mut self, wait: Duration) -> Result<Polled> {
        if self.ready.is_empty() {
            self.handle_reports()?;
        }
        if self.ready.is_empty() {
            if self.table.end.is_some() && self.partitions.iter().all(|p| !p.is_read()) {
                return Ok(Polled::End);
            }
            self.gather(wait.min(POLL_MAX))?;
        }
        let Some((polled, position)) = self.ready.pop_front() else { return Ok(Polled::Pending) };
        if let Some((slot, position)) = position {
            self.partitions[slot].position = Some(position);
        }
        Ok(polled)
    }

    /// A held partition is stopped. Records that the client has already fetched are returned, so the
    /// partition starts again right after them.
    fn hold(&mut self, partitions: &BTreeSet<PartitionId>) -> Result<bool> {
        for slot in 0..self.partitions.len() {
            let partition = &mut self.partitions[slot];
            let held = partitions.contains(&partition.id);
            if !partition.is_read() || std::mem::replace(&mut partition.held, held) == held {
                continue;
            }
            let (topic, number, next) = (partition.topic, partition.partition, partition.next());
            match held {
                true => self.queue.stop(&self.topics[topic].handle, number),
                false => {
                    partition.resume();
                    let started = self.queue.start(&self.topics[topic].handle, number, next);
                    started.map_err(|code| self.unreadable(topic, number, code, ""))?;
                }
            }
        }
        Ok(true)
    }

    fn epoch_cut(&mut self, epoch: Epoch) -> Result<()> {
        if let Some(commits) = &mut self.commits {
            let known = |p: &Partition| Some(((p.topic, p.partition), p.position?));
            commits.cut(epoch, self.partitions.iter().filter_map(known).collect::<GroupOffsets>());
        }
        Ok(())
    }

    fn positions(&self) -> Result<Positions> {
        self.verify_topics()?;
        let named = |p: &Partition| {
            let topic = &self.topics[p.topic];
            let position = Position { topic_id: topic.id, ..p.output_position() };
            (position::name(&topic.name, p.partition), position.text())
        };
        let kept = self.partitions.iter().filter(|p| p.presence != Presence::Forgotten);
        Ok(kept.map(named).collect())
    }

    fn lag_rows(&self) -> Option<u64> {
        let buffered = |partition: &Partition| {
            // Before the first record, the position may be a logical offset.
            let end = self.topics[partition.topic].handle.end(partition.partition)?;
            let next = partition.output_position().next.max(0);
            Some(u64::try_from(end.min(partition.end.unwrap_or(i64::MAX)) - next).unwrap_or(0))
        };
        self.partitions.iter().filter(|partition| partition.is_read()).map(buffered).sum()
    }

    fn epoch_done(&mut self, epoch: Epoch) -> Result<()> {
        self.commits.as_mut().map_or(Ok(()), |commits| commits.done(epoch))
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        if let Some(commits) = &mut self.commits {
            commits.finish();
        }
        // A client with a group waits, when it closes, until its partitions have been stopped.
        for partition in self.partitions.iter().filter(|partition| partition.is_read()) {
            self.queue.stop(&self.topics[partition.topic].handle, partition.partition);
        }
    }
}

/// The partition of a block, for messages and rows.
struct PartitionName<'a> {
    id: PartitionId,
    topic: &'a str,
    partition: i32,
}

impl PartitionName<'_> {
    fn text(&self) -> String {
        format!("topic {} partition {}", self.topic, self.partition)
    }
}

/// Decodes a block. Also returns the position after it.
fn decode(reader: &mut RowReader, partition: &PartitionName<'_>, block: Block) -> Result<(Rows, Option<i64>)> {
    let (records, offsets, gathered) = block.finish();
    let beside =
        Records { topic: partition.topic, partition: partition.partition, offsets: &offsets, gathered: &gathered };
    let (batch, malformed) = reader.read(&records, &beside)?;
    let place = partition.text();
    let malformed = malformed.into_iter().map(|(index, error)| Malformed {
        place: format!("{place} offset {}", offsets[index]),
        error: if records.is_null(index) { format!("{error} (a tombstone: the record has no value)") } else { error },
        record: if records.is_null(index) { Vec::new() } else { records.value(index).to_vec() },
    });
    let rows = Rows { partition: partition.id, malformed: malformed.collect(), batch };
    Ok((rows, offsets.last().map(|offset| offset + 1)))
}
