//! Aggregation by keys and session: rows of a key belong together while each follows another one by no more than the gap.
//!
//! The rows of a batch are divided into sessions of their own, which are then merged with those of earlier batches. A session has a
//! list of pieces: rows of aggregate states, in columns, that are only put together when the session ends, when its list has grown
//! long, and for a snapshot. So a row costs no read of a state.
//!
//! A row that is exactly the gap behind another one continues its session. Such a row may come until the watermark has reached the
//! session's end, one millisecond after `window_time`. So sessions fire then, and what leaves the operator is event time 1 ms earlier.

mod on_disk;
mod pieces;
mod snapshot;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, Window, WindowAggregateSpec};
use anabranch_model::{Error, EventTime, Result};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter_record_batch, is_not_null, take, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};

use self::pieces::{Piece, Pieces};
use crate::event_time::event_times;
use crate::key_table::KeyTable;
use crate::keyed_state::{OnDisk, SPARSE_MIN, Snapshots, Timers, halves, is_full, narrow};
use crate::operator::{RESULT_ROWS, StateChange, StateShape, same_kind};
use crate::window_aggregate::{AggregateFunctions, result_schema};
use crate::window_assign::bound_columns;
use crate::{CompiledExpr, Dropped, Functions, Operator, Output, State, hash_keys};

/// A session with more pieces gets them put together.
const PIECES_MAX: usize = if cfg!(test) { 3 } else { 16 };

/// A key's number, and the start of a session: no two sessions of a key are at the same time.
type SessionId = (u32, i64);

pub(crate) struct SessionAggregate {
    gap: i64,
    time: CompiledExpr,
    time_type: DataType,
    keys: Vec<CompiledExpr>,
    schema: SchemaRef,
    shape: StateShape,
    key_types: Vec<DataType>,
    table: KeyTable,
    /// Number of sessions of each key, and of keys that have some.
    of_keys: Vec<u32>,
    live_keys: usize,
    sessions: BTreeMap<SessionId, Session>,
    /// The sessions by their ends.
    ends: BTreeSet<(i64, SessionId)>,
    pieces: Pieces,
    changes: Changes,
    snapshots: Snapshots,
    watermark: i64,
    /// The watermark whose sessions are being emitted.
    firing: Option<i64>,
    dropped: Dropped,
    bytes_max: usize,
    /// Where sessions are that do not fit into memory, and when these end.
    disk: Option<OnDisk>,
    timers: Option<Timers>,
    /// Hashes of keys whose sessions may have ended.
    due: Vec<Vec<u64>>,
    /// Parts of a batch whose keys do not fit into memory at once, with their times.
    divided: VecDeque<(RecordBatch, ArrayRef)>,
}

/// A session that has not ended.
struct Session {
    /// The last time plus the gap.
    end: i64,
    pieces: Vec<Piece>,
}

/// Sessions that have changed since the last snapshot. One that is not among the sessions is gone.
#[derive(Default)]
struct Changes {
    /// Nothing is noted before the first snapshot, which contains everything.
    noted: bool,
    ids: BTreeSet<SessionId>,
    /// Since the tables were written to the disk, if they are.
    unwritten: Option<BTreeSet<SessionId>>,
    /// While state is restored: the snapshot that each session is from.
    versions: BTreeMap<SessionId, i64>,
}

impl Changes {
    /// The tables are written to the disk.
    fn for_disk() -> Changes {
        Changes { noted: true, unwritten: Some(BTreeSet::new()), ..Changes::default() }
    }

    fn add(&mut self, id: SessionId) {
        if self.noted {
            self.ids.insert(id);
            self.unwritten.iter_mut().for_each(|ids| _ = ids.insert(id));
        }
    }

    fn len(&self) -> usize {
        self.ids.len() + self.unwritten.as_ref().map_or(0, BTreeSet::len)
    }
}

/// A session among the rows of one batch.
struct Run {
    key: u32,
    start: i64,
    end: i64,
    rows: u64,
}

