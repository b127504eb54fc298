//! The groups of an aggregate: the states of its functions, with the values that some functions keep.
//!
//! A group that no longer exists has a row of state that says so, until a snapshot is complete. Groups that
//! do not change within their time to live are forgotten, with their values. Groups of windows are kept until
//! no row can change them any more.

use std::collections::HashMap;
use std::sync::Arc;

use anabranch_dataflow::{GroupAggregateSpec, NamedExpr};
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{Field, Int64Type};

use super::Touched;
use super::accumulator::{Call, Conditions, accumulator};
use super::distinct::followed;
use super::entries::Entries;
use crate::Functions;
use crate::keyed_state::{
    Changes, Extent, Identity, KeyedRows, Noted, SPARSE_MIN, Table, Taken, TimeToLive, Windows, number, numbers,
};

/// All groups, by their ids.
pub(super) struct Groups {
    key_fields: Vec<Field>,
    /// Number of rows of each group. A group without rows does not exist.
    pub(super) rows: Vec<i64>,
    /// Number of groups with rows, or with a negative number of rows: then a row was retracted before it
    /// arrived.
    pub(super) live: usize,
    pub(super) calls: Vec<Call>,
    conditions: Conditions,
    changes: Changes,
    /// Whether groups have a time to live.
    lives: bool,
    /// Groups whose values are written again because they have an earlier time.
    outdated: Vec<usize>,
    /// For groups of windows: whether results are emitted before their window ends, and for each group
    /// whether its result was emitted.
    early: Option<bool>,
    emitted: Vec<bool>,
    /// For each group: the number of the last batch that touched it.
    stamps: Vec<u64>,
    batch: u64,
}

impl Groups {
    pub(super) fn new(spec: &GroupAggregateSpec, functions: &Functions) -> Result<Groups> {
        let (input, retracts) = (&spec.input_schema, spec.weight.is_some());
        let mut conditions = Conditions::default();
        let mut calls: Vec<Call> = Vec::with_capacity(spec.aggregates.len());
        for (index, aggregate) in spec.aggregates.iter().enumerate() {
            let mut call =
                Call::new(aggregate, input, functions, &mut conditions, |args| accumulator(aggregate, args, retracts))?;
            let followed = followed(&spec.aggregates, index).and_then(|earlier| calls[earlier].accumulator.entries());
            if let Some((entries, followed)) = call.accumulator.entries().zip(followed) {
                entries.follow(followed);
            }
            calls.push(call);
        }
        let key_fields = spec.keys.iter().map(NamedExpr::field);
        Ok(Groups {
            key_fields: key_fields.collect(),
            rows: Vec::new(),
            live: 0,
            calls,
            conditions,
            changes: Changes::default(),
            lives: spec.time_to_live_ms.is_some(),
            outdated: Vec::new(),
            early: spec.emission.map(|emission| emission.early),
            emitted: Vec::new(),
            stamps: Vec::new(),
            batch: 0,
        })
    }

    pub(super) fn results(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        self.calls.iter().map(|call| call.accumulator.results(groups)).collect()
    }

    /// Finds the groups that a batch touches, each once.
    pub(super) fn touch(&mut self, ids: &[usize], touched: &mut Touched) {
        self.stamps.resize(self.rows.len(), 0);
        self.batch += 1;
        let Touched { groups, rows: first, existed, counts } = touched;
        groups.clear();
        first.clear();
        existed.clear();
        counts.clear();
        for (row, group) in ids.iter().enumerate() {
            if std::mem::replace(&mut self.stamps[*group], self.batch) != self.batch {
                groups.push(*group);
                first.push(row as u64);
                existed.push(self.rows[*group] > 0);
                counts.push(self.rows[*group]);
            }
        }
    }

