//! The state of joins of streams: the rows of each side by their keys, in memory and on a local disk.
//!
//! All sides have the same key columns, and one table of keys. A key is in memory with its rows of all sides,
//! or not at all (`keyed_state::OnDisk`). Snapshots have a table for each side.

mod expiry;
mod kept;
mod results;
#[cfg(test)]
pub(crate) mod samples;
mod side;

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, StreamSideSpec};
use anabranch_model::{EventTime, Result};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, TimestampMillisecondType};

pub(crate) use self::results::Results;
use self::side::Own;
pub(crate) use self::side::{Role, Side};
use crate::key_hash::canonical;
use crate::keyed_state::{
    self, Extent, Identity, KeyedState, Keys, Needed, Noted, SPARSE_MIN, Table, Taken, TimeToLive, number, numbers,
};
use crate::operator::StateShape;
use crate::row_store::once;

/// What is needed to create the table of a side.
pub(crate) struct SideShape<'a> {
    pub(crate) spec: &'a StreamSideSpec,
    pub(crate) role: Role,
    /// Name of its table in snapshots.
    pub(crate) table: String,
    /// Columns in snapshots, without those that the table adds.
    pub(crate) fields: Vec<Field>,
    /// Whether its rows are emitted in pairs. Otherwise the side is only probed for matches.
    pub(crate) gives_pairs: bool,
}

/// The state of a join: the rows of all sides by their keys.
pub(crate) type Tables = KeyedState<Sides>;

/// The rows of all sides. Rows, not keys, have a time to live.
pub(crate) struct Sides {
    pub(crate) sides: Vec<Side>,
    tables: Vec<Table>,
    nulls_equal: bool,
    key_columns: usize,
    /// Number of keys in memory.
    keys: usize,
}

/// Rows of a side, in its columns, and their weights.
pub(crate) struct SideRows {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) weights: Vec<i64>,
}

/// The outcome of [`Tables::bring_rows`].
pub(crate) enum Brought {
    /// The rows, and the ids of their keys.
    All(SideRows, Vec<usize>),
    /// The keys do not fit into memory at once.
    Halves([SideRows; 2]),
}

impl SideRows {
    /// Some of the rows.
    fn at(&self, rows: &UInt64Array) -> Result<SideRows> {
        let weights = rows.values().iter().map(|row| self.weights[*row as usize]).collect();
        Ok(SideRows { columns: taken(&self.columns, rows)?, weights })
    }
}

impl Sides {
    fn new(shapes: Vec<SideShape<'_>>, keys: usize, nulls_equal: bool, options: &JobOptions) -> Result<Sides> {
        let (mut sides, mut tables) = (Vec::new(), Vec::new());
        for shape in shapes {
            let side = Side::new(&shape, keys, options)?;
            let SideShape { table: name, mut fields, .. } = shape;
            fields.extend(side.rows.is_numbered().then(|| number("$row")));
            let identity = Identity::Counted(fields.len());
            fields.extend(["$weight", "$matches"].map(number));
            let pane = side.expiry.as_ref().map(expiry::Expiry::time_column);
            tables.push(Table { pane, ..Table::new(name, fields, identity, side.times.is_some()) });
            sides.push(side);
        }
        Ok(Sides { sides, tables, nulls_equal, key_columns: keys, keys: 0 })
    }
}

impl Tables {
    /// Sides with this number of key columns.
    pub(crate) fn of_sides(
        shapes: Vec<SideShape<'_>>,
        keys: usize,
        nulls_equal: bool,
        options: &JobOptions,
    ) -> Result<Tables> {
        let first = shapes.first().map(|shape| shape.spec.schema.fields()).cloned().unwrap_or_default();
        let types = first.iter().take(keys).map(|field| field.data_type().clone()).collect();
        let wait_ms = shapes.iter().map(|shape| shape.spec.expiry.map_or(0, |expiry| expiry.after_ms)).max();
        let sides = Sides::new(shapes, keys, nulls_equal, options)?;
        let wait_ms = wait_ms.filter(|_| sides.sides.iter().any(Side::waits));
        KeyedState::new(sides, Keys { types, time_to_live_ms: None, window: None, wait_ms }, options)
    }

    /// Divides the rows of a batch of a side into those that may have matches and those that have none,
    /// because a key is NULL.
    pub(crate) fn with_keys(&self, side: usize, batch: &RecordBatch) -> Result<(SideRows, Option<SideRows>)> {
        let (columns, weights) = self.rows.sides[side].divide(batch)?;
        let rows = SideRows { columns: columns.iter().map(canonical).collect(), weights };
        let keys = &rows.columns[..self.key_types.len()];
        if self.rows.nulls_equal || keys.iter().all(|key| key.null_count() == 0) {
            return Ok((rows, None));
        }
        let has_key = |row: &u64| keys.iter().all(|key| key.is_valid(*row as usize));
        let (with, without): (Vec<u64>, Vec<u64>) = (0..batch.num_rows() as u64).partition(has_key);
        Ok((rows.at(&with.into())?, Some(rows.at(&without.into())?)))
    }

