//! The writer of one task: at least once. Committables of a job that wrote exactly once before are still
//! committed.
//!
//! Rows are passed to the client, which gathers them into batches per partition and sends them from its own
//! threads. Rows wait here while a broker has not acknowledged earlier ones. An epoch ends when the brokers
//! have acknowledged all of its records. A record that cannot be delivered in time makes the next call fail;
//! nothing is dropped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Epoch, Error, Nanos, Result};
use anabranch_operators::{Committable, Host, Sink, TaskContext};
use arrow::array::RecordBatch;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

use super::client::{self, Producer, topic_metadata};
use super::create::ensure_topic;
use super::exact::Committer;
use super::native::{Topic, flush};
use super::outage::BrokerOutage;
use super::records::{Encoded, Records};
use super::table::{Partitioner, Table};
use super::window::Window;

/// Leaves the choice to the client.
const ANY_PARTITION: i32 = -1;
/// Pause between two checks for room in a full queue.
pub(super) const ROOM: Duration = Duration::from_millis(2);
/// Pause between two checks for acknowledgements, failures and waiting rows: the first, and the longest.
pub(super) const ACKNOWLEDGED: Duration = Duration::from_millis(1);
const ACKNOWLEDGED_MAX: Duration = Duration::from_millis(100);
/// Number of waits for acknowledgements while rows wait and the input pauses.
const PAUSES: u32 = 10;
/// Limit of the memory of waiting rows, in bytes.
const WAITING_MAX: usize = 16 << 20;
/// Time without acknowledgements after which the sink checks whether a broker answers.
const SILENCE: Duration = Duration::from_secs(3);
/// Time limit of that check.
const ANSWER: Duration = Duration::from_secs(1);
/// How much longer a flush waits than the client tries to deliver a record.
const GRACE: Duration = Duration::from_secs(5);

/// Writes the rows of one task to one topic.
pub(super) struct KafkaSink {
    table: Table,
    name: String,
    clock: Arc<dyn Clock>,
    records: Records,
    partitions: Partitions,
    /// Records that were not passed to the client yet.
    waiting: VecDeque<Waiting>,
    /// Memory of these records.
    waiting_bytes: usize,
    window: Window,
    topic: Topic,
    client: Arc<Producer>,
    outage: BrokerOutage,
    host: Arc<dyn Host>,
    /// Commits the records that the job has prepared when it wrote exactly once. Only in a job with
    /// checkpoints, and until the first row.
    committer: Option<Committer>,
}

/// Encoded rows.
struct Waiting {
    records: Encoded,
    /// The first that was not passed to the client.
    next: usize,
}

/// Chooses partitions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Partitions {
    Any,
    One(i32),
    Turn { next: i32, count: i32 },
}

impl Partitions {
    /// The choice of a task that writes a topic with `count` partitions.
    pub(super) fn new(partitioner: Partitioner, task: u32, count: i32) -> Partitions {
        let of_task = i32::try_from(task % count.max(1).unsigned_abs()).unwrap_or(0);
        match partitioner {
            Partitioner::Default => Partitions::Any,
            Partitioner::Fixed => Partitions::One(of_task),
            Partitioner::RoundRobin => Partitions::Turn { next: of_task, count },
        }
    }

    /// The partition of the next record.
    pub(super) fn next(&mut self) -> i32 {
        match self {
            Partitions::Any => ANY_PARTITION,
            Partitions::One(partition) => *partition,
            Partitions::Turn { next, count } => {
                let partition = *next;
                *next = (partition + 1) % *count;
                partition
            }
        }
    }

    /// The approximate number of partitions, out of `count`, that get records at the same time. Without keys
    /// the client writes to one partition for some milliseconds.
    pub(super) fn at_a_time(&self, has_keys: bool, count: i32) -> u32 {
        match self {
            Partitions::Any if has_keys => count.max(1).unsigned_abs(),
            Partitions::Any | Partitions::One(_) => 1,
            Partitions::Turn { .. } => count.max(1).unsigned_abs(),
        }
    }
}

impl KafkaSink {
    /// Connects, and creates the topic if it does not exist.
    pub(super) fn open(
        table: Table,
        records: Records,
        context: &TaskContext,
        committer: Option<Committer>,
    ) -> Result<KafkaSink> {
        let name = table.single_topic()?.to_owned();
        let client = client::producer(&table)?;
        let count = ensure_topic(&client, &table, &name, context.clock.as_ref())?;
        // Makes the client request its producer identifier at once: it sends no record without one. It
        // requests the identifier from a broker when it learns of the brokers, and otherwise every 500 ms.
        // With the first metadata it drops its initial address, and may not be connected to any broker yet.
        // The second metadata comes from a broker.
        topic_metadata(&client, &table, &name, context.clock.as_ref())?;
        let partitions = Partitions::new(table.partitioner, context.index, count);
        let at_a_time = partitions.at_a_time(records.have_keys(), count);
        Ok(KafkaSink {
            name: name.clone(),
            clock: context.clock.clone(),
            records,
            partitions,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            window: Window::new(table.batch(), at_a_time),
            topic: Topic::new(&client, &name)?,
            client,
            outage: BrokerOutage::of_writer(&table, context),
            host: Arc::clone(&context.host),
            table,
            committer,
        })
    }

