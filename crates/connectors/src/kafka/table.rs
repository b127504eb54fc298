//! The options of a Kafka table, read once for describing, reading and writing it.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Error, Result, is_secret};
use anabranch_operators::TaskContext;
use arrow::datatypes::{Schema, SchemaRef};
use rdkafka::ClientConfig;

use super::places::{self, Bound};
use super::security::Properties;
use super::subscription::Subscription;
use super::window::Batch;
use crate::Options;
use crate::format::Format;
use crate::guarantee::Guarantee;

/// The options of a Kafka table, without its formats.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) subscription: Subscription,
    pub(super) servers: String,
    /// Group to which positions are committed.
    pub(super) group: Option<String>,
    pub(super) startup: Bound,
    /// The end of the table, if it is bounded.
    pub(super) end: Option<Bound>,
    /// Interval of the checks for new partitions and deleted topics.
    pub(super) watch_interval: Duration,
    /// Whether new partitions are read.
    pub(super) discovers: bool,
    /// Time without an answer of any broker after which the job fails.
    pub(super) connection_timeout: Duration,
    /// How long opening the table waits for the first answer of a broker.
    pub(super) first_answer: Duration,
    pub(super) partitioner: Partitioner,
    pub(super) key_fields: Vec<String>,
    pub(super) key_format: Option<Format>,
    /// Prefix of the names of the key's columns in the table. The names in the key omit it.
    pub(super) key_prefix: String,
    /// Whether values omit the columns of the key, which are then read from the key.
    pub(super) without_key: bool,
    /// Partitions of a topic that the sink creates; the broker's default if not given.
    pub(super) created_partitions: Option<i32>,
    /// Time limit for the delivery of a record.
    pub(super) delivery_timeout: Duration,
    /// The guarantee of the sink; by default, the best that the job allows.
    pub(super) guarantee: Option<Guarantee>,
    /// Limit of the memory of a sink that holds records, in bytes. The records of one epoch may take this
    /// much at most.
    pub(super) buffer_bytes: u64,
    /// Whether Flink would start at the offsets of the group, because the table does not define a start.
    flink_begins_at_group: bool,
    /// Whether records are versions or changes of rows, so that the table is updating.
    pub(super) updates: bool,
    properties: Properties,
}

/// How the sink chooses a record's partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partitioner {
    /// By the key if there is one, else one partition for a while and then another.
    Default,
    /// Task `i` always writes to partition `i % partitions`.
    Fixed,
    /// One record to each partition in turn.
    RoundRobin,
}

const WATCH_INTERVAL: Duration = Duration::from_secs(10);
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Shorter than a later outage may last: a user with a wrong address waits for this.
const FIRST_ANSWER: Duration = Duration::from_secs(10);
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);
const BUFFER_BYTES: u64 = 256 << 20;
/// Time for which a writer gathers records into one request.
const LINGER_MS: f64 = 10.0;
const LINGER_MAX_MS: f64 = 900_000.0;
/// The client's own bounds of a request.
const REQUEST_RECORDS: f64 = 10_000.0;
const REQUEST_BYTES: f64 = 1_000_000.0;
/// Limits of a transaction's time: the least that the client accepts, and the most that brokers allow by
/// default.
const TRANSACTION_MILLIS: (u128, u128) = (1000, 900_000);
/// Time after which a request of a transaction is repeated. The client waits that long for a broker that
/// hangs, and the job cannot report it meanwhile.
const TRANSACTION_REQUEST_MILLIS: u128 = 10_000;

impl Table {
    /// Reads everything except the options of formats.
    pub(super) fn parse(options: &mut Options<'_>) -> Result<Table> {
        let key_fields = fields(options.string("key.fields").unwrap_or_default());
        let key_format = Format::optional(options, "key.format")?;
        if key_format.is_some() && key_fields.is_empty() {
            return Err(
                Error::user("'key.format' is given but 'key.fields' is not").remedy("name the columns of the key")
            );
        }
        let (without_key, key_prefix) = value_fields(options, &key_fields)?;
        let without_key = without_key && !key_fields.is_empty();
        if without_key && key_format.is_none() {
            return Err(Error::user("'value.fields-include' is 'EXCEPT_KEY', but 'key.format' is not given")
                .remedy("say how the key is written: 'key.format' = 'json'"));
        }
        let subscription = Subscription::read(options)?;
        Ok(Table { key_fields, key_format, key_prefix, without_key, ..Table::keyless(options, subscription)? })
    }