    /// Which rows of a batch count: a retraction of a forgotten row does not. `None`: all of them, as without
    /// weights.
    pub(super) fn rows_of_known(&self, ids: &[usize], weights: Option<&[i64]>) -> Option<BooleanArray> {
        let weights = weights.filter(|weights| weights.iter().any(|weight| *weight < 0))?;
        let mut rows = HashMap::new();
        let counts = ids.iter().zip(weights).map(|(group, weight)| {
            let rows = rows.entry(*group).or_insert(self.rows[*group]);
            let counts = *rows + weight >= 0;
            *rows += if counts { *weight } else { 0 };
            Some(counts)
        });
        let counts: BooleanArray = counts.collect();
        (counts.true_count() < counts.len()).then_some(counts)
    }

    /// Sets the time of the last change of these groups. If the time of a group has increased, its
    /// values still have the earlier one, so they are written again.
    pub(super) fn write(&mut self, groups: &[usize], times: Option<&mut TimeToLive>) {
        let Some(times) = times else { return };
        for group in groups {
            if times.write(*group) && self.changes.are_noted() {
                self.outdated.push(*group);
            }
        }
    }

    /// Adds rows of these groups.
    pub(super) fn update(&mut self, batch: &RecordBatch, groups: &[usize], weights: Option<&[i64]>) -> Result<()> {
        match weights {
            None => groups.iter().for_each(|group| self.rows[*group] += 1),
            Some(weights) => groups.iter().zip(weights).for_each(|(group, weight)| self.rows[*group] += weight),
        }
        let Groups { calls, conditions, .. } = self;
        conditions.evaluate(batch, weights)?;
        calls.iter_mut().try_for_each(|call| call.update(batch, (groups, weights), conditions))
    }

    /// Notes the changes of groups, given their former numbers of rows.
    pub(super) fn changed(&mut self, groups: &[usize], counts: &[i64]) {
        for (group, before) in groups.iter().zip(counts) {
            self.changes.add(*group);
            self.has_become(*before, self.rows[*group]);
        }
    }

    /// Notes the change of a group's number of rows.
    fn has_become(&mut self, before: i64, now: i64) {
        match (before != 0, now != 0) {
            (false, true) => self.live += 1,
            (true, false) => self.live -= 1,
            _ => {}
        }
    }

    /// For each of these groups: whether its result was emitted before the batch, and whether it exists after
    /// it.
    pub(super) fn shown(&mut self, groups: &[usize], existed: &[bool], windows: Option<&Windows>) -> Vec<(bool, bool)> {
        let shown = groups.iter().zip(existed).map(|(group, existed)| {
            let exists = self.rows[*group] > 0;
            match (windows, self.early) {
                (Some(windows), Some(early)) => {
                    let shows = exists && (early || windows.has_ended(*group));
                    (std::mem::replace(&mut self.emitted[*group], shows), shows)
                }
                _ => (*existed, exists),
            }
        });
        shown.collect()
    }

    fn entries(&mut self) -> impl Iterator<Item = &mut Entries> {
        self.calls.iter_mut().filter_map(|call| call.accumulator.entries())
    }

    /// Writes all values of the groups whose time has changed.
    fn renew_values(&mut self) -> Result<()> {
        let outdated = std::mem::take(&mut self.outdated);
        if outdated.is_empty() {
            return Ok(());
        }
        let mut is_outdated = vec![false; self.rows.len()];
        outdated.into_iter().for_each(|group| is_outdated[group] = true);
        self.entries().try_for_each(|entries| entries.renew(&is_outdated))
    }

