//! Topics of Apache Kafka as tables. docs/connectors.md describes options, delivery, outages, and topics that
//! are deleted.
//!
//! Partitions are assigned by the job, not by a consumer group: partition `p` of a topic belongs to task
//! `(first + p) % parallelism`. `first` follows from the topic's index in the table or, for a pattern, from
//! the hash of the topic's name. `source` reads them, `sink` writes at least once, and `exact` exactly once,
//! by a `transaction` for each checkpoint.

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
use crate::guarantee::{self, Guarantee, no_checkpoints};

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
            visibility: guarantee::visibility(table.guarantee),
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