    /// Reads everything except the format of values, for a table whose primary key is the key of its records.
    pub(super) fn parse_upserted(options: &mut Options<'_>) -> Result<Table> {
        let key_format = Some(Format::required(options, "key.format")?);
        let (without_key, key_prefix) = value_fields(options, &[])?;
        let subscription = Subscription::named(options)?;
        Ok(Table {
            key_format,
            key_prefix,
            without_key,
            updates: true,
            flink_begins_at_group: false,
            ..Table::keyless(options, subscription)?
        })
    }

    /// The columns of the key by their names in the key.
    pub(super) fn key_schema(&self, schema: &Schema, columns: &[usize]) -> Result<SchemaRef> {
        let named = |column: &usize| {
            let field = schema.field(*column);
            let name = field.name().strip_prefix(&self.key_prefix).ok_or_else(|| {
                let error = format!(
                    "option 'key.fields-prefix' is '{}', but the key has column '{}'",
                    self.key_prefix,
                    field.name()
                );
                Error::user(error).remedy("give the columns of the key names that begin with it")
            })?;
            Ok(field.clone().with_name(name))
        };
        Ok(Arc::new(Schema::new(columns.iter().map(named).collect::<Result<Vec<_>>>()?)))
    }

    fn keyless(options: &mut Options<'_>, subscription: Subscription) -> Result<Table> {
        let end = places::end(options)?;
        let interval = options.duration("scan.topic-partition-discovery.interval")?.unwrap_or(WATCH_INTERVAL);
        let created_partitions = options.number::<i32>("sink.topic.partitions")?;
        if created_partitions.is_some_and(|n| n < 1) {
            return Err(Error::user("option 'sink.topic.partitions' is less than 1")
                .remedy("leave it out to take the broker's default"));
        }
        let says_start = options.string("scan.startup.mode").is_some();
        let startup = places::startup(options)?;
        let timeout = options.duration("connection.timeout")?;
        // Transactions are named by their job and table.
        let _ = options.string("sink.transactional-id-prefix");
        let properties = Properties::new(&options.prefixed("properties."))?;
        let property = |name: &str| properties.get(name).map(str::to_owned);
        let table = Table {
            subscription,
            servers: property("bootstrap.servers").filter(|s| !s.trim().is_empty()).ok_or_else(no_servers)?,
            group: property("group.id"),
            startup,
            watch_interval: if interval.is_zero() { WATCH_INTERVAL } else { interval },
            discovers: end.is_none() && !interval.is_zero(),
            end,
            connection_timeout: timeout.unwrap_or(CONNECTION_TIMEOUT),
            first_answer: timeout.unwrap_or(FIRST_ANSWER),
            partitioner: partitioner(options)?,
            key_fields: Vec::new(),
            key_format: None,
            key_prefix: String::new(),
            without_key: false,
            created_partitions,
            delivery_timeout: options.duration("sink.delivery.timeout")?.unwrap_or(DELIVERY_TIMEOUT),
            guarantee: Guarantee::read(options)?,
            buffer_bytes: options.bytes("sink.buffer-bytes")?.unwrap_or(BUFFER_BYTES),
            flink_begins_at_group: property("group.id").is_some() && !says_start,
            updates: false,
            properties,
        };
        table.check()?;
        Ok(table)
    }

    /// Refuses contradictory options, and properties that librdkafka does not know.
    fn check(&self) -> Result<()> {
        if self.group.is_none() && (self.startup == Bound::Group || self.end == Some(Bound::Group)) {
            let mode = if self.startup == Bound::Group { "scan.startup.mode" } else { "scan.bounded.mode" };
            return Err(Error::user(format!("'{mode}' is 'group-offsets' but the table names no group"))
                .remedy("add 'properties.group.id' = '...'"));
        }
        for (mode, bound) in [("scan.startup.mode", Some(&self.startup)), ("scan.bounded.mode", self.end.as_ref())] {
            if self.subscription.pattern().is_some() && matches!(bound, Some(Bound::Specific(_))) {
                return Err(Error::user(format!("'{mode}' is 'specific-offsets', but the topics are not named"))
                    .remedy("give 'topic' in place of 'topic-pattern'"));
            }
        }
        for config in [self.consumer_config(), self.producer_config(), self.transaction_config("any")] {
            config.create_native_config().map_err(config_error)?;
        }
        Ok(())
    }

