//! Join of two streams over all rows so far, as the symmetric hash join of Wilschut and Apers (1991): a batch of one side is joined
//! with what the other side has, then kept for what follows there.
//!
//! Rows that appear without a match (outer and anti joins), or once however many matches they have (semi joins), carry the number of
//! their matches. A batch of the other side that makes it rise from none, or fall to none, takes rows back or brings them.
//!
//! Where the condition bounds how far the event times of a pair are apart, a row is forgotten when the watermark says that nothing which
//! matches it follows. Rows without a match then appear at that time, once and for all.
//!
//! A side may have versions of rows (`versions`): then a row of the other side is joined when its time has come, with the version of that time.
//!
//! A batch may have any number of matches. They are emitted in pieces, between which the chain sends on what there is.
//!
//! With state on a local disk, the rows of a key are in memory, those of both sides, or none of them (`keyed_state::OnDisk`).

mod expiry;
mod kept;
mod on_disk;
mod pairs;
mod side;
mod snapshot;
mod succession;
mod time_to_live;
mod versions;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, StreamJoinKind, StreamJoinSpec};
use anabranch_model::{EventTime, Result};
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};

use self::pairs::Pending;
use self::side::{Role, Side};
use self::versions::Versions;
use crate::key_hash::canonical;
use crate::key_table::KeyTable;
use crate::keyed_state::{OnDisk, SPARSE_MIN, Snapshots, Timers, is_full};
use crate::operator::{RESULT_ROWS, StateChange, StateShape};
use crate::row_store::once;
use crate::{CompiledExpr, Functions, Operator, Output, hash_keys};

pub(crate) use succession::goes_on;

pub(crate) struct StreamJoin {
    schema: SchemaRef,
    joined_schema: SchemaRef,
    filter: Option<CompiledExpr>,
    kind: StreamJoinKind,
    output: Vec<usize>,
    is_updating: bool,
    gives_pairs: bool,
    /// The keys of both sides, by their ids.
    keys: KeyTable,
    key_types: Vec<DataType>,
    nulls_equal: bool,
    left: Side,
    right: Side,
    /// The batch whose matches are being emitted.
    pending: Option<Pending>,
    /// Rows that are still to be emitted.
    repeated: VecDeque<Repeated>,
    /// Rows that appear because their time has ended, with their weights, and the watermark that follows them.
    leaving: Vec<(Of, Vec<(usize, i64)>)>,
    passing: Option<EventTime>,
    watermark: EventTime,
    delay_ms: i64,
    /// If right rows are versions.
    versions: Option<Versions>,
    snapshots: Snapshots,
    bytes_max: usize,
    /// Where rows are that do not fit into memory.
    disk: Option<OnDisk>,
    /// When rows of keys on the disk appear, and hashes of keys of which some may appear now.
    timers: Option<Timers>,
    due: Vec<Vec<u64>>,
    /// Parts of a batch that are still to be joined: all keys of it do not fit into memory at once.
    divided: VecDeque<Divided>,
    hashes: Vec<u64>,
    ids: Vec<usize>,
}

/// Rows of a side, in its columns, and their weights.
type Divided = (Of, Vec<ArrayRef>, Vec<i64>);

/// Which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Left,
    Right,
}

