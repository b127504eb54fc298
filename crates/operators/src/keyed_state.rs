//! What operators share whose rows of state replace each other: what has changed since the last snapshot, whether the next one is
//! complete, and which of several restored rows is the latest.

#[cfg(test)]
pub(crate) mod files;
mod halves;
mod latest;
mod on_disk;
pub(crate) mod time_to_live;
mod timers;
mod windows;

use std::sync::Arc;

use anabranch_model::{Error, Result};
use anabranch_state::Run;
use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

pub(crate) use halves::halves;
pub(crate) use latest::{Latest, Needed};
pub(crate) use on_disk::{LEAST_BYTES, OnDisk, directory, keyed_table, with_latest};
pub(crate) use time_to_live::{TimeToLive, without_times};
pub(crate) use timers::Timers;
pub(crate) use windows::{Slice, Windows, unknown};

/// Ids, each once.
#[derive(Default)]
struct Ids {
    flags: Vec<bool>,
    ids: Vec<usize>,
}

impl Ids {
    fn add(&mut self, id: usize) {
        if self.flags.len() <= id {
            self.flags.resize(id + 1, false);
        }
        if !std::mem::replace(&mut self.flags[id], true) {
            self.ids.push(id);
        }
    }

    fn take(&mut self) -> Vec<usize> {
        self.flags.clear();
        std::mem::take(&mut self.ids)
    }

    fn has(&self, id: usize) -> bool {
        self.flags.get(id).copied().unwrap_or(false)
    }

    fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        self.take().into_iter().filter_map(number).for_each(|id| self.add(id));
    }

    fn size_bytes(&self) -> usize {
        self.flags.capacity() + self.ids.capacity() * size_of::<usize>()
    }
}

/// Ids that have changed.
#[derive(Default)]
pub(crate) struct Changes {
    /// Nothing is noted before the first snapshot, which contains everything.
    noted: bool,
    /// Since the last snapshot.
    changed: Ids,
    /// Since the tables were written to the disk, if they are.
    unwritten: Option<Ids>,
    /// While state is restored: the snapshot that the row of each id is from.
    versions: Vec<i64>,
}

/// Which rows are taken from the tables of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Those that have changed since the last snapshot.
    Changed,
    /// Those that have changed since the tables were written to the disk.
    Unwritten,
    /// Those that exist.
    All,
}

impl Part {
    /// What a snapshot contains of the tables.
    fn of_snapshot(complete: bool, on_disk: bool) -> Part {
        match (complete, on_disk) {
            (false, _) => Part::Changed,
            (true, true) => Part::Unwritten,
            (true, false) => Part::All,
        }
    }
}

impl Changes {
    /// Tables will be written to the disk.
    pub(crate) fn for_disk(&mut self) {
        (self.noted, self.unwritten) = (true, Some(Ids::default()));
    }

    pub(crate) fn add(&mut self, id: usize) {
        if self.noted {
            self.changed.add(id);
            self.unwritten.iter_mut().for_each(|unwritten| unwritten.add(id));
        }
    }

    /// Whether no change must be kept: for the next snapshot, or to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.ids.is_empty() && self.unwritten.as_ref().is_none_or(|unwritten| unwritten.ids.is_empty())
    }

    /// How many changes are kept, at most.
    pub(crate) fn len(&self) -> usize {
        self.changed.ids.len() + self.unwritten.as_ref().map_or(0, |unwritten| unwritten.ids.len())
    }

    /// Whether a change of an id is kept.
    pub(crate) fn has(&self, id: usize) -> bool {
        self.changed.has(id) || self.unwritten.as_ref().is_some_and(|unwritten| unwritten.has(id))
    }

    /// Ids have new numbers, or none.
    pub(crate) fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        self.changed.renumber(&number);
        self.unwritten.iter_mut().for_each(|unwritten| unwritten.renumber(&number));
    }

    /// Whether changes are kept: a snapshot was taken, or the tables are written to the disk.
    pub(crate) fn are_noted(&self) -> bool {
        self.noted
    }

    /// Notes changes from now on.
    pub(crate) fn note(&mut self) {
        self.noted = true;
    }

    /// Returns what belongs to this part, and notes anew what changes from now on until the next snapshot. `all`: all that exist.
    pub(crate) fn take(&mut self, part: Part, all: impl FnOnce() -> Vec<usize>) -> Vec<usize> {
        self.noted = true;
        let changed = self.changed.take();
        match part {
            Part::Changed => changed,
            Part::Unwritten => self.unwritten.as_ref().map(|unwritten| unwritten.ids.clone()).unwrap_or_default(),
            Part::All => all(),
        }
    }

    /// The tables were written, and are empty.
    pub(crate) fn written(&mut self) {
        *self = Changes::default();
        self.for_disk();
    }

    /// Rows of these ids are restored: those that are later than what was restored before. Ids are not repeated.
    pub(crate) fn latest(&mut self, ids: &[usize], versions: &Int64Array) -> Vec<usize> {
        let len = ids.iter().max().map_or(0, |id| id + 1).max(self.versions.len());
        self.versions.resize(len, i64::MIN);
        let mut rows = Vec::new();
        for (row, (id, version)) in ids.iter().zip(versions.values()).enumerate() {
            if *version > self.versions[*id] {
                self.versions[*id] = *version;
                rows.push(row);
            }
        }
        rows
    }

    /// Everything was restored.
    pub(crate) fn restored(&mut self) {
        self.versions = Vec::new();
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let unwritten = self.unwritten.as_ref().map_or(0, Ids::size_bytes);
        self.changed.size_bytes() + unwritten + self.versions.capacity() * size_of::<i64>()
    }
}

