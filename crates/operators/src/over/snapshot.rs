//! Snapshots of functions over rows. Rows of state are never changed: those that wait, with the order in which they came, and those that
//! may be in the frames of later rows. A restore takes those of them that are still needed, and adds them up again. Where all rows before
//! count, the state of each partition replaces its former ones, as in a group aggregate.

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
use crate::keyed_state::{Part, check_columns, narrow, number, numbers};
use crate::operator::{StateChange, StateShape};
use crate::waiting::{in_order, later};

/// A table of state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// Rows that wait for the watermark.
    Waiting,
    /// Rows that may be in the frames of later ones.
    Before,
    /// The states of partitions.
    States,
    /// The values that a function keeps of each partition.
    Values(usize),
}

impl Over {
    pub(super) fn tables(&self) -> Vec<Table> {
        let waiting = self.spec.time.map(|_| Table::Waiting);
        let keeps = |(place, call): (usize, &crate::group_aggregate::accumulator::Call)| {
            call.accumulator.value_type().map(|_| Table::Values(place))
        };
        let rest = match self.spec.frame.is_unbounded() {
            true => std::iter::once(Table::States)
                .chain(self.functions.calls.iter().enumerate().filter_map(keeps))
                .collect::<Vec<_>>(),
            false => vec![Table::Before],
        };
        waiting.into_iter().chain(rest).collect()
    }

    fn has_range(&self) -> bool {
        matches!(self.spec.frame, Frame::Range { .. })
    }

    fn shape(&self, table: Table, is_first: bool) -> StateShape {
        let all = self.spec.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let keys = all.clone().take(self.spec.keys);
        let (name, fields, pane): (String, Vec<Field>, Option<usize>) = match table {
            Table::Waiting => ("rows".into(), all.chain([number("$sequence")]).collect(), self.spec.time),
            Table::Before => {
                let read = self.functions.schema.fields().iter().map(|field| field.as_ref().clone());
                let mut fields: Vec<Field> = keys.chain(read).collect();
                let pane = self.has_range().then_some(fields.len());
                let time = Field::new("$time", DataType::Timestamp(TimeUnit::Millisecond, None), false);
                fields.extend(pane.map(|_| time));
                fields.push(number("$place"));
                ("rows before".into(), fields, pane)
            }
            Table::States => {
                let states = self.functions.calls.iter().flat_map(|call| call.accumulator.state_fields(&call.name));
                ("states".into(), keys.chain(states).chain([number("$snapshot")]).collect(), None)
            }
            Table::Values(place) => {
                let call = &self.functions.calls[place];
                let value = call.accumulator.value_type().cloned().unwrap_or(DataType::Null);
                let own = [Field::new("$value", value, false), number("$weight"), number("$snapshot")];
                (format!("values of {}", call.name), keys.chain(own).collect(), None)
            }
        };
        let table = if is_first { String::new() } else { name };
        StateShape { table, schema: Arc::new(Schema::new(fields)), keys: 0..self.spec.keys, pane }
    }

