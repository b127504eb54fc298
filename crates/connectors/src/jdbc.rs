//! Tables of PostgreSQL, written, or read once, with the options of Flink's connector of this name.
//!
//! Rows are written by `COPY`, many at a time. In a table without a primary key each row is inserted. With a
//! primary key, rows go to a temporary table first. From there, two statements insert, update or delete the
//! latest row of each key. They process keys in order, so that tasks cannot deadlock.
//!
//! At least once, rows are written when there are enough of them, when the input pauses, and at the end of
//! each epoch. Exactly once, a task holds the rows of a checkpoint in the text format of `COPY`, and they are
//! part of the checkpoint. When it is complete, one transaction writes them, together with the number of the
//! epoch in the table `anabranch_commits`, in the same schema. A repeated commit finds that number and does
//! nothing. Prepared transactions of the database are not used: most servers do not allow them, and an
//! abandoned one keeps its locks.

mod attempts;
mod cells;
mod content;
mod failure;
mod identity;
mod lookup;
mod options;
mod session;
mod sink;
mod source;
mod target;
mod tls;
mod url;
mod writer;

use anabranch_dataflow::{
    ConnectorSpec, LookupCache, LookupJoinSpec, Lookups, SinkSpec, SourceSpec, TableTraits, Updates,
};
use anabranch_model::{Error, Result};
use anabranch_operators::{Connector, Delivery, Lookup, LookupContext, Positions, Sink, Source, TaskContext};
use arrow::datatypes::SchemaRef;

use self::cells::check_column;
use self::options::JdbcTable;
use self::sink::{ExactJdbcSink, JdbcSink};
use self::source::JdbcSource;
use self::writer::Writer;
use crate::guarantee::{self, Guarantee, no_checkpoints};
use crate::lookup::{ByKey, Whole};

/// Writes and reads tables of PostgreSQL.
#[derive(Clone, Copy, Debug, Default)]
pub struct JdbcConnector;

impl Connector for JdbcConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let table = JdbcTable::read(spec)?;
        columns.fields().iter().try_for_each(|field| check_column(field))?;
        Ok(TableTraits {
            bounded: true,
            readable: true,
            writable: true,
            max_readers: Some(table.ranges.as_ref().map_or(1, |ranges| ranges.bounds.len() as u32)),
            updates: Updates::UpsertedByKey,
            lookups: Lookups::ByKey,
            visibility: guarantee::visibility(table.guarantee),
            ..TableTraits::default()
        })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let open = || {
            let table = JdbcTable::read(&spec.connector)?;
            Ok(Box::new(JdbcSource::open(&table, spec, context, from)?) as Box<dyn Source>)
        };
        open().map_err(|error: Error| error.at(format!("table {}", spec.table)))
    }

    fn lookup(&self, spec: &LookupJoinSpec, context: &LookupContext) -> Result<Box<dyn Lookup>> {
        if matches!(spec.cache, LookupCache::Full { .. }) {
            let open = |spec: &SourceSpec, task: &TaskContext| JdbcConnector.source(spec, task, None);
            return Ok(Box::new(Whole::open(spec, context, Box::new(open))?));
        }
        let table = JdbcTable::read(&spec.table.connector)?;
        Ok(Box::new(ByKey::open(spec, context, lookup::calling(table, spec, context)?)?))
    }

    fn sink(&self, spec: &SinkSpec, context: &TaskContext) -> Result<Box<dyn Sink>> {
        let open = || {
            let table = JdbcTable::read(&spec.connector)?;
            let guarantee = table.guarantee;
            let writer = Writer::open(table, spec, context)?;
            Ok(match (&context.delivery, guarantee) {
                (Delivery::AtLeastOnce, Some(Guarantee::ExactlyOnce)) => return Err(no_checkpoints()),
                (Delivery::ExactlyOnce { .. }, None | Some(Guarantee::ExactlyOnce)) => {
                    Box::new(ExactJdbcSink::new(writer, spec, context)) as Box<dyn Sink>
                }
                _ => Box::new(JdbcSink::new(writer, spec)),
            })
        };
        open().map_err(|error: Error| error.at(format!("table {}", spec.table)))
    }
}
