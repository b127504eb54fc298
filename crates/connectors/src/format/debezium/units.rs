//! The units of timestamps, as the schema of a record names them.
//!
//! Debezium writes a timestamp as a number of milliseconds (`io.debezium.time.Timestamp`), microseconds
//! (`MicroTimestamp`) or nanoseconds (`NanoTimestamp`). Records that follow each other mostly begin with the
//! same schema, which is then only compared.

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use serde_json::Value;

use crate::format::json::per_second;

/// The unit of a column's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Unit {
    #[default]
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl Unit {
    fn per_second(self) -> i64 {
        match self {
            Unit::Millisecond => 1_000,
            Unit::Microsecond => 1_000_000,
            Unit::Nanosecond => 1_000_000_000,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Millisecond => "milliseconds",
            Unit::Microsecond => "microseconds",
            Unit::Nanosecond => "nanoseconds",
        }
    }
}

/// The units of the needed columns, as the schemas of records name them.
#[derive(Debug)]
pub(super) struct Units {
    /// Names of the columns; empty for columns that are no timestamps.
    columns: Vec<String>,
    /// The beginning of a record, up to the end of its schema, and its units.
    known: Option<(Vec<u8>, Vec<Unit>)>,
}

/// Consecutive records and the units of their columns.
type UnitRun = (Range<usize>, Vec<Unit>);

impl Units {
    /// `None` if no column is a timestamp.
    pub(super) fn new(row: &Fields) -> Option<Units> {
        let is_time = |field: &Arc<Field>| matches!(field.data_type(), DataType::Timestamp(..));
        let name = |field: &Arc<Field>| if is_time(field) { field.name().clone() } else { String::new() };
        let columns = row.iter().map(name).collect();
        row.iter().any(is_time).then_some(Units { columns, known: None })
    }

    /// Divides records into runs with equal units.
    pub(super) fn runs(&mut self, records: &BinaryArray) -> Vec<UnitRun> {
        let mut runs: Vec<UnitRun> = Vec::new();
        for record in 0..records.len() {
            if records.is_null(record) {
                match runs.last_mut() {
                    Some((range, _)) => range.end = record + 1,
                    None => runs.push((record..record + 1, Vec::new())),
                }
                continue;
            }
            let text = records.value(record);
            let is_known = self.known.as_ref().is_some_and(|(begin, _)| text.starts_with(begin));
            let other = if is_known { None } else { Some(self.read(text)) };
            let units = other.as_deref().or(self.known.as_ref().map(|(_, units)| units.as_slice())).unwrap_or_default();
            match runs.last_mut() {
                Some((range, last)) if last == units => range.end = record + 1,
                _ => runs.push((record..record + 1, units.to_vec())),
            }
        }
        runs
    }

    /// The units of a record whose schema differs from the one before. A record that is not JSON has none:
    /// the decoder reports it.
    fn read(&mut self, record: &[u8]) -> Vec<Unit> {
        let first = record.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        let begin = b"{\"schema\":";
        if record[first..].starts_with(begin) {
            let at = first + begin.len();
            let mut values = serde_json::Deserializer::from_slice(&record[at..]).into_iter::<Value>();
            let Some(Ok(schema)) = values.next() else { return Vec::new() };
            let end = at + values.byte_offset();
            let units = self.of_schema(&schema);
            // Includes the next byte, so that a number or word cannot continue.
            let end = (end + 1).min(record.len());
            self.known = Some((record[..end].to_vec(), units.clone()));
            return units;
        }
        let record: Value = serde_json::from_slice(record).unwrap_or_default();
        self.of_schema(&record["schema"])
    }

    fn of_schema(&self, schema: &Value) -> Vec<Unit> {
        let field = |fields: &Value, name: &str| {
            let found = fields["fields"].as_array()?.iter().find(|field| field["field"] == name)?;
            Some(found.clone())
        };
        let rows: Vec<Value> = ["after", "before"].iter().filter_map(|side| field(schema, side)).collect();
        let unit = |column: &String| {
            let name = rows.iter().filter(|_| !column.is_empty()).find_map(|row| field(row, column))?;
            Some(match name["name"].as_str()? {
                "io.debezium.time.MicroTimestamp" => Unit::Microsecond,
                "io.debezium.time.NanoTimestamp" => Unit::Nanosecond,
                _ => Unit::Millisecond,
            })
        };
        self.columns.iter().map(|column| unit(column).unwrap_or_default()).collect()
    }
}

/// The fields of a row, with BIGINT for the columns in other units than milliseconds.
pub(super) fn as_numbers(row: &Fields, units: &[Unit]) -> Fields {
    let field = |(field, unit): (&Arc<Field>, &Unit)| match unit {
        Unit::Millisecond => Arc::clone(field),
        _ => Arc::new(Field::new(field.name(), DataType::Int64, field.is_nullable())),
    };
    row.iter().zip(units).map(field).collect()
}

/// The rows with a time beyond the years 0 to 9999, in their order, with the reasons.
pub(super) fn beyond(sides: &[&StructArray], row: &Fields, units: &[Unit]) -> Vec<(usize, String)> {
    const LEAST_S: i128 = -62_167_219_200;
    const MOST_S: i128 = 253_402_300_800;
    let mut found = Vec::new();
    for (column, unit) in units.iter().enumerate().filter(|(_, unit)| **unit != Unit::Millisecond) {
        let per_second = i128::from(unit.per_second());
        let range = LEAST_S * per_second..MOST_S * per_second;
        for side in sides.iter().filter(|side| side.column(column).data_type() == &DataType::Int64) {
            let values = side.column(column).as_primitive::<Int64Type>();
            let is_wrong = |index: &usize| {
                side.is_valid(*index) && values.is_valid(*index) && !range.contains(&i128::from(values.value(*index)))
            };
            found.extend((0..side.len()).filter(is_wrong).map(|index| {
                let (name, value) = (row[column].name(), values.value(index));
                (index, format!("column '{name}': {value} {} are not in the years 0 to 9999", unit.name()))
            }));
        }
    }
    found.sort();
    found.dedup_by_key(|(index, _)| *index);
    found
}

/// Numbers converted to times.
pub(super) fn to_times(numbers: &ArrayRef, unit: Unit, data_type: &DataType) -> Result<ArrayRef> {
    let DataType::Timestamp(to, _) = data_type else {
        return Err(Error::internal("a unit of a column that is no timestamp"));
    };
    let (from, to) = (unit.per_second(), per_second(*to));
    // Values that do not fit are NULL: only nanoseconds from 1677 to 2262 have a number.
    let times: Int64Array = numbers
        .as_primitive::<Int64Type>()
        .unary_opt(|value| if from >= to { Some(value.div_euclid(from / to)) } else { value.checked_mul(to / from) });
    Ok(cast(&times, data_type)?)
}
