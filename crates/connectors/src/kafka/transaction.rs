//! Transactions that write the records of one task, each of an epoch, at most once.
//!
//! A transaction also commits the epoch's number as the offset of a consumer group that has no other use:
//! both become visible or neither. A process that takes over reads that offset first and skips completed
//! epochs. Two processes cannot write for one task at the same time: opening a transactional identity ends
//! the open transaction of its former owner and fences it. The offset's metadata is the checksum of the
//! epoch's records. If the epoch was committed with another checksum, two runs of the job have diverged, and
//! the results of one would be missing: that is an error.
//!
//! The offset is on the topic's partition 0. A broker forgets offsets of a group without members after
//! `offsets.retention.minutes` (7 days by default): a job that crashes after a commit and before it has
//! recorded the commit, and is restarted later than that, writes this epoch again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anabranch_model::{Clock, Epoch, Error, Nanos};
use anabranch_operators::Host;
use rdkafka::consumer::{Consumer as _, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client::{self, Consumer, LOOK, Producer, is_permanent, patiently, silent};
use super::held::{HeldRecords, Record};
use super::native::{Topic, flush};
use super::outage::BrokerOutage;
use super::sink::{ACKNOWLEDGED, ROOM, undeliverable};
use super::table::Table;
use super::window::Window;
use crate::guarantee::has_later_results;

/// The longest time that one request may take before the sink checks whether the job has cancelled its tasks.
const REQUEST_MAX: Duration = Duration::from_secs(5);
/// How much later than requested the client may return.
const LATE: Duration = Duration::from_secs(15);

/// Number of records of an epoch that are sampled for their partitions.
const SEEN: usize = 100;

/// The partition of the group's offset.
const OFFSET_PARTITION: i32 = 0;

/// Why a transaction failed.
pub(super) enum Failure {
    /// Transient: another transaction may succeed.
    Passing(String),
    /// Transient, but the client hangs in a request and was abandoned, with its threads.
    Stuck(String),
    /// Another process has taken over the transactions.
    Fenced(Error),
    /// Permanent.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Final(error)
    }
}

/// Limits of the attempts.
pub(super) struct Bounds<'a> {
    pub(super) deadline: Nanos,
    pub(super) clock: &'a dyn Clock,
    pub(super) host: &'a dyn Host,
    /// Notifies the user while requests fail.
    pub(super) outage: &'a RefCell<BrokerOutage>,
}

impl Bounds<'_> {
    pub(super) fn left(&self) -> Duration {
        // A request that is sent at all gets enough time for an answer, and none delays the end of the tasks
        // for long.
        self.deadline.after(self.clock.now()).clamp(LOOK, REQUEST_MAX)
    }

    /// An attempt has failed and will be repeated.
    pub(super) fn fails(&self, reason: &str) {
        self.outage.borrow_mut().fails(self.clock.now(), reason);
    }

    /// Whether to give up: the time limit is over, or the tasks are cancelled.
    pub(super) fn are_over(&self) -> bool {
        self.clock.now() >= self.deadline || self.host.is_cancelled()
    }
}

/// The brokers' name for a task's transactions and their group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    scope: String,
    name: String,
}

impl Identity {
    /// A scope has no slash and a task is a number, so that no two tables share a name.
    pub(super) fn new(scope: &str, table: &str, task: u32) -> Identity {
        Identity { scope: scope.to_owned(), name: format!("anabranch/{scope}/{table}/{task}") }
    }

    pub(super) fn scope(&self) -> &str {
        &self.scope
    }
}

struct CommittedEpoch {
    epoch: i64,
    /// The checksum of its records.
    checksum: String,
}

/// Commits the records of one task, and fences any other writer.
pub(super) struct Transactor {
    table: Table,
    identity: Identity,
    topic_name: String,
    group: Arc<ConsumerGroupMetadata>,
    /// The last committed epoch.
    done: Option<CommittedEpoch>,
    topic: Topic,
    client: Arc<Producer>,
}

