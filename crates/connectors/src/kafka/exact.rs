//! The writer of one task: exactly once, for readers of committed records.
//!
//! The client cannot take over another process's open transaction, so nothing is sent before its checkpoint
//! is complete. Records are encoded as they arrive and held in memory. At a checkpoint they become part of
//! it. When the checkpoint is complete they are written in one transaction. So the query waits for a broker
//! only when the topic is first looked up. After a crash at any moment, the process that resumes writes all
//! records of an interval, or none. The price is memory, and checkpoints that contain the results of an
//! interval.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Epoch, Error, Result};
use anabranch_operators::{Committable, Delivery, Former, Host, Sink, TaskContext};
use arrow::array::RecordBatch;
use rdkafka::producer::Producer as _;

use super::client::{self, LOOK, Producer};
use super::create::ensure_topic;
use super::held::{Held, HeldRecords};
use super::outage::BrokerOutage;
use super::records::Records;
use super::sink::Partitions;
use super::table::Table;
use super::transaction::{Bounds, Failure, Identity, Transactor};
use crate::room::Room;
use crate::wait::wait_until;

/// Pause between two attempts to commit: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Holds the rows of one task, and commits committables of any task.
pub(super) struct ExactSink {
    topic: String,
    task: u32,
    records: Records,
    partitions: Partitions,
    held: Held,
    room: Room,
    committer: Committer,
}

/// Writes the committables of tasks.
pub(super) struct Committer {
    table: Table,
    scope: String,
    former: Former,
    /// Name of the table.
    name: String,
    clock: Arc<dyn Clock>,
    host: Arc<dyn Host>,
    outage: RefCell<BrokerOutage>,
    /// By the task whose records they commit, and its scope.
    transactors: BTreeMap<Identity, Transactor>,
    /// Whether committables of earlier incarnations are being committed.
    is_restoring: bool,
    /// Checks whether brokers answer, after a client was abandoned.
    probe: Option<Arc<Producer>>,
}

impl ExactSink {
    /// Looks the topic up, and creates it if it does not exist. Takes over the transactions of the task, and
    /// its share of the transactions of all tasks under former scopes: a transaction that a killed process
    /// left open would block readers of committed records.
    pub(super) fn open(table: Table, name: &str, records: Records, context: &TaskContext) -> Result<ExactSink> {
        let topic = table.single_topic()?.to_owned();
        let count = ensure_topic(&*client::producer(&table)?, &table, &topic, context.clock.as_ref())?;
        let mut committer = Committer::new(table, name, context);
        committer.take_over(context, &topic)?;
        Ok(ExactSink {
            held: Held::new(&topic, records.attach()),
            room: Room::new(context.host.clone(), committer.table.buffer_bytes),
            topic,
            task: context.index,
            records,
            partitions: Partitions::new(committer.table.partitioner, context.index, count),
            committer,
        })
    }
}

impl Committer {
    /// The committer of a table's writer.
    pub(super) fn new(table: Table, name: &str, context: &TaskContext) -> Committer {
        let (name, clock) = (name.to_owned(), context.clock.clone());
        let (scope, former) = match &context.delivery {
            Delivery::ExactlyOnce { scope, former } => (scope.clone(), former.clone()),
            Delivery::AtLeastOnce => (String::new(), Former::default()),
        };
        let outage = BrokerOutage::of_writer(&table, context);
        Committer {
            table,
            scope,
            former,
            name,
            clock,
            host: context.host.clone(),
            outage: RefCell::new(outage),
            transactors: BTreeMap::new(),
            is_restoring: true,
            probe: None,
        }
    }

    /// Notes that all committables of earlier incarnations have been committed. Keeps the transactor of task
    /// `own` only.
    fn restored(&mut self, own: u32) {
        if std::mem::replace(&mut self.is_restoring, false) {
            let own = self.identity(&self.scope, own);
            self.transactors.retain(|identity, _| *identity == own);
        }
    }

    /// Takes transactions over before there is anything to commit.
    fn take_over(&mut self, context: &TaskContext, topic: &str) -> Result<()> {
        let Former { scopes, tasks } = self.former.clone();
        for scope in &scopes {
            let share = (context.index..tasks.max(context.parallelism)).step_by(context.parallelism.max(1) as usize);
            for task in share {
                self.take_identity(&self.identity(scope, task), topic)?;
            }
        }
        self.take_identity(&self.identity(&self.scope, context.index), topic)
    }

    fn take_identity(&mut self, identity: &Identity, topic: &str) -> Result<()> {
        self.transact(identity, topic, "the transactions could not be taken over from", |_, _| Ok(()))
    }

    fn identity(&self, scope: &str, task: u32) -> Identity {
        Identity::new(scope, &self.name, task)
    }

    /// Writes the records in a transaction, unless they were written before.
    pub(super) fn commit(&mut self, committable: &Committable) -> Result<()> {
        let Committable { epoch, task, content } = committable;
        let place = |error: Error| error.at(format!("epoch {} of sink task {task}", epoch.0));
        let content = HeldRecords::parse(content).map_err(place)?;
        self.commit_content(*task, *epoch, &content).map_err(|error| error.at(format!("topic {}", content.topic)))
    }

    /// Writes the records in a transaction.
    fn commit_content(&mut self, task: u32, epoch: Epoch, content: &HeldRecords<'_>) -> Result<()> {
        let what = format!("the records of epoch {} could not be committed to", epoch.0);
        // Restored committables may have been committed already, under the scope under which they were
        // prepared.
        let scope = self.former.scopes.first().filter(|_| self.is_restoring).unwrap_or(&self.scope);
        self.transact(&self.identity(scope, task), content.topic, &what, |transactor, bounds| {
            transactor.commit(epoch, content, bounds)
        })
    }