    /// Loads the keys of rows, with all rows of these keys, into memory.
    pub(crate) fn bring_rows(&mut self, rows: SideRows) -> Result<Brought> {
        match self.bring(&rows.columns[..self.key_types.len()], rows.weights.len())? {
            None => Ok(Brought::All(rows, std::mem::take(&mut self.ids))),
            Some([before, after]) => Ok(Brought::Halves([rows.at(&before)?, rows.at(&after)?])),
        }
    }

    /// Keeps rows of a side with these keys. Returns their ids.
    pub(crate) fn add(&mut self, side: usize, rows: &SideRows, keys: &[usize]) -> Result<Vec<usize>> {
        let count = self.keys.len();
        self.rows.sides[side].add((keys, count), (&rows.columns, self.key_types.len()), &rows.weights)
    }

    /// Returns the memory of a list of ids for reuse.
    pub(crate) fn give_back(&mut self, ids: Vec<usize>) {
        self.ids = ids;
    }

    /// The columns of kept rows.
    pub(crate) fn columns_of(&self, side: usize, rows: &[usize]) -> Result<Vec<ArrayRef>> {
        each_once(rows, |rows| {
            let (keys, values) = self.rows.sides[side].rows.rows_of(rows)?;
            Ok(self.keys.keys_of(&keys)?.into_iter().chain(values).collect())
        })
    }

    /// The columns of kept rows after their keys.
    pub(crate) fn values_of(&self, side: usize, rows: &[usize]) -> Result<Vec<ArrayRef>> {
        each_once(rows, |rows| Ok(self.rows.sides[side].rows.rows_of(rows)?.1))
    }
}

impl keyed_state::KeyedRows for Sides {
    fn tables(&self) -> Vec<Table> {
        self.tables.clone()
    }

    fn changes(&mut self, each: &mut dyn FnMut(&mut dyn Noted)) {
        self.sides.iter_mut().for_each(|side| each(&mut side.changes));
    }

    fn make_room(&mut self, keys: usize) {
        self.keys = keys;
        self.sides.iter_mut().for_each(|side| side.make_room(keys));
    }

    fn take_out(&mut self, part: Extent, _number: i64) -> Result<Vec<Taken>> {
        let taken = self.sides.iter_mut().map(|side| {
            let ids = side.take(part);
            let (keys, mut columns) = side.rows.rows_of(&ids)?;
            columns.extend(side.rows.numbers_of(&ids));
            let matches = |id: &usize| side.matches.get(*id).copied().unwrap_or(0);
            columns.extend([
                Arc::new(ids.iter().map(|id| side.weight(*id)).collect::<Int64Array>()) as ArrayRef,
                Arc::new(ids.iter().map(matches).collect::<Int64Array>()),
            ]);
            let times = side.times.as_ref().map(|times| times.times_of(&ids));
            Ok(Taken { times, ..Taken::new(keys, columns) })
        });
        taken.collect()
    }

