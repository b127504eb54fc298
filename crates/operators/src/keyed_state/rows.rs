//! What an operator keeps for its keys, as it says so to a [`KeyedState`](super::KeyedState).

use anabranch_model::{EventTime, Result};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::Field;

use super::{KeyedState, Needed, Noted, Part, SNAPSHOT, TimeToLive, number};

/// What an operator keeps for its keys, which have ids. The operator adds to it; everything else happens by
/// these methods: rows are taken out for a snapshot or for the disk, put in when they are restored or read,
/// and forgotten.
///
/// A key is in memory with all of its rows in all tables, or not at all.
pub(crate) trait Rows: Sized + Send + 'static {
    /// The tables. They never change.
    fn tables(&self) -> Vec<Table>;

    /// Calls `each` with all that notes changes.
    fn changes(&mut self, each: &mut dyn FnMut(&mut dyn Noted));

    /// There are so many keys now.
    fn make_room(&mut self, keys: usize);

    /// Rows of each table that belong to this part, as those of the snapshot with this number. Changes are
    /// noted anew.
    fn take_out(&mut self, part: Part, number: i64) -> Result<Vec<Taken>>;

    /// Puts in rows of a table, whose keys have these ids. `versions`: rows are restored, in any order, from
    /// snapshots with these numbers. Otherwise they come from the disk, and these are all rows of their keys.
    fn put_in(&mut self, table: usize, keys: &[usize], rows: &RecordBatch, versions: Option<&Int64Array>)
    -> Result<()>;

    /// Takes what a former plan version has in place of its own, which is nothing.
    fn succeed(&mut self, former: &mut Self);

    /// How many rows there are, as a complete snapshot would have them.
    fn count(&mut self) -> usize;

    /// Memory that it takes.
    fn size_bytes(&self) -> usize;

    /// Gives back memory of rows that are gone. Returns the keys that are left, if most have no rows and no
    /// change of them must be kept.
    fn living(&mut self) -> Result<Option<Vec<usize>>>;

    /// Keeps these keys only. The first of them gets the id 0.
    fn keep(&mut self, keys: &[usize]) -> Result<()>;

    /// Forgets everything, and gives memory back.
    fn clear(&mut self) -> Result<()> {
        self.keep(&[])
    }

    /// Whether a key has rows: otherwise its time is never over.
    fn exists(&self, _key: usize) -> bool {
        true
    }

    /// Forgets the rows of these keys, each of which has some. What was emitted of them stays.
    fn forget(&mut self, _keys: &[usize]) -> Result<()> {
        Ok(())
    }

    /// Nothing else is restored: rows take their places. Called before anything else happens.
    fn settle(_state: &mut KeyedState<Self>) -> Result<()> {
        Ok(())
    }

    /// Everything was restored, and event time had reached the watermark of the state.
    fn restored(_state: &mut KeyedState<Self>) -> Result<()> {
        Ok(())
    }

    /// Keeps rows that are restored for [`Rows::settle`]. Returns those that are to be put in at once.
    fn put_off(&mut self, _table: usize, rows: RecordBatch) -> Option<RecordBatch> {
        Some(rows)
    }

    /// Which rows of a table on the disk are needed. `first_written`: those of keys that were changed before
    /// are not, in milliseconds.
    fn needed(&self, _table: usize, _watermark: i64, first_written: Option<i64>) -> Needed {
        first_written.map_or(Needed::All, Needed::Since)
    }

    /// Rows of a table with earlier event times are not needed from snapshots before.
    fn first_pane(&self, _table: usize, _watermark: i64) -> EventTime {
        EventTime::MIN
    }

    /// The times of the rows of a table, if these are not those of their keys.
    fn times(&self, _table: usize) -> Option<&TimeToLive> {
        None
    }

    /// Processing time goes on, if rows have their own times. Returns whether it is time to forget some.
    fn advance(&mut self, _wall_ms: i64) -> bool {
        false
    }

    /// Rows were restored: those that were put off may be more than are needed.
    fn make_smaller(_state: &mut KeyedState<Self>) -> Result<()> {
        Ok(())
    }

    /// Whether the window of a key is still to fire for it.
    fn awaits(&self, _key: usize) -> bool {
        false
    }

    /// Whether windows are still to fire for the keys of rows of a table, which go to the disk.
    fn await_away(&self, _table: usize, rows: &RecordBatch) -> Result<Vec<bool>> {
        Ok(vec![false; rows.num_rows()])
    }

    /// The windows of these keys fire, and what the keys have is emitted.
    fn fired(&mut self, _keys: &[usize]) {}

    /// The windows of these keys have fired before the keys were restored or read from the disk.
    fn had_fired(&mut self, _keys: &[usize]) {}

    /// Keys of windows that are over are forgotten once they are a good part of this number.
    fn forgotten_of(&self) -> usize {
        0
    }

    /// When something is to be done with keys: times in milliseconds, and ids of keys.
    fn timers(&self) -> Result<Vec<(i64, usize)>> {
        Ok(Vec::new())
    }

    /// The same of rows of a table, which go to the disk: times, and places of the rows.
    fn timers_away(&self, _table: usize, _rows: &RecordBatch) -> Result<Vec<(i64, usize)>> {
        Ok(Vec::new())
    }

    /// Rows of a table are restored, in memory or to the disk.
    fn arrive(&mut self, _table: usize, _rows: &RecordBatch) -> Result<()> {
        Ok(())
    }
}

/// A table of an operator's state. Behind the columns that the operator fills, rows have the time of their
/// key, if keys live for a time only, and a number.
#[derive(Clone)]
pub(crate) struct Table {
    /// Its name; empty for the first table of an operator.
    pub(crate) name: String,
    /// The columns, those of the keys first.
    pub(crate) fields: Vec<Field>,
    pub(crate) identity: Identity,
    /// Whether rows live for a time.
    pub(crate) lives: bool,
    /// The last column, by whose values rows replace each other.
    pub(crate) number: Field,
    /// Column of event times, if rows are not needed once the watermark has passed theirs.
    pub(crate) pane: Option<usize>,
}

/// Which rows replace each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Those with the same first columns, so many. The column behind them says how often the row counts.
    Counted(usize),
    /// Those with the same first columns, so many.
    First(usize),
    /// None: a row is never changed. The keys say which row it is, and the columns behind those that the
    /// operator reads.
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
    /// The times of the rows, if these are not those of their keys.
    pub(crate) times: Option<ArrayRef>,
    /// The numbers of the rows, if these are not that of the snapshot.
    pub(crate) numbers: Option<ArrayRef>,
}

impl Taken {
    pub(crate) fn new(keys: Vec<usize>, columns: Vec<ArrayRef>) -> Taken {
        Taken { keys, columns, times: None, numbers: None }
    }
}
