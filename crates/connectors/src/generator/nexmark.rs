//! Nexmark: an auction site's persons, auctions and bids, with the proportions, the skew and the identifiers
//! of the benchmark's usual generator. Of 50 consecutive events the first is a person, the next 3 are
//! auctions, and 46 are bids.
//!
//! Without `'table'` the events are rows of one table with the structs `person`, `auction` and `bid`, one of
//! which is set in each row. With `'table' = 'bid'`, for example, a table has the events of one kind, as flat
//! columns. `'rows-per-second'` and `'number-of-rows'` always count events of all kinds, so that tables with
//! the same options belong together: a bid of one refers to an auction of another, at a matching time.
//!
//! The table of all kinds also takes the options of the generator that the Nexmark project publishes for
//! Flink.

mod events;
mod names;
mod options;
mod tables;

use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits};
use anabranch_model::{PartitionId, Result};
use anabranch_operators::{Connector, Positions, Rows, Source, TaskContext};
use arrow::datatypes::SchemaRef;

use super::paced::PacedSource;
use super::{Generate, Request};
use crate::columns::{conform, match_columns};
use crate::format::{batch, source_schema};

use events::{Events, Shape};
use options::read;
use tables::{EventKind, Places, Texts, all_kinds_columns, all_kinds_fields, all_kinds_schema};

/// The tables of Nexmark.
#[derive(Debug, Default)]
pub struct NexmarkConnector;

fn schema_of(kind: Option<EventKind>) -> SchemaRef {
    kind.map_or_else(all_kinds_schema, EventKind::schema)
}

impl Connector for NexmarkConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let table = read(spec)?;
        let schema = schema_of(table.kind);
        match_columns(&schema, columns, "nexmark")?;
        Ok(TableTraits { row_fields: table.kind.is_none(), ..table.load.traits(schema) })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let table = read(&spec.connector)?;
        let schema = source_schema(spec)?;
        let known = table.kind.map_or_else(all_kinds_fields, EventKind::schema);
        let columns = match_columns(&known, &schema, "nexmark")?;
        let (kind, shape, seed) = (table.kind, table.shape, table.load.seed);
        let generator = Nexmark { kind, shape, seed, schema, columns, texts: Texts::new() };
        Ok(Box::new(PacedSource::open(generator, table.load, &spec.table, context, from)?))
    }
}

struct Nexmark {
    kind: Option<EventKind>,
    shape: Shape,
    seed: u64,
    schema: SchemaRef,
    /// Index among all columns of each column of `schema`.
    columns: Vec<usize>,
    texts: Texts,
}

impl Generate for Nexmark {
    fn generate(&mut self, request: &Request) -> Result<Rows> {
        let events = Events::new(self.seed, self.shape.clone(), request.timeline);
        let numbers: Vec<u64> = request.rows().map(|row| self.event_of_row(row)).collect();
        let arrays = match self.kind {
            Some(kind) => kind.columns(&events, &self.texts, &Places::dense(numbers), &self.columns),
            None => all_kinds_columns(&events, &self.texts, &self.shape, &numbers, &self.columns)?,
        };
        let arrays = arrays.into_iter().zip(self.schema.fields()).map(|(array, field)| conform(array, field));
        let batch = batch(&self.schema, arrays.collect::<Result<_>>()?, request.count)?;
        Ok(Rows { partition: PartitionId(request.partition), batch, malformed: Vec::new() })
    }

    fn event_of_row(&self, row: u64) -> u64 {
        self.kind.map_or(row, |kind| kind.event_of_row(row, &self.shape))
    }

    fn rows_within(&self, events: u64) -> u64 {
        self.kind.map_or(events, |kind| kind.rows_within(events, &self.shape))
    }
}

#[cfg(test)]
mod tests;