impl Transactor {
    /// Takes over a task's transactions: ends an open one, fences the former owner, and reads which epoch was
    /// committed last.
    pub(super) fn open(
        table: &Table,
        identity: &Identity,
        topic: &str,
        bounds: &Bounds<'_>,
    ) -> Result<Transactor, Failure> {
        let client = client::transactional_producer(table, &identity.name)?;
        let longest = table.connection_timeout;
        repeated(&client, bounds, move |client, wait| client.init_transactions(wait.min(longest)))?
            .map_err(|error| classify(&client, table, identity, &error))?;
        let (done, group) = committed_epoch(table, identity, topic, bounds)?;
        let topic_name = topic.to_owned();
        Ok(Transactor {
            table: table.clone(),
            identity: identity.clone(),
            topic: Topic::new(&client, topic)?,
            topic_name,
            group: Arc::new(group),
            done,
            client,
        })
    }

    /// The topic to which records are written.
    pub(super) fn topic(&self) -> &str {
        &self.topic_name
    }

    /// Commits an epoch's records, unless they are already committed.
    pub(super) fn commit(
        &mut self,
        epoch: Epoch,
        content: &HeldRecords<'_>,
        bounds: &Bounds<'_>,
    ) -> Result<(), Failure> {
        let number = i64::try_from(epoch.0).map_err(|_| Error::internal(format!("epoch {}", epoch.0)))?;
        let checksum = format!("{:016x}", content.checksum);
        if self.is_done(number, &checksum)? {
            return Ok(());
        }
        self.client.begin_transaction().map_err(|error| self.classify(&error))?;
        let mut window = Window::new(self.table.batch(), partitions_at_a_time(content));
        for record in content.records() {
            self.await_room(&mut window, bounds)?;
            self.produce(&record, bounds)?;
            window.add(bounds.clock.now(), record.content.bytes());
        }
        let mut offset = TopicPartitionList::new();
        offset
            .add_partition_offset(&self.topic_name, OFFSET_PARTITION, Offset::Offset(number))
            .map_err(|error| Error::internal(format!("epoch {number} cannot be an offset: {error}")))?;
        if let Some(mut element) = offset.find_partition(&self.topic_name, OFFSET_PARTITION) {
            element.set_metadata(&checksum);
        }
        let group = self.group.clone();
        self.patiently(bounds, move |client, wait| client.send_offsets_to_transaction(&offset, &group, wait))?;
        self.patiently(bounds, |client, wait| client.commit_transaction(wait))?;
        self.done = Some(CommittedEpoch { epoch: number, checksum });
        Ok(())
    }

    /// The job resumes from the checkpoint of epoch `after`. Later epochs were committed by another run of
    /// the job, whose epochs differ from those to come.
    pub(super) fn check_not_ahead(&self, after: Epoch) -> Result<(), Failure> {
        let Some(done) = self.done.as_ref().filter(|done| i64::try_from(after.0).is_ok_and(|after| after < done.epoch))
        else {
            return Ok(());
        };
        let written = format!("topic {}", self.topic_name);
        Err(Failure::Final(has_later_results(&written, done.epoch.unsigned_abs(), after)))
    }

    /// The failure for an error of the client. If the client has dropped a record, the failure is the reason
    /// for that.
    fn classify(&self, error: &KafkaError) -> Failure {
        self.undelivered().unwrap_or_else(|| self.failure(error))
    }

    fn failure(&self, error: &KafkaError) -> Failure {
        classify(&self.client, &self.table, &self.identity, error)
    }

    /// Whether an epoch is committed, with these records.
    fn is_done(&self, number: i64, checksum: &str) -> Result<bool, Failure> {
        match &self.done {
            Some(done) if done.epoch == number && done.checksum != checksum => Err(Failure::Final(
                Error::user(format!("other records have been committed as '{}' for this epoch", self.identity.name))
                    .remedy("let one statement of one job write the table, and give a job that goes back to an older checkpoint a new scope"),
            )),
            done => Ok(done.as_ref().is_some_and(|done| done.epoch >= number)),
        }
    }