    /// Replaces the states of groups by those of rows, unless rows of a later snapshot were already restored.
    fn restore(&mut self, ids: &[usize], columns: &[ArrayRef], versions: Option<&Int64Array>) -> Result<()> {
        let latest = versions.map_or_else(|| (0..ids.len()).collect(), |versions| self.changes.latest(ids, versions));
        let groups: Vec<usize> = latest.iter().map(|row| ids[*row]).collect();
        let at: UInt64Array = latest.iter().map(|row| *row as u64).collect();
        let columns = columns.iter().map(|column| Ok(take(column, &at, None)?)).collect::<Result<Vec<_>>>()?;
        for (group, rows) in groups.iter().zip(numbers(&columns, 0)?.values()) {
            let before = std::mem::replace(&mut self.rows[*group], *rows);
            self.has_become(before, *rows);
        }
        let mut rest = &columns[1..];
        for call in &mut self.calls {
            let (own, others) = rest
                .split_at_checked(call.state_columns)
                .ok_or_else(|| Error::internal("a state with too few columns"))?;
            call.accumulator.restore(&groups, own)?;
            rest = others;
        }
        if self.early.is_some() {
            let emitted = numbers(rest, 0)?;
            groups.iter().zip(emitted.values()).for_each(|(group, emitted)| self.emitted[*group] = *emitted != 0);
        }
        Ok(())
    }
}

impl KeyedRows for Groups {
    /// The table of groups, then those of values.
    fn tables(&self) -> Vec<Table> {
        let keys = self.key_fields.len();
        let table = |name: String, fields: Vec<Field>, identity| {
            Table::new(name, self.key_fields.iter().cloned().chain(fields).collect(), identity, self.lives)
        };
        let states = self.calls.iter().flat_map(|call| call.accumulator.state_fields(&call.name));
        let emitted = self.early.map(|_| number("$emitted"));
        let groups = std::iter::once(number("$rows")).chain(states).chain(emitted).collect();
        let values = self.calls.iter().filter_map(|call| {
            let columns = vec![call.accumulator.value_field()?, number("$weight")];
            Some(table(format!("values of {}", call.name), columns, Identity::Counted(keys + 1)))
        });
        std::iter::once(table(String::new(), groups, Identity::Counted(keys))).chain(values).collect()
    }

    fn changes(&mut self, each: &mut dyn FnMut(&mut dyn Noted)) {
        each(&mut self.changes);
        self.entries().for_each(|entries| each(&mut entries.changes));
    }

    fn make_room(&mut self, keys: usize) {
        self.rows.resize(keys, 0);
        if self.early.is_some() {
            self.emitted.resize(keys, false);
        }
        self.calls.iter_mut().for_each(|call| call.accumulator.resize(keys));
    }