/// A snapshot is complete when the rows emitted since the last complete one exceed its rows by this factor.
const CHANGES_PER_STATE: usize = 4;

/// The runs of each table that is on the disk.
pub(crate) type RunsOfTables = Vec<Vec<Arc<Run>>>;

/// What has been emitted.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// Rows of the last complete snapshot; `None` before the first.
    complete_rows: Option<usize>,
    /// Rows emitted since.
    changed_rows: usize,
    restored_rows: usize,
    /// Fewer changed rows than this are not worth a complete snapshot.
    changed_rows_min: usize,
    /// The operator goes on with the state of a former plan version, and has taken no snapshot since. The change is settled with the first
    /// one, so that is not complete only because the state has grown.
    has_succeeded: bool,
    /// Of the last snapshot.
    pub(crate) number: i64,
}

impl Snapshots {
    pub(crate) fn new(changed_rows_min: usize) -> Snapshots {
        Snapshots { changed_rows_min, ..Snapshots::default() }
    }

    /// The plan has changed.
    pub(crate) fn succeed(self) -> Snapshots {
        Snapshots { has_succeeded: true, ..self }
    }

    /// The next snapshot follows those that were restored.
    pub(crate) fn go_on(&mut self, groups: usize) {
        self.complete_rows = Some(groups);
        self.changed_rows = self.restored_rows.saturating_sub(groups);
    }

    /// Whether the next snapshot contains the whole state.
    pub(crate) fn is_complete(&self, adds: bool) -> bool {
        let outgrown = |rows: usize| self.changed_rows > self.changed_rows_min.max(CHANGES_PER_STATE * rows);
        self.complete_rows.is_none_or(|rows| !adds && !self.has_succeeded && outgrown(rows))
    }

    /// Begins a snapshot: whether it is complete, what it contains of the tables in memory, and the files of each table on the disk.
    pub(crate) fn begin(&self, disk: Option<&mut OnDisk>, adds: bool) -> Result<(bool, Part, RunsOfTables)> {
        let on_disk = disk.is_some();
        let (complete, files) = match disk {
            Some(disk) => disk.snapshot(adds, self)?,
            None => (self.is_complete(adds), Vec::new()),
        };
        Ok((complete, Part::of_snapshot(complete, on_disk), files))
    }

    /// Rows with these numbers of snapshots are restored.
    pub(crate) fn restoring(&mut self, versions: &Int64Array) {
        self.number = self.number.max(versions.values().iter().copied().max().unwrap_or(0));
        self.restoring_rows(versions.len());
    }

    /// So many rows are restored.
    pub(crate) fn restoring_rows(&mut self, rows: usize) {
        self.restored_rows += rows;
    }

    pub(crate) fn emitted(&mut self, complete: bool, rows: usize) {
        self.has_succeeded = false;
        match complete {
            true => (self.complete_rows, self.changed_rows) = (Some(rows), 0),
            false => self.changed_rows += rows,
        }
    }
}

/// An id as it is stored.
pub(crate) fn narrow(id: usize) -> Result<u32> {
    u32::try_from(id)
        .map_err(|_| Error::user("one task has more than 4,294,967,295 rows of state").remedy("raise the parallelism"))
}

/// State in memory has taken so many bytes.
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

/// Whether tables of so many bytes must be written to the disk. Without one, an error if they are too many.
pub(crate) fn is_full(disk: Option<&OnDisk>, bytes: usize, max: usize) -> Result<bool> {
    match disk {
        Some(disk) => disk.is_full(bytes),
        None => check_size(bytes, max).map(|()| false),
    }
}

/// A column of numbers of a state.
pub(crate) fn number(name: &str) -> Field {
    Field::new(name, DataType::Int64, false)
}

/// A column of numbers of rows of state.
pub(crate) fn numbers(state: &[ArrayRef], column: usize) -> Result<&Int64Array> {
    let numbers = state.get(column).and_then(|column| column.as_primitive_opt::<Int64Type>());
    numbers.ok_or_else(|| Error::internal(format!("column {column} of a state is not BIGINT")))
}

/// Ensures that rows of a snapshot have the columns of the state.
pub(crate) fn check_columns(then: &Schema, now: &Schema) -> Result<()> {
    let types = |schema: &Schema| schema.fields().iter().map(|f| f.data_type().to_string()).collect::<Vec<_>>();
    if types(then) == types(now) {
        return Ok(());
    }
    let (then, now) = (types(then).join(", "), types(now).join(", "));
    Err(Error::user(format!("the checkpoint has [{then}] as rows of state, the query has [{now}]"))
        .remedy("finish the job with the version of Anabranch that wrote the checkpoint"))
}

/// Fewer rows than this are not worth to be removed.
pub(crate) const SPARSE_MIN: usize = if cfg!(test) { 4 } else { 1 << 12 };

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of the plan waits for the first snapshot after it.
    #[test]
    fn state_that_has_grown_is_written_as_a_whole_but_not_by_the_first_snapshot_after_a_change() {
        let mut snapshots = Snapshots::new(0);
        assert!(snapshots.is_complete(true), "the first one");
        snapshots.emitted(true, 10);
        snapshots.emitted(false, 40);
        assert!(!snapshots.is_complete(false));
        snapshots.emitted(false, 1);
        assert!(snapshots.is_complete(false) && !snapshots.is_complete(true));
        let mut snapshots = snapshots.succeed();
        assert!(!snapshots.is_complete(false));
        snapshots.emitted(false, 1);
        assert!(snapshots.is_complete(false));
        assert!(Snapshots::new(0).succeed().is_complete(false), "there was none before");
    }
}