impl StreamJoin {
    pub(crate) fn new(spec: &StreamJoinSpec, functions: &Functions, options: &JobOptions) -> Result<Self> {
        let (pads_left, pads_right) = spec.kind.pads();
        let waits = !spec.is_updating();
        let padded = |pads: bool| match pads {
            true if waits => Role::UnmatchedAtEnd,
            true => Role::Padded,
            false => Role::Plain,
        };
        let left = match spec.kind {
            _ if spec.versions.is_some() => Role::UnmatchedAtEnd,
            StreamJoinKind::LeftSemi => Role::Matched,
            StreamJoinKind::LeftAnti if waits => Role::UnmatchedAtEnd,
            StreamJoinKind::LeftAnti => Role::Unmatched,
            _ => padded(pads_left),
        };
        let (joined_schema, gives_pairs) = (Arc::new(spec.joined_schema()), spec.kind.gives_pairs());
        let key_types: Vec<DataType> =
            spec.left.schema.fields().iter().take(spec.keys).map(|field| field.data_type().clone()).collect();
        let mut join = StreamJoin {
            schema: Arc::new(spec.output_schema()),
            filter: spec.filter.as_ref().map(|f| CompiledExpr::new(f, &joined_schema, functions)).transpose()?,
            joined_schema,
            output: spec.output.clone(),
            is_updating: spec.is_updating(),
            gives_pairs,
            keys: KeyTable::by_id(key_types.clone())?,
            key_types,
            nulls_equal: spec.nulls_equal,
            left: Side::new(&spec.left, spec.keys, left, gives_pairs, options)?,
            right: Side::new(&spec.right, spec.keys, padded(pads_right), gives_pairs, options)?,
            kind: spec.kind,
            versions: spec.versions.map(Versions::new),
            pending: None,
            repeated: VecDeque::new(),
            leaving: Vec::new(),
            passing: None,
            watermark: EventTime::MIN,
            delay_ms: spec.delay_ms,
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            bytes_max: options.state_bytes,
            disk: None,
            timers: None,
            due: Vec::new(),
            divided: VecDeque::new(),
            hashes: Vec::new(),
            ids: Vec::new(),
        };
        join.disk = OnDisk::new(&join.shapes(), None, options)?;
        if join.left.waits() || join.right.waits() {
            let wait_ms = [&spec.left, &spec.right].map(|side| side.expiry.map_or(0, |expiry| expiry.after_ms));
            join.timers = Timers::new(wait_ms.into_iter().max().unwrap_or(0), options)?;
        }
        join.note_for_disk();
        Ok(join)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn sides(&mut self, of: Of) -> (&mut Side, &mut Side) {
        match of {
            Of::Left => (&mut self.left, &mut self.right),
            Of::Right => (&mut self.right, &mut self.left),
        }
    }

    fn side(&self, of: Of) -> &Side {
        match of {
            Of::Left => &self.left,
            Of::Right => &self.right,
        }
    }

    /// Keeps a batch, and begins to join it.
    fn take_in(&mut self, of: Of, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        for side in [&mut self.left, &mut self.right] {
            side.changes.restored();
            side.rows.restored();
        }
        if let Some(disk) = &mut self.disk {
            disk.restored()?;
        }
        let side = self.side(of);
        let (columns, weights) = side.divide(batch)?;
        let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
        let keys = &columns[..self.key_types.len()];
        let nulls_equal = self.nulls_equal;
        let has_key = |row: usize| nulls_equal || keys.iter().all(|key| key.is_valid(row));
        let without: Vec<u64> = (0..batch.num_rows()).filter(|row| !has_key(*row)).map(|row| row as u64).collect();
        if without.is_empty() {
            return self.join(of, columns, weights, out);
        }
        let has_no_version = self.versions.is_some() && self.kind == StreamJoinKind::Inner;
        if side.role.shows_unmatched() && !has_no_version {
            let rows = UInt64Array::from(without);
            let columns = taken(&columns, &rows)?;
            let weights = rows.values().iter().map(|row| weights[*row as usize]).collect();
            self.emit_alone(of, &columns, weights, out)?;
        }
        let rows: UInt64Array = (0..batch.num_rows()).filter(|row| has_key(*row)).map(|row| row as u64).collect();
        let weights = rows.values().iter().map(|row| weights[*row as usize]).collect();
        self.join(of, taken(&columns, &rows)?, weights, out)
    }

    /// Joins rows whose keys are not NULL. What is taken back comes before what takes its place: so the last row of a key is the one that
    /// is there.
    fn join(&mut self, of: Of, columns: Vec<ArrayRef>, weights: Vec<i64>, out: &mut Output) -> Result<()> {
        let key_columns = self.key_types.len();
        let keys = &columns[..key_columns];
        hash_keys(keys, weights.len(), &mut self.hashes)?;
        let known = self.keys.len();
        self.keys.intern(keys, &self.hashes, &mut self.ids)?;
        let key_ids = std::mem::take(&mut self.ids);
        if !self.load(known, &key_ids)? {
            return self.divide((of, columns, weights));
        }
        let key_count = self.keys.len();
        let (own, other) = self.sides(of);
        other.make_room(key_count);
        let ids = own.add((&key_ids, key_count), (&columns, key_columns), &weights)?;
        if let Some(versions) = &mut self.versions {
            return match of {
                Of::Left => Ok(()),
                Of::Right => versions.add(&mut self.right, (&key_ids, &ids), &columns, &weights),
            };
        }
        let mut pending = Pending::new(of, columns, weights, key_ids, ids);
        if pending.takes_back() {
            pending.put_in_order()?;
            let (rows, weights) = pending.hidden(self.side(of));
            self.emit_alone(of, &taken(&pending.columns, &rows)?, weights, out)?;
        }
        pending.begin(self.side(opposite(of)));
        self.pending = Some(pending);
        self.go_on(out).map(|_| ())
    }

    /// Emits rows of one side that have no match, or for a semi join those that have one.
    fn emit_alone(&mut self, of: Of, columns: &[ArrayRef], weights: Vec<i64>, out: &mut Output) -> Result<()> {
        let rows = weights.len();
        if rows == 0 {
            return Ok(());
        }
        let nulls = |side: &Side| -> Vec<ArrayRef> { side.types.iter().map(|of| new_null_array(of, rows)).collect() };
        let joined: Vec<ArrayRef> = match of {
            Of::Left => columns.iter().cloned().chain(nulls(&self.right)).collect(),
            Of::Right => nulls(&self.left).into_iter().chain(columns.iter().cloned()).collect(),
        };
        self.emit(&joined, weights, out)
    }

    /// Emits rows in the joined columns.
    fn emit(&mut self, joined: &[ArrayRef], weights: Vec<i64>, out: &mut Output) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(weights.len()));
        let mut columns: Vec<ArrayRef> = self.output.iter().map(|column| Arc::clone(&joined[*column])).collect();
        let are_equal = !self.is_updating && weights.iter().any(|weight| *weight != 1);
        if self.is_updating {
            columns.push(Arc::new(Int64Array::from(weights.clone())));
        }
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        match are_equal {
            // Equal rows are kept as one.
            true => self.repeated.push_back(Repeated { rows, weights, row: 0, emitted: 0 }),
            false => out.batch(rows),
        }
        Ok(())
    }

    /// Emits the next of the rows that count several times. Returns false if there was none.
    fn repeat(&mut self, out: &mut Output) -> Result<bool> {
        let Some(repeated) = self.repeated.front_mut() else { return Ok(false) };
        out.batch(repeated.next_rows()?);
        if repeated.row >= repeated.weights.len() {
            self.repeated.pop_front();
        }
        Ok(true)
    }

    /// The columns of kept rows.
    fn columns_of(&self, of: Of, rows: &[usize]) -> Result<Vec<ArrayRef>> {
        let columns = |rows: &[usize]| {
            let (keys, values) = self.side(of).rows.rows_of(rows)?;
            Ok(self.keys.keys_of(&keys)?.into_iter().chain(values).collect())
        };
        match once(rows) {
            // Texts are long, and what says where they are is short.
            Some((rows, places)) => {
                let columns: Vec<ArrayRef> = columns(&rows)?;
                columns.iter().map(|column| Ok(take(column, &places, None)?)).collect()
            }
            None => columns(rows),
        }
    }

    fn size_bytes(&self) -> usize {
        let versions = self.versions.as_ref().map_or(0, Versions::size_bytes);
        self.keys.size_bytes() + self.left.size_bytes() + self.right.size_bytes() + versions
    }

    fn keep_to_size(&mut self) -> Result<()> {
        let is_full = is_full(self.disk.as_ref(), self.size_bytes(), self.bytes_max)?;
        if is_full { self.put_away() } else { Ok(()) }
    }

    /// Forgets the rows of a side whose time has ended, and lets those appear that have waited for it.
    fn expire(&mut self, of: Of) {
        let watermark = self.watermark;
        let appear = self.sides(of).0.expire(watermark);
        if !appear.is_empty() {
            self.leaving.push((of, appear));
        }
    }

    /// Rows on the disk whose time has ended are not needed any more.
    fn forget_away(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        for (table, side) in [&self.left, &self.right].into_iter().enumerate() {
            let first_row = side.expiry.as_ref().map(|expiry| expiry.first_row(self.watermark));
            first_row.into_iter().for_each(|first_row| disk.forget_before(table, first_row));
        }
    }

    /// Emits a piece of the rows that appear because their time has ended, then the watermark. Returns false if there was nothing.
    fn leave(&mut self, out: &mut Output) -> Result<bool> {
        let Some((of, rows)) = self.leaving.last_mut() else {
            if self.passing.is_some() && self.load_due()? {
                self.expire(Of::Left);
                self.expire(Of::Right);
                return Ok(true);
            }
            let Some(watermark) = self.passing.take() else { return Ok(false) };
            self.forget_away();
            out.watermark(match watermark {
                // The end of the input.
                EventTime::MAX => watermark,
                EventTime(ms) => EventTime(ms.saturating_sub(self.delay_ms)),
            });
            return Ok(true);
        };
        let of = *of;
        let (ids, weights): (Vec<usize>, Vec<i64>) =
            rows.split_off(rows.len().saturating_sub(RESULT_ROWS)).into_iter().unzip();
        if rows.is_empty() {
            self.leaving.pop();
        }
        if self.versions.is_some() {
            self.emit_with_versions(&ids, weights, out)?;
            return Ok(true);
        }
        let columns = self.columns_of(of, &ids)?;
        self.emit_alone(of, &columns, weights, out)?;
        Ok(true)
    }

    /// Gives back the memory of rows that do not exist any more, once they are most.
    fn remove_dead(&mut self) -> Result<()> {
        let (rows, dead) = (self.left.len() + self.right.len(), self.left.dead() + self.right.dead());
        if self.pending.is_some() || !self.leaving.is_empty() || dead <= rows / 2 + SPARSE_MIN {
            return Ok(());
        }
        let mut keys = KeyTable::by_id(self.key_types.clone())?;
        for of in [Of::Left, Of::Right] {
            let kept = self.side(of).kept();
            let columns = self.keys.keys_of(&self.side(of).rows.keys_of(&kept)?)?;
            hash_keys(&columns, kept.len(), &mut self.hashes)?;
            keys.intern(&columns, &self.hashes, &mut self.ids)?;
            let (ids, count) = (std::mem::take(&mut self.ids), keys.len());
            self.sides(of).0.keep(&kept, &ids, count)?;
        }
        let count = keys.len();
        self.keys = keys;
        self.left.make_room(count);
        self.right.make_room(count);
        self.index_versions()
    }
}