    /// Runs `act` on a task's transactor. A transient failure is retried for a bounded time, and so is being
    /// fenced by a process that does not own the job: that process started at the same time as this one.
    fn transact(
        &mut self,
        identity: &Identity,
        topic: &str,
        what: &str,
        act: impl Fn(&mut Transactor, &Bounds<'_>) -> Result<(), Failure>,
    ) -> Result<()> {
        let (clock, host) = (self.clock.clone(), self.host.clone());
        let deadline = clock.now().plus(self.table.delivery_timeout);
        let bounds = Bounds { deadline, clock: clock.as_ref(), host: host.as_ref(), outage: &self.outage };
        // Under a former scope, results of a skipped checkpoint may have been committed.
        let is_former = identity.scope() != self.scope;
        let mut pause = PAUSE;
        self.outage.borrow_mut().attempts_begin(clock.now());
        loop {
            let opened = match self.transactors.remove(identity).filter(|known| known.topic() == topic) {
                Some(known) => Ok(known),
                None => await_brokers(&mut self.probe, topic, &bounds)
                    .and_then(|()| Transactor::open(&self.table, identity, topic, &bounds)),
            };
            let acted = opened.and_then(|mut transactor| {
                if let Some(after) = host.resumed_after().filter(|_| self.is_restoring && !is_former) {
                    transactor.check_not_ahead(after)?;
                }
                act(&mut transactor, &bounds)?;
                Ok(transactor)
            });
            // A failed transactor is dropped: the next one finds out what has become of its transaction.
            let reason = match acted {
                Ok(transactor) => {
                    self.transactors.insert(identity.clone(), transactor);
                    self.outage.borrow_mut().ends();
                    return Ok(());
                }
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Fenced(error)) if bounds.are_over() || !host.is_owner()? => return Err(error),
                Err(Failure::Fenced(error)) => error.to_string(),
                Err(Failure::Passing(reason)) => {
                    bounds.fails(&reason);
                    reason
                }
                Err(Failure::Stuck(reason)) => {
                    self.probe = Some(client::producer(&self.table)?);
                    bounds.fails(&reason);
                    reason
                }
            };
            if host.is_cancelled() {
                return Err(Error::outside(format!("{what} {}: the job's tasks are being ended", self.table.servers)));
            }
            if bounds.are_over() {
                let (servers, seconds) = (&self.table.servers, self.table.delivery_timeout.as_secs_f32());
                return Err(Error::outside(format!("{what} {servers} within {seconds} s: {reason}"))
                    .remedy("see whether the brokers run; 'sink.delivery.timeout' says how long to try"));
            }
            wait_until(clock.now().plus(pause).min(deadline), LOOK, clock.as_ref(), host.as_ref());
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// After a client was abandoned, no other is created before a broker answers: as long as brokers hang, the
/// next one would be abandoned too, and each keeps its threads.
fn await_brokers(probe: &mut Option<Arc<Producer>>, topic: &str, bounds: &Bounds<'_>) -> Result<(), Failure> {
    let Some(client) = probe else { return Ok(()) };
    match client.client().fetch_metadata(Some(topic), bounds.left()) {
        Ok(_) => {
            *probe = None;
            Ok(())
        }
        Err(error) => Err(Failure::Passing(error.to_string())),
    }
}

impl Sink for ExactSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.committer.restored(self.task);
        for record in self.records.encode(batch)?.iter_from(0) {
            self.held.push(self.partitions.next(), &record);
        }
        self.room.wrote(self.held.bytes()).map_err(|error| error.at(format!("topic {}", self.topic)))
    }

    /// No checkpoint covers the epoch: its records wait for the next one.
    fn flush(&mut self) -> Result<()> {
        self.room.flushed();
        Ok(())
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        self.flush()
    }

    fn prepare_commit(&mut self, epoch: Epoch) -> Result<Option<Committable>> {
        self.room.prepared(epoch);
        let content = self.held.take();
        Ok(content.map(|content| Committable { epoch, task: self.task, content: content.into() }))
    }

    fn commit(&mut self, committable: &Committable) -> Result<()> {
        self.committer.commit(committable)?;
        if committable.task == self.task {
            self.room.committed(committable.epoch);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::SystemClock;
    use anabranch_operators::testing::{TestHost, context};
    use rdkafka::mocking::MockCluster;

    use super::super::table::tests::parse;
    use super::*;

    #[test]
    fn no_client_is_made_after_one_that_hangs_before_a_broker_answers() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t", 1, 1).unwrap();
        let table = parse(&[("properties.bootstrap.servers", &cluster.bootstrap_servers())]).unwrap();
        let clock = SystemClock::new();
        let outage = RefCell::new(BrokerOutage::of_writer(&table, &context(0, 1, 1)));
        let deadline = |ms| clock.now().plus(Duration::from_millis(ms));
        let mut probe = None;
        let ask = |probe: &mut Option<Arc<Producer>>, ms| {
            let host = TestHost::default();
            let bounds = Bounds { deadline: deadline(ms), clock: &clock, host: &host, outage: &outage };
            await_brokers(probe, "t", &bounds).is_ok()
        };
        cluster.broker_down(1).unwrap();
        assert!(ask(&mut probe, 100), "no client was left behind");
        probe = Some(client::producer(&table).unwrap());
        assert!(!ask(&mut probe, 100) && probe.is_some());
        cluster.broker_up(1).unwrap();
        let patience = deadline(60_000);
        while !ask(&mut probe, 5000) {
            assert!(clock.now() < patience, "the broker does not answer");
        }
        assert!(probe.is_none());
    }
}