    /// Repeats a request as long as the client reports its error as retriable.
    fn patiently(
        &self,
        bounds: &Bounds<'_>,
        ask: impl Fn(&Producer, Duration) -> KafkaResult<()> + Send + Sync + 'static,
    ) -> Result<(), Failure> {
        repeated(&self.client, bounds, ask)?.map_err(|error| self.classify(&error))
    }

    /// If the window is full, waits until the brokers have acknowledged its records.
    fn await_room(&self, window: &mut Window, bounds: &Bounds<'_>) -> Result<(), Failure> {
        while !window.is_open(bounds.clock.now(), || self.client.in_flight_count() == 0) {
            if let Some(failure) = self.undelivered() {
                return Err(failure);
            }
            if bounds.are_over() {
                return Err(Failure::Passing("the brokers take no more records".into()));
            }
            flush(&self.client, ACKNOWLEDGED);
        }
        Ok(())
    }

    /// Passes one record to the client, waiting for room.
    fn produce(&self, record: &Record<'_>, bounds: &Bounds<'_>) -> Result<(), Failure> {
        loop {
            let code = match self.topic.produce(record.partition, &record.content) {
                Ok(()) => return Ok(()),
                Err(code) => code,
            };
            if let Some(failure) = self.undelivered() {
                return Err(failure);
            }
            match code {
                RDKafkaErrorCode::QueueFull if !bounds.are_over() => self.client.poll(ROOM),
                RDKafkaErrorCode::QueueFull => return Err(Failure::Passing("the brokers take no more records".into())),
                RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::UnknownTopic => return Err(undeliverable(&self.table, code).into()),
                code => return Err(self.failure(&KafkaError::MessageProduction(code))),
            }
        }
    }

    /// Why the client has given up a record, if it has.
    fn undelivered(&self) -> Option<Failure> {
        self.client.poll(Duration::ZERO);
        let lost = self.client.context().take_undelivered()?;
        let place = format!("partition {}", lost.partition);
        match lost.reason {
            code @ (RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::TopicAuthorizationFailed) => {
                Some(Failure::Final(undeliverable(&self.table, code).at(place)))
            }
            // The transaction's own error has the reason why its records were dropped.
            RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight | RDKafkaErrorCode::Fatal => None,
            code => Some(self.failure(&KafkaError::MessageProduction(code))),
        }
    }
}

/// The approximate number of partitions that get records of an epoch at the same time, judged by its first
/// records. For a record with a key the client chooses, and without a key the client stays with one partition
/// for some milliseconds.
fn partitions_at_a_time(content: &HeldRecords<'_>) -> u32 {
    let mut partitions = BTreeSet::new();
    for record in content.records().take(SEEN) {
        match (record.partition < 0, record.content.key.is_some()) {
            (true, true) => return u32::MAX,
            _ => partitions.insert(record.partition),
        };
    }
    u32::try_from(partitions.len()).unwrap_or(u32::MAX)
}

/// Repeats a request of a transaction as long as the client reports its error as retriable. Returns its last
/// answer.
fn repeated(
    client: &Arc<Producer>,
    bounds: &Bounds<'_>,
    ask: impl Fn(&Producer, Duration) -> KafkaResult<()> + Send + Sync + 'static,
) -> Result<KafkaResult<()>, Failure> {
    let ask = Arc::new(ask);
    loop {
        match bounded(client, &ask, bounds.left())? {
            Err(KafkaError::Transaction(error)) if error.is_retriable() && !bounds.are_over() => {
                bounds.fails(&error.to_string());
                client.poll(LOOK);
            }
            answer => return Ok(answer),
        }
    }
}