    /// Configuration of a reader. The user's properties take precedence, except where our bookkeeping depends
    /// on ours.
    pub(super) fn consumer_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        // Records are taken in batches of thousands and counted in bytes, so the queue is bounded by bytes
        // only. The client checks every few milliseconds whether there is room again: by default, the reader
        // starves for a second each time the queue was full. The bound is per partition, because each is
        // started by itself. A reader takes as many bytes in some ten milliseconds.
        config.set("queued.min.messages", "1000000");
        config.set("queued.max.messages.kbytes", "8192");
        config.set("fetch.queue.backoff.ms", "5");
        // Group membership is not used, but closing waits this long for a missing coordinator.
        config.set("session.timeout.ms", "6000");
        if self.end.is_some() {
            // A fetch that finds nothing detects the end of the partition, so it must not wait for more.
            config.set("fetch.wait.max.ms", "10");
        }
        // Skipping deleted records silently would lose data: such a position is an error.
        config.set("auto.offset.reset", "error");
        // Records of a transaction count when it is committed.
        config.set("isolation.level", "read_committed");
        self.common(&mut config);
        config.set("enable.auto.commit", "false");
        config.set("enable.auto.offset.store", "false");
        config.set("enable.partition.eof", if self.end.is_some() { "true" } else { "false" });
        config
    }

    /// Configuration of a writer.
    pub(super) fn producer_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("enable.idempotence", "true");
        config.set("acks", "all");
        config.set("linger.ms", LINGER_MS.to_string());
        config.set("queue.buffering.max.messages", "1000000");
        config.set("queue.buffering.max.kbytes", "65536");
        // The Java client's partition of a key, so that both clients may write to one topic.
        config.set("partitioner", "murmur2_random");
        config.set("message.timeout.ms", self.delivery_timeout.as_millis().max(1).to_string());
        self.common(&mut config);
        config.set("delivery.report.only.error", "true");
        config.set("allow.auto.create.topics", "false");
        config
    }

    /// Configuration of a writer of transactions.
    pub(super) fn transaction_config(&self, identity: &str) -> ClientConfig {
        let mut config = self.producer_config();
        let (least, most) = TRANSACTION_MILLIS;
        let given = |name: &str| self.properties.get(name).and_then(|value| value.trim().parse::<u128>().ok());
        let usual = self.delivery_timeout.as_millis().clamp(least, most);
        let transaction = given("transaction.timeout.ms").unwrap_or(usual);
        config.set("transaction.timeout.ms", transaction.to_string());
        // The client's timeouts of records and requests must not exceed that of their transaction.
        for (name, usual) in [("message.timeout.ms", usual), ("socket.timeout.ms", TRANSACTION_REQUEST_MILLIS)] {
            config.set(name, given(name).unwrap_or(usual).min(transaction).to_string());
        }
        config.set("transactional.id", identity);
        config
    }

    /// Configuration of a client that requests the offsets of a group.
    pub(super) fn group_config(&self, group: &str) -> ClientConfig {
        let mut config = self.consumer_config();
        // Waits for offsets of a transaction that is about to end.
        config.set("isolation.level", "read_committed");
        config.set("group.id", group);
        config
    }

    /// The size of a writer's requests. A client that does not number its records sends any number of
    /// requests at a time.
    pub(super) fn batch(&self) -> Batch {
        let number = |names: &[&str], usual: f64| {
            let given = names.iter().find_map(|name| self.properties.get(name));
            given.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or(usual).max(0.0)
        };
        if self.properties.get("enable.idempotence").is_some_and(|value| value.trim().eq_ignore_ascii_case("false")) {
            return Batch { records: u64::MAX, bytes: u64::MAX, linger: Duration::MAX };
        }
        let message = number(&["message.max.bytes"], REQUEST_BYTES);
        Batch {
            records: number(&["batch.num.messages"], REQUEST_RECORDS) as u64,
            bytes: number(&["batch.size"], REQUEST_BYTES).min(message) as u64,
            linger: Duration::from_secs_f64(
                number(&["linger.ms", "queue.buffering.max.ms"], LINGER_MS).min(LINGER_MAX_MS) / 1000.0,
            ),
        }
    }

    fn common(&self, config: &mut ClientConfig) {
        config.set("client.id", "anabranch");
        config.set("topic.metadata.refresh.interval.ms", "30000");
        for (name, value) in self.properties.iter() {
            config.set(name, value);
        }
    }

    /// Notifies the user of options without effect, and of a start that differs from Flink's. One task does
    /// so for all.
    pub(super) fn notify(&self, context: &TaskContext, begins: bool) {
        if context.index != 0 {
            return;
        }
        let topics = self.subscription.text();
        let without_effect = &self.properties.without_effect;
        if !without_effect.is_empty() {
            let names = without_effect.iter().map(|name| format!("'properties.{name}'")).collect::<Vec<_>>().join(", ");
            context.host.notify(format!(
                "{topics}: {names}: only the Java client has a use for them, here they have no effect; leave them out"
            ));
        }
        if let Some(group) = self.group.as_ref().filter(|_| begins && self.flink_begins_at_group) {
            context.host.notify(format!(
                "{topics}: the table is read from the earliest offset, Flink would begin at the offsets of group '{group}'; \
                 set 'scan.startup.mode' to 'group-offsets' or 'earliest-offset'"
            ));
        }
    }

    /// The only topic, which a sink requires.
    pub(super) fn single_topic(&self) -> Result<&str> {
        match &self.subscription {
            Subscription::Topics(topics) => match topics.as_slice() {
                [topic] => Ok(topic),
                many => Err(Error::user(format!("a table that is written has one topic, not {}", many.len()))
                    .remedy("declare a table per topic")),
            },
            like @ Subscription::Pattern(_) => {
                Err(Error::user(format!("a table that is written has one topic, not {}", like.text()))
                    .remedy("name it: 'topic' in place of 'topic-pattern'"))
            }
        }
    }
}

