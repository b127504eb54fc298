//! Debezium's JSON: each record is a change of a row, with the row before and after it.
//!
//! A record is `{"before": row, "after": row, "op": "c"}`, with `c` and `r` for a row that comes, `u` for one that changes and `d` for one that goes.
//! Reading gives rows with weights: what comes has 1, what goes has -1. Writing does the reverse, as Flink does: a change is a `d` and a `c`.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, StringViewArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{filter, interleave, is_not_null};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};

use super::json::{JsonDecoder, JsonEncoder, JsonOptions, TimestampFormat};
use super::options::FormatOptions;
use super::{Decode, Encode, projected};
use crate::Options;

/// The format's name.
pub(crate) const NAME: &str = "debezium-json";

/// The options of the format.
#[derive(Clone, Debug, Default)]
pub(crate) struct DebeziumOptions {
    /// A record has a schema beside its content.
    has_schema: bool,
    json: JsonOptions,
}

/// Decodes changes.
pub(crate) struct DebeziumDecoder {
    json: JsonDecoder,
    has_schema: bool,
    /// Number of columns that are wanted.
    columns: usize,
}

/// Decoded changes: rows, and of each its weight and the record that it is from.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) weights: Vec<i64>,
    pub(crate) records: Vec<usize>,
    /// Records that are no changes, with their errors.
    pub(crate) malformed: Vec<(usize, String)>,
}

/// Encodes changes.
pub(crate) struct DebeziumEncoder {
    json: JsonEncoder,
    envelope: SchemaRef,
    row: Fields,
}

impl DebeziumOptions {
    /// Reads the options of the format.
    pub(crate) fn read(options: &mut Options<'_>, of: &str) -> Result<DebeziumOptions> {
        let mut options = FormatOptions::new(options, NAME, of);
        let has_schema = options.boolean("schema-include")?.unwrap_or(false);
        let timestamp_format = options.choice(&["timestamp-format.standard"], &TimestampFormat::WORDS)?;
        options.json()?;
        // Changes with an error are left out as a whole, as the planner has read.
        options.ignore_errors()?;
        let json = JsonOptions { timestamp_format: timestamp_format.unwrap_or_default(), ignores_errors: false };
        Ok(DebeziumOptions { has_schema, json })
    }

    /// A decoder of the columns `projection` of `declared`.
    pub(crate) fn decoder(&self, declared: &SchemaRef, projection: &[usize]) -> Result<DebeziumDecoder> {
        // A row of no columns says nothing about whether there is one.
        let one = if projection.is_empty() { &[0][..] } else { projection };
        let row = projected(declared, one).map_err(|_| no_columns())?.fields().clone();
        let envelope = envelope(&row);
        let schema = match self.has_schema {
            true => Schema::new(vec![Field::new("payload", DataType::Struct(envelope.fields().clone()), true)]),
            false => envelope,
        };
        let json = JsonDecoder::new(Arc::new(schema), &self.json)?;
        Ok(DebeziumDecoder { json, has_schema: self.has_schema, columns: projection.len() })
    }

    /// An encoder of rows with these columns.
    pub(crate) fn encoder(&self, schema: &SchemaRef) -> Result<DebeziumEncoder> {
        if self.has_schema {
            return Err(Error::user(
                "option 'debezium-json.schema-include' is 'true', but records are written without a schema",
            )
            .remedy("omit the option, and declare another table for reading with it"));
        }
        let row = schema.fields().clone();
        let envelope = Arc::new(envelope(&row));
        let json = JsonEncoder::new(&envelope)?.with_timestamp_format(self.json.timestamp_format);
        Ok(DebeziumEncoder { json, envelope, row })
    }
}

fn envelope(row: &Fields) -> Schema {
    let row = |name| Field::new(name, DataType::Struct(row.clone()), true);
    Schema::new(vec![row("before"), row("after"), Field::new("op", DataType::Utf8View, true)])
}

fn no_columns() -> Error {
    Error::user("the format 'debezium-json' needs a column that is no metadata")
        .remedy("declare the columns of the rows")
}

