//! Snapshots: the sessions that have changed since the last one, or all. A session that is gone has a row that says so.

use std::sync::Arc;

use anabranch_dataflow::WindowAggregateSpec;
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::pieces::Piece;
use super::{Session, SessionAggregate, SessionId};
use crate::event_time::{event_times, time_column};
use crate::keyed_state::{check_columns, narrow, number, numbers};
use crate::operator::{StateChange, StateShape};
use crate::window_aggregate::AggregateFunctions;

const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// Keys, start and end, states, whether the session is there, the number of the snapshot.
pub(super) fn shape(spec: &WindowAggregateSpec, functions: &AggregateFunctions) -> StateShape {
    let keys = spec.keys.iter().map(|key| Field::new(&key.name, key.data_type.clone(), key.nullable));
    let bounds = ["session_start", "session_end"].map(|name| Field::new(name, TIME, false));
    // A session that is gone has none.
    let states = functions.state_fields().map(|field| field.with_nullable(true));
    let own = ["$sessions", "$snapshot"].map(number);
    let fields: Vec<Field> = keys.chain(bounds).chain(states).chain(own).collect();
    StateShape { table: String::new(), schema: Arc::new(Schema::new(fields)), keys: 0..spec.keys.len(), pane: None }
}

impl SessionAggregate {
    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<StateChange> {
        let complete = self.snapshots.is_complete(adds);
        self.snapshots.number += 1;
        let changed = std::mem::take(&mut self.changes.ids);
        self.changes.noted = true;
        let ids: Vec<SessionId> = match complete {
            true => self.sessions.keys().copied().collect(),
            false => changed.into_iter().collect(),
        };
        self.put_together(&ids)?;
        let (there, gone): (Vec<SessionId>, Vec<SessionId>) =
            ids.into_iter().partition(|id| self.sessions.contains_key(id));
        let rows = self.rows_of(&there, &gone)?;
        let emitted = rows.num_rows();
        self.snapshots.emitted(complete, emitted);
        let rows = if emitted > 0 { vec![rows] } else { Vec::new() };
        Ok(StateChange { rows, complete, runs: Vec::new(), first_pane: EventTime::MIN })
    }

    fn rows_of(&self, there: &[SessionId], gone: &[SessionId]) -> Result<RecordBatch> {
        let all = || there.iter().chain(gone);
        let rows = there.len() + gone.len();
        let mut columns = self.table.keys_of(&all().map(|(key, _)| *key as usize).collect::<Vec<_>>())?;
        let sessions: Vec<&Session> = there.iter().filter_map(|id| self.sessions.get(id)).collect();
        let starts: Vec<i64> = all().map(|(_, start)| *start).collect();
        let ends = sessions.iter().map(|session| session.end).chain(gone.iter().map(|(_, start)| *start)).collect();
        columns.extend([time_column(starts, &TIME)?, time_column(ends, &TIME)?]);
        let lists: Vec<&[Piece]> = sessions.iter().map(|session| &*session.pieces).collect();
        let states = self.pieces.merged(&lists)?;
        let first_state = self.shape.keys.end + 2;
        let fields = &self.shape.schema.fields()[first_state..self.shape.schema.fields().len() - 2];
        for (index, field) in fields.iter().enumerate() {
            let nulls = new_null_array(field.data_type(), gone.len());
            columns.push(match states.get(index) {
                Some(states) if gone.is_empty() => Arc::clone(states),
                Some(states) => concat(&[states.as_ref(), nulls.as_ref()])?,
                None => nulls,
            });
        }
        let are_there = all().enumerate().map(|(row, _)| i64::from(row < there.len()));
        columns.push(Arc::new(are_there.collect::<Int64Array>()) as ArrayRef);
        columns.push(Arc::new(Int64Array::from(vec![self.snapshots.number; rows])));
        Ok(RecordBatch::try_new(Arc::clone(&self.shape.schema), columns)?)
    }

    /// Merges rows of a snapshot.
    pub(super) fn take_up(&mut self, rows: &RecordBatch) -> Result<()> {
        check_columns(&rows.schema(), &self.shape.schema)?;
        let (keys, columns) = rows.columns().split_at(self.shape.keys.end);
        let (columns, own) = columns.split_at(columns.len() - 2);
        let (are_there, versions) = (numbers(own, 0)?, numbers(own, 1)?);
        self.snapshots.restoring(versions);
        let ids = self.intern(keys, rows.num_rows())?;
        let (starts, ends) = (event_times(&columns[0])?, event_times(&columns[1])?);
        let mut latest = Vec::new();
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
            if are_there.value(row) != 0 {
                latest.push((row, id));
            }
        }
        let at: UInt64Array = latest.iter().map(|(row, _)| *row as u64).collect();
        let states = columns[2..].iter().map(|column| Ok(take(column, &at, None)?)).collect::<Result<Vec<_>>>()?;
        let pieces = self.pieces.add(states, latest.len())?;
        for ((row, id), piece) in latest.into_iter().zip(pieces) {
            if self.sessions.contains_key(&id) {
                return Err(Error::internal("a snapshot has a session twice"));
            }
            self.insert(id, Session { end: ends[row], pieces: vec![piece] });
        }
        Ok(())
    }
}
