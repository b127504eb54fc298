//! The state of operators with keys, of any kind of rows that an operator keeps for a key.
//!
//! A [`KeyedState`] has the keys and their ids, the operator's [`KeyedRows`], and everything that depends on
//! both: snapshots, the time to live of keys, windows that fire, timers, rows that wait, and the disk for
//! keys that do not fit into memory (`on_disk`). An operator lets it [bring](KeyedState::bring) the keys of a
//! batch into memory, and then changes their rows.

mod changes;
#[cfg(test)]
pub(crate) mod files;
mod firing;
mod halves;
mod latest;
mod on_disk;
mod persistent;
mod rows;
mod snapshots;
pub(crate) mod time_to_live;
mod timers;
mod windows;

use std::collections::VecDeque;

use anabranch_dataflow::JobOptions;
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

pub(crate) use changes::{ChangedRows, Changes, Extent, Noted};
pub(crate) use halves::halves;
pub(crate) use latest::{Latest, Needed};
pub(crate) use on_disk::{LEAST_BYTES, OnDisk, directory, hash_in_windows, keyed_table, with_latest};
pub(crate) use rows::{Identity, KeyedRows, Table, Taken};
pub(crate) use snapshots::Snapshots;
pub(crate) use time_to_live::{TimeToLive, without_times};
pub(crate) use timers::Timers;
pub(crate) use windows::Windows;

use self::persistent::{keyed_tables, shapes};
use crate::hash_keys;
use crate::key_table::KeyTable;
use crate::operator::StateShape;
use crate::waiting::Waiting;

/// The state of an operator with keys.
pub(crate) struct KeyedState<R> {
    pub(crate) keys: KeyTable,
    pub(crate) key_types: Vec<DataType>,
    /// The operator's rows for the keys.
    pub(crate) rows: R,
    /// How often keys and rows have got new ids.
    pub(crate) renumbered: usize,
    /// The tables of `rows`, as they are in snapshots.
    shapes: Vec<StateShape>,
    snapshots: Snapshots,
    /// When keys were changed last, if they have a time to live.
    pub(crate) times: Option<TimeToLive>,
    /// The windows of the keys, if a key column is a window.
    pub(crate) windows: Option<Windows>,
    /// A state for the keys of a firing window that are only on the disk.
    slice: Option<Box<KeyedState<R>>>,
    /// Rows that wait for event time before they change anything. Their table is the first one in snapshots.
    pub(crate) waiting: Option<Waiting>,
    /// Times at which the operator must process keys on the disk.
    pub(crate) timers: Option<Timers>,
    /// Hashes of keys that may be due, in parts: their rows did not fit into memory at once. The last part is
    /// loaded first.
    pub(crate) due: Vec<Vec<u64>>,
    /// The event time that the operator has reached.
    pub(crate) watermark: i64,
    /// The event time that the operator is about to reach, while it processes waiting rows that are due.
    pub(crate) firing: Option<i64>,
    /// Limit of the state in memory.
    pub(crate) bytes_max: usize,
    /// The disk for keys that do not fit into memory. `None`: all keys are in memory.
    pub(crate) disk: Option<OnDisk>,
    /// Parts of batches whose keys do not fit into memory at once. The first part is processed next.
    pub(crate) divided: VecDeque<RecordBatch>,
    /// The hash of the key of each row of the last batch. Other methods reuse this memory.
    pub(crate) hashes: Vec<u64>,
    /// The id of the key of each row of the last batch.
    pub(crate) ids: Vec<usize>,
}

/// The parameters of a [`KeyedState`].
pub(crate) struct Keys {
    pub(crate) types: Vec<DataType>,
    /// How long a key lives without a change.
    pub(crate) time_to_live_ms: Option<i64>,
    /// The key column with the last instant of a window, and the allowed lateness in milliseconds.
    pub(crate) window: Option<(usize, i64)>,
    /// About how long the operator waits before it must process a key again, in milliseconds.
    pub(crate) wait_ms: Option<i64>,
}

impl Keys {
    /// Keys that are the first columns of this schema. They have no time to live, window or timers.
    pub(crate) fn first_of(schema: &Schema, keys: usize) -> Keys {
        let types = schema.fields().iter().take(keys).map(|field| field.data_type().clone()).collect();
        Keys { types, time_to_live_ms: None, window: None, wait_ms: None }
    }
}

