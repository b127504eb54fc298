//! `upsert-kafka`: a topic whose records are versions of rows. The key of a record is the primary key of the
//! row, and its value is the row as it is from then on. A record without a value deletes the row. A compacted
//! topic keeps the last version of each row. docs/connectors.md describes the options.

use anabranch_dataflow::{ConnectorSpec, SinkSpec, SourceSpec, TableTraits, Updates, Versions};
use anabranch_model::{Error, Result};
use anabranch_operators::{Connector, Positions, Sink, Source, TaskContext};
use arrow::datatypes::SchemaRef;

use super::attached::WRITTEN;
use super::content::ValueFormat;
use super::metadata::{self, DELETED, ORDER, RowReader};
use super::open_sink;
use super::places::Bound;
use super::records::Records;
use super::source::KafkaSource;
use super::table::Table;
use super::versions::RecordKey;
use crate::Options;
use crate::format::Format;
use crate::guarantee;

/// Reads and writes topics whose records are versions of rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpsertKafkaConnector;

/// Reads all options of a table; an unknown one is an error. `key_fields` stays empty: the columns of the key
/// are the declared primary key.
fn parse(spec: &ConnectorSpec) -> Result<(Table, ValueFormat)> {
    let mut options = Options::new(spec);
    let table = Table::parse_upserted(&mut options)?;
    let format = Format::required(&mut options, "value.format")?;
    // These have no effect: a batch is written when it arrives, with the latest version of each row.
    options.ignore(&["sink.buffer-flush.max-rows", "sink.buffer-flush.interval"]);
    options.finish()?;
    if table.startup != Bound::Earliest {
        return Err(Error::user("option 'scan.startup.mode': a table of 'upsert-kafka' is read from its beginning")
            .remedy("omit the option"));
    }
    Ok((table, ValueFormat::Rows(format)))
}

impl Connector for UpsertKafkaConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let (table, content) = parse(spec)?;
        // With `without_key`, the value leaves out the key columns, which are not known here.
        if !columns.fields().is_empty() && !table.without_key {
            content.check(columns)?;
        }
        Ok(TableTraits {
            bounded: table.end.is_some(),
            readable: true,
            writable: table.single_topic().is_ok(),
            metadata: Some(metadata::known()),
            written_metadata: WRITTEN,
            versions: Some(Versions { order: ORDER, deleted: DELETED }),
            updates: Updates::Upserted,
            visibility: guarantee::visibility(table.guarantee),
            ..TableTraits::default()
        })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let open = || {
            let (table, content) = parse(&spec.connector)?;
            let key = RecordKey::new(&table, &spec.declared, spec.key.clone(), true)?;
            let rows = RowReader::new(&content, spec, Some(&key))?;
            Ok(Box::new(KafkaSource::open(table, &spec.table, rows, context, from)?) as Box<dyn Source>)
        };
        open().map_err(|error: Error| error.at(format!("table {}", spec.table)))
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let open = || {
            let (mut table, content) = parse(&spec.connector)?;
            table.key_fields = spec.key.iter().map(|column| spec.schema.field(*column).name().clone()).collect();
            let records = Records::new(&table, &content, spec)?;
            open_sink(table, spec, records, context)
        };
        open().map_err(|error: Error| error.at(format!("table {}", spec.table)))
    }
}
