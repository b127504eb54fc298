//! Snapshots of functions over rows. Rows of state are never changed: those that wait, with the order in which they came, and those that
//! may be in the frames of later rows. A restore takes those of them that are still needed, and adds them up again. Where all rows before
//! count, the state of each partition replaces its former ones, as in a group aggregate. With a time to live, all rows of a partition have
//! its time, and are written anew when that is another one.

use std::sync::Arc;

use anabranch_dataflow::Frame;
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, TimestampMillisecondArray, UInt64Array};
use arrow::compute::{concat_batches, filter_record_batch, take};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::Over;
use super::history::Existing;
use crate::event_time::event_times;
use crate::group_aggregate::readings::Readings;
use crate::hash_keys;
use crate::keyed_state::{Changes, OnDisk, Part, TimeToLive, check_columns, narrow, number, numbers, without_times};
use crate::operator::{StateChange, StateShape};
use crate::waiting::{Waiting, later};

/// A table of the state of partitions. Before them comes that of the rows that wait for the watermark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// Rows that may be in the frames of later ones.
    Before,
    /// The states of partitions.
    States,
    /// The values that a function keeps of each partition.
    Values(usize),
}

impl Over {
    /// The tables of partitions.
    pub(super) fn tables(&self) -> Vec<Table> {
        let keeps = |(place, call): (usize, &crate::group_aggregate::accumulator::Call)| {
            call.accumulator.value_field().map(|_| Table::Values(place))
        };
        match self.spec.frame.is_unbounded() {
            true => std::iter::once(Table::States)
                .chain(self.functions.calls.iter().enumerate().filter_map(keeps))
                .collect::<Vec<_>>(),
            false => vec![Table::Before],
        }
    }

    fn has_range(&self) -> bool {
        matches!(self.spec.frame, Frame::Range { .. })
    }

    pub(super) fn shape(&self, table: Table) -> StateShape {
        let keys = self.spec.schema.fields().iter().take(self.spec.keys);
        let keys = keys.map(|field| field.as_ref().clone().with_nullable(true));
        let times = self.times.iter().map(|_| TimeToLive::field());
        let (name, fields, pane): (String, Vec<Field>, Option<usize>) = match table {
            Table::Before => {
                let read = self.functions.schema.fields().iter().map(|field| field.as_ref().clone());
                let mut fields: Vec<Field> = keys.chain(read).collect();
                let pane = self.has_range().then_some(fields.len());
                let time = Field::new("$time", DataType::Timestamp(TimeUnit::Millisecond, None), false);
                fields.extend(pane.map(|_| time).into_iter().chain(times));
                fields.push(number("$place"));
                ("rows before".into(), fields, pane)
            }
            Table::States => {
                let states = self.functions.calls.iter().flat_map(|call| call.accumulator.state_fields(&call.name));
                ("states".into(), keys.chain(states).chain(times).chain([number("$snapshot")]).collect(), None)
            }
            Table::Values(place) => {
                let call = &self.functions.calls[place];
                let own = call.accumulator.value_field().into_iter().chain([number("$weight")]);
                let fields = keys.chain(own).chain(times).chain([number("$snapshot")]).collect();
                (format!("values of {}", call.name), fields, None)
            }
        };
        // The first table of an operator has no name.
        let is_first = self.waiting.is_none() && matches!(table, Table::Before | Table::States);
        let table = if is_first { String::new() } else { name };
        // Files of changes do not last longer than a run.
        let pane = pane.filter(|_| self.disk.is_none());
        StateShape { table, schema: Arc::new(Schema::new(fields)), keys: 0..self.spec.keys, pane }
    }