fn opposite(of: Of) -> Of {
    match of {
        Of::Left => Of::Right,
        Of::Right => Of::Left,
    }
}

/// Rows that stay, each of which counts several times.
struct Repeated {
    rows: RecordBatch,
    weights: Vec<i64>,
    /// The row that is emitted next, and how often it was already.
    row: usize,
    emitted: i64,
}

impl Repeated {
    fn next_rows(&mut self) -> Result<RecordBatch> {
        let mut places: Vec<u64> = Vec::new();
        while places.len() < RESULT_ROWS && self.row < self.weights.len() {
            if self.emitted < self.weights[self.row] {
                places.push(self.row as u64);
                self.emitted += 1;
            } else {
                (self.row, self.emitted) = (self.row + 1, 0);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        let columns = taken(self.rows.columns(), &places.into())?;
        Ok(RecordBatch::try_new_with_options(self.rows.schema(), columns, &options)?)
    }
}

fn taken(columns: &[ArrayRef], rows: &UInt64Array) -> Result<Vec<ArrayRef>> {
    columns.iter().map(|column| Ok(take(column, rows, None)?)).collect()
}

impl Operator for StreamJoin {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.take_in(Of::Left, &batch, out)
    }

    fn second_batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.take_in(Of::Right, &batch, out)
    }

