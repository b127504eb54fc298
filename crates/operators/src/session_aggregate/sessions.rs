//! The sessions that have not ended. A removed session has a row of state that says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::{NamedExpr, WindowAggregateSpec};
use anabranch_model::Result;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, TimeUnit};

use super::pieces::{Piece, Pieces};
use crate::event_time::{event_times, time_column};
use crate::keyed_state::{
    ChangedRows, Extent, Identity, KeyedRows, Noted, SPARSE_MIN, Table, Taken, narrow, number, numbers,
};
use crate::window_aggregate::AggregateFunctions;

const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// The pieces of a session with more of them are merged.
const PIECES_MAX: usize = if cfg!(test) { 3 } else { 16 };

/// A key's id, and the start of a session: two sessions of a key never overlap.
pub(super) type SessionId = (u32, i64);

pub(super) struct Sessions {
    /// Keys and start, which identify a session; whether it exists, its end, and its states.
    table: Table,
    /// Number of key columns.
    keys: usize,
    /// Number of sessions of each key.
    of_keys: Vec<u32>,
    /// Number of keys with sessions.
    pub(super) live_keys: usize,
    pub(super) sessions: BTreeMap<SessionId, Session>,
    pub(super) ends: BTreeSet<(i64, SessionId)>,
    pub(super) pieces: Pieces,
    /// The changed sessions. Those that are not among `sessions` have been removed.
    changes: ChangedRows<SessionId>,
}

/// A session that has not ended.
pub(super) struct Session {
    /// The last time plus the gap.
    pub(super) end: i64,
    pieces: Vec<Piece>,
}

/// A session among the rows of one batch.
pub(super) struct BatchSession {
    pub(super) key: u32,
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) rows: u64,
}

impl Sessions {
    pub(super) fn new(spec: &WindowAggregateSpec, functions: AggregateFunctions) -> Sessions {
        let keys = spec.keys.iter().map(NamedExpr::field);
        let [start, end] = ["session_start", "session_end"].map(|name| Field::new(name, TIME, false));
        // A removed session has no states.
        let states = functions.state_fields().map(|field| field.with_nullable(true));
        let fields = keys.chain([start, number("$sessions"), end]).chain(states).collect();
        Sessions {
            table: Table::new("", fields, Identity::Counted(spec.keys.len() + 1), false),
            keys: spec.keys.len(),
            of_keys: Vec::new(),
            live_keys: 0,
            sessions: BTreeMap::new(),
            ends: BTreeSet::new(),
            pieces: Pieces::new(functions),
            changes: ChangedRows::default(),
        }
    }

    /// Adds the rows of a batch, given their sessions. Returns the number of late rows.
    pub(super) fn add(
        &mut self,
        batch: &RecordBatch,
        runs: &[BatchSession],
        run_of: &[usize],
        watermark: i64,
    ) -> Result<u64> {
        let pieces = self.pieces.add_rows(batch, run_of, runs.len())?;
        let (mut long, mut late_rows) = (Vec::new(), 0);
        for (run, piece) in runs.iter().zip(pieces) {
            match self.merge(run, piece, watermark) {
                Some(id) if self.sessions.get(&id).is_some_and(|session| session.pieces.len() > PIECES_MAX) => {
                    long.push(id);
                }
                Some(_) => {}
                None => late_rows += run.rows,
            }
        }
        // A later run may have been merged with the session of an earlier one.
        long.sort_unstable();
        long.dedup();
        self.put_together(&long)?;
        Ok(late_rows)
    }

    /// Merges a run with the sessions that it touches, or drops it if it is late even then. Returns the id of
    /// the session.
    fn merge(&mut self, run: &BatchSession, piece: Piece, watermark: i64) -> Option<SessionId> {
        let (mut start, mut session) = (run.start, Session { end: run.end, pieces: Vec::new() });
        let behind = self.sessions.range((run.key, i64::MIN)..=(run.key, run.end)).rev();
        let met: Vec<SessionId> = behind.take_while(|(_, other)| other.end >= run.start).map(|(id, _)| *id).collect();
        for id in met.into_iter().rev() {
            if let Some(other) = self.remove(id) {
                start = start.min(id.1);
                session.end = session.end.max(other.end);
                match session.pieces.is_empty() {
                    true => session.pieces = other.pieces,
                    false => session.pieces.extend(other.pieces),
                }
            }
        }
        if session.end <= watermark {
            self.pieces.release(&[piece]);
            return None;
        }
        session.pieces.push(piece);
        self.insert((run.key, start), session);
        Some((run.key, start))
    }

