//! Notices about brokers that do not answer: when an outage is found, and when it is over.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::Nanos;
use anabranch_operators::{Host, TaskContext};

use super::table::Table;

/// The connection of one task to the brokers.
pub(super) struct Outage {
    host: Arc<dyn Host>,
    topics: String,
    servers: String,
    /// How long the job waits, for messages.
    waits: String,
    since: Option<Nanos>,
    /// When the present series of failing attempts began.
    failing_since: Option<Nanos>,
}

/// How long attempts fail before the user is notified: a moving coordinator or a new connection takes less.
const NOTICE_AFTER: Duration = Duration::from_secs(3);

impl Outage {
    /// For a reader, which waits for `connection.timeout`.
    pub(super) fn of_reader(table: &Table, context: &TaskContext) -> Outage {
        let seconds = table.connection_timeout.as_secs_f32();
        Outage::new(table, context, format!("for up to {seconds} s ('connection.timeout')"))
    }

    /// For a writer, which waits for `sink.delivery.timeout`.
    pub(super) fn of_writer(table: &Table, context: &TaskContext) -> Outage {
        let seconds = table.delivery_timeout.as_secs_f32();
        Outage::new(table, context, format!("for up to {seconds} s ('sink.delivery.timeout')"))
    }

    fn new(table: &Table, context: &TaskContext, waits: String) -> Outage {
        let (topics, servers) = (table.subscription.text(), table.servers.clone());
        Outage { host: Arc::clone(&context.host), topics, servers, waits, since: None, failing_since: None }
    }

    /// No broker answers, for this reason.
    pub(super) fn begins(&mut self, now: Nanos, reason: &str) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(now);
        let Outage { topics, servers, waits, .. } = &*self;
        self.tell_first(now, format!(
            "{topics}: no Kafka broker answers at {servers}{reason}; the job waits {waits}; start the broker or mend the network"
        ));
    }

    /// A series of attempts begins.
    pub(super) fn attempts_begin(&mut self, now: Nanos) {
        self.failing_since = Some(now);
    }

    /// An attempt has failed, for this reason, and will be repeated. The brokers may answer.
    pub(super) fn fails(&mut self, now: Nanos, reason: &str) {
        let failing_since = *self.failing_since.get_or_insert(now);
        if self.since.is_some() || now < failing_since.plus(NOTICE_AFTER) {
            return;
        }
        self.since = Some(failing_since);
        let Outage { topics, servers, waits, .. } = &*self;
        self.tell_first(
            failing_since,
            format!(
                "{topics}: requests to the Kafka brokers at {servers} fail ({reason}); the job repeats them {waits}"
            ),
        );
    }

    /// A broker has answered.
    pub(super) fn ends(&mut self, now: Nanos) {
        self.failing_since = None;
        if let Some(since) = self.since.take()
            && let Some(since) = self.host.outage_ends(&self.key(), since)
        {
            let seconds = now.since(since) / 1_000_000_000;
            self.host.notify(format!(
                "{}: the Kafka brokers at {} answer again, after {seconds} s",
                self.topics, self.servers
            ));
        }
    }

    /// Since when no broker has answered.
    pub(super) fn since(&self) -> Option<Nanos> {
        self.since
    }

    /// The first task that finds the outage reports it: the others may have nothing to send.
    fn tell_first(&self, since: Nanos, text: String) {
        if self.host.outage_begins(&self.key(), since) {
            self.host.notify(text);
        }
    }

    fn key(&self) -> String {
        format!("{} at {}", self.topics, self.servers)
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.host.outage_ends(&self.key(), since);
        }
    }
}
