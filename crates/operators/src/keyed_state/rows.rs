//! What an operator must implement to keep rows in a [`KeyedState`](super::KeyedState).

use anabranch_model::{EventTime, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::Field;

use super::{Extent, KeyedState, Needed, Noted, SNAPSHOT, TimeToLive, number};

/// The rows that an operator keeps for its keys, which have ids. The operator adds rows itself; the state
/// calls these methods for everything else: to take rows out for a snapshot or for the disk, to insert rows
/// that are restored or read, and to forget rows.
///
/// A key is in memory with all of its rows in all tables, or not at all.
pub(crate) trait KeyedRows: Sized + Send + 'static {
    /// The tables. They never change.
    fn tables(&self) -> Vec<Table>;

    /// Calls `each` with every recorder of changes.
    fn changes(&mut self, each: &mut dyn FnMut(&mut dyn Noted));

    /// Makes room for this number of keys.
    fn make_room(&mut self, keys: usize);

    /// Takes the rows of each table that belong to this part, with the number of their snapshot. From now on,
    /// changes are noted anew.
    fn take_out(&mut self, part: Extent, number: i64) -> Result<Vec<Taken>>;

    /// Inserts rows of a table, whose keys have these ids. With `versions`, rows are restored, in any order,
    /// from snapshots with these numbers. Without, they come from the disk and are all rows of their keys.
    fn put_in(&mut self, table: usize, keys: &[usize], rows: &RecordBatch, versions: Option<&Int64Array>)
    -> Result<()>;

    /// Takes over the rows of a former plan version. This state has no rows of its own yet.
    fn succeed(&mut self, former: &mut Self);

    /// The number of rows of a complete snapshot.
    fn count(&mut self) -> usize;

    /// Memory in bytes.
    fn size_bytes(&self) -> usize;

    /// Frees the memory of removed rows. Returns the keys that remain, if most have no rows and none of these
    /// has a pending change.
    fn living(&mut self) -> Result<Option<Vec<usize>>>;

    /// Keeps these keys only. The first of them gets the id 0.
    fn keep(&mut self, keys: &[usize]) -> Result<()>;

    /// Forgets everything, and frees the memory.
    fn clear(&mut self) -> Result<()> {
        self.keep(&[])
    }

    /// Whether a key has rows: otherwise its time to live is never over.
    fn exists(&self, _key: usize) -> bool {
        true
    }

    /// Forgets the rows of these keys, each of which has some, without a retraction.
    fn forget(&mut self, _keys: &[usize]) -> Result<()> {
        Ok(())
    }

    /// Ends the restore: processes rows that were put off. Called before anything else happens.
    fn end_restore(_state: &mut KeyedState<Self>) -> Result<()> {
        Ok(())
    }

    /// Everything was restored, and event time had reached the watermark of the state.
    fn restored(_state: &mut KeyedState<Self>) -> Result<()> {
        Ok(())
    }

    /// Puts off restored rows until [`KeyedRows::end_restore`]. Returns the rows to insert at once.
    fn put_off(&mut self, _table: usize, rows: RecordBatch) -> Option<RecordBatch> {
        Some(rows)
    }

    /// Which rows of a table on the disk are needed. `first_written`: the earliest time of change, in
    /// milliseconds, of the keys that are needed.
    fn needed(&self, _table: usize, _watermark: i64, first_written: Option<i64>) -> Needed {
        first_written.map_or(Needed::All, Needed::Since)
    }

    /// The first event time of the rows of a table that are still needed. Earlier snapshots may drop the
    /// others.
    fn first_pane(&self, _table: usize, _watermark: i64) -> EventTime {
        EventTime::MIN
    }

    /// The times of the rows of a table, if they differ from those of their keys.
    fn times(&self, _table: usize) -> Option<&TimeToLive> {
        None
    }

    /// Processing time advances, if rows have their own times. Returns whether it is time to forget some.
    fn advance(&mut self, _wall_ms: i64) -> bool {
        false
    }

    /// Drops restored rows that were put off and are not needed.
    fn make_smaller(_state: &mut KeyedState<Self>) -> Result<()> {
        Ok(())
    }

    /// Whether the window of a key has yet to fire.
    fn awaits(&self, _key: usize) -> bool {
        false
    }

    /// For each row of a table that goes to the disk: whether the window of its key has yet to fire.
    fn await_away(&self, _table: usize, rows: &RecordBatch) -> Result<Vec<bool>> {
        Ok(vec![false; rows.num_rows()])
    }

    /// The windows of these keys fire, and their results are emitted.
    fn fired(&mut self, _keys: &[usize]) {}

    /// The windows of these keys fired before the keys were restored or read from the disk.
    fn had_fired(&mut self, _keys: &[usize]) {}

    /// Expired keys are forgotten once they are a sufficient share of this number.
    fn forgotten_of(&self) -> usize {
        0
    }

    /// When keys must be processed again: times in milliseconds, and ids of keys.
    fn timers(&self) -> Result<Vec<(i64, usize)>> {
        Ok(Vec::new())
    }

    /// When rows of a table that go to the disk must be processed again: times, and indices of the rows.
    fn timers_away(&self, _table: usize, _rows: &RecordBatch) -> Result<Vec<(i64, usize)>> {
        Ok(Vec::new())
    }

    /// Rows of a table are restored, to memory or to the disk.
    fn arrive(&mut self, _table: usize, _rows: &RecordBatch) -> Result<()> {
        Ok(())
    }
}

/// A table of an operator's state. After the columns that the operator fills, rows have the time of their
/// key, if keys have a time to live, and a number.
#[derive(Clone)]
pub(crate) struct Table {
    /// Its name; empty for the first table of an operator.
    pub(crate) name: String,
    /// The columns, those of the keys first.
    pub(crate) fields: Vec<Field>,
    pub(crate) identity: Identity,
    /// Whether rows have a time to live.
    pub(crate) lives: bool,
    /// The last column: a row replaces rows of the same identity with lower values.
    pub(crate) number: Field,
    /// Column of event times, if rows are obsolete once the watermark has passed theirs.
    pub(crate) pane: Option<usize>,
}

/// Which rows replace each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Rows with the same values in this number of first columns. The next column has the multiplicity of the
    /// row.
    Counted(usize),
    /// Rows with the same values in this number of first columns.
    First(usize),
    /// No rows, because rows never change. The keys, and the columns after those that the operator reads,
    /// identify a row.
    Last { keys: usize, read: usize },
}

impl Table {
    pub(crate) fn new(name: impl Into<String>, fields: Vec<Field>, identity: Identity, lives: bool) -> Table {
        Table { name: name.into(), fields, identity, lives, number: number(SNAPSHOT), pane: None }
    }
}

/// Rows that are taken out of a table.
pub(crate) struct Taken {
    /// The ids of their keys.
    pub(crate) keys: Vec<usize>,
    /// The columns behind the keys.
    pub(crate) columns: Vec<ArrayRef>,
    /// The times of the rows, if they differ from those of their keys.
    pub(crate) times: Option<ArrayRef>,
    /// The numbers of the rows, if they differ from that of the snapshot.
    pub(crate) numbers: Option<ArrayRef>,
}

impl Taken {
    pub(crate) fn new(keys: Vec<usize>, columns: Vec<ArrayRef>) -> Taken {
        Taken { keys, columns, times: None, numbers: None }
    }
}
