//! Snapshots: a table of the rows of each side, with their numbers if they have them, their weights, and the numbers of their matches.

use std::sync::Arc;

use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, TimestampMillisecondType};

use super::Tables;
use super::expiry::Expiry;
use super::kept::numbers_of_content;
use super::side::{Own, Side};
use crate::hash_keys;
use crate::keyed_state::{Part, TimeToLive, check_columns, number, numbers, without_times};
use crate::operator::{StateChange, StateShape};

/// Column of the numbers of rows.
const ROW: &str = "$row";

impl Tables {
    pub(crate) fn shapes(&self) -> Vec<StateShape> {
        let shape = |side: &Side| {
            let numbers = side.rows.is_numbered().then_some(ROW).into_iter().chain(["$weight", "$matches"]);
            let numbers = numbers.map(number).chain(side.times.as_ref().map(|_| TimeToLive::field()));
            let fields: Vec<Field> = side.fields.iter().cloned().chain(numbers).chain([number("$snapshot")]).collect();
            let (schema, keys) = (Arc::new(Schema::new(fields)), 0..self.key_types.len());
            // A run on the disk has rows of any time.
            let pane = side.expiry.as_ref().filter(|_| self.disk.is_none()).map(Expiry::time_column);
            StateShape { table: side.table.clone(), schema, keys, pane }
        };
        self.sides.iter().map(shape).collect()
    }

    pub(crate) fn take_snapshot(&mut self, adds: bool, watermark: EventTime) -> Result<Vec<StateChange>> {
        let (complete, part, runs) = self.snapshots.begin(self.disk.as_mut(), adds)?;
        let tables = self.take_rows(part)?;
        self.snapshots.emitted(complete, tables.iter().map(RecordBatch::num_rows).sum());
        let mut changes = StateChange::of_tables(tables, complete, runs);
        for (change, side) in changes.iter_mut().zip(&self.sides) {
            // A snapshot that only adds keeps all files.
            let expiry = side.expiry.as_ref().filter(|_| !adds);
            change.first_pane = expiry.map_or(EventTime::MIN, |expiry| expiry.first_time(watermark));
        }
        Ok(changes)
    }

    /// Takes rows of each side, as those of a new snapshot.
    pub(super) fn take_rows(&mut self, part: Part) -> Result<Vec<RecordBatch>> {
        self.snapshots.number += 1;
        let (shapes, number) = (self.shapes(), self.snapshots.number);
        let mut tables = Vec::new();
        for (at, shape) in shapes.into_iter().enumerate() {
            let ids = self.sides[at].take(part);
            let mut columns = self.columns_of(at, &ids)?;
            let side = &self.sides[at];
            columns.extend(side.rows.numbers_of(&ids));
            let matches = |id: &usize| side.matches.get(*id).copied().unwrap_or(0);
            columns.extend([
                Arc::new(ids.iter().map(|id| side.weight(*id)).collect::<Int64Array>()) as ArrayRef,
                Arc::new(ids.iter().map(matches).collect::<Int64Array>()),
            ]);
            columns.extend(side.times.as_ref().map(|times| times.times_of(&ids)));
            columns.push(Arc::new(Int64Array::from(vec![number; ids.len()])));
            tables.push(RecordBatch::try_new(shape.schema, columns)?);
        }
        Ok(tables)
    }

    /// Merges rows of a snapshot.
    pub(crate) fn take_up(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        let shapes = self.shapes();
        let shape = shapes.get(table).ok_or_else(|| Error::internal(format!("a join has no table {table}")))?;
        let side = &self.sides[table];
        let rows = with_numbers(rows, side, self.key_types.len())?;
        let rows = match &side.times {
            Some(times) => times.needed(rows, &shape.schema)?,
            None => without_times(rows, &shape.schema)?,
        };
        check_columns(&rows.schema(), &shape.schema)?;
        let versions = numbers(rows.columns(), rows.num_columns() - 1)?;
        self.snapshots.restoring(versions);
        let side = &mut self.sides[table];
        if side.rows.is_numbered() {
            side.rows.exist(numbers(rows.columns(), side.types.len())?);
        }
        if self.disk.is_some() {
            return self.restore_away(table, rows);
        }
        let keys = self.keys_of(&rows)?;
        self.take_rows_in(table, &keys, &rows, Some(versions))?;
        self.keep_to_size(0).map(|_| ())
    }

    /// The ids of the keys of rows of state.
    pub(super) fn keys_of(&mut self, rows: &RecordBatch) -> Result<Vec<usize>> {
        let keys = &rows.columns()[..self.key_types.len()];
        hash_keys(keys, rows.num_rows(), &mut self.hashes)?;
        let mut ids = Vec::new();
        self.keys.intern(keys, &self.hashes, &mut ids)?;
        Ok(ids)
    }

    /// Takes rows of a table with these keys: with numbers of their snapshots those that are later than what was restored.
    pub(super) fn take_rows_in(
        &mut self,
        table: usize,
        keys: &[usize],
        rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        let (count, key_columns) = (self.keys.len(), self.key_types.len());
        self.sides.iter_mut().for_each(|side| side.make_room(count));
        let side = &mut self.sides[table];
        let (values, own) = rows.columns().split_at(side.types.len());
        let after = usize::from(side.rows.is_numbered());
        let own = Own {
            numbers: side.rows.is_numbered().then(|| numbers(own, 0)).transpose()?,
            weights: numbers(own, after)?,
            matches: numbers(own, after + 1)?,
            times: own.get(after + 2).and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>()),
        };
        side.restore((keys, count), (values, key_columns), own, versions)
    }
}

/// Rows of state of a side; those of an earlier version lack the number of the row.
fn with_numbers(rows: RecordBatch, side: &Side, keys: usize) -> Result<RecordBatch> {
    let at = side.types.len();
    let has_number = rows.schema_ref().fields().get(at).is_some_and(|field| field.name() == ROW);
    if has_number || !side.rows.is_numbered() {
        return Ok(rows);
    }
    let (mut fields, mut values) = (rows.schema().fields().to_vec(), rows.columns().to_vec());
    let numbers = numbers_of_content(keys, &values[..at], rows.num_rows())?;
    fields.insert(at, Arc::new(number(ROW)));
    values.insert(at, Arc::new(numbers));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), values)?)
}

/// Types of the columns of a table, and whether they may be NULL.
pub(crate) fn columns(shape: &StateShape) -> Vec<(DataType, bool)> {
    shape.schema.fields().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
}
