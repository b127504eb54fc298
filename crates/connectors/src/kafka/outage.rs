//! Notices about brokers that do not answer.

use std::time::Duration;

use anabranch_model::Nanos;
use anabranch_operators::TaskContext;

use super::table::Table;
use crate::outage::Outage;

/// The connection of one task to the brokers.
pub(super) struct BrokerOutage {
    outage: Outage,
    topics: String,
    servers: String,
    /// How long the job waits, for messages.
    waits: String,
    /// When the present series of failing attempts began.
    failing_since: Option<Nanos>,
}

/// How long attempts fail before the user is notified: a moving coordinator or a new connection takes less.
const NOTICE_AFTER: Duration = Duration::from_secs(3);

impl BrokerOutage {
    /// The notices of a reader, which waits for `connection.timeout`.
    pub(super) fn of_reader(table: &Table, context: &TaskContext) -> BrokerOutage {
        BrokerOutage::new(table, context, table.connection_timeout, "connection.timeout")
    }

    /// The notices of a writer, which waits for `sink.delivery.timeout`.
    pub(super) fn of_writer(table: &Table, context: &TaskContext) -> BrokerOutage {
        BrokerOutage::new(table, context, table.delivery_timeout, "sink.delivery.timeout")
    }

    fn new(table: &Table, context: &TaskContext, timeout: Duration, option: &str) -> BrokerOutage {
        let waits = format!("for up to {} s ('{option}')", timeout.as_secs_f32());
        let (topics, servers) = (table.subscription.text(), table.servers.clone());
        let answers = format!("{topics}: the Kafka brokers at {servers} answer again");
        let outage = Outage::new(context, format!("{topics} at {servers}"), answers);
        BrokerOutage { outage, topics, servers, waits, failing_since: None }
    }

    /// No broker answers, for this reason.
    pub(super) fn begins(&self, now: Nanos, reason: &str) {
        let BrokerOutage { outage, topics, servers, waits, .. } = self;
        outage.begins(now, || {
            format!("{topics}: no Kafka broker answers at {servers}{reason}; the job waits {waits}; start the broker or mend the network")
        });
    }

    /// A series of attempts begins.
    pub(super) fn attempts_begin(&mut self, now: Nanos) {
        self.failing_since = Some(now);
    }

    /// An attempt has failed, for this reason, and will be repeated. The brokers may answer.
    pub(super) fn fails(&mut self, now: Nanos, reason: &str) {
        let failing_since = *self.failing_since.get_or_insert(now);
        let BrokerOutage { outage, topics, servers, waits, .. } = self;
        if now >= failing_since.plus(NOTICE_AFTER) {
            outage.begins(failing_since, || {
                format!(
                    "{topics}: requests to the Kafka brokers at {servers} fail ({reason}); the job repeats them {waits}"
                )
            });
        }
    }

    /// A broker has answered.
    pub(super) fn ends(&mut self) {
        self.failing_since = None;
        self.outage.ends();
    }

    /// Since when no broker has answered.
    pub(super) fn since(&self) -> Option<Nanos> {
        self.outage.since()
    }
}
