//! The writer of one task: at least once. What was prepared exactly once, by the job as it was before, is still committed.
//!
//! Rows are handed to the client, which gathers them into batches per partition and sends them from its own threads. An epoch
//! ends when the brokers have acknowledged all of them. A record that cannot be delivered in time makes the next call
//! fail; nothing is dropped.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Epoch, Error, Nanos, Result};
use anabranch_operators::{Committable, Host, Sink, TaskContext};
use arrow::array::RecordBatch;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

use super::client::{self, Producer};
use super::create::ensure_topic;
use super::exact::Committer;
use super::native::{Topic, flush};
use super::outage::Outage;
use super::records::Records;
use super::table::{Partitioner, Table};

/// The client's choice.
const ANY_PARTITION: i32 = -1;
/// How long to wait for room in a full queue before looking again.
pub(super) const ROOM: Duration = Duration::from_millis(2);
/// How long to wait for acknowledgements before looking for failures.
const ACKNOWLEDGED: Duration = Duration::from_millis(100);
/// How long acknowledgements may take before the sink asks whether a broker answers.
const SILENCE: Duration = Duration::from_secs(3);
/// How long that answer may take.
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
    topic: Topic,
    client: Arc<Producer>,
    outage: Outage,
    host: Arc<dyn Host>,
    /// Of a job with checkpoints.
    committer: Option<Committer>,
}

/// Chooses partitions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Partitions {
    Any,
    One(i32),
    Turn { next: i32, count: i32 },
}

impl Partitions {
    /// Of one task that writes a topic with `count` partitions.
    pub(super) fn new(partitioner: Partitioner, task: u32, count: i32) -> Partitions {
        let of_task = i32::try_from(task % count.max(1).unsigned_abs()).unwrap_or(0);
        match partitioner {
            Partitioner::Default => Partitions::Any,
            Partitioner::Fixed => Partitions::One(of_task),
            Partitioner::RoundRobin => Partitions::Turn { next: of_task, count },
        }
    }

    /// The next record's.
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
        let wait = table.first_answer;
        let count = ensure_topic(&client, &table, &name, wait, context.clock.as_ref())?;
        Ok(KafkaSink {
            name: name.clone(),
            clock: context.clock.clone(),
            records,
            partitions: Partitions::new(table.partitioner, context.index, count),
            topic: Topic::of_producer(&client, &name)?,
            client,
            outage: Outage::of_writer(&table, context),
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

    /// A job that is over waits no longer for the brokers.
    fn check_cancelled(&self) -> Result<()> {
        if self.host.is_cancelled() {
            return Err(
                Error::outside("the job is over; records are not acknowledged").at(format!("topic {}", self.name))
            );
        }
        Ok(())
    }

    /// The brokers have not acknowledged for a while what they were sent: asks one whether it answers at all.
    fn check_brokers(&mut self, waiting_since: &mut Nanos) {
        if self.clock.now() < waiting_since.plus(SILENCE) {
            return;
        }
        match self.client.client().fetch_metadata(Some(&self.name), ANSWER) {
            Ok(_) => self.outage.ends(self.clock.now()),
            Err(_) => self.outage.begins(self.clock.now(), &self.client.context().reason()),
        }
        *waiting_since = self.clock.now();
    }

    /// Hands over one record, waiting for room as long as the client makes progress: it gives up a record after the delivery
    /// timeout, and that ends the wait.
    fn produce(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<()> {
        let partition = self.partitions.next();
        let mut waiting_since = None;
        loop {
            match self.topic.produce(partition, key, value) {
                Ok(()) => return Ok(()),
                Err(RDKafkaErrorCode::QueueFull) => {
                    self.check_deliveries()?;
                    self.check_cancelled()?;
                    self.client.poll(ROOM);
                    let now = self.clock.now();
                    self.check_brokers(waiting_since.get_or_insert(now));
                }
                Err(code) => return Err(undeliverable(&self.table, code).at(format!("topic {}", self.name))),
            }
        }
    }

    fn flush_all(&mut self) -> Result<()> {
        let mut waiting_since = self.clock.now();
        let deadline = waiting_since.plus(self.table.delivery_timeout + GRACE);
        loop {
            let flushed = flush(&self.client, ACKNOWLEDGED);
            self.check_deliveries()?;
            if flushed {
                self.outage.ends(self.clock.now());
                return Ok(());
            }
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
        // All that was prepared before has been committed, before the first row.
        self.committer = None;
        self.check_deliveries()?;
        let records = self.records.encode(batch)?;
        records.iter().try_for_each(|(key, value)| self.produce(key, value))
    }

    /// The client sends a record some milliseconds after the sink has handed it over (`linger.ms`), so only failures are checked.
    fn flush(&mut self) -> Result<()> {
        self.check_deliveries()
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        self.flush_all()
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        match &mut self.committer {
            Some(committer) => committer.commit(committable),
            None => Err(Error::internal("a job without checkpoints has prepared records")),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.flush_all()
    }
}

/// A record that was given up.
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