impl<R: KeyedRows> KeyedState<R> {
    pub(crate) fn new(mut rows: R, keys: Keys, options: &JobOptions) -> Result<KeyedState<R>> {
        let tables = rows.tables();
        let window = keys.window.map(|(column, _)| column);
        let disk = OnDisk::open(keyed_tables(&tables, keys.types.len(), window), options)?;
        if disk.is_some() {
            rows.changes(&mut |changes| changes.for_disk());
        }
        let mut state = KeyedState {
            shapes: shapes(tables, keys.types.len(), disk.is_some()),
            keys: KeyTable::by_id(keys.types.clone())?,
            key_types: keys.types,
            rows,
            renumbered: 0,
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            times: keys.time_to_live_ms.map(|ms| TimeToLive::new(ms, options)),
            windows: keys.window.map(|(column, lateness_ms)| Windows::new(column, lateness_ms)),
            slice: None,
            waiting: None,
            timers: keys.wait_ms.map(|ms| Timers::new(ms, options)).transpose()?.flatten(),
            due: Vec::new(),
            watermark: i64::MIN,
            firing: None,
            bytes_max: options.state_bytes,
            disk,
            divided: VecDeque::new(),
            hashes: Vec::new(),
            ids: Vec::new(),
        };
        state.forget_away();
        Ok(state)
    }