fn no_servers() -> Error {
    Error::user("connector 'kafka' needs the option 'properties.bootstrap.servers'")
        .remedy("add 'properties.bootstrap.servers' = 'host:9092' to the table's WITH clause")
}

/// An error of librdkafka about a property's name or value.
pub(super) fn config_error(error: rdkafka::error::KafkaError) -> Error {
    match error {
        rdkafka::error::KafkaError::ClientConfig(_, reason, name, value) => {
            let value = if is_secret(&name) { "***" } else { &value };
            Error::user(format!("'properties.{name}' = '{value}' is refused: {reason}"))
                .remedy("properties are those of librdkafka (its CONFIGURATION.md lists them), not of the Java client")
        }
        other => Error::user(format!("the properties of the table are refused: {other}"))
            .remedy("properties are those of librdkafka (its CONFIGURATION.md lists them), not of the Java client"),
    }
}

/// `value.fields-include` and `key.fields-prefix`: whether values omit the columns of the key, and the prefix
/// of their names. Without `key.fields`, these columns are the primary key's.
fn value_fields(options: &mut Options<'_>, key_fields: &[String]) -> Result<(bool, String)> {
    let without_key = options.choice("value.fields-include", &[("ALL", false), ("EXCEPT_KEY", true)])?.unwrap_or(false);
    let prefix = options.string("key.fields-prefix").unwrap_or_default().to_owned();
    if !prefix.is_empty() && !without_key {
        return Err(Error::user("option 'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY'")
            .remedy("add it, since a value would have the columns of the key under other names than the key"));
    }
    match key_fields.iter().find(|field| !field.starts_with(&prefix)) {
        Some(field) => {
            Err(Error::user(format!("option 'key.fields-prefix' is '{prefix}', but 'key.fields' names '{field}'"))
                .remedy("name columns that begin with it"))
        }
        None => Ok((without_key, prefix)),
    }
}

/// Words separated by `;` (as Flink has it) or `,`.
pub(super) fn fields(text: &str) -> Vec<String> {
    text.split([';', ',']).map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn partitioner(options: &mut Options<'_>) -> Result<Partitioner> {
    let choices =
        [("default", Partitioner::Default), ("fixed", Partitioner::Fixed), ("round-robin", Partitioner::RoundRobin)];
    Ok(options.choice("sink.partitioner", &choices)?.unwrap_or(Partitioner::Default))
}

#[cfg(test)]
pub(super) mod tests;
