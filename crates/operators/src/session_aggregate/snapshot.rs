//! Snapshots: the sessions that have changed since the last one, or all. A session that is gone has a row that says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::WindowAggregateSpec;
use anabranch_model::{EventTime, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::pieces::Piece;
use super::{Session, SessionAggregate, SessionId};
use crate::event_time::{event_times, time_column};
use crate::keyed_state::{Part, check_columns, narrow, number, numbers};
use crate::operator::{StateChange, StateShape};
use crate::window_aggregate::AggregateFunctions;

const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// Column of whether a session is there.
const SESSIONS: &str = "$sessions";

/// Keys and start, which say which session it is; whether it is there, its end, states, the number of the snapshot.
pub(super) fn shape(spec: &WindowAggregateSpec, functions: &AggregateFunctions) -> StateShape {
    let keys = spec.keys.iter().map(|key| Field::new(&key.name, key.data_type.clone(), key.nullable));
    let [start, end] = ["session_start", "session_end"].map(|name| Field::new(name, TIME, false));
    // A session that is gone has none.
    let states = functions.state_fields().map(|field| field.with_nullable(true));
    let fields = keys.chain([start, number(SESSIONS), end]).chain(states).chain([number("$snapshot")]);
    let fields: Vec<Field> = fields.collect();
    StateShape { table: String::new(), schema: Arc::new(Schema::new(fields)), keys: 0..spec.keys.len(), pane: None }
}

impl SessionAggregate {
    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<StateChange> {
        let (complete, part, mut runs) = self.snapshots.begin(self.disk.as_mut(), adds)?;
        let rows = self.take_rows(part)?;
        let emitted = rows.num_rows();
        self.snapshots.emitted(complete, emitted);
        let rows = if emitted > 0 { vec![rows] } else { Vec::new() };
        Ok(StateChange { rows, complete, runs: runs.pop().unwrap_or_default(), first_pane: EventTime::MIN })
    }

    /// Takes sessions, as those of a new snapshot.
    pub(super) fn take_rows(&mut self, part: Part) -> Result<RecordBatch> {
        self.snapshots.number += 1;
        let changed = std::mem::take(&mut self.changes.ids);
        self.changes.noted = true;
        let ids: Vec<SessionId> = match part {
            Part::All => self.sessions.keys().copied().collect(),
            Part::Changed => changed.into_iter().collect(),
            Part::Unwritten => self.changes.unwritten.iter().flatten().copied().collect(),
        };
        self.put_together(&ids)?;
        let (there, gone): (Vec<SessionId>, Vec<SessionId>) =
            ids.into_iter().partition(|id| self.sessions.contains_key(id));
        self.rows_of(&there, &gone)
    }

    fn rows_of(&self, there: &[SessionId], gone: &[SessionId]) -> Result<RecordBatch> {
        let all = || there.iter().chain(gone);
        let rows = there.len() + gone.len();
        let mut columns = self.table.keys_of(&all().map(|(key, _)| *key as usize).collect::<Vec<_>>())?;
        let sessions: Vec<&Session> = there.iter().filter_map(|id| self.sessions.get(id)).collect();
        let starts: Vec<i64> = all().map(|(_, start)| *start).collect();
        let ends = sessions.iter().map(|session| session.end).chain(gone.iter().map(|(_, start)| *start)).collect();
        let are_there = all().enumerate().map(|(row, _)| i64::from(row < there.len()));
        let are_there: ArrayRef = Arc::new(are_there.collect::<Int64Array>());
        columns.extend([time_column(starts, &TIME)?, are_there, time_column(ends, &TIME)?]);
        let lists: Vec<&[Piece]> = sessions.iter().map(|session| &*session.pieces).collect();
        let states = self.pieces.merged(&lists)?;
        let first_state = self.shape.keys.end + 3;
        let fields = &self.shape.schema.fields()[first_state..self.shape.schema.fields().len() - 1];
        for (index, field) in fields.iter().enumerate() {
            let nulls = new_null_array(field.data_type(), gone.len());
            columns.push(match states.get(index) {
                Some(states) if gone.is_empty() => Arc::clone(states),
                Some(states) => concat(&[states.as_ref(), nulls.as_ref()])?,
                None => nulls,
            });
        }
        columns.push(Arc::new(Int64Array::from(vec![self.snapshots.number; rows])));
        Ok(RecordBatch::try_new(Arc::clone(&self.shape.schema), columns)?)
    }

    /// Merges rows of a snapshot.
    pub(super) fn take_up(&mut self, rows: RecordBatch) -> Result<()> {
        let rows = in_order(rows, self.shape.keys.end)?;
        check_columns(&rows.schema(), &self.shape.schema)?;
        let (keys, columns) = rows.columns().split_at(self.shape.keys.end);
        let (are_there, versions) = (numbers(columns, 1)?, numbers(columns, columns.len() - 1)?);
        self.snapshots.restoring(versions);
        if self.disk.is_some() {
            return self.restore_away(rows);
        }
        let (ids, _) = self.intern(keys, rows.num_rows())?;
        let (starts, ends) = (event_times(&columns[0])?, event_times(&columns[2])?);
        // A file may have several rows of a session.
        let mut latest = BTreeMap::new();
        for (row, key) in ids.into_iter().enumerate() {
            let id: SessionId = (narrow(key)?, starts[row]);
            let version = versions.value(row);
            if self.changes.versions.get(&id).is_some_and(|earlier| *earlier >= version) {
                continue;
            }
            self.changes.versions.insert(id, version);
            if let Some(former) = self.remove(id) {
                self.pieces.release(&former.pieces);
            }
            match are_there.value(row) {
                0 => latest.remove(&id),
                _ => latest.insert(id, row),
            };
        }
        let pieces = self.pieces_of(columns, &latest.values().copied().collect::<Vec<_>>())?;
        for ((id, row), piece) in latest.into_iter().zip(pieces) {
            self.insert(id, Session { end: ends[row], pieces: vec![piece] });
        }
        self.keep_to_size()
    }

    /// The states of rows, whose columns after the keys these are.
    pub(super) fn pieces_of(&mut self, columns: &[ArrayRef], rows: &[usize]) -> Result<Vec<Piece>> {
        let at: UInt64Array = rows.iter().map(|row| *row as u64).collect();
        let states = columns[3..columns.len() - 1].iter();
        let states = states.map(|column| Ok(take(column, &at, None)?)).collect::<Result<Vec<_>>>()?;
        self.pieces.add(states, rows.len())
    }
}

/// Rows in the order of columns of today. An earlier version had whether a session is there behind its states.
fn in_order(rows: RecordBatch, keys: usize) -> Result<RecordBatch> {
    let (at, columns) = (keys + 1, rows.num_columns());
    let is_there = rows.schema_ref().fields().get(columns.saturating_sub(2));
    if is_there.is_none_or(|field| field.name() != SESSIONS) || columns < keys + 4 {
        return Ok(rows);
    }
    let order: Vec<usize> = (0..at).chain([columns - 2]).chain(at..columns - 2).chain([columns - 1]).collect();
    Ok(rows.project(&order)?)
}
