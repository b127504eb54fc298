//! Snapshots: rows of the groups and values that have changed since the last one, or of all that exist.
//!
//! A row has the number of its snapshot, and replaces rows with lower ones: so changes may be restored in any order. A group that
//! exists no more has a row that says so, until a snapshot is complete.

use std::ops::Range;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{Field, Int64Type, Schema};

use super::{GroupAggregate, Groups};
use crate::hash_keys;
use crate::keyed_state::{Part, TimeToLive, check_columns, number, numbers, without_times};
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
        if self.windows.is_some() {
            let emitted = groups.iter().map(|group| i64::from(self.emitted[*group])).collect::<Int64Array>();
            columns.push(Arc::new(emitted));
        }
        columns.extend(self.times.as_ref().map(|times| times.times_of(groups)));
        Ok(columns)
    }
}

impl GroupAggregate {
    /// The table of groups, then those of values.
    pub(super) fn shapes(&self) -> Vec<StateShape> {
        let Groups { calls, key_types, .. } = &self.groups;
        let keys: Range<usize> = 0..key_types.len();
        let shape = |table: String, of: Vec<Field>| {
            let times = self.groups.times.is_some().then(TimeToLive::field);
            let fields = self.groups.key_fields().into_iter().chain(of).chain(times).chain([number("$snapshot")]);
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            StateShape { table, schema, keys: keys.clone(), pane: None }
        };
        let states = calls.iter().flat_map(|call| call.accumulator.state_fields(&call.name));
        let emitted = self.groups.windows.is_some().then(|| number("$emitted"));
        let groups = shape(String::new(), std::iter::once(number("$rows")).chain(states).chain(emitted).collect());
        let values = calls.iter().filter_map(|call| {
            Some(shape(format!("values of {}", call.name), vec![call.accumulator.value_field()?, number("$weight")]))
        });
        std::iter::once(groups).chain(values).collect()
    }

    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let (complete, part, runs) = self.snapshots.begin(self.disk.as_mut(), adds)?;
        let tables = self.take_rows(part)?;
        self.snapshots.emitted(complete, tables.iter().map(RecordBatch::num_rows).sum());
        Ok(StateChange::of_tables(tables, complete, runs))
    }

    /// Takes rows of each table, as those of a new snapshot.
    pub(super) fn take_rows(&mut self, part: Part) -> Result<Vec<RecordBatch>> {
        self.snapshots.number += 1;
        let shapes = self.shapes();
        self.groups.renew_values()?;
        let Groups { rows, changes, .. } = &mut self.groups;
        let ids = changes.take(part, || (0..rows.len()).filter(|group| rows[*group] != 0).collect());
        let mut tables = vec![self.groups.rows_of(&ids)?];
        let Groups { keys, calls, times, .. } = &mut self.groups;
        for entries in calls.iter_mut().filter_map(|call| call.accumulator.entries()) {
            let ids = entries.take(part);
            let (of, values, weights) = entries.of(&ids)?;
            let mut columns = keys.keys_of(&of)?;
            columns.extend([values, Arc::new(weights) as ArrayRef]);
            columns.extend(times.as_ref().map(|times| times.times_of(&of)));
            tables.push(columns);
        }
        let number = self.snapshots.number;
        let rows = |(shape, mut columns): (&StateShape, Vec<ArrayRef>)| {
            let rows = columns.last().map_or(0, |column| column.len());
            columns.push(Arc::new(Int64Array::from(vec![number; rows])));
            Ok(RecordBatch::try_new(Arc::clone(&shape.schema), columns)?)
        };
        shapes.iter().zip(tables).map(rows).collect()
    }

    /// Merges rows of a snapshot.
    pub(super) fn take_up(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        let shapes = self.shapes();
        let shape = shapes.get(table).ok_or_else(|| Error::internal(format!("an aggregate has no table {table}")))?;
        let rows = match &self.groups.times {
            Some(times) => times.needed(rows, &shape.schema)?,
            None => without_times(rows, &shape.schema)?,
        };
        check_columns(&rows.schema(), &shape.schema)?;
        let versions = numbers(rows.columns(), rows.num_columns() - 1)?;
        self.snapshots.restoring(versions);
        if let Some(disk) = &mut self.disk {
            if let Some(windows) = self.groups.windows.as_mut().filter(|_| table == 0) {
                let (keys, columns) = rows.columns().split_at(self.groups.key_types.len());
                let (counts, emitted) = (numbers(columns, 0)?, numbers(columns, columns.len() - 2)?);
                windows.restored_away(keys, |row| counts.value(row) > 0 && emitted.value(row) == 0)?;
            }
            return disk.restore(table, rows);
        }
        let ids = self.groups.intern(&rows)?;
        self.groups.take_in(table, &ids, &rows, Some(versions))?;
        self.keep_to_size()
    }
}

impl Groups {
    /// The ids of the groups of rows of state.
    pub(super) fn intern(&mut self, rows: &RecordBatch) -> Result<Vec<usize>> {
        let keys = &rows.columns()[..self.key_types.len()];
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(keys, rows.num_rows(), &mut hashes)?;
        self.keys.intern(keys, &hashes, &mut ids)?;
        self.windows.iter_mut().try_for_each(|windows| windows.add(&ids, keys))?;
        self.resize();
        Ok(ids)
    }

    /// Takes rows of a table into these groups: with numbers of their snapshots those that are later than what was restored.
    pub(super) fn take_in(
        &mut self,
        table: usize,
        ids: &[usize],
        rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        if let Some(times) = self.times.as_mut().filter(|_| table == 0) {
            times.restore_rows(ids, rows)?;
        }
        let columns = &rows.columns()[self.key_types.len()..rows.num_columns() - 1];
        let Some(place) = table.checked_sub(1) else { return self.restore(ids, columns, versions) };
        let calls = self.calls.iter_mut().filter(|call| call.accumulator.value_field().is_some());
        let call = calls.into_iter().nth(place).ok_or_else(|| Error::internal("a table of no function"))?;
        let weights = columns[1].as_primitive::<Int64Type>();
        let Some(entries) = call.accumulator.entries() else { return Ok(()) };
        let changed = entries.restore(ids, &columns[0], weights, versions)?;
        call.accumulator.entries_restored(&changed)
    }

    /// Replaces the states of groups by those of rows, unless later ones were restored.
    fn restore(&mut self, ids: &[usize], columns: &[ArrayRef], versions: Option<&Int64Array>) -> Result<()> {
        let latest = versions.map_or_else(|| (0..ids.len()).collect(), |versions| self.changes.latest(ids, versions));
        let groups: Vec<usize> = latest.iter().map(|row| ids[*row]).collect();
        let at: UInt64Array = latest.iter().map(|row| *row as u64).collect();
        let columns = columns.iter().map(|column| Ok(take(column, &at, None)?)).collect::<Result<Vec<_>>>()?;
        for (group, rows) in groups.iter().zip(numbers(&columns, 0)?.values()) {
            match (self.rows[*group] != 0, *rows != 0) {
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
        self.restore_emitted(&groups, rest.first())
    }
}