/// Makes a request on a thread of its own. The client does not always respect its time limit: after a broker
/// has hung, a request of a transaction may never return. Such a client is abandoned with its thread, and the
/// next one takes its transactions over.
fn bounded<C: Send + Sync + 'static, T: Send + 'static>(
    client: &Arc<C>,
    ask: &Arc<impl Fn(&C, Duration) -> KafkaResult<T> + Send + Sync + 'static>,
    wait: Duration,
) -> Result<KafkaResult<T>, Failure> {
    let (answer, answered) = sync_channel(1);
    let (client, ask) = (client.clone(), ask.clone());
    std::thread::Builder::new()
        .name("kafka request".into())
        .spawn(move || {
            // A late answer is dropped.
            let _ = answer.send(ask(&client, wait));
        })
        .map_err(|error| Error::outside(format!("no thread could be started: {error}")))?;
    answered.recv_timeout(wait + LATE).map_err(|_| Failure::Stuck("the client does not return from a request".into()))
}

/// The last epoch that a task's transactions have committed, and the consumer group whose offset records it.
fn committed_epoch(
    table: &Table,
    identity: &Identity,
    topic: &str,
    bounds: &Bounds<'_>,
) -> Result<(Option<CommittedEpoch>, ConsumerGroupMetadata), Failure> {
    let client = Arc::new(client::group_client(table, &identity.name)?);
    let mut asked = TopicPartitionList::new();
    asked.add_partition(topic, OFFSET_PARTITION);
    let ask = Arc::new(move |client: &Consumer, wait| {
        let offsets = client.committed_offsets(asked.clone(), wait)?;
        offsets.elements().iter().try_for_each(|element| element.error())?;
        Ok(offsets)
    });
    let mut failure = None;
    let answered = patiently(&*client, bounds.clock, bounds.left().min(table.connection_timeout), |wait| {
        bounded(&client, &ask, wait).unwrap_or_else(|failed| {
            failure = Some(failed);
            Err(KafkaError::Canceled)
        })
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let offsets = answered.map_err(|error| match error.rdkafka_error_code() {
        Some(code) if !is_permanent(code) => Failure::Passing(error.to_string()),
        code => Failure::Final(silent(client.context(), table, table.connection_timeout, code)),
    })?;
    let committed = offsets.elements().first().and_then(|element| match element.offset() {
        Offset::Offset(epoch) => Some(CommittedEpoch { epoch, checksum: element.metadata().to_owned() }),
        _ => None,
    });
    let group = client.group_metadata().ok_or_else(|| Error::internal("the client tells nothing of its group"))?;
    Ok((committed, group))
}

fn classify(client: &Producer, table: &Table, identity: &Identity, error: &KafkaError) -> Failure {
    let code = error.rdkafka_error_code();
    let (is_fatal, code, reason) = match client.client().fatal_error() {
        Some((code, reason)) => (true, Some(code), reason),
        None => (false, code, error.to_string()),
    };
    match code {
        // A broker also reports an old epoch when it has ended a transaction itself; then the client's state
        // is not final.
        Some(RDKafkaErrorCode::InvalidProducerEpoch) if !is_fatal => Failure::Passing(reason),
        Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch) => {
            Failure::Fenced(
                Error::outside(format!("another writer has taken over the transactions of '{}'", identity.name))
                    .remedy("let only one instance of the job run; the one that was started last continues"),
            )
        }
        Some(RDKafkaErrorCode::InvalidTransactionTimeout) => Failure::Final(
            Error::user("the brokers do not allow transactions to take as long as 'sink.delivery.timeout'")
                .remedy("make it shorter, or raise the brokers' 'transaction.max.timeout.ms'"),
        ),
        Some(code) if is_fatal || is_permanent(code) => {
            Failure::Final(Error::outside(format!("{} refuses the transaction: {reason}", table.servers)))
        }
        _ => Failure::Passing(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_tasks_share_an_identity() {
        let names = [("a", "b/1", 2), ("a", "b", 12), ("a-b", "1", 2), ("a", "b/1/2", 2), ("a", "b", 1)];
        for (index, (scope, table, task)) in names.iter().enumerate() {
            for (other_scope, other_table, other_task) in &names[..index] {
                let identity = Identity::new(scope, table, *task);
                assert_ne!(identity, Identity::new(other_scope, other_table, *other_task));
            }
        }
    }
}