    /// Serves the client's callbacks, and fails if a record could not be delivered.
    fn check_deliveries(&mut self) -> Result<()> {
        self.client.poll(Duration::ZERO);
        match self.client.context().take_undelivered() {
            None => Ok(()),
            Some(lost) => {
                let place = format!("topic {} partition {}", self.name, lost.partition);
                Err(undeliverable(&self.table, lost.reason).at(place))
            }
        }
    }

    /// Fails if the job is over: then nothing waits for the brokers.
    fn check_cancelled(&self) -> Result<()> {
        if self.host.is_cancelled() {
            return Err(
                Error::outside("the job is over; records are not acknowledged").at(format!("topic {}", self.name))
            );
        }
        Ok(())
    }

    /// The brokers have not acknowledged records for a while: checks whether one answers at all.
    fn check_brokers(&mut self, waiting_since: &mut Nanos) {
        if self.clock.now() < waiting_since.plus(SILENCE) {
            return;
        }
        match self.client.client().fetch_metadata(Some(&self.name), ANSWER) {
            Ok(_) => self.outage.ends(),
            Err(_) => self.outage.begins(self.clock.now(), &self.client.context().reason()),
        }
        *waiting_since = self.clock.now();
    }

    /// Passes as many queued records to the client as it accepts now.
    fn hand_over(&mut self) -> Result<()> {
        let now = self.clock.now();
        while let Some(Waiting { records, next }) = self.waiting.front_mut() {
            for record in records.iter_from(*next) {
                if !self.window.is_open(now, || self.client.in_flight_count() == 0) {
                    return Ok(());
                }
                match self.topic.produce(self.partitions.next(), &record) {
                    Ok(()) => {}
                    Err(RDKafkaErrorCode::QueueFull) => return Ok(()),
                    Err(code) => return Err(undeliverable(&self.table, code).at(format!("topic {}", self.name))),
                }
                self.window.add(now, record.bytes());
                *next += 1;
            }
            self.waiting_bytes -= records.bytes();
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Waits until at most this number of bytes is queued here or, without a number, until the brokers have
    /// acknowledged all records. The wait continues as long as they acknowledge some: the client gives up a
    /// record after the delivery timeout, which is a failure.
    fn acknowledged(&mut self, waiting_max: Option<usize>) -> Result<()> {
        let mut wait = ACKNOWLEDGED;
        let mut waiting_since = self.clock.now();
        let mut deadline = waiting_since.plus(self.table.delivery_timeout + GRACE);
        loop {
            self.hand_over()?;
            if waiting_max.is_some_and(|most| self.waiting_bytes <= most) {
                return Ok(());
            }
            let flushed = flush(&self.client, wait);
            self.check_deliveries()?;
            if flushed {
                self.outage.ends();
                if self.waiting.is_empty() {
                    return Ok(());
                }
                wait = ACKNOWLEDGED;
                waiting_since = self.clock.now();
                deadline = waiting_since.plus(self.table.delivery_timeout + GRACE);
                continue;
            }
            wait = (wait * 2).min(ACKNOWLEDGED_MAX);
            self.check_cancelled()?;
            self.check_brokers(&mut waiting_since);
            if self.clock.now() >= deadline {
                let waiting = self.client.in_flight_count();
                return Err(Error::outside(format!("{waiting} records are still not acknowledged"))
                    .at(format!("topic {}", self.name)));
            }
        }
    }
}

impl Sink for KafkaSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        // All former committables were committed before the first row.
        self.committer = None;
        self.check_deliveries()?;
        let records = self.records.encode(batch)?;
        self.waiting_bytes += records.bytes();
        self.waiting.push_back(Waiting { records, next: 0 });
        self.acknowledged(Some(WAITING_MAX))
    }

    /// The client sends a record some milliseconds after it was passed to it (`linger.ms`). Records that wait
    /// for earlier ones are passed on now, unless the brokers take longer than usual: then the next call does
    /// so.
    fn flush(&mut self) -> Result<()> {
        self.check_deliveries()?;
        self.hand_over()?;
        for _ in 0..PAUSES {
            if self.waiting.is_empty() {
                break;
            }
            flush(&self.client, ACKNOWLEDGED);
            self.hand_over()?;
        }
        Ok(())
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        self.acknowledged(None)
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        match &mut self.committer {
            Some(committer) => committer.commit(committable),
            None => Err(Error::internal("a job without checkpoints has prepared records")),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.acknowledged(None)
    }
}

/// The error for a record that was given up.
pub(super) fn undeliverable(table: &Table, code: RDKafkaErrorCode) -> Error {
    match code {
        RDKafkaErrorCode::MessageTimedOut => Error::outside(format!(
            "a record was not acknowledged by {} within {} s",
            table.servers,
            table.delivery_timeout.as_secs_f32()
        ))
        .remedy("see whether the brokers run; 'sink.delivery.timeout' says how long to try"),
        RDKafkaErrorCode::MessageSizeTooLarge => Error::user("a record is larger than the client or the topic allows")
            .remedy("raise 'properties.message.max.bytes' and the topic's 'max.message.bytes'"),
        code => Error::outside(format!("a record cannot be written: {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_chosen_as_asked() {
        let mut fixed = Partitions::new(Partitioner::Fixed, 5, 3);
        assert_eq!([fixed.next(), fixed.next()], [2, 2]);
        let mut turn = Partitions::new(Partitioner::RoundRobin, 2, 3);
        assert_eq!([turn.next(), turn.next(), turn.next(), turn.next()], [2, 0, 1, 2]);
        assert_eq!(Partitions::new(Partitioner::Default, 2, 3).next(), ANY_PARTITION);
    }
}