    fn put_in(
        &mut self,
        table: usize,
        keys: &[usize],
        rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        let side = &mut self.sides[table];
        let (values, own) = rows.columns().split_at(side.types.len());
        let after = usize::from(side.rows.is_numbered());
        let own = Own {
            numbers: side.rows.is_numbered().then(|| numbers(own, 0)).transpose()?,
            weights: numbers(own, after)?,
            matches: numbers(own, after + 1)?,
            times: own.get(after + 2).and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>()),
        };
        side.restore((keys, self.keys), (values, self.key_columns), own, versions)
    }

    fn succeed(&mut self, former: &mut Self) {
        for (own, former) in self.sides.iter_mut().zip(&mut former.sides) {
            former.times = own.times.take().map(|own| own.follow(former.times.take()));
        }
        std::mem::swap(&mut self.sides, &mut former.sides);
        self.keys = former.keys;
    }

    fn count(&mut self) -> usize {
        self.sides.iter().map(|side| side.live).sum()
    }

    fn size_bytes(&self) -> usize {
        self.sides.iter().map(Side::size_bytes).sum()
    }

    /// The keys that still have rows, once most have none.
    fn living(&mut self) -> Result<Option<Vec<usize>>> {
        let rows: usize = self.sides.iter().map(Side::len).sum();
        let dead: usize = self.sides.iter().map(Side::dead).sum();
        if dead <= rows / 2 + SPARSE_MIN {
            return Ok(None);
        }
        let mut is_living = vec![false; self.keys];
        for side in &self.sides {
            side.rows.keys_of(&side.kept())?.into_iter().for_each(|key| is_living[key] = true);
        }
        Ok(Some((0..self.keys).filter(|key| is_living[*key]).collect()))
    }

    fn keep(&mut self, keys: &[usize]) -> Result<()> {
        let mut places = vec![0; self.keys];
        keys.iter().enumerate().for_each(|(new, old)| places[*old] = new);
        for side in &mut self.sides {
            let kept = side.kept();
            let of_rows: Vec<usize> = side.rows.keys_of(&kept)?.into_iter().map(|key| places[key]).collect();
            side.keep(&kept, &of_rows, keys.len())?;
        }
        self.keys = keys.len();
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.keys = 0;
        self.sides.iter_mut().try_for_each(Side::clear)
    }

    fn forget(&mut self, _keys: &[usize]) -> Result<()> {
        self.sides.iter_mut().for_each(Side::forget);
        Ok(())
    }

    fn end_restore(state: &mut KeyedState<Self>) -> Result<()> {
        state.rows.sides.iter_mut().for_each(|side| side.rows.restored());
        Ok(())
    }

    /// Removes the rows that had expired before the snapshot. Their results were emitted then.
    fn restored(state: &mut KeyedState<Self>) -> Result<()> {
        let watermark = EventTime(state.watermark);
        state.rows.sides.iter_mut().for_each(|side| _ = side.expire(watermark));
        Ok(())
    }

    fn needed(&self, table: usize, watermark: i64, _first_written: Option<i64>) -> Needed {
        match (&self.sides[table].expiry, &self.sides[table].times) {
            (Some(expiry), _) if watermark > i64::MIN => Needed::Since(expiry.first_time(EventTime(watermark)).0),
            (None, Some(times)) => Needed::Since(times.first_needed()),
            _ => Needed::All,
        }
    }

    fn first_pane(&self, table: usize, watermark: i64) -> EventTime {
        let expiry = self.sides[table].expiry.as_ref();
        expiry.map_or(EventTime::MIN, |expiry| expiry.first_time(EventTime(watermark)))
    }

    fn times(&self, table: usize) -> Option<&TimeToLive> {
        self.sides[table].times.as_ref()
    }

    fn advance(&mut self, wall_ms: i64) -> bool {
        let mut is_time = false;
        for times in self.sides.iter_mut().filter_map(|side| side.times.as_mut()) {
            is_time |= times.advance(wall_ms);
        }
        is_time
    }

    fn timers(&self) -> Result<Vec<(i64, usize)>> {
        let mut timers = Vec::new();
        for side in &self.sides {
            let Some(expiry) = side.expiry.as_ref().filter(|_| side.waits()) else { continue };
            let rows: Vec<usize> = (0..side.len()).filter(|row| side.weight(*row) != 0).collect();
            timers.extend(rows.iter().map(|row| expiry.end(*row)).zip(side.rows.keys_of(&rows)?));
        }
        Ok(timers)
    }

    fn timers_away(&self, table: usize, rows: &RecordBatch) -> Result<Vec<(i64, usize)>> {
        let side = &self.sides[table];
        let expiry = side.expiry.as_ref().filter(|_| side.waits());
        let ends = expiry.map(|expiry| expiry.ends_of(rows.columns())).transpose()?;
        Ok(ends.into_iter().flatten().zip(0..).collect())
    }

    fn arrive(&mut self, table: usize, rows: &RecordBatch) -> Result<()> {
        let side = &mut self.sides[table];
        if side.rows.is_numbered() {
            side.rows.exist(numbers(rows.columns(), side.types.len())?);
        }
        Ok(())
    }
}

/// Types of the columns of a table, and whether they may be NULL.
pub(crate) fn columns(shape: &StateShape) -> Vec<(DataType, bool)> {
    shape.schema.fields().iter().map(|field| (field.data_type().clone(), field.is_nullable())).collect()
}

/// The columns of rows. Each row is gathered once: texts are longer than their indices.
fn each_once(rows: &[usize], columns: impl Fn(&[usize]) -> Result<Vec<ArrayRef>>) -> Result<Vec<ArrayRef>> {
    match once(rows) {
        Some((rows, places)) => columns(&rows)?.iter().map(|column| Ok(take(column, &places, None)?)).collect(),
        None => columns(rows),
    }
}

/// For each id of a batch: its first row, and the sum of its weights unless that is 0. Retractions come
/// first, so that the last row of a key is the current one.
pub(crate) fn in_order(ids: &[usize], weights: &[i64]) -> Vec<(usize, i64)> {
    let mut sums: BTreeMap<usize, (usize, i64)> = BTreeMap::new();
    for (row, (id, weight)) in ids.iter().zip(weights).enumerate() {
        sums.entry(*id).or_insert((row, 0)).1 += weight;
    }
    let mut order: Vec<(usize, i64)> = sums.into_values().filter(|(_, weight)| *weight != 0).collect();
    order.sort_by_key(|(row, weight)| (*weight > 0, *row));
    order
}

pub(crate) fn taken(columns: &[ArrayRef], rows: &UInt64Array) -> Result<Vec<ArrayRef>> {
    columns.iter().map(|column| Ok(take(column, rows, None)?)).collect()
}