    /// Ends a restore. Called before each batch and watermark.
    pub(crate) fn end_restore(&mut self) -> Result<()> {
        R::end_restore(self)?;
        self.rows.changes(&mut |changes| changes.restored());
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)
    }

    /// Loads the keys of a batch, which has this number of rows, into memory with all rows of their state. If
    /// they fit, returns `None`, and `self.ids` has the id of the key of each row.
    ///
    /// If they do not fit at once, everything in memory is written to the disk. Then this returns the indices
    /// of the batch's rows in two parts. Each part has half of the keys, and must be brought on its own.
    pub(crate) fn bring(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Option<[UInt64Array; 2]>> {
        let known = self.keys.len();
        let (mut hashes, mut ids) = (std::mem::take(&mut self.hashes), std::mem::take(&mut self.ids));
        self.add_keys(keys, rows, &mut hashes, &mut ids)?;
        (self.hashes, self.ids) = (hashes, ids);
        if self.load(known)? {
            return Ok(None);
        }
        let halves = halves(&self.hashes);
        self.put_away()?;
        Ok(Some(halves))
    }

    /// Puts the rows of a batch into [`KeyedState::divided`], in the two parts that [`KeyedState::bring`] has
    /// returned. They are processed before the parts that are there.
    pub(crate) fn divide(&mut self, batch: &RecordBatch, halves: &[UInt64Array; 2]) -> Result<()> {
        for half in halves.iter().rev() {
            self.divided.push_front(take_record_batch(batch, half)?);
        }
        Ok(())
    }

    /// Reads the rows of the new keys among `self.ids` from the disk: of the keys with an id from `known` on.
    /// Returns false if they do not fit into memory at once.
    fn load(&mut self, known: usize) -> Result<bool> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(true) };
        let windows = self.windows.as_ref();
        let placed = |id: &usize, hash: &u64| windows.map_or(*hash, |windows| windows.hash(*id, *hash));
        let new = self.ids.iter().zip(&self.hashes).filter(|(id, _)| **id >= known);
        let Some(tables) = disk.look_up(new.map(|(id, hash)| placed(id, hash)).collect())? else { return Ok(false) };
        self.load_rows(&tables, known)?;
        Ok(true)
    }

    /// Inserts rows that were read from the disk, of each table. Only keys with an id from `known` on get
    /// rows: the other keys were in memory before, with all of their rows.
    fn load_rows(&mut self, tables: &[RecordBatch], known: usize) -> Result<()> {
        for (table, rows) in tables.iter().enumerate().filter(|(_, rows)| rows.num_rows() > 0) {
            let mut ids = self.intern(rows)?;
            // Another key with the same hash may be in memory already, with newer rows.
            let is_new: BooleanArray = ids.iter().map(|id| Some(*id >= known)).collect();
            let rows = filter_record_batch(rows, &is_new)?;
            ids.retain(|id| *id >= known);
            if let Some(times) = self.times.as_mut().filter(|_| table == 0) {
                times.restore_rows(&ids, &rows)?;
            }
            let (ids, rows) = self.living(ids, rows)?;
            self.rows.put_in(table, &ids, &rows, None)?;
            self.note_fired(&ids);
        }
        Ok(())
    }

    /// Notes which of these keys belong to windows that have fired.
    fn note_fired(&mut self, ids: &[usize]) {
        if let Some(windows) = &self.windows {
            self.rows.had_fired(&ids.iter().copied().filter(|id| windows.has_fired(*id)).collect::<Vec<_>>());
        }
    }

    /// Filters rows of a table and the ids of their keys. A row is left out if its time is not that of its
    /// key: it belongs to an earlier life of the key, which has expired. Without a time to live, all rows
    /// stay.
    pub(crate) fn living(&self, ids: Vec<usize>, rows: RecordBatch) -> Result<(Vec<usize>, RecordBatch)> {
        match &self.times {
            Some(times) => times.living(ids, &rows),
            None => Ok((ids, rows)),
        }
    }

    /// Adds the new ones among the keys of rows of state. Returns the id of the key of each row.
    pub(crate) fn intern(&mut self, rows: &RecordBatch) -> Result<Vec<usize>> {
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        self.add_keys(&rows.columns()[..self.key_types.len()], rows.num_rows(), &mut hashes, &mut ids)?;
        Ok(ids)
    }

    /// Adds the new ones among the keys of rows. `hashes` and `ids` get the hash and the id of the key of
    /// each row.
    fn add_keys(&mut self, keys: &[ArrayRef], rows: usize, hashes: &mut Vec<u64>, ids: &mut Vec<usize>) -> Result<()> {
        hash_keys(keys, rows, hashes)?;
        self.keys.intern(keys, hashes, ids)?;
        self.windows.iter_mut().try_for_each(|windows| windows.add(ids, keys))?;
        self.rows.make_room(self.keys.len());
        Ok(())
    }

    /// Reads the next keys that may be due from the disk. Returns false if there are none.
    pub(crate) fn load_due(&mut self) -> Result<bool> {
        let (Some(disk), Some(timers)) = (&self.disk, &mut self.timers) else { return Ok(false) };
        let next = self.due.pop().map_or_else(|| timers.next(), |hashes| Ok(Some(hashes)))?;
        let Some(mut hashes) = next else { return Ok(false) };
        match disk.look_up(hashes.clone())? {
            Some(tables) => self.load_rows(&tables, self.keys.len())?,
            None => {
                // Everything in memory is written to the disk, and the next attempt loads half of the keys.
                let half = hashes.split_off(hashes.len() / 2);
                self.due.extend([half, hashes]);
                self.put_away()?;
            }
        }
        Ok(true)
    }

    /// Writes the changes of all keys in memory to the disk, with the timers of these keys. Then removes
    /// everything from memory.
    pub(crate) fn put_away(&mut self) -> Result<()> {
        if self.timers.is_some() {
            let (times, keys): (Vec<i64>, Vec<usize>) = self.rows.timers()?.into_iter().unzip();
            hash_keys(&self.keys.keys_of(&keys)?, keys.len(), &mut self.hashes)?;
            let set = times.into_iter().zip(self.hashes.iter().copied()).collect();
            self.timers.as_mut().map_or(Ok(()), |timers| timers.put(set))?;
        }
        let rows = self.take_out(Extent::Unwritten)?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&rows))?;
        let rows = &self.rows;
        self.windows.iter_mut().for_each(|windows| windows.put_away(|key| rows.awaits(key)));
        self.clear()?;
        self.rows.changes(&mut |changes| changes.for_disk());
        Ok(())
    }

    /// Removes everything from memory.
    fn clear(&mut self) -> Result<()> {
        self.renumbered += 1;
        self.keys = KeyTable::by_id(self.key_types.clone())?;
        self.rows.clear()?;
        self.times.iter_mut().for_each(|times| times.keep(&[]));
        self.windows.iter_mut().for_each(|windows| windows.keep(&[]));
        Ok(())
    }

    /// Frees the memory of keys without rows, once they are the majority. Returns whether keys have new ids.
    pub(crate) fn remove_dead(&mut self) -> Result<bool> {
        let Some(keys) = self.rows.living()? else { return Ok(false) };
        self.renumbered += 1;
        self.keys.keep(&keys)?;
        self.rows.keep(&keys)?;
        self.times.iter_mut().for_each(|times| times.keep(&keys));
        self.windows.iter_mut().for_each(|windows| windows.keep(&keys));
        Ok(true)
    }

    /// Tells the disk which rows of each table are needed from now on. The disk drops the others.
    pub(crate) fn forget_away(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        let first_written = self.times.as_ref().map(TimeToLive::first_needed);
        for table in 0..self.shapes.len() {
            disk.need(table, self.rows.needed(table, self.watermark, first_written));
        }
    }

    /// The size of the state in memory, without rows that wait.
    pub(crate) fn size_bytes(&self) -> usize {
        let times = self.times.as_ref().map_or(0, TimeToLive::size_bytes);
        let windows = self.windows.as_ref().map_or(0, Windows::size_bytes);
        self.keys.size_bytes() + self.rows.size_bytes() + times + windows
    }

    /// With a disk: [puts everything away](KeyedState::put_away) if the state in memory and `more_bytes`
    /// together take more than a share of the limit. Returns whether it did. It is an error if they exceed
    /// the limit itself. Without a disk, the rows that wait count too.
    pub(crate) fn keep_to_size(&mut self, more_bytes: usize) -> Result<bool> {
        let bytes = self.size_bytes() + more_bytes;
        let Some(disk) = &self.disk else {
            let waiting = self.waiting.as_ref().map_or(0, Waiting::size_bytes);
            return check_size(bytes + waiting, self.bytes_max).map(|()| false);
        };
        let is_full = disk.is_full(bytes)?;
        if is_full {
            self.put_away()?;
        }
        Ok(is_full)
    }

    /// Does a step of maintenance of the timers and of the disk, after each batch.
    pub(crate) fn work(&mut self) -> Result<()> {
        self.timers.as_mut().map_or(Ok(()), Timers::work)?;
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)
    }
}

