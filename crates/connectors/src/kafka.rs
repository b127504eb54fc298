//! Topics of Apache Kafka as tables.
//!
//! | option | meaning |
//! |---|---|
//! | `topic` | name of the topic; a table that is only read may name several, separated by `;` |
//! | `topic-pattern` | in place of `topic`, of a table that is only read: all topics whose whole names match the regular expression |
//! | `properties.bootstrap.servers` | `host:port` of one or more brokers, separated by `,` |
//! | `properties.group.id` | group to which positions are committed as epochs are done; without it none are |
//! | `properties.*` | any other property of librdkafka; has the last word over our defaults |
//! | `format`, or `value.format` | format of the records, with that format's options; `debezium-json`: they are changes of rows |
//! | `scan.startup.mode` | `earliest-offset` (default), `latest-offset`, `group-offsets`, `timestamp`, `specific-offsets` |
//! | `scan.startup.timestamp-millis` | for `timestamp`: the first record written at or after this time |
//! | `scan.startup.specific-offsets` | `partition:0,offset:42;...` |
//! | `scan.bounded.mode`, `scan.bounded.*` | `unbounded` (default), or where the table ends: one of these places as it was at the start |
//! | `scan.topic-partition-discovery.interval` | how often new partitions and topics are looked for, default `10 s`; `0`: never |
//! | `connection.timeout` | how long all brokers may be unreachable before the job fails, default `30 s` |
//! | `key.fields`, `key.format` | columns, separated by `;`, that a sink also writes as the record's key |
//! | `sink.partitioner` | `default` (by key, else in turn for some milliseconds each), `fixed`, `round-robin` |
//! | `sink.topic.partitions` | partitions of the topic if the sink has to create it; default: the broker's |
//! | `sink.delivery.timeout` | how long a sink tries to deliver a record, or to commit, before the job fails, default `120 s` |
//! | `sink.delivery-guarantee` | `exactly-once` (default if the job has checkpoints), `at-least-once` |
//! | `sink.buffer-bytes` | memory of a task for records that wait for their checkpoint with exactly once, default `256 mb` |
//!
//! **Reading.** Partitions are assigned by the job, not by a consumer group: partition `p` belongs to task `p
//! % parallelism`. For a pattern, the hash of the topic's name replaces the topic's index. New partitions,
//! and new topics of a pattern, are read from their beginning. A job that resumes from a checkpoint continues
//! at its offsets, whatever `scan.startup.mode` says, and a bounded table keeps its end. Without a
//! checkpoint, a restart with `group-offsets` reads uncommitted records again: at least once. Partitions
//! without a committed position start at the beginning. If a position is no longer in the topic, the job
//! fails rather than skip records. A record without a value (a tombstone) is malformed. Only committed
//! records of transactions are read, unless `properties.isolation.level` says otherwise.
//!
//! **Writing** is at least once, or exactly once if the job has checkpoints and the table does not say
//! otherwise. At least once, an epoch ends when all in-sync replicas have acknowledged its records. A task
//! has about one request per partition under way, and queues 16 MB of further records. Exactly once, records
//! are held until their checkpoint is complete and then written in one transaction: readers of committed
//! records see them once, as soon as the brokers have marked the transaction in every partition. At an eighth
//! of `sink.buffer-bytes` the sink requests a checkpoint. At half of it the job's sources wait until a
//! checkpoint is committed. A topic that does not exist is created.
//!
//! **Outages.** At the start a broker must answer within 10 s, or within `connection.timeout` if the table
//! sets it. Later the client reconnects by itself, until all brokers have been unreachable for
//! `connection.timeout` (reading) or a record or a commit has waited for `sink.delivery.timeout` (writing).

mod attached;
mod client;
mod commits;
mod content;
mod create;
mod exact;
mod held;
mod key;
mod loss;
mod metadata;
mod native;
mod outage;
mod partition;
mod places;
mod position;
mod records;
mod security;
mod sink;
mod slots;
mod source;
mod start;
mod subscription;
mod table;
mod topic_id;
mod topics;
mod transaction;
mod upsert;
mod versions;
mod watch;
mod window;

