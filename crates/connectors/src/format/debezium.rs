//! Debezium's JSON: each record is a change of a row, with the row before and after it.
//!
//! A record is `{"before": row, "after": row, "op": "c"}`, where `c` and `r` insert a row, `u` updates one
//! and `d` deletes one. Reading gives rows with weights: 1 for an inserted row, -1 for a deleted one, and
//! both for an update. Writing does the reverse, as Flink does: an update is a `d` and a `c`. If rows have a
//! key and are read as versions, an update that keeps the key gives only the new row.
//!
//! Numbers of timestamps are milliseconds. A record with a schema says if a column has other units
//! ([`units`]).

mod units;

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, DynComparator, Int64Array, RecordBatch, StringViewArray, StructArray,
    UInt64Array, make_comparator,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, concat, filter, interleave, is_not_null, take};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use super::json::{JsonDecoder, JsonEncoder, JsonOptions, TimestampFormat};
use super::options::FormatOptions;
use super::{Decode, Encode, map_of_texts, projected};
use crate::Options;
use units::{Unit, Units};

/// The format's name.
pub(crate) const NAME: &str = "debezium-json";

/// The options of the format.
#[derive(Clone, Debug, Default)]
pub(crate) struct DebeziumOptions {
    /// Whether a record has a schema beside its content.
    has_schema: bool,
    json: JsonOptions,
}

/// Decodes changes.
pub(crate) struct DebeziumDecoder {
    json: JsonDecoder,
    options: DebeziumOptions,
    /// The columns that the query needs.
    row: Fields,
    /// The units of the records' numbers, if they have a schema.
    units: Option<Units>,
    /// A decoder of columns in other units than milliseconds.
    in_units: Option<(Vec<Unit>, JsonDecoder)>,
    /// Number of columns that the query needs.
    columns: usize,
    /// The columns of the key, where rows are read as versions.
    key: Vec<usize>,
    /// Whether the query needs metadata of records.
    describes: bool,
}

/// A kind of metadata that a record has beside its row. The names are Flink's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Description {
    IngestionTimestamp,
    /// A property of the row's database: a time for `ts_ms`, otherwise a string.
    Source(&'static str),
    Properties,
}

impl Description {
    pub(crate) const NAMES: [(&str, Description); 6] = [
        ("ingestion-timestamp", Description::IngestionTimestamp),
        ("source.timestamp", Description::Source(TS_MS)),
        ("source.database", Description::Source("db")),
        ("source.schema", Description::Source("schema")),
        ("source.table", Description::Source("table")),
        ("source.properties", Description::Properties),
    ];

    /// The type of its column.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Description::IngestionTimestamp | Description::Source(TS_MS) => {
                DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
            }
            Description::Source(_) => DataType::Utf8View,
            Description::Properties => map_of_texts(DataType::Utf8View),
        }
    }
}

/// The field of an envelope, and of its source, with a time in milliseconds.
const TS_MS: &str = "ts_ms";

/// Decoded changes: rows, each with its weight and its record.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) weights: Vec<i64>,
    pub(crate) records: Vec<usize>,
    /// The metadata of each row's record, if the query needs it.
    pub(crate) described: Option<Described>,
    /// Records that are no changes, with their errors.
    pub(crate) malformed: Vec<(usize, String)>,
}

/// The time of each row's record, and the properties of the database that it is from.
#[derive(Debug)]
pub(crate) struct Described {
    ts_ms: ArrayRef,
    source: ArrayRef,
}