    pub(super) fn shapes(&self) -> Vec<StateShape> {
        let waiting = self.waiting.iter().map(Waiting::shape);
        waiting.chain(self.tables().into_iter().map(|table| self.shape(table))).collect()
    }

    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let waiting = self.waiting.as_mut().map(|waiting| waiting.snapshot(adds)).transpose()?;
        let (complete, part, files) = self.snapshots.begin(self.disk.as_mut(), adds)?;
        let tables = self.take_rows(part)?;
        self.snapshots.emitted(complete, tables.iter().map(RecordBatch::num_rows).sum());
        let mut changes = StateChange::of_tables(tables, complete, files);
        if let (Frame::Range { preceding_ms: Some(ms) }, false) = (self.spec.frame, adds) {
            // A snapshot that only adds keeps all files.
            changes.iter_mut().for_each(|change| change.first_pane = EventTime(self.first_needed(ms)));
        }
        Ok(waiting.into_iter().chain(changes).collect())
    }

    /// Takes rows of each table, as those of a new snapshot.
    pub(super) fn take_rows(&mut self, part: Part) -> Result<Vec<RecordBatch>> {
        self.snapshots.number += 1;
        let outdated = self.take_outdated();
        self.renew_values(&outdated)?;
        self.changes.note();
        let rows = self.tables().into_iter().map(|table| {
            let columns = self.columns_of(table, part, &outdated)?;
            Ok(RecordBatch::try_new(self.shape(table).schema, columns)?)
        });
        rows.collect()
    }

    /// Rows of earlier times are in no frame of a row that follows.
    pub(super) fn first_needed(&self, preceding_ms: i64) -> i64 {
        self.watermark.saturating_add(1).saturating_sub(preceding_ms)
    }

    /// `outdated`: partitions whose rows have another time since the last snapshot.
    fn columns_of(&mut self, table: Table, part: Part, outdated: &[usize]) -> Result<Vec<ArrayRef>> {
        let times_of = |groups: &[usize]| self.times.as_ref().map(|times| times.times_of(groups));
        match table {
            Table::Before => {
                let first = if part == Part::Changed { self.history.snapshot } else { 0 };
                let Existing { rows, groups, times, places } = self.history.rows_from(first, outdated);
                self.history.snapshot = self.history.next;
                let mut columns = self.keys.keys_of(&groups)?;
                columns.extend(self.history.columns(&rows)?);
                if self.has_range() {
                    columns.push(Arc::new(TimestampMillisecondArray::from(times)));
                }
                columns.extend(times_of(&groups));
                columns.push(Arc::new(Int64Array::from(places)));
                Ok(columns)
            }
            Table::States => {
                let groups = self.changes.take(part, || (0..self.keys.len()).collect());
                let mut columns = self.keys.keys_of(&groups)?;
                for call in &self.functions.calls {
                    columns.extend(call.accumulator.state(&groups)?);
                }
                columns.extend(times_of(&groups));
                columns.push(self.numbered(groups.len()));
                Ok(columns)
            }
            Table::Values(place) => {
                let entries = self.functions.calls[place].accumulator.entries();
                let entries = entries.ok_or_else(|| Error::internal("a function without values"))?;
                let ids = entries.take(part);
                let (groups, values, weights) = entries.of(&ids)?;
                let mut columns = self.keys.keys_of(&groups)?;
                columns.extend([values, Arc::new(weights) as ArrayRef]);
                columns.extend(times_of(&groups));
                columns.push(self.numbered(groups.len()));
                Ok(columns)
            }
        }
    }

    fn numbered(&self, rows: usize) -> ArrayRef {
        Arc::new(Int64Array::from(vec![self.snapshots.number; rows]))
    }

    /// Takes rows of a snapshot.
    pub(super) fn take_up(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        let first = match &mut self.waiting {
            Some(waiting) if table == 0 => return waiting.restore(&rows),
            waiting => usize::from(waiting.is_some()),
        };
        let table = table - first;
        let of = *self.tables().get(table).ok_or_else(|| Error::internal(format!("there is no table {table}")))?;
        let shape = self.shape(of);
        let rows = match &self.times {
            Some(times) => times.needed(rows, &shape.schema)?,
            None => without_times(rows, &shape.schema)?,
        };
        check_columns(&rows.schema(), &shape.schema)?;
        let rows = RecordBatch::try_new(shape.schema, rows.columns().to_vec())?;
        let versions = (of != Table::Before).then(|| numbers(rows.columns(), rows.num_columns() - 1)).transpose()?;
        match versions {
            Some(versions) => self.snapshots.restoring(versions),
            None => self.snapshots.restoring_rows(rows.num_rows()),
        }
        if let Some(disk) = &mut self.disk {
            return disk.restore(table, rows);
        }
        let waits = of == Table::Before || of != Table::States && self.times.is_some();
        match versions.filter(|_| !waits) {
            Some(versions) => {
                let ids = self.intern(&rows.columns()[..self.spec.keys], rows.num_rows())?;
                self.times.as_mut().map_or(Ok(()), |times| times.restore_rows(&ids, &rows))?;
                self.take_in(of, &ids, &rows, Some(versions))
            }
            None => {
                self.restored.push((of, rows));
                Ok(())
            }
        }
    }

    /// Takes rows of these partitions: those that are later than what was restored before, if rows of several snapshots are.
    pub(super) fn take_in(
        &mut self,
        table: Table,
        ids: &[usize],
        rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        match table {
            Table::Before => self.take_before(ids, rows),
            Table::States => self.take_states(ids, rows, versions),
            Table::Values(place) => {
                let columns = &rows.columns()[self.spec.keys..];
                let accumulator = &mut self.functions.calls[place].accumulator;
                let Some(entries) = accumulator.entries() else { return Ok(()) };
                let changed = entries.restore(ids, &columns[0], numbers(columns, 1)?, versions)?;
                accumulator.entries_restored(&changed)
            }
        }
    }

    fn take_states(&mut self, ids: &[usize], rows: &RecordBatch, versions: Option<&Int64Array>) -> Result<()> {
        let latest = match versions {
            Some(versions) => self.changes.latest(ids, versions),
            None => (0..ids.len()).collect(),
        };
        let groups: Vec<usize> = latest.iter().map(|row| ids[*row]).collect();
        let at: UInt64Array = latest.iter().map(|row| *row as u64).collect();
        let columns = rows.columns()[self.spec.keys..].iter().map(|column| Ok(take(column, &at, None)?));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut rest = columns.as_slice();
        for call in &mut self.functions.calls {
            let (own, others) = rest
                .split_at_checked(call.state_columns)
                .ok_or_else(|| Error::internal("a state with too few columns"))?;
            call.accumulator.restore(&groups, own)?;
            rest = others;
        }
        Ok(())
    }

    /// The numbers of partitions.
    pub(super) fn intern(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(keys, rows, &mut hashes)?;
        self.keys.intern(keys, &hashes, &mut ids)?;
        self.make_room();
        Ok(ids)
    }

    /// Drops restored rows that event time has passed.
    pub(super) fn drop_restored(&mut self) -> Result<()> {
        let watermark = EventTime(self.watermark);
        self.waiting.as_mut().map_or(Ok(()), |waiting| waiting.restored(watermark))?;
        self.forget_on_disk();
        if let Frame::Range { preceding_ms: Some(ms) } = self.spec.frame {
            let (time, first) = (self.spec.keys + self.read.len(), self.first_needed(ms));
            let rows: Vec<RecordBatch> = self.restored.drain(..).map(|(_, rows)| rows).collect();
            self.restored = later(&rows, time, first)?.into_iter().map(|rows| (Table::Before, rows)).collect();
        }
        self.keep_last_rows()
    }

    /// Drops restored rows that are in no frame of a number of rows any more: files of several snapshots have more.
    pub(super) fn keep_last_rows(&mut self) -> Result<()> {
        let Frame::Rows { preceding: Some(preceding) } = self.spec.frame else { return Ok(()) };
        let preceding = i64::try_from(preceding).unwrap_or(i64::MAX);
        let (mut ends, mut found) = (Vec::new(), Vec::new());
        for (ids, rows) in self.take_living()? {
            ends.resize(self.keys.len(), i64::MIN);
            for (group, place) in ids.iter().zip(places(&rows)?.values()) {
                ends[*group] = place.saturating_add(1).max(ends[*group]);
            }
            found.push((ids, rows));
        }
        for (ids, rows) in found {
            let is_needed = |(group, place): (&usize, &i64)| Some(*place >= ends[*group].saturating_sub(preceding));
            let is_needed: BooleanArray = ids.iter().zip(places(&rows)?.values()).map(is_needed).collect();
            let rows = filter_record_batch(&rows, &is_needed)?;
            if rows.num_rows() > 0 {
                self.restored.push((Table::Before, rows));
            }
        }
        self.restored_max = 2 * self.restored_rows();
        Ok(())
    }

    /// How many rows have not taken their places yet.
    pub(super) fn restored_rows(&self) -> usize {
        self.restored.iter().map(|(_, rows)| rows.num_rows()).sum()
    }

    /// Takes the rows before that were restored, with their partitions: those that have the time of their partition.
    fn take_living(&mut self) -> Result<Vec<(Vec<usize>, RecordBatch)>> {
        let keys = self.spec.keys;
        let rows = std::mem::take(&mut self.restored).into_iter().map(|(_, rows)| {
            let ids = self.intern(&rows.columns()[..keys], rows.num_rows())?;
            self.times.as_mut().map_or(Ok(()), |times| times.restore_rows(&ids, &rows))?;
            Ok((ids, rows))
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        rows.into_iter().map(|(ids, rows)| self.living(ids, rows)).collect()
    }

    /// The rows of a table that have the time of their partition, with their partitions.
    pub(super) fn living(&self, ids: Vec<usize>, rows: RecordBatch) -> Result<(Vec<usize>, RecordBatch)> {
        match &self.times {
            Some(times) => times.living(ids, &rows),
            None => Ok((ids, rows)),
        }
    }

    /// Nothing else is restored: rows take their places.
    pub(super) fn settle(&mut self) -> Result<()> {
        if self.spec.frame.is_unbounded() {
            for (table, rows) in std::mem::take(&mut self.restored) {
                let ids = self.intern(&rows.columns()[..self.spec.keys], rows.num_rows())?;
                let (ids, rows) = self.living(ids, rows)?;
                self.take_in(table, &ids, &rows, Some(numbers(rows.columns(), rows.num_columns() - 1)?))?;
            }
        } else if !self.restored.is_empty() {
            let (ids, rows): (Vec<_>, Vec<_>) = self.take_living()?.into_iter().unzip();
            if let Some(first) = rows.first() {
                let rows = concat_batches(&first.schema(), &rows)?;
                self.take_before(&ids.concat(), &rows)?;
                self.history.snapshot = self.history.next;
            }
        }
        self.changes_of_tables().for_each(Changes::restored);
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)
    }

    /// Takes rows before of partitions that have none yet, in the order of their times, and then of their places among the rows of their
    /// partitions. Those that are in no frame any more are left out, and each is taken once: the files of several snapshots may have it.
    fn take_before(&mut self, ids: &[usize], rows: &RecordBatch) -> Result<()> {
        let keys = self.spec.keys;
        let places = places(rows)?;
        let times = match self.has_range() {
            true => event_times(rows.column(keys + self.read.len()))?.to_vec(),
            false => vec![i64::MIN; rows.num_rows()],
        };
        let most = match self.spec.frame {
            Frame::Rows { preceding: Some(rows) } => usize::try_from(rows).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let mut order: Vec<usize> = (0..rows.num_rows()).collect();
        let identity = |row: &usize| (times[*row], ids[*row], places.value(*row));
        order.sort_by_key(identity);
        order.dedup_by_key(|row| identity(row));
        let mut left = vec![0_usize; self.keys.len()];
        order.iter().for_each(|row| left[ids[*row]] += 1);
        order.retain(|row| {
            let left = &mut left[ids[*row]];
            *left -= 1;
            *left < most
        });
        let at: UInt64Array = order.iter().map(|row| *row as u64).collect();
        let read = rows.columns()[keys..keys + self.read.len()].iter().map(|column| Ok(take(column, &at, None)?));
        let columns = read.collect::<Result<Vec<_>>>()?;
        let narrowed = order.iter().map(|row| narrow(ids[*row])).collect::<Result<Vec<_>>>()?;
        let first = self.history.add(&columns, narrowed, times.iter().copied().max().unwrap_or(i64::MIN));
        let mut groups = Vec::with_capacity(order.len());
        for (number, row) in order.into_iter().enumerate() {
            let group = ids[row];
            self.history.push(group, first + number as u64, times[row]);
            self.history.lists[group].count = places.value(row) + 1;
            groups.push(group);
        }
        self.functions.run(&self.batch_of(columns, groups.len())?, (&groups, None), &Readings::default())?;
        self.history.tidy()
    }
}

/// The places of rows before among those of their partitions.
fn places(rows: &RecordBatch) -> Result<&Int64Array> {
    numbers(rows.columns(), rows.num_columns() - 1)
}