/// An id in the 32 bits that tables store. It is an error if the id needs more.
pub(crate) fn narrow(id: usize) -> Result<u32> {
    u32::try_from(id)
        .map_err(|_| Error::user("one task has more than 4,294,967,295 rows of state").remedy("raise the parallelism"))
}

/// Refuses a state in memory that exceeds the limit.
pub(crate) fn check_size(bytes: usize, max: usize) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    Err(Error::user(format!("the state of this task takes {bytes} bytes; the limit is {max}"))
        .remedy(
            "SET 'state-bytes' higher or 'state-backend' = 'disk', raise the parallelism, or aggregate and join in windows: their \
             state ends",
        ))
}

/// Refuses what must be in memory at once although the state is on disk.
pub(crate) fn check_at_once(bytes: usize, max: usize) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    Err(Error::user(format!("this task needs {bytes} bytes of its state at once; the limit is {max}"))
        .remedy("SET 'state-bytes' higher, or raise the parallelism"))
}

/// The column of the numbers of snapshots. A row replaces rows of the same key with lower numbers.
pub(crate) const SNAPSHOT: &str = "$snapshot";

/// A BIGINT NOT NULL column of a state.
pub(crate) fn number(name: &str) -> Field {
    Field::new(name, DataType::Int64, false)
}

/// The values of a BIGINT column of a state.
pub(crate) fn numbers(state: &[ArrayRef], column: usize) -> Result<&Int64Array> {
    let numbers = state.get(column).and_then(|column| column.as_primitive_opt::<Int64Type>());
    numbers.ok_or_else(|| Error::internal(format!("column {column} of a state is not BIGINT")))
}

/// Checks that rows of a snapshot have columns of the same types as the state.
pub(crate) fn check_columns(stored: &Schema, own: &Schema) -> Result<()> {
    let mut pairs = stored.fields().iter().zip(own.fields());
    if stored.fields().len() == own.fields().len()
        && pairs.all(|(stored, own)| stored.data_type().equals_datatype(own.data_type()))
    {
        return Ok(());
    }
    let types = |schema: &Schema| schema.fields().iter().map(|f| f.data_type().to_string()).collect::<Vec<_>>();
    let (then, now) = (types(stored).join(", "), types(own).join(", "));
    Err(Error::user(format!("the rows of state in the checkpoint have the types [{then}]; this query needs [{now}]"))
        .remedy("finish the job with the version of Anabranch that wrote the checkpoint"))
}

/// Fewer rows than this are not worth removing.
pub(crate) const SPARSE_MIN: usize = if cfg!(test) { 4 } else { 1 << 12 };