impl Changes {
    /// Concatenates the changes of consecutive records.
    fn together(all: Vec<Changes>) -> Result<Changes> {
        let joined = |arrays: Vec<&dyn Array>| Ok::<_, Error>(concat(&arrays)?);
        let count = all.first().map_or(0, |changes| changes.columns.len());
        let columns = (0..count).map(|column| joined(all.iter().map(|c| c.columns[column].as_ref()).collect()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let described: Option<Vec<&Described>> = all.iter().map(|changes| changes.described.as_ref()).collect();
        let described = match described {
            None => None,
            Some(parts) => Some(Described {
                ts_ms: joined(parts.iter().map(|part| part.ts_ms.as_ref()).collect())?,
                source: joined(parts.iter().map(|part| part.source.as_ref()).collect())?,
            }),
        };
        let mut changes =
            Changes { columns, weights: Vec::new(), records: Vec::new(), described, malformed: Vec::new() };
        for part in all {
            changes.weights.extend(part.weights);
            changes.records.extend(part.records);
            changes.malformed.extend(part.malformed);
        }
        Ok(changes)
    }
}

impl Described {
    /// A column of [`Description::data_type`].
    pub(crate) fn column(&self, what: Description) -> Result<ArrayRef> {
        let name = match what {
            Description::IngestionTimestamp => return Ok(cast(&self.ts_ms, &what.data_type())?),
            Description::Properties => return Ok(Arc::clone(&self.source)),
            Description::Source(name) => name,
        };
        let source = self.source.as_map();
        let (names, values) = (source.keys().as_string_view(), source.values().as_string_view());
        let of_row = |row: usize| {
            let range = source.value_offsets()[row] as usize..source.value_offsets()[row + 1] as usize;
            let entry = range.into_iter().find(|entry| names.value(*entry) == name)?;
            (source.is_valid(row) && values.is_valid(entry)).then(|| values.value(entry))
        };
        let texts = (0..source.len()).map(of_row);
        Ok(match name {
            TS_MS => {
                let times = texts.map(|text| text?.parse().ok()).collect::<Int64Array>();
                cast(&(Arc::new(times) as ArrayRef), &what.data_type())?
            }
            _ => Arc::new(texts.collect::<StringViewArray>()),
        })
    }
}

/// Encodes changes.
pub(crate) struct DebeziumEncoder {
    json: JsonEncoder,
    envelope: SchemaRef,
    row: Fields,
}

impl DebeziumOptions {
    /// Reads the options of the format.
    pub(crate) fn read(options: &mut Options<'_>, format: &str) -> Result<DebeziumOptions> {
        let mut options = FormatOptions::new(options, NAME, format);
        let has_schema = options.boolean("schema-include")?.unwrap_or(false);
        let timestamp_format = options.choice(&["timestamp-format.standard"], &TimestampFormat::WORDS)?;
        options.json()?;
        // The planner reads this option: changes with an error are left out as a whole.
        options.ignore_errors()?;
        let json = JsonOptions { timestamp_format: timestamp_format.unwrap_or_default(), ignores_errors: false };
        Ok(DebeziumOptions { has_schema, json })
    }

    /// A decoder of the columns `projection` of `declared`. `key`: the columns of the key, if rows are read
    /// as versions.
    pub(crate) fn decoder(
        &self,
        declared: &SchemaRef,
        projection: &[usize],
        key: Vec<usize>,
        describes: bool,
    ) -> Result<DebeziumDecoder> {
        // Without a column, it would be unknown whether a row is NULL.
        let one = if projection.is_empty() { &[0][..] } else { projection };
        let row = projected(declared, one).map_err(|_| no_columns())?.fields().clone();
        let json = self.json_decoder(&row, describes)?;
        let units = if self.has_schema { Units::new(&row) } else { None };
        let (options, columns) = (self.clone(), projection.len());
        Ok(DebeziumDecoder { json, options, row, units, in_units: None, columns, key, describes })
    }

    fn json_decoder(&self, row: &Fields, describes: bool) -> Result<JsonDecoder> {
        let mut envelope = envelope(row);
        if describes {
            let more = [
                Field::new(TS_MS, DataType::Int64, true),
                Field::new("source", Description::Properties.data_type(), true),
            ];
            let fields = envelope.fields().iter().cloned().chain(more.map(Arc::new));
            envelope = Schema::new(fields.collect::<Vec<_>>());
        }
        let schema = match self.has_schema {
            true => Schema::new(vec![Field::new("payload", DataType::Struct(envelope.fields().clone()), true)]),
            false => envelope,
        };
        JsonDecoder::new(Arc::new(schema), &self.json)
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
    /// Decodes an array of records. A record without a value (a tombstone) follows a deletion, and is
    /// skipped.
    pub(crate) fn decode(&mut self, records: &BinaryArray) -> Result<Changes> {
        let Some(units) = &mut self.units else { return self.decode_in(&[], records) };
        let mut runs = units.runs(records);
        if runs.len() <= 1 {
            let (_, units) = runs.pop().unwrap_or_default();
            return self.decode_in(&units, records);
        }
        let mut all = Vec::with_capacity(runs.len());
        for (range, units) in runs {
            let first = range.start;
            let mut changes = self.decode_in(&units, &records.slice(first, range.len()))?;
            changes.records.iter_mut().for_each(|record| *record += first);
            changes.malformed.iter_mut().for_each(|(record, _)| *record += first);
            all.push(changes);
        }
        Changes::together(all)
    }

    /// Decodes records whose columns have these units; none means milliseconds.
    fn decode_in(&mut self, units: &[Unit], records: &BinaryArray) -> Result<Changes> {
        let is_plain = units.iter().all(|unit| *unit == Unit::Millisecond);
        if !is_plain && self.in_units.as_ref().is_none_or(|(known, _)| known != units) {
            let row = units::as_numbers(&self.row, units);
            self.in_units = Some((units.to_vec(), self.options.json_decoder(&row, self.describes)?));
        }
        let json = match &mut self.in_units {
            Some((_, json)) if !is_plain => json,
            _ => &mut self.json,
        };
        let given: Vec<usize> = (0..records.len()).filter(|index| records.is_valid(*index)).collect();
        let decoded = match given.len() == records.len() {
            true => json.decode(records)?,
            false => json.decode(filter(records, &is_not_null(records)?)?.as_binary::<i32>())?,
        };
        let mut bad = decoded.malformed.into_iter().peekable();
        let (columns, weights, records) = Default::default();
        let mut changes = Changes { columns, weights, records, described: None, malformed: Vec::new() };
        let change = Change::new(&decoded.batch, self.options.has_schema, &self.key)?;
        let mut beyond =
            if is_plain { Vec::new() } else { units::beyond(&[change.before, change.after], &self.row, units) };
        let mut beyond = beyond.drain(..).peekable();
        // For each row of the result: 0 for the row before or 1 for the row after, and its index in the
        // decoded batch.
        let mut picked = Vec::with_capacity(decoded.batch.num_rows());
        let mut row = 0;
        for (nth, record) in given.into_iter().enumerate() {
            if let Some((_, error)) = bad.next_if(|(bad, _)| *bad == nth) {
                changes.malformed.push((record, error));
                continue;
            }
            let weights = match beyond.next_if(|(bad, _)| *bad == row) {
                Some((_, error)) => Err(error),
                None => change.weights(row),
            };
            match weights {
                Ok(weights) => {
                    for (side, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0) {
                        picked.push((side, row));
                        changes.weights.push(*weight);
                        changes.records.push(record);
                    }
                }
                Err(error) => changes.malformed.push((record, error)),
            }
            row += 1;
        }
        let columns = (0..self.columns).map(|column| {
            let sides = [change.before.column(column).as_ref(), change.after.column(column).as_ref()];
            let column_of = interleave(&sides, &picked)?;
            match units.get(column) {
                None | Some(Unit::Millisecond) => Ok(column_of),
                Some(unit) => units::to_times(&column_of, *unit, self.row[column].data_type()),
            }
        });
        changes.columns = columns.collect::<Result<_>>()?;
        if let (true, [.., ts_ms, source]) = (self.describes, change.parts) {
            let rows: UInt64Array = picked.iter().map(|(_, index)| *index as u64).collect::<Vec<_>>().into();
            changes.described =
                Some(Described { ts_ms: take(ts_ms, &rows, None)?, source: take(source, &rows, None)? });
        }
        Ok(changes)
    }
}

/// The columns of decoded records.
struct Change<'a> {
    parts: &'a [ArrayRef],
    before: &'a StructArray,
    after: &'a StructArray,
    op: &'a StringViewArray,
    /// For each column of the key: compares the rows before and after. `None`: rows are not versions.
    keys: Vec<DynComparator>,
}

impl<'a> Change<'a> {
    fn new(batch: &'a RecordBatch, has_schema: bool, key: &[usize]) -> Result<Change<'a>> {
        let parts = if has_schema { batch.column(0).as_struct().columns() } else { batch.columns() };
        let (before, after) = (parts[0].as_struct(), parts[1].as_struct());
        let compares =
            |column: &usize| make_comparator(before.column(*column), after.column(*column), Default::default());
        let keys = key.iter().map(compares).collect::<Result<_, _>>()?;
        Ok(Change { parts, before, after, op: parts[2].as_string_view(), keys })
    }

    /// Whether a version replaces the one before: its key is the same, or is not known to have changed.
    fn replaces(&self, row: usize) -> bool {
        let is_same = || self.keys.iter().all(|compare| compare(row, row).is_eq());
        !self.keys.is_empty() && (self.before.is_null(row) || is_same())
    }

    /// The weights of the rows before and after a change; 0 if it has no such row.
    fn weights(&self, row: usize) -> Result<[i64; 2], String> {
        let op = self.op.is_valid(row).then(|| self.op.value(row));
        let weights = match op {
            Some("c" | "r") => [0, 1],
            Some("u") if self.replaces(row) => [0, 1],
            Some("u") => [-1, 1],
            Some("d") => [-1, 0],
            Some(other) => return Err(format!("\"op\" is {other:?}; known are \"c\", \"r\", \"u\" and \"d\"")),
            None => return Err("it has no \"op\", so it is no change of a row".to_owned()),
        };
        if weights[0] != 0 && self.before.is_null(row) {
            return Err("it has no \"before\": the database must give whole rows (PostgreSQL: ALTER TABLE ... REPLICA IDENTITY FULL)".to_owned());
        }
        if weights[1] != 0 && self.after.is_null(row) {
            return Err("it has no \"after\"".to_owned());
        }
        Ok(weights)
    }
}

impl DebeziumEncoder {
    /// One record per row. Without a weight, or with one above 0, the row is inserted.
    pub(crate) fn encode(&mut self, rows: &RecordBatch, weights: Option<&[i64]>) -> Result<BinaryArray> {
        let is_insert = |row: usize| weights.is_none_or(|weights| weights[row] > 0);
        let side = |wanted: bool| {
            let nulls: NullBuffer = (0..rows.num_rows()).map(|row| is_insert(row) == wanted).collect();
            StructArray::try_new(self.row.clone(), rows.columns().to_vec(), Some(nulls))
        };
        let (before, after) = (side(false)?, side(true)?);
        let op = (0..rows.num_rows()).map(|row| if is_insert(row) { "c" } else { "d" });
        let op = StringViewArray::from_iter_values(op);
        let columns: Vec<ArrayRef> = vec![Arc::new(before), Arc::new(after), Arc::new(op)];
        self.json.encode(&RecordBatch::try_new(Arc::clone(&self.envelope), columns)?)
    }
}

#[cfg(test)]
mod tests;