    fn take_out(&mut self, part: Extent, _number: i64) -> Result<Vec<Taken>> {
        self.renew_values()?;
        let rows = &self.rows;
        let groups = self.changes.take(part, || (0..rows.len()).filter(|group| rows[*group] != 0).collect());
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(groups.iter().map(|group| rows[*group]).collect::<Int64Array>())];
        for call in &self.calls {
            columns.extend(call.accumulator.state(&groups)?);
        }
        if self.early.is_some() {
            let emitted = groups.iter().map(|group| i64::from(self.emitted[*group])).collect::<Int64Array>();
            columns.push(Arc::new(emitted));
        }
        let mut tables = vec![Taken::new(groups, columns)];
        for entries in self.entries() {
            let ids = entries.take(part);
            let (groups, values, weights) = entries.with_ids(&ids)?;
            tables.push(Taken::new(groups, vec![values, Arc::new(weights)]));
        }
        Ok(tables)
    }

    fn put_in(
        &mut self,
        table: usize,
        keys: &[usize],
        rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        let columns = &rows.columns()[self.key_fields.len()..rows.num_columns() - 1];
        let Some(index) = table.checked_sub(1) else { return self.restore(keys, columns, versions) };
        let calls = self.calls.iter_mut().filter(|call| call.accumulator.value_field().is_some());
        let call = calls.into_iter().nth(index).ok_or_else(|| Error::internal("a table of no function"))?;
        let weights = columns[1].as_primitive::<Int64Type>();
        let Some(entries) = call.accumulator.entries() else { return Ok(()) };
        let changed = entries.restore(keys, &columns[0], weights, versions)?;
        call.accumulator.entries_restored(&changed)
    }

    fn succeed(&mut self, former: &mut Self) {
        std::mem::swap(&mut self.rows, &mut former.rows);
        std::mem::swap(&mut self.changes, &mut former.changes);
        std::mem::swap(&mut self.outdated, &mut former.outdated);
        std::mem::swap(&mut self.emitted, &mut former.emitted);
        self.live = former.live;
        for (own, former) in self.calls.iter_mut().zip(&mut former.calls) {
            std::mem::swap(&mut own.accumulator, &mut former.accumulator);
        }
    }

    fn count(&mut self) -> usize {
        self.live
    }

    fn size_bytes(&self) -> usize {
        let calls: usize = self.calls.iter().map(|call| call.accumulator.size_bytes()).sum();
        let numbers = self.rows.capacity() * size_of::<i64>() + self.stamps.capacity() * size_of::<u64>();
        numbers + self.emitted.capacity() + self.changes.size_bytes() + calls
    }

    /// Values that no longer occur are removed too.
    fn living(&mut self) -> Result<Option<Vec<usize>>> {
        let sparse = self.rows.len() > 2 * self.live + SPARSE_MIN;
        let is_sparse = (sparse || self.entries().any(|entries| entries.is_sparse()))
            && self.changes.is_empty()
            && self.entries().all(|entries| entries.changes.is_empty());
        Ok(is_sparse.then(|| (0..self.rows.len()).filter(|group| self.rows[*group] != 0).collect()))
    }

    fn keep(&mut self, keys: &[usize]) -> Result<()> {
        self.calls.iter_mut().try_for_each(|call| call.accumulator.keep(keys))?;
        self.rows = keys.iter().map(|group| self.rows[*group]).collect();
        if self.early.is_some() {
            self.emitted = keys.iter().map(|group| self.emitted[*group]).collect();
        }
        (self.outdated, self.stamps) = (Vec::new(), Vec::new());
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.live = 0;
        self.keep(&[])
    }

    fn exists(&self, key: usize) -> bool {
        self.rows[key] != 0
    }

    fn forget(&mut self, keys: &[usize]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut is_over = vec![false; self.rows.len()];
        for group in keys {
            self.live -= usize::from(self.rows[*group] != 0);
            (self.rows[*group], is_over[*group]) = (0, true);
            self.changes.add(*group);
        }
        for call in &mut self.calls {
            let changed = call.accumulator.entries().map(|entries| entries.forget(&is_over)).transpose()?;
            if let Some(changed) = changed {
                call.accumulator.entries_restored(&changed)?;
            }
            // The state of a group without rows.
            call.accumulator.resize(is_over.len() + 1);
            let first = UInt64Array::from(vec![0; keys.len()]);
            let fresh = call.accumulator.state(&[is_over.len()])?;
            let fresh: Vec<ArrayRef> = fresh.iter().map(|state| take(state, &first, None)).collect::<Result<_, _>>()?;
            call.accumulator.restore(keys, &fresh)?;
            call.accumulator.resize(is_over.len());
        }
        Ok(())
    }

    /// Whether a group has a result that was not emitted.
    fn awaits(&self, key: usize) -> bool {
        self.rows[key] > 0 && !self.emitted[key]
    }

    fn await_away(&self, _table: usize, rows: &RecordBatch) -> Result<Vec<bool>> {
        let columns = &rows.columns()[self.key_fields.len()..];
        let (counts, emitted) = (numbers(columns, 0)?, numbers(columns, columns.len() - 2)?);
        Ok(counts.values().iter().zip(emitted.values()).map(|(rows, emitted)| *rows > 0 && *emitted == 0).collect())
    }

    fn fired(&mut self, keys: &[usize]) {
        for group in keys {
            self.emitted[*group] = true;
            self.changes.add(*group);
        }
    }

    fn had_fired(&mut self, keys: &[usize]) {
        keys.iter().for_each(|group| self.emitted[*group] |= self.rows[*group] > 0);
    }

    /// Forgetting reads all values of all groups.
    fn forgotten_of(&self) -> usize {
        self.live
    }
}