    fn insert(&mut self, id: SessionId, session: Session) {
        self.changes.add(&id);
        self.take_up(id, session);
    }

    /// Inserts a session that has not changed.
    fn take_up(&mut self, id: SessionId, session: Session) {
        let of_key = &mut self.of_keys[id.0 as usize];
        self.live_keys += usize::from(*of_key == 0);
        *of_key += 1;
        self.ends.insert((session.end, id));
        self.sessions.insert(id, session);
    }

    pub(super) fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        self.changes.add(&id);
        let of_key = &mut self.of_keys[id.0 as usize];
        *of_key -= 1;
        self.live_keys -= usize::from(*of_key == 0);
        self.ends.remove(&(session.end, id));
        Some(session)
    }

    /// Merges the pieces of each of these sessions.
    fn put_together(&mut self, ids: &[SessionId]) -> Result<()> {
        let many: Vec<SessionId> = ids
            .iter()
            .filter(|id| self.sessions.get(id).is_some_and(|session| session.pieces.len() > 1))
            .copied()
            .collect();
        let lists: Vec<&[Piece]> = many.iter().filter_map(|id| Some(&*self.sessions.get(id)?.pieces)).collect();
        let states = self.pieces.merged(&lists)?;
        for (id, piece) in many.iter().zip(self.pieces.add(states, many.len())?) {
            if let Some(session) = self.sessions.get_mut(id) {
                self.pieces.release(&session.pieces);
                session.pieces = vec![piece];
            }
        }
        Ok(())
    }

    /// Sessions that end at or before `to`, at most `most`.
    pub(super) fn due(&self, to: i64, most: usize) -> Vec<SessionId> {
        self.ends.range(..=(to, (u32::MAX, i64::MAX))).take(most).map(|(_, id)| *id).collect()
    }

    /// The results of sessions that were removed.
    pub(super) fn results(&mut self, ended: &[Session]) -> Result<Vec<ArrayRef>> {
        let lists: Vec<&[Piece]> = ended.iter().map(|session| &*session.pieces).collect();
        let results = self.pieces.results(&lists)?;
        lists.into_iter().for_each(|list| self.pieces.release(list));
        Ok(results)
    }

    /// The states of rows of the table.
    fn pieces_of(&mut self, rows: &RecordBatch, at: &UInt64Array) -> Result<Vec<Piece>> {
        let states = rows.columns()[self.keys + 3..rows.num_columns() - 1].iter();
        let states = states.map(|column| Ok(take(column, at, None)?)).collect::<Result<Vec<_>>>()?;
        self.pieces.add(states, at.len())
    }
}

impl KeyedRows for Sessions {
    fn tables(&self) -> Vec<Table> {
        vec![self.table.clone()]
    }

    fn changes(&mut self, each: &mut dyn FnMut(&mut dyn Noted)) {
        each(&mut self.changes);
    }

    fn make_room(&mut self, keys: usize) {
        self.of_keys.resize(keys, 0);
    }

    fn take_out(&mut self, part: Extent, _number: i64) -> Result<Vec<Taken>> {
        let ids = self.changes.take(part).unwrap_or_else(|| self.sessions.keys().copied().collect());
        self.put_together(&ids)?;
        let (there, gone): (Vec<SessionId>, Vec<SessionId>) =
            ids.into_iter().partition(|id| self.sessions.contains_key(id));
        let all = || there.iter().chain(&gone);
        let sessions: Vec<&Session> = there.iter().filter_map(|id| self.sessions.get(id)).collect();
        let starts: Vec<i64> = all().map(|(_, start)| *start).collect();
        let ends = sessions.iter().map(|session| session.end).chain(gone.iter().map(|(_, start)| *start)).collect();
        let are_there = all().enumerate().map(|(row, _)| i64::from(row < there.len()));
        let are_there: ArrayRef = Arc::new(are_there.collect::<Int64Array>());
        let mut columns = vec![time_column(starts, &TIME)?, are_there, time_column(ends, &TIME)?];
        let lists: Vec<&[Piece]> = sessions.iter().map(|session| &*session.pieces).collect();
        let states = self.pieces.merged(&lists)?;
        for (index, field) in self.table.fields[self.keys + 3..].iter().enumerate() {
            let nulls = new_null_array(field.data_type(), gone.len());
            columns.push(match states.get(index) {
                Some(states) if gone.is_empty() => Arc::clone(states),
                Some(states) => concat(&[states.as_ref(), nulls.as_ref()])?,
                None => nulls,
            });
        }
        Ok(vec![Taken::new(all().map(|(key, _)| *key as usize).collect(), columns)])
    }