    /// Rows whose time has ended appear before the watermark passes on.
    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        self.watermark = self.watermark.max(watermark);
        self.expire(Of::Left);
        self.expire(Of::Right);
        self.passing = Some(watermark);
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)?;
        self.timers.as_mut().map_or(Ok(()), |timers| timers.reach(self.watermark.0))?;
        if self.leaving.is_empty() { self.leave(out).map(|_| ()) } else { Ok(()) }
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        if self.repeat(out)? || self.go_on(out)? || self.leave(out)? {
            return Ok(true);
        }
        // Rows that came after the end of their time.
        self.expire(Of::Left);
        self.expire(Of::Right);
        if !self.leaving.is_empty() {
            return Ok(true);
        }
        self.sweep_versions();
        self.remove_dead()?;
        self.keep_to_size()?;
        if let Some((of, columns, weights)) = self.divided.pop_front() {
            self.join(of, columns, weights, out)?;
            return Ok(true);
        }
        self.timers.as_mut().map_or(Ok(()), Timers::work)?;
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)?;
        Ok(false)
    }

    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        self.forget(wall_ms)
    }

    fn state_tables(&self) -> Vec<StateShape> {
        self.shapes()
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let changes = self.take_snapshot(adds)?;
        // Now nothing waits for a snapshot.
        self.remove_dead()?;
        Ok(changes)
    }

    fn restore(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        self.take_up(table, rows)
    }

    /// Rows whose time had ended have appeared before the snapshot.
    fn restored(&mut self, watermark: EventTime) -> Result<()> {
        self.watermark = self.watermark.max(watermark);
        self.expire(Of::Left);
        self.expire(Of::Right);
        self.leaving.clear();
        self.forget_away();
        self.index_versions()
    }

    fn goes_on(&mut self) {
        self.snapshots.go_on(self.left.live + self.right.live);
        self.left.changes.note();
        self.right.changes.note();
        self.disk.iter_mut().for_each(OnDisk::goes_on);
    }

    fn succeed(&mut self, former: Box<dyn Operator>) -> Result<()> {
        self.take_over(former)
    }
}