impl DebeziumDecoder {
    /// Decodes an array of records. One without a value follows one that deletes its row, and says nothing.
    pub(crate) fn decode(&mut self, records: &BinaryArray) -> Result<Changes> {
        let given: Vec<usize> = (0..records.len()).filter(|index| records.is_valid(*index)).collect();
        let decoded = match given.len() == records.len() {
            true => self.json.decode(records)?,
            false => self.json.decode(filter(records, &is_not_null(records)?)?.as_binary::<i32>())?,
        };
        let mut bad = decoded.malformed.into_iter().peekable();
        let mut changes =
            Changes { columns: Vec::new(), weights: Vec::new(), records: Vec::new(), malformed: Vec::new() };
        let change = Change::of(&decoded.batch, self.has_schema);
        // Which of the two rows, and in which place, each row is.
        let mut places = Vec::with_capacity(decoded.batch.num_rows());
        let mut place = 0;
        for (nth, record) in given.into_iter().enumerate() {
            if let Some((_, error)) = bad.next_if(|(bad, _)| *bad == nth) {
                changes.malformed.push((record, error));
                continue;
            }
            match change.weights(place) {
                Ok(weights) => {
                    for (side, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0) {
                        places.push((side, place));
                        changes.weights.push(*weight);
                        changes.records.push(record);
                    }
                }
                Err(error) => changes.malformed.push((record, error)),
            }
            place += 1;
        }
        let columns = (0..self.columns).map(|column| {
            let sides = [change.before.column(column).as_ref(), change.after.column(column).as_ref()];
            Ok(interleave(&sides, &places)?)
        });
        changes.columns = columns.collect::<Result<_>>()?;
        Ok(changes)
    }
}

/// The parts of decoded records.
struct Change<'a> {
    before: &'a StructArray,
    after: &'a StructArray,
    op: &'a StringViewArray,
}

impl<'a> Change<'a> {
    fn of(batch: &'a RecordBatch, has_schema: bool) -> Change<'a> {
        let parts = if has_schema { batch.column(0).as_struct().columns() } else { batch.columns() };
        Change { before: parts[0].as_struct(), after: parts[1].as_struct(), op: parts[2].as_string_view() }
    }

    /// The weights of the rows before and after a change; 0 if it has no such row.
    fn weights(&self, place: usize) -> Result<[i64; 2], String> {
        let op = self.op.is_valid(place).then(|| self.op.value(place));
        let weights = match op {
            Some("c" | "r") => [0, 1],
            Some("u") => [-1, 1],
            Some("d") => [-1, 0],
            Some(other) => return Err(format!("\"op\" is {other:?}; known are \"c\", \"r\", \"u\" and \"d\"")),
            None => return Err("it has no \"op\", so it is no change of a row".to_owned()),
        };
        if weights[0] != 0 && self.before.is_null(place) {
            return Err("it has no \"before\": the database must give whole rows (PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL)".to_owned());
        }
        if weights[1] != 0 && self.after.is_null(place) {
            return Err("it has no \"after\"".to_owned());
        }
        Ok(weights)
    }
}

impl DebeziumEncoder {
    /// One record per row; those without a weight, or with one above 0, come.
    pub(crate) fn encode(&mut self, rows: &RecordBatch, weights: Option<&[i64]>) -> Result<BinaryArray> {
        let comes = |row: usize| weights.is_none_or(|weights| weights[row] > 0);
        let side = |of: bool| {
            let nulls: NullBuffer = (0..rows.num_rows()).map(|row| comes(row) == of).collect();
            StructArray::try_new(self.row.clone(), rows.columns().to_vec(), Some(nulls))
        };
        let (before, after) = (side(false)?, side(true)?);
        let op = (0..rows.num_rows()).map(|row| if comes(row) { "c" } else { "d" });
        let op = StringViewArray::from_iter_values(op);
        let columns: Vec<ArrayRef> = vec![Arc::new(before), Arc::new(after), Arc::new(op)];
        self.json.encode(&RecordBatch::try_new(Arc::clone(&self.envelope), columns)?)
    }
}

#[cfg(test)]
mod tests;