    fn put_in(
        &mut self,
        _table: usize,
        keys: &[usize],
        rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        let columns = &rows.columns()[self.keys..];
        let (starts, ends, are_there) = (event_times(&columns[0])?, event_times(&columns[2])?, numbers(columns, 1)?);
        // A file may have several rows of a session.
        let mut latest = BTreeMap::new();
        for (row, key) in keys.iter().enumerate() {
            let id: SessionId = (narrow(*key)?, starts[row]);
            if let Some(versions) = versions {
                if !self.changes.is_latest(&id, versions.value(row)) {
                    continue;
                }
                if let Some(former) = self.remove(id) {
                    self.pieces.release(&former.pieces);
                }
            }
            match are_there.value(row) {
                0 => latest.remove(&id),
                _ => latest.insert(id, row),
            };
        }
        let pieces = self.pieces_of(rows, &latest.values().map(|row| *row as u64).collect())?;
        for ((id, row), piece) in latest.into_iter().zip(pieces) {
            self.take_up(id, Session { end: ends[row], pieces: vec![piece] });
        }
        Ok(())
    }

    fn succeed(&mut self, former: &mut Self) {
        std::mem::swap(&mut self.of_keys, &mut former.of_keys);
        std::mem::swap(&mut self.sessions, &mut former.sessions);
        std::mem::swap(&mut self.ends, &mut former.ends);
        std::mem::swap(&mut self.changes, &mut former.changes);
        self.pieces.take_over(&mut former.pieces);
        self.live_keys = former.live_keys;
    }

    fn count(&mut self) -> usize {
        self.sessions.len()
    }

    fn size_bytes(&self) -> usize {
        // The nodes of the trees are about two thirds full.
        let session = 2 * (size_of::<(SessionId, Session)>() + size_of::<(i64, SessionId)>() + size_of::<Piece>());
        let changed = self.changes.len() * 2 * size_of::<(SessionId, i64)>();
        let keys = self.of_keys.capacity() * size_of::<u32>();
        keys + self.sessions.len() * session + changed + self.pieces.size_bytes()
    }

    /// Frees the memory of states that no session has, once they are the majority.
    fn living(&mut self) -> Result<Option<Vec<usize>>> {
        if self.pieces.is_sparse() {
            let mut lists: Vec<&mut Vec<Piece>> =
                self.sessions.values_mut().map(|session| &mut session.pieces).collect();
            self.pieces.gather_all(&mut lists)?;
        }
        let is_sparse = self.of_keys.len() > 2 * self.live_keys + SPARSE_MIN && self.changes.is_empty();
        Ok(is_sparse.then(|| (0..self.of_keys.len()).filter(|key| self.of_keys[*key] > 0).collect()))
    }

    fn keep(&mut self, keys: &[usize]) -> Result<()> {
        let moved = |key: u32| keys.binary_search(&(key as usize)).ok().and_then(|index| u32::try_from(index).ok());
        let sessions = std::mem::take(&mut self.sessions).into_iter();
        self.sessions = sessions.filter_map(|((key, start), session)| Some(((moved(key)?, start), session))).collect();
        self.ends = self.sessions.iter().map(|(id, session)| (session.end, *id)).collect();
        self.of_keys = keys.iter().map(|key| self.of_keys[*key]).collect();
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        (self.of_keys, self.live_keys) = (Vec::new(), 0);
        self.sessions.clear();
        self.ends.clear();
        self.pieces.clear();
        Ok(())
    }

    fn timers(&self) -> Result<Vec<(i64, usize)>> {
        Ok(self.sessions.iter().map(|((key, _), session)| (session.end, *key as usize)).collect())
    }

    fn timers_away(&self, _table: usize, rows: &RecordBatch) -> Result<Vec<(i64, usize)>> {
        let columns = &rows.columns()[self.keys..];
        let (are_there, ends) = (numbers(columns, 1)?, event_times(&columns[2])?);
        let there = (0..rows.num_rows()).filter(|row| are_there.value(*row) != 0);
        Ok(there.map(|row| (ends[row], row)).collect())
    }
}
