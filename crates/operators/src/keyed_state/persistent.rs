//! Snapshots of a keyed state: the rows that they contain, and how they are restored.

use std::sync::Arc;

use anabranch_model::{Error, EventTime, Result};
use anabranch_state::KeyedTable;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{Field, Schema};

use super::rows::{Identity, KeyedRows, Table, Taken};
use super::{
    Extent, KeyedState, OnDisk, SNAPSHOT, TimeToLive, check_columns, keyed_table, numbers, time_to_live, with_latest,
    without_times,
};
use crate::hash_keys;
use crate::operator::{State, StateChange, StateShape, same_kind};
use crate::waiting::Waiting;

/// The tables as they are in snapshots. With a disk, files of changes are kept no longer than a run.
pub(super) fn shapes(tables: Vec<Table>, keys: usize, on_disk: bool) -> Vec<StateShape> {
    let shape = |table: Table| {
        let pane = table.pane.filter(|_| !on_disk);
        StateShape { schema: schema(&table), table: table.name, keys: 0..keys, pane }
    };
    tables.into_iter().map(shape).collect()
}

fn schema(table: &Table) -> Arc<Schema> {
    let times = table.lives.then(TimeToLive::field);
    Arc::new(Schema::new(
        table.fields.iter().cloned().chain(times).chain([table.number.clone()]).collect::<Vec<Field>>(),
    ))
}

/// The tables as they are on a disk. `window`: the key column with the time of a window, if there is one.
pub(super) fn keyed_tables(tables: &[Table], keys: usize, window: Option<usize>) -> Vec<KeyedTable> {
    let keyed = |table: &Table| {
        let shape = StateShape { table: String::new(), schema: schema(table), keys: 0..keys, pane: None };
        let (identity, count) = match table.identity {
            Identity::Counted(columns) => ((0..columns).collect(), Some(columns)),
            Identity::First(columns) => ((0..columns).collect(), None),
            Identity::Last { keys, read } => {
                ((0..keys).chain(keys + read..shape.schema.fields().len()).collect(), None)
            }
        };
        let time = time_to_live::column(&shape.schema).or(table.pane).or(window).map(with_latest);
        KeyedTable { window, time, ..keyed_table(&shape, identity, count) }
    };
    tables.iter().map(keyed).collect()
}

impl<R: KeyedRows> KeyedState<R> {
    /// The tables, without the table of the rows that wait.
    pub(crate) fn shapes(&self) -> &[StateShape] {
        &self.shapes
    }

    /// Takes rows of each table, with the number of a new snapshot.
    pub(super) fn take_out(&mut self, part: Extent) -> Result<Vec<RecordBatch>> {
        // The number before it is for removed rows, which may have been added again.
        self.snapshots.number += 2;
        let number = self.snapshots.number;
        let tables = self.rows.take_out(part, number)?;
        let batch = |(shape, Taken { keys, columns, times, numbers }): (&StateShape, Taken)| {
            let own = self.times.as_ref().map(|times| times.times_of(&keys));
            let number = || Arc::new(Int64Array::from(vec![number; keys.len()])) as ArrayRef;
            let mut all = self.keys.keys_of(&keys)?;
            all.extend(columns.into_iter().chain(times.or(own)).chain([numbers.unwrap_or_else(number)]));
            Ok(RecordBatch::try_new(Arc::clone(&shape.schema), all)?)
        };
        self.shapes.iter().zip(tables).map(batch).collect()
    }

    /// Restores rows of a table of a snapshot. Without a disk, they replace the rows of earlier snapshots
    /// that were already restored.
    fn take_up(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        let Some(StateShape { schema, .. }) = self.shapes.get(table) else {
            return Err(Error::internal(format!("the state has no table {table}")));
        };
        let rows = match self.rows.times(table).or(self.times.as_ref()) {
            Some(times) => times.needed(rows, schema)?,
            None => without_times(rows, schema)?,
        };
        check_columns(&rows.schema(), schema)?;
        let versions = numbers(rows.columns(), rows.num_columns() - 1)?;
        match schema.fields().last().is_some_and(|field| field.name() == SNAPSHOT) {
            true => self.snapshots.restoring(versions),
            false => self.snapshots.restoring_rows(rows.num_rows()),
        }
        self.rows.arrive(table, &rows)?;
        if self.disk.is_some() {
            return self.take_up_away(table, rows);
        }
        let Some(rows) = self.rows.put_off(table, rows) else { return Ok(()) };
        let ids = self.intern(&rows)?;
        if let Some(times) = self.times.as_mut().filter(|_| table == 0) {
            times.restore_rows(&ids, &rows)?;
        }
        self.rows.put_in(table, &ids, &rows, Some(numbers(rows.columns(), rows.num_columns() - 1)?))
    }