impl SessionAggregate {
    pub(crate) fn new(spec: &WindowAggregateSpec, functions: &Functions, options: &JobOptions) -> Result<Self> {
        let Window::Session { gap_ms: gap } = spec.window else {
            return Err(Error::internal(format!("{} is no session", spec.window)));
        };
        let input = &spec.input_schema;
        let compile = |expr| CompiledExpr::new(expr, input, functions);
        let time = spec.time.as_ref().ok_or_else(|| Error::internal("a session without event time"))?;
        let functions = AggregateFunctions::new(&spec.aggregates, input, functions)?;
        let key_types: Vec<DataType> = spec.keys.iter().map(|key| key.data_type.clone()).collect();
        let shape = snapshot::shape(spec, &functions);
        let disk = OnDisk::new(std::slice::from_ref(&shape), None, options)?;
        Ok(SessionAggregate {
            gap,
            time: compile(time)?,
            time_type: spec.time_type.clone(),
            keys: spec.keys.iter().map(|key| compile(&key.expr)).collect::<Result<_>>()?,
            schema: result_schema(spec, true),
            shape,
            table: KeyTable::by_id(key_types.clone())?,
            key_types,
            of_keys: Vec::new(),
            live_keys: 0,
            sessions: BTreeMap::new(),
            ends: BTreeSet::new(),
            pieces: Pieces::new(functions),
            changes: if disk.is_some() { Changes::for_disk() } else { Changes::default() },
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            watermark: i64::MIN,
            firing: None,
            dropped: Dropped::default(),
            bytes_max: options.state_bytes,
            disk,
            timers: Timers::new(gap, options)?,
            due: Vec::new(),
            divided: VecDeque::new(),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The numbers of keys, and their hashes.
    fn intern(&mut self, columns: &[ArrayRef], rows: usize) -> Result<(Vec<usize>, Vec<u64>)> {
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(columns, rows, &mut hashes)?;
        self.table.intern(columns, &hashes, &mut ids)?;
        self.of_keys.resize(self.table.len(), 0);
        Ok((ids, hashes))
    }

    /// Adds rows with these event times.
    fn add(&mut self, batch: &RecordBatch, time: &ArrayRef) -> Result<()> {
        let columns = self.keys.iter_mut().map(|key| key.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        let known = self.table.len();
        let (keys, hashes) = self.intern(&columns, batch.num_rows())?;
        if !self.load(known, &keys, &hashes)? {
            // What is in memory makes room, and each half has half of the keys.
            self.put_away()?;
            for half in halves(&hashes).iter().rev() {
                self.divided.push_front((take_record_batch(batch, half)?, take(time, half, None)?));
            }
            return Ok(());
        }
        let (runs, run_of) = self.runs(&keys, &event_times(time)?)?;
        let pieces = self.pieces.add_rows(batch, &run_of, runs.len())?;
        let mut long = Vec::new();
        for (run, piece) in runs.iter().zip(pieces) {
            if let Some(id) = self.merge(run, piece)
                && self.sessions.get(&id).is_some_and(|session| session.pieces.len() > PIECES_MAX)
            {
                long.push(id);
            }
        }
        // A later run may have met the session of an earlier one.
        long.sort_unstable();
        long.dedup();
        self.put_together(&long)?;
        self.tidy()?;
        self.keep_to_size()
    }

    fn keep_to_size(&mut self) -> Result<()> {
        let is_full = is_full(self.disk.as_ref(), self.size_bytes(), self.bytes_max)?;
        if is_full { self.put_away() } else { Ok(()) }
    }

    /// A small step of the work on the disk.
    fn work(&mut self) -> Result<()> {
        self.timers.as_mut().map_or(Ok(()), Timers::work)?;
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)
    }

    /// Divides rows into sessions. Also returns the session of each row.
    fn runs(&self, keys: &[usize], times: &[i64]) -> Result<(Vec<Run>, Vec<usize>)> {
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|row| (keys[*row], times[*row]));
        let (mut runs, mut run_of) = (Vec::<Run>::new(), vec![0; keys.len()]);
        for row in order {
            let (key, time) = (narrow(keys[row])?, times[row]);
            let end = time.checked_add(self.gap).ok_or_else(|| {
                Error::user(format!("an event time of {time} ms since 1970 is out of range for sessions"))
                    .remedy("exclude such rows with WHERE, or correct the event-time expression")
            })?;
            match runs.last_mut().filter(|run| run.key == key && time <= run.end) {
                Some(run) => (run.end, run.rows) = (end, run.rows + 1),
                None => runs.push(Run { key, start: time, end, rows: 1 }),
            }
            run_of[row] = runs.len() - 1;
        }
        Ok((runs, run_of))
    }

    /// Merges a session with those that it meets, or drops it if it is late even so. Returns its identity.
    fn merge(&mut self, run: &Run, piece: Piece) -> Option<SessionId> {
        let (mut start, mut session) = (run.start, Session { end: run.end, pieces: Vec::new() });
        let behind = self.sessions.range((run.key, i64::MIN)..=(run.key, run.end)).rev();
        let met: Vec<SessionId> = behind.take_while(|(_, of)| of.end >= run.start).map(|(id, _)| *id).collect();
        for id in met.into_iter().rev() {
            if let Some(of) = self.remove(id) {
                start = start.min(id.1);
                session.end = session.end.max(of.end);
                match session.pieces.is_empty() {
                    true => session.pieces = of.pieces,
                    false => session.pieces.extend(of.pieces),
                }
            }
        }
        if session.end <= self.watermark {
            self.dropped.late_rows += run.rows;
            self.pieces.release(&[piece]);
            return None;
        }
        session.pieces.push(piece);
        self.insert((run.key, start), session);
        Some((run.key, start))
    }

    fn insert(&mut self, id: SessionId, session: Session) {
        self.changes.add(id);
        self.keep(id, session);
    }

    /// A session is in memory that has not changed.
    fn keep(&mut self, id: SessionId, session: Session) {
        let of_key = &mut self.of_keys[id.0 as usize];
        self.live_keys += usize::from(*of_key == 0);
        *of_key += 1;
        self.ends.insert((session.end, id));
        self.sessions.insert(id, session);
    }

    fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        self.changes.add(id);
        let of_key = &mut self.of_keys[id.0 as usize];
        *of_key -= 1;
        self.live_keys -= usize::from(*of_key == 0);
        self.ends.remove(&(session.end, id));
        Some(session)
    }

    /// Puts the pieces of each of these sessions together.
    fn put_together(&mut self, ids: &[SessionId]) -> Result<()> {
        let many: Vec<SessionId> =
            ids.iter().filter(|id| self.sessions.get(id).is_some_and(|of| of.pieces.len() > 1)).copied().collect();
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

    /// Frees the memory of states that no session has any more, once they are most.
    fn tidy(&mut self) -> Result<()> {
        if self.pieces.is_sparse() {
            let mut lists: Vec<&mut Vec<Piece>> = self.sessions.values_mut().map(|of| &mut of.pieces).collect();
            self.pieces.gather_all(&mut lists)?;
        }
        self.remove_dead_keys()
    }

    /// Forgets keys without sessions, once they are most. None may be waiting for a snapshot.
    fn remove_dead_keys(&mut self) -> Result<()> {
        if self.table.len() <= 2 * self.live_keys + SPARSE_MIN || self.changes.len() > 0 {
            return Ok(());
        }
        let live: Vec<usize> = (0..self.of_keys.len()).filter(|key| self.of_keys[*key] > 0).collect();
        let columns = self.table.keys_of(&live)?;
        self.table = KeyTable::by_id(columns.iter().map(|column| column.data_type().clone()).collect())?;
        let of_keys = live.iter().map(|key| self.of_keys[*key]).collect();
        let (ids, _) = self.intern(&columns, live.len())?;
        self.of_keys = of_keys;
        let places: BTreeMap<u32, u32> =
            live.iter().zip(&ids).map(|(old, new)| Ok((narrow(*old)?, narrow(*new)?))).collect::<Result<_>>()?;
        let sessions = std::mem::take(&mut self.sessions).into_iter();
        self.sessions = sessions.filter_map(|((key, start), of)| Some(((*places.get(&key)?, start), of))).collect();
        self.ends = self.sessions.iter().map(|(id, of)| (of.end, *id)).collect();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        // The nodes of the trees are about two thirds full.
        let session = 2 * (size_of::<(SessionId, Session)>() + size_of::<(i64, SessionId)>() + size_of::<Piece>());
        let changed = (self.changes.len() + self.changes.versions.len()) * 2 * size_of::<(SessionId, i64)>();
        let keys = self.table.size_bytes() + self.of_keys.capacity() * size_of::<u32>();
        keys + self.sessions.len() * session + changed + self.pieces.size_bytes()
    }

    /// Emits some of the sessions that end at or before `to`. False if there are none.
    fn fire(&mut self, to: i64, out: &mut Output) -> Result<bool> {
        let due = self.ends.range(..=(to, (u32::MAX, i64::MAX))).take(RESULT_ROWS).map(|(_, id)| *id);
        let due: Vec<SessionId> = due.collect();
        if due.is_empty() {
            return Ok(false);
        }
        let ended: Vec<Session> = due.iter().filter_map(|id| self.remove(*id)).collect();
        let lists: Vec<&[Piece]> = ended.iter().map(|session| &*session.pieces).collect();
        let results = self.pieces.results(&lists)?;
        lists.into_iter().for_each(|list| self.pieces.release(list));
        let mut columns = self.table.keys_of(&due.iter().map(|(key, _)| *key as usize).collect::<Vec<_>>())?;
        let bounds = due.iter().zip(&ended).map(|((_, start), session)| (*start, session.end)).unzip();
        columns.extend(bound_columns(bounds, &self.time_type)?);
        columns.extend(results);
        let options = RecordBatchOptions::new().with_row_count(Some(due.len()));
        out.batch(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        Ok(true)
    }
}

impl Operator for SessionAggregate {
    fn batch(&mut self, mut batch: RecordBatch, _out: &mut Output) -> Result<()> {
        self.changes.versions.clear();
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)?;
        let mut time = self.time.evaluate(&batch)?;
        if time.null_count() > 0 {
            self.dropped.rows_without_event_time += time.null_count() as u64;
            batch = filter_record_batch(&batch, &is_not_null(&time)?)?;
            time = self.time.evaluate(&batch)?;
        }
        self.add(&batch, &time)?;
        self.work()
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        // After a restore the inputs may be behind the restored watermark.
        let to = watermark.0.max(self.watermark);
        self.firing = Some(to);
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)?;
        self.timers.iter_mut().for_each(|timers| timers.reach(to));
        self.more(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if let Some((batch, time)) = self.divided.pop_front() {
            self.add(&batch, &time)?;
            return Ok(true);
        }
        let Some(to) = self.firing else { return Ok(false) };
        if self.fire(to, out)? || self.load_due()? {
            return Ok(true);
        }
        (self.firing, self.watermark) = (None, to);
        self.tidy()?;
        self.keep_to_size()?;
        out.watermark(EventTime(if to == i64::MAX { to } else { to.saturating_sub(1) }));
        Ok(true)
    }

    fn take_dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for SessionAggregate {
    fn tables(&self) -> Vec<StateShape> {
        vec![self.shape.clone()]
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let change = self.take_snapshot(adds)?;
        self.tidy()?;
        Ok(vec![change])
    }

    fn restore(&mut self, _table: usize, rows: RecordBatch) -> Result<()> {
        self.take_up(rows)
    }

    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.watermark = watermark.0;
        Ok(())
    }

    fn goes_on(&mut self) {
        self.snapshots.go_on(self.sessions.len());
        self.changes.noted = true;
        self.disk.iter_mut().for_each(OnDisk::goes_on);
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut SessionAggregate = same_kind(former)?;
        std::mem::swap(&mut self.table, &mut former.table);
        std::mem::swap(&mut self.of_keys, &mut former.of_keys);
        std::mem::swap(&mut self.sessions, &mut former.sessions);
        std::mem::swap(&mut self.ends, &mut former.ends);
        std::mem::swap(&mut self.changes, &mut former.changes);
        std::mem::swap(&mut self.disk, &mut former.disk);
        std::mem::swap(&mut self.timers, &mut former.timers);
        std::mem::swap(&mut self.due, &mut former.due);
        self.pieces.take_over(&mut former.pieces);
        self.live_keys = former.live_keys;
        self.snapshots = std::mem::take(&mut former.snapshots).succeed();
        (self.watermark, self.firing, self.dropped) = (former.watermark, former.firing, former.dropped);
        Ok(())
    }
}
