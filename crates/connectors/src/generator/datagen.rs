//! `datagen`: rows of declared columns with random values or sequences, with the options of Flink's connector
//! of this name.
//!
//! A value is a function of the seed, the column's name and the row's number, so it does not depend on the
//! other columns that a query reads. Times are relative to that of the row: the clock when the row is due,
//! minus a random part of `max-past`.

mod fields;
mod values;

use anabranch_dataflow::{ConnectorSpec, SourceSpec, TableTraits};
use anabranch_model::{PartitionId, Result};
use anabranch_operators::{Connector, Positions, Rows, Source, TaskContext};
use arrow::datatypes::SchemaRef;

use super::load::Load;
use super::paced::PacedSource;
use super::{Generate, Request};
use crate::format::{batch, source_schema};

use fields::columns;
pub(super) use fields::{Generated, GeneratedColumn};
use values::generate;
pub(super) use values::{Cells, random};

/// Batches have fewer rows than usual if they would be larger than this.
const BATCH_BYTES: u64 = 8 << 20;

/// Generates rows of any columns.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatagenConnector;

/// The options of a table with these columns.
fn read(spec: &ConnectorSpec, declared: &SchemaRef) -> Result<(Load, Vec<GeneratedColumn>)> {
    let (mut load, of_fields) = Load::of_fields(spec)?;
    let columns = columns(declared, of_fields, load.seed)?;
    // The table ends with the shortest of its sequences.
    let ends = columns.iter().filter_map(|column| column.values_max);
    load.events = ends.chain(load.events).min();
    Ok((load, columns))
}

impl Connector for DatagenConnector {
    fn describe(&self, spec: &ConnectorSpec, columns: &SchemaRef) -> Result<TableTraits> {
        let (load, _) = read(spec, columns)?;
        Ok(TableTraits { schema: None, ..load.traits(columns.clone()) })
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let (load, columns) = read(&spec.connector, &spec.declared)?;
        open(&columns, load, spec, context, from)
    }
}

/// Reads a table with these columns.
pub(super) fn open(
    columns: &[GeneratedColumn],
    load: Load,
    spec: &SourceSpec,
    context: &TaskContext,
    from: Option<&Positions>,
) -> Result<Box<dyn Source>> {
    let columns: Vec<GeneratedColumn> = spec.projection.iter().map(|column| columns[*column].clone()).collect();
    let row_bytes = columns.iter().map(GeneratedColumn::bytes).fold(1, u64::saturating_add);
    let batch_rows = context.batch_rows.min((BATCH_BYTES / row_bytes).max(1) as usize);
    let generator = Datagen { columns, schema: source_schema(spec)? };
    let context = TaskContext { batch_rows, ..context.clone() };
    Ok(Box::new(PacedSource::open(generator, load, &spec.table, &context, from)?))
}

/// Rows of these columns, for tests.
#[cfg(test)]
pub(super) fn rows(columns: Vec<GeneratedColumn>, schema: SchemaRef, request: &Request) -> Result<Rows> {
    Datagen { columns, schema }.generate(request)
}

struct Datagen {
    columns: Vec<GeneratedColumn>,
    schema: SchemaRef,
}

impl Generate for Datagen {
    fn generate(&mut self, request: &Request) -> Result<Rows> {
        let numbers: Vec<u64> = request.rows().collect();
        let times_ms: Vec<i64> = numbers.iter().map(|row| request.timeline.time_ms(*row)).collect();
        let cells = Cells { numbers, times_ms };
        let arrays = self.columns.iter().map(|column| generate(column, &cells)).collect::<Result<_>>()?;
        let batch = batch(&self.schema, arrays, request.count)?;
        Ok(Rows { partition: PartitionId(request.partition), batch, malformed: Vec::new() })
    }
}

#[cfg(test)]
mod tests;