    /// Writes rows of a snapshot to the disk, unchanged.
    fn take_up_away(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        let keys = &rows.columns()[..self.key_types.len()];
        if let Some(windows) = self.windows.as_mut().filter(|_| table == 0) {
            let awaiting = self.rows.await_away(table, &rows)?;
            windows.restored_away(keys, |row| awaiting[row])?;
        }
        if let Some(timers) = &mut self.timers {
            hash_keys(keys, rows.num_rows(), &mut self.hashes)?;
            let set = self.rows.timers_away(table, &rows)?.into_iter();
            timers.put(set.map(|(time, row)| (time, self.hashes[row])).collect())?;
        }
        self.disk.as_mut().map_or(Ok(()), |disk| disk.restore(table, rows))
    }

    fn take_snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let (complete, part, runs) = self.snapshots.begin(self.disk.as_mut(), adds)?;
        let tables = self.take_out(part)?;
        self.snapshots.emitted(complete, tables.iter().map(RecordBatch::num_rows).sum());
        let mut changes = StateChange::of_tables(tables, complete, runs);
        // An incremental snapshot keeps all files.
        for (table, change) in changes.iter_mut().enumerate().filter(|_| !adds) {
            change.first_pane = self.rows.first_pane(table, self.watermark);
        }
        Ok(changes)
    }
}

impl<R: KeyedRows> State for KeyedState<R> {
    fn tables(&self) -> Vec<StateShape> {
        self.waiting.iter().map(Waiting::shape).chain(self.shapes.iter().cloned()).collect()
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        self.end_restore()?;
        let waiting = self.waiting.as_mut().map(|waiting| waiting.snapshot(adds)).transpose()?;
        let changes = self.take_snapshot(adds)?;
        // No removed row is pending for a snapshot now.
        self.remove_dead()?;
        Ok(waiting.into_iter().chain(changes).collect())
    }

    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        let first = usize::from(self.waiting.is_some());
        match (&mut self.waiting, table) {
            (Some(waiting), 0) => waiting.restore(&rows)?,
            _ => self.take_up(table - first, rows)?,
        }
        R::make_smaller(self)?;
        // Rows that were restored to the disk are not in memory.
        self.keep_to_size(0).map(|_| ())
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.watermark = self.watermark.max(watermark.0);
        self.waiting.as_mut().map_or(Ok(()), |waiting| waiting.restored(watermark))?;
        self.windows.iter_mut().for_each(|windows| windows.restored(watermark));
        self.note_fired(&(0..self.keys.len()).collect::<Vec<_>>());
        R::restored(self)?;
        self.forget_away();
        Ok(())
    }

    fn goes_on(&mut self) {
        let rows = self.rows.count();
        self.snapshots.go_on(rows);
        self.rows.changes(&mut |changes| changes.begin_noting());
        self.waiting.iter_mut().for_each(Waiting::goes_on);
        self.disk.iter_mut().for_each(OnDisk::goes_on);
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut KeyedState<R> = same_kind(former)?;
        std::mem::swap(&mut self.keys, &mut former.keys);
        std::mem::swap(&mut self.disk, &mut former.disk);
        std::mem::swap(&mut self.timers, &mut former.timers);
        std::mem::swap(&mut self.due, &mut former.due);
        self.rows.succeed(&mut former.rows);
        self.snapshots = std::mem::take(&mut former.snapshots).succeed();
        self.times = self.times.take().map(|own| own.follow(former.times.take()));
        self.windows = self.windows.take().zip(former.windows.take()).map(|(own, former)| own.follow(former));
        if let (Some(own), Some(former)) = (&mut self.waiting, &mut former.waiting) {
            own.succeed(former);
        }
        self.watermark = former.watermark;
        self.renumbered += 1;
        Ok(())
    }

    /// Forgets keys whose time to live is over.
    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        let is_time = self.times.as_mut().is_some_and(|times| times.advance(wall_ms));
        if !self.rows.advance(wall_ms) && !is_time {
            return Ok(());
        }
        self.end_restore()?;
        if self.disk.is_some() {
            // Keys in memory have a time on the disk too.
            self.put_away()?;
            self.forget_away();
            return Ok(());
        }
        let times = self.times.as_ref();
        let over = times.map(|times| times.over((0..self.keys.len()).filter(|key| self.rows.exists(*key))));
        self.rows.forget(&over.unwrap_or_default())?;
        self.remove_dead().map(|_| ())
    }
}