    pub(super) fn shapes(&self) -> Vec<StateShape> {
        self.tables().into_iter().enumerate().map(|(place, table)| self.shape(table, place == 0)).collect()
    }

    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let complete = self.snapshots.is_complete(adds);
        self.snapshots.number += 1;
        let (mut changes, mut emitted) = (Vec::new(), 0);
        for (place, table) in self.tables().into_iter().enumerate() {
            let columns = self.columns_of(table, complete)?;
            let rows = RecordBatch::try_new(self.shape(table, place == 0).schema, columns)?;
            emitted += rows.num_rows();
            let first_pane = match (table, self.spec.frame) {
                // A snapshot that only adds keeps all files.
                _ if adds => i64::MIN,
                (Table::Waiting, _) => self.watermark.saturating_add(1),
                (_, Frame::Range { preceding_ms: Some(ms) }) => self.first_needed(ms),
                _ => i64::MIN,
            };
            let rows = if rows.num_rows() > 0 { vec![rows] } else { Vec::new() };
            changes.push(StateChange { rows, complete, runs: Vec::new(), first_pane: EventTime(first_pane) });
        }
        self.snapshots.emitted(complete, emitted);
        Ok(changes)
    }

    /// Rows of earlier times are in no frame of a row that follows.
    fn first_needed(&self, preceding_ms: i64) -> i64 {
        self.watermark.saturating_add(1).saturating_sub(preceding_ms)
    }

    fn columns_of(&mut self, table: Table, complete: bool) -> Result<Vec<ArrayRef>> {
        match table {
            Table::Waiting => {
                let empty = RecordBatch::new_empty(Arc::clone(&self.spec.schema));
                let (mut columns, sequences) = self.waiting.snapshot(complete, &empty)?;
                columns.push(Arc::new(Int64Array::from(sequences)));
                Ok(columns)
            }
            Table::Before => {
                let first = if complete { 0 } else { self.history.snapshot };
                let Existing { rows, groups, times, places } = self.history.rows_from(first);
                self.history.snapshot = self.history.next;
                let mut columns = self.keys.keys_of(&groups)?;
                columns.extend(self.history.columns(&rows)?);
                if self.has_range() {
                    columns.push(Arc::new(TimestampMillisecondArray::from(times)));
                }
                columns.push(Arc::new(Int64Array::from(places)));
                Ok(columns)
            }
            Table::States => {
                let part = if complete { Part::All } else { Part::Changed };
                let groups = self.changes.take(part, || (0..self.keys.len()).collect());
                let mut columns = self.keys.keys_of(&groups)?;
                for call in &self.functions.calls {
                    columns.extend(call.accumulator.state(&groups)?);
                }
                columns.push(self.numbered(groups.len()));
                Ok(columns)
            }
            Table::Values(place) => {
                let part = if complete { Part::All } else { Part::Changed };
                let entries = self.functions.calls[place].accumulator.entries();
                let entries = entries.ok_or_else(|| Error::internal("a function without values"))?;
                let ids = entries.take(part);
                let (groups, values, weights) = entries.of(&ids)?;
                let mut columns = self.keys.keys_of(&groups)?;
                columns.extend([values, Arc::new(weights) as ArrayRef, self.numbered(groups.len())]);
                Ok(columns)
            }
        }
    }

    fn numbered(&self, rows: usize) -> ArrayRef {
        Arc::new(Int64Array::from(vec![self.snapshots.number; rows]))
    }

    /// Takes rows of a snapshot.
    pub(super) fn take_up(&mut self, table: usize, rows: &RecordBatch) -> Result<()> {
        let tables = self.tables();
        let of = *tables.get(table).ok_or_else(|| Error::internal(format!("there is no table {table}")))?;
        let shape = self.shape(of, table == 0);
        check_columns(&rows.schema(), &shape.schema)?;
        let rows = RecordBatch::try_new(shape.schema, rows.columns().to_vec())?;
        let list = match of {
            Table::Waiting => &mut self.restored.waiting,
            Table::Before => &mut self.restored.before,
            Table::States => return self.take_states(&rows),
            Table::Values(place) => return self.take_values(place, &rows),
        };
        self.snapshots.restoring_rows(rows.num_rows());
        list.push(rows);
        Ok(())
    }

    fn take_states(&mut self, rows: &RecordBatch) -> Result<()> {
        let versions = numbers(rows.columns(), rows.num_columns() - 1)?;
        self.snapshots.restoring(versions);
        let ids = self.intern(&rows.columns()[..self.spec.keys], rows.num_rows())?;
        let latest = self.changes.latest(&ids, versions);
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

    fn take_values(&mut self, place: usize, rows: &RecordBatch) -> Result<()> {
        let columns = &rows.columns()[self.spec.keys..];
        let (weights, versions) = (numbers(columns, 1)?, numbers(columns, 2)?);
        self.snapshots.restoring(versions);
        let ids = self.intern(&rows.columns()[..self.spec.keys], rows.num_rows())?;
        let accumulator = &mut self.functions.calls[place].accumulator;
        let Some(entries) = accumulator.entries() else { return Ok(()) };
        let changed = entries.restore(&ids, &columns[0], weights, Some(versions))?;
        accumulator.entries_restored(&changed)
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
        let watermark = self.watermark;
        if let Some(time) = self.spec.time {
            self.restored.waiting = later(&self.restored.waiting, time, watermark.saturating_add(1))?;
        }
        if let Frame::Range { preceding_ms: Some(ms) } = self.spec.frame {
            let (time, first) = (self.spec.keys + self.read.len(), self.first_needed(ms));
            self.restored.before = later(&self.restored.before, time, first)?;
        }
        self.keep_last_rows()
    }

    /// Drops restored rows that are in no frame of a number of rows any more: files of several snapshots have more.
    pub(super) fn keep_last_rows(&mut self) -> Result<()> {
        let Frame::Rows { preceding: Some(preceding) } = self.spec.frame else { return Ok(()) };
        let preceding = i64::try_from(preceding).unwrap_or(i64::MAX);
        let (batches, mut ends, mut groups_of) = (std::mem::take(&mut self.restored.before), Vec::new(), Vec::new());
        for rows in &batches {
            let groups = self.intern(&rows.columns()[..self.spec.keys], rows.num_rows())?;
            ends.resize(self.keys.len(), i64::MIN);
            for (group, place) in groups.iter().zip(places(rows)?.values()) {
                ends[*group] = place.saturating_add(1).max(ends[*group]);
            }
            groups_of.push(groups);
        }
        for (rows, groups) in batches.iter().zip(groups_of) {
            let is_needed = |(group, place): (&usize, &i64)| Some(*place >= ends[*group].saturating_sub(preceding));
            let is_needed: BooleanArray = groups.iter().zip(places(rows)?.values()).map(is_needed).collect();
            let rows = filter_record_batch(rows, &is_needed)?;
            if rows.num_rows() > 0 {
                self.restored.before.push(rows);
            }
        }
        self.restored.before_max = 2 * self.restored.before.iter().map(RecordBatch::num_rows).sum::<usize>();
        Ok(())
    }

    /// Nothing else is restored: rows take their places.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.changes.restored();
        self.functions
            .calls
            .iter_mut()
            .filter_map(|call| call.accumulator.entries())
            .for_each(|of| of.changes.restored());
        let waiting = std::mem::take(&mut self.restored.waiting);
        if let Some((rows, sequences)) = in_order(&waiting, &self.spec.schema)? {
            let groups = self.intern(&rows.columns()[..self.spec.keys], rows.num_rows())?;
            let time = self.spec.time.ok_or_else(|| Error::internal("rows wait without a time"))?;
            let times = event_times(rows.column(time))?.to_vec();
            self.waiting.restore(&rows, (&groups, &times), &sequences)?;
        }
        let before = std::mem::take(&mut self.restored.before);
        if let Some(first) = before.first() {
            let rows = concat_batches(&first.schema(), &before)?;
            self.settle_before(&rows)?;
        }
        Ok(())
    }

    /// Rows before, in the order of their times, and then of their places among the rows of their partitions.
    fn settle_before(&mut self, rows: &RecordBatch) -> Result<()> {
        let keys = self.spec.keys;
        let places = places(rows)?;
        let times = match self.has_range() {
            true => event_times(rows.column(keys + self.read.len()))?.to_vec(),
            false => vec![i64::MIN; rows.num_rows()],
        };
        let ids = self.intern(&rows.columns()[..keys], rows.num_rows())?;
        let mut order: Vec<usize> = (0..rows.num_rows()).collect();
        order.sort_by_key(|row| (times[*row], places.value(*row)));
        let at: UInt64Array = order.iter().map(|row| *row as u64).collect();
        let read = rows.columns()[keys..keys + self.read.len()].iter().map(|column| Ok(take(column, &at, None)?));
        let read = read.collect::<Result<Vec<_>>>()?;
        let groups = order.iter().map(|row| narrow(ids[*row])).collect::<Result<Vec<_>>>()?;
        let first = self.history.add(&read, groups, times.iter().copied().max().unwrap_or(i64::MIN));
        let most = match self.spec.frame {
            Frame::Rows { preceding: Some(rows) } => usize::try_from(rows).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        for (number, row) in order.into_iter().enumerate() {
            let group = ids[row];
            self.history.push(group, first + number as u64, times[row]);
            self.history.lists[group].count = places.value(row) + 1;
            if self.history.lists[group].rows.len() > most {
                self.history.pop(group);
            }
        }
        self.history.tidy()?;
        self.history.snapshot = self.history.next;
        let Existing { rows, groups, .. } = self.history.rows_from(0);
        let batch = self.batch_of(self.history.columns(&rows)?, rows.len())?;
        self.functions.run(&batch, (&groups, None), &Readings::default()).map(|_| ())
    }
}

/// The places of rows before among those of their partitions.
fn places(rows: &RecordBatch) -> Result<&Int64Array> {
    numbers(rows.columns(), rows.num_columns() - 1)
}