use anabranch_dataflow::{Changes, ConnectorSpec, SinkSpec, SourceSpec, TableTraits, Updates, Versions};
use anabranch_model::{Error, Result};
use anabranch_operators::{Connector, Delivery, Positions, Sink, Source, TaskContext};
use arrow::datatypes::SchemaRef;

use self::content::ValueFormat;
use self::exact::{Committer, ExactSink};
use self::key::KeyEncoder;
use self::metadata::RowReader;
use self::places::Bound;
use self::records::Records;
use self::sink::KafkaSink;
use self::source::KafkaSource;
use self::table::Table;
pub use self::upsert::UpsertKafkaConnector;
use self::versions::RecordKey;
use crate::Options;
use crate::guarantee::{Guarantee, no_checkpoints};

/// Reads and writes topics of Apache Kafka.
#[derive(Clone, Copy, Debug, Default)]
pub struct KafkaConnector;

/// Reads all options of a table; an unknown one is an error.
fn parse(spec: &ConnectorSpec) -> Result<(Table, ValueFormat)> {
    let mut options = Options::new(spec);
    let mut table = Table::parse(&mut options)?;
    let content = ValueFormat::read(&mut options)?;
    options.finish()?;
    table.updates = content.has_changes();
    if table.without_key && content.has_changes() {
        return Err(Error::user("'value.fields-include' is 'EXCEPT_KEY', but a change has all columns of its row")
            .remedy("omit the option"));
    }
    Ok((table, content))
}

/// Opens a writer of records, with the guarantee that the table and the job require.
fn open_sink(table: Table, spec: &SinkSpec, records: Records, context: &TaskContext) -> Result<Box<dyn Sink>> {
    table.notify(context, false);
    Ok(match (&context.delivery, table.guarantee) {
        (Delivery::AtLeastOnce, Some(Guarantee::ExactlyOnce)) => return Err(no_checkpoints()),
        (Delivery::AtLeastOnce, _) => Box::new(KafkaSink::open(table, records, context, None)?) as Box<dyn Sink>,
        (Delivery::ExactlyOnce { .. }, Some(Guarantee::AtLeastOnce)) => {
            let committer = Committer::new(table.clone(), &spec.table, context);
            Box::new(KafkaSink::open(table, records, context, Some(committer))?)
        }
        (Delivery::ExactlyOnce { .. }, _) => Box::new(ExactSink::open(table, &spec.table, records, context)?),
    })
}

impl Connector for KafkaConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let (table, content) = parse(spec)?;
        if !columns.fields().is_empty() {
            if !table.without_key {
                content.check(columns)?;
            }
            KeyEncoder::new(&table, columns)?;
        }
        Ok(TableTraits {
            bounded: table.end.is_some(),
            readable: true,
            writable: table.single_topic().is_ok(),
            max_readers: None,
            schema: None,
            metadata: Some(if content.has_changes() { metadata::known_of_changes() } else { metadata::known() }),
            written_metadata: attached::WRITTEN,
            versions: content.has_changes().then_some(Versions { order: metadata::ORDER, deleted: metadata::DELETED }),
            changes: content.has_changes().then_some(Changes {
                weight: metadata::WEIGHT,
                kept: metadata::KEPT,
                begins_later: (table.startup != Bound::Earliest).then_some("scan.startup.mode"),
            }),
            updates: if content.has_changes() { Updates::Written } else { Updates::Refused },
            ignores_epochs: table.guarantee != Some(Guarantee::AtLeastOnce),
            ..TableTraits::default()
        })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let open = || {
            let (table, content) = parse(&spec.connector)?;
            let of_key = |name: &String| key::column(&spec.declared, name);
            let columns = table.key_fields.iter().map(of_key).collect::<Result<Vec<_>>>()?;
            let key = table.without_key.then(|| RecordKey::new(&table, &spec.declared, columns, false)).transpose()?;
            let rows = RowReader::new(&content, spec, key.as_ref())?;
            Ok(Box::new(KafkaSource::open(table, &spec.table, rows, context, from)?) as Box<dyn Source>)
        };
        open().map_err(|error: Error| error.at(format!("table {}", spec.table)))
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let open = || {
            let (table, content) = parse(&spec.connector)?;
            let records = Records::new(&table, &content, spec)?;
            open_sink(table, spec, records, context)
        };
        open().map_err(|error: Error| error.at(format!("table {}", spec.table)))
    }
}
