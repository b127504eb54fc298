//! Snapshots: rows of the groups and values that have changed since the last one, or of all that exist.
//!
//! A row has the number of its snapshot, and replaces rows with lower ones: so changes may be restored in any order. A group that
//! exists no more has a row that says so, until a snapshot is complete.

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::{Error, EventTime, Result};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{Field, Int64Type, Schema};

use super::{GroupAggregate, Groups};
use crate::hash_keys;
use crate::keyed_state::{check_columns, number, numbers};
use crate::operator::{StateChange, StateShape};

impl Groups {
    fn key_fields(&self) -> Vec<Field> {
        let named = self.key_names.iter().zip(&self.key_types);
        named.map(|((name, nullable), of)| Field::new(name, of.clone(), *nullable)).collect()
    }

    /// Rows of these groups: keys, number of rows, states.
    fn rows_of(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        let mut columns = self.keys.keys_of(groups)?;
        columns.push(Arc::new(groups.iter().map(|group| self.rows[*group]).collect::<Int64Array>()));
        for call in &self.calls {
            columns.extend(call.accumulator.state(groups)?);
        }
        Ok(columns)
    }
}

impl GroupAggregate {
    /// The table of groups, then those of values.
    pub(super) fn shapes(&self) -> Vec<StateShape> {
        let Groups { calls, key_types, .. } = &self.groups;
        let keys: Range<usize> = 0..key_types.len();
        let shape = |table: String, of: Vec<Field>| {
            let fields = self.groups.key_fields().into_iter().chain(of).chain([number("$snapshot")]);
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            StateShape { table, schema, keys: keys.clone(), pane: None }
        };
        let states = calls.iter().flat_map(|call| call.accumulator.state_fields(&call.name));
        let groups = shape(String::new(), std::iter::once(number("$rows")).chain(states).collect());
        let values = calls.iter().filter_map(|call| {
            let value = Field::new("$value", call.accumulator.value_type()?.clone(), false);
            Some(shape(format!("values of {}", call.name), vec![value, number("$weight")]))
        });
        std::iter::once(groups).chain(values).collect()
    }

    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let complete = self.snapshots.is_complete(adds);
        self.snapshots.number += 1;
        let shapes = self.shapes();
        let groups = &mut self.groups;
        let changed = groups.changes.take();
        let ids = match complete {
            true => (0..groups.rows.len()).filter(|group| groups.rows[*group] > 0).collect(),
            false => changed,
        };
        let mut tables = vec![groups.rows_of(&ids)?];
        let (keys, calls) = (&groups.keys, &mut groups.calls);
        for entries in calls.iter_mut().filter_map(|call| call.accumulator.entries()) {
            let changed = entries.changes.take();
            let ids = if complete { entries.all() } else { changed };
            let (of, values, weights) = entries.of(&ids)?;
            let mut columns = keys.keys_of(&of)?;
            columns.extend([values, Arc::new(weights) as ArrayRef]);
            tables.push(columns);
        }
        let number = self.snapshots.number;
        let mut emitted = 0;
        let change = |(shape, mut columns): (&StateShape, Vec<ArrayRef>)| {
            let rows = columns.last().map_or(0, |column| column.len());
            emitted += rows;
            columns.push(Arc::new(Int64Array::from(vec![number; rows])));
            let rows = RecordBatch::try_new(Arc::clone(&shape.schema), columns)?;
            let rows = if rows.num_rows() > 0 { vec![rows] } else { Vec::new() };
            Ok(StateChange { rows, complete, runs: Vec::new(), first_pane: EventTime::MIN })
        };
        let changes = shapes.iter().zip(tables).map(change).collect::<Result<_>>();
        self.snapshots.emitted(complete, emitted);
        changes
    }

    /// Merges rows of a snapshot.
    pub(super) fn take_up(&mut self, table: usize, rows: &RecordBatch) -> Result<()> {
        let shapes = self.shapes();
        let shape = shapes.get(table).ok_or_else(|| Error::internal(format!("an aggregate has no table {table}")))?;
        check_columns(&rows.schema(), &shape.schema)?;
        let key_count = self.groups.key_types.len();
        let (keys, columns) = rows.columns().split_at(key_count);
        let versions = numbers(columns, columns.len() - 1)?;
        self.snapshots.restoring(versions);
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(keys, rows.num_rows(), &mut hashes)?;
        self.groups.keys.intern(keys, &hashes, &mut ids)?;
        self.groups.resize();
        match table.checked_sub(1) {
            None => self.groups.restore(&ids, &columns[..columns.len() - 1], versions),
            Some(place) => {
                let calls = self.groups.calls.iter_mut().filter(|call| call.accumulator.value_type().is_some());
                let call = calls.into_iter().nth(place).ok_or_else(|| Error::internal("a table of no function"))?;
                let weights = columns[1].as_primitive::<Int64Type>();
                let Some(entries) = call.accumulator.entries() else { return Ok(()) };
                let changed = entries.restore(&ids, &columns[0], weights, versions)?;
                call.accumulator.entries_restored(&changed)
            }
        }
    }
}

impl Groups {
    /// Replaces the states of groups by those of rows, unless later ones were restored.
    fn restore(&mut self, ids: &[usize], columns: &[ArrayRef], versions: &Int64Array) -> Result<()> {
        let latest = self.changes.latest(ids, versions);
        let groups: Vec<usize> = latest.iter().map(|row| ids[*row]).collect();
        let at: UInt64Array = latest.iter().map(|row| *row as u64).collect();
        let columns = columns.iter().map(|column| Ok(take(column, &at, None)?)).collect::<Result<Vec<_>>>()?;
        for (group, rows) in groups.iter().zip(numbers(&columns, 0)?.values()) {
            match (self.rows[*group] > 0, *rows > 0) {
                (false, true) => self.live += 1,
                (true, false) => self.live -= 1,
                _ => {}
            }
            self.rows[*group] = *rows;
        }
        let mut rest = &columns[1..];
        for call in &mut self.calls {
            let (own, others) = rest
                .split_at_checked(call.state_columns)
                .ok_or_else(|| Error::internal("a state with too few columns"))?;
            call.accumulator.restore(&groups, own)?;
            rest = others;
        }
        Ok(())
    }
}
