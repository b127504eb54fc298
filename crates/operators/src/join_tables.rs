//! What joins of streams keep: the rows of each side by their keys, in memory and on a local disk.
//!
//! All sides have the same key columns, and one table of keys. The rows of a key are in memory, those of all sides, or none of them
//! (`keyed_state::OnDisk`). Snapshots have a table for each side.

mod expiry;
mod kept;
mod on_disk;
mod repeated;
#[cfg(test)]
pub(crate) mod samples;
mod side;
mod snapshot;
mod time_to_live;

use std::collections::BTreeMap;

use anabranch_dataflow::{JobOptions, StreamSideSpec};
use anabranch_model::Result;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};

pub(crate) use self::repeated::Repeated;
pub(crate) use self::side::{Role, Side};
pub(crate) use self::snapshot::columns;
use crate::hash_keys;
use crate::key_hash::canonical;
use crate::key_table::KeyTable;
use crate::keyed_state::{OnDisk, SPARSE_MIN, Snapshots, Timers, halves, is_full};
use crate::row_store::once;

/// What a table of a side is made with.
pub(crate) struct SideShape<'a> {
    pub(crate) spec: &'a StreamSideSpec,
    pub(crate) role: Role,
    /// Name of its table in snapshots.
    pub(crate) table: String,
    /// Columns in snapshots, without those that the table adds.
    pub(crate) fields: Vec<Field>,
    /// Its rows appear in pairs. Otherwise it is only asked for matches.
    pub(crate) gives_pairs: bool,
}

/// The rows of all sides of a join.
pub(crate) struct Tables {
    /// The keys of all sides, by their ids.
    pub(crate) keys: KeyTable,
    pub(crate) key_types: Vec<DataType>,
    nulls_equal: bool,
    pub(crate) sides: Vec<Side>,
    pub(crate) snapshots: Snapshots,
    bytes_max: usize,
    /// Where rows are that do not fit into memory.
    pub(crate) disk: Option<OnDisk>,
    /// When rows of keys on the disk appear, and hashes of keys of which some may appear now.
    pub(crate) timers: Option<Timers>,
    due: Vec<Vec<u64>>,
    hashes: Vec<u64>,
    ids: Vec<usize>,
}

/// Rows of a side, in its columns, and their weights.
pub(crate) struct Rows {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) weights: Vec<i64>,
}

/// Rows whose keys were to be brought into memory.
pub(crate) enum Brought {
    /// The rows, and the ids of their keys.
    All(Rows, Vec<usize>),
    /// That would be too much at once.
    Halves([Rows; 2]),
}

impl Rows {
    /// Some of the rows.
    fn at(&self, rows: &UInt64Array) -> Result<Rows> {
        let weights = rows.values().iter().map(|row| self.weights[*row as usize]).collect();
        Ok(Rows { columns: taken(&self.columns, rows)?, weights })
    }
}

impl Tables {
    pub(crate) fn new(
        shapes: Vec<SideShape<'_>>,
        keys: usize,
        nulls_equal: bool,
        options: &JobOptions,
    ) -> Result<Tables> {
        let first = shapes.first().map(|shape| shape.spec.schema.fields()).cloned().unwrap_or_default();
        let key_types: Vec<DataType> = first.iter().take(keys).map(|field| field.data_type().clone()).collect();
        let wait_ms = shapes.iter().map(|shape| shape.spec.expiry.map_or(0, |expiry| expiry.after_ms)).max();
        let sides = shapes.into_iter().map(|shape| Side::new(shape, keys, options)).collect::<Result<Vec<Side>>>()?;
        let mut tables = Tables {
            keys: KeyTable::by_id(key_types.clone())?,
            key_types,
            nulls_equal,
            sides,
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            bytes_max: options.state_bytes,
            disk: None,
            timers: None,
            due: Vec::new(),
            hashes: Vec::new(),
            ids: Vec::new(),
        };
        tables.disk = OnDisk::new(&tables.shapes(), None, options)?;
        if tables.sides.iter().any(Side::waits) {
            tables.timers = Timers::new(wait_ms.unwrap_or(0), options)?;
        }
        tables.note_for_disk();
        Ok(tables)
    }

    /// Nothing else is restored.
    pub(crate) fn restored(&mut self) -> Result<()> {
        for side in &mut self.sides {
            side.changes.restored();
            side.rows.restored();
        }
        self.disk.as_mut().map_or(Ok(()), OnDisk::restored)
    }

    /// The rows of a batch of a side: those that may match others, and those that match none, because a key is NULL.
    pub(crate) fn divide(&self, side: usize, batch: &RecordBatch) -> Result<(Rows, Option<Rows>)> {
        let (columns, weights) = self.sides[side].divide(batch)?;
        let rows = Rows { columns: columns.iter().map(canonical).collect(), weights };
        let keys = &rows.columns[..self.key_types.len()];
        if self.nulls_equal || keys.iter().all(|key| key.null_count() == 0) {
            return Ok((rows, None));
        }
        let has_key = |row: &u64| keys.iter().all(|key| key.is_valid(*row as usize));
        let (with, without): (Vec<u64>, Vec<u64>) = (0..batch.num_rows() as u64).partition(has_key);
        Ok((rows.at(&with.into())?, Some(rows.at(&without.into())?)))
    }

    /// Gets the keys of rows, with all that there is of them, into memory.
    pub(crate) fn bring(&mut self, rows: Rows) -> Result<Brought> {
        let keys = &rows.columns[..self.key_types.len()];
        hash_keys(keys, rows.weights.len(), &mut self.hashes)?;
        let known = self.keys.len();
        self.keys.intern(keys, &self.hashes, &mut self.ids)?;
        let ids = std::mem::take(&mut self.ids);
        if self.load(known, &ids)? {
            return Ok(Brought::All(rows, ids));
        }
        // What is in memory makes room, and each half has half of the keys.
        let [before, after] = halves(&self.hashes);
        self.put_away()?;
        Ok(Brought::Halves([rows.at(&before)?, rows.at(&after)?]))
    }

    /// Keeps rows of a side with these keys. Returns their ids.
    pub(crate) fn add(&mut self, side: usize, rows: &Rows, keys: &[usize]) -> Result<Vec<usize>> {
        let count = self.keys.len();
        self.sides.iter_mut().for_each(|side| side.make_room(count));
        self.sides[side].add((keys, count), (&rows.columns, self.key_types.len()), &rows.weights)
    }

    /// Memory for the ids of the next keys.
    pub(crate) fn give_back(&mut self, ids: Vec<usize>) {
        self.ids = ids;
    }

    /// The columns of kept rows.
    pub(crate) fn columns_of(&self, side: usize, rows: &[usize]) -> Result<Vec<ArrayRef>> {
        each_once(rows, |rows| {
            let (keys, values) = self.sides[side].rows.rows_of(rows)?;
            Ok(self.keys.keys_of(&keys)?.into_iter().chain(values).collect())
        })
    }

    /// The columns of kept rows after their keys.
    pub(crate) fn values_of(&self, side: usize, rows: &[usize]) -> Result<Vec<ArrayRef>> {
        each_once(rows, |rows| Ok(self.sides[side].rows.rows_of(rows)?.1))
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.keys.size_bytes() + self.sides.iter().map(Side::size_bytes).sum::<usize>()
    }

    /// Writes what is in memory to the disk, if it takes too much with so many bytes besides. Returns whether it did.
    pub(crate) fn keep_to_size(&mut self, more_bytes: usize) -> Result<bool> {
        let is_full = is_full(self.disk.as_ref(), self.size_bytes() + more_bytes, self.bytes_max)?;
        if is_full {
            self.put_away()?;
        }
        Ok(is_full)
    }

    /// Gives back the memory of rows that do not exist any more, once they are most. Returns whether it did. Ids are others then.
    pub(crate) fn remove_dead(&mut self) -> Result<bool> {
        let rows: usize = self.sides.iter().map(Side::len).sum();
        let dead: usize = self.sides.iter().map(Side::dead).sum();
        if dead <= rows / 2 + SPARSE_MIN {
            return Ok(false);
        }
        let mut keys = KeyTable::by_id(self.key_types.clone())?;
        for side in &mut self.sides {
            let kept = side.kept();
            let columns = self.keys.keys_of(&side.rows.keys_of(&kept)?)?;
            hash_keys(&columns, kept.len(), &mut self.hashes)?;
            keys.intern(&columns, &self.hashes, &mut self.ids)?;
            side.keep(&kept, &self.ids, keys.len())?;
        }
        let count = keys.len();
        self.keys = keys;
        self.sides.iter_mut().for_each(|side| side.make_room(count));
        Ok(true)
    }

    /// What is put off until a batch is done.
    pub(crate) fn work(&mut self) -> Result<()> {
        self.timers.as_mut().map_or(Ok(()), Timers::work)?;
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)
    }

    /// The next snapshot follows those that were restored.
    pub(crate) fn goes_on(&mut self) {
        self.snapshots.go_on(self.sides.iter().map(|side| side.live).sum());
        self.sides.iter_mut().for_each(|side| side.changes.note());
        self.disk.iter_mut().for_each(OnDisk::goes_on);
    }

    /// Takes the state of the tables of a former plan version. They have none of their own.
    pub(crate) fn succeed(&mut self, former: &mut Tables) {
        for (own, former) in self.sides.iter_mut().zip(&mut former.sides) {
            former.times = own.times.take().map(|own| own.follow(former.times.take()));
            former.fields = std::mem::take(&mut own.fields);
        }
        std::mem::swap(&mut self.keys, &mut former.keys);
        std::mem::swap(&mut self.sides, &mut former.sides);
        std::mem::swap(&mut self.disk, &mut former.disk);
        std::mem::swap(&mut self.timers, &mut former.timers);
        std::mem::swap(&mut self.due, &mut former.due);
        self.snapshots = std::mem::take(&mut former.snapshots).succeed();
    }
}

/// The columns of rows. Texts are long, and what says where they are is short.
fn each_once(rows: &[usize], columns: impl Fn(&[usize]) -> Result<Vec<ArrayRef>>) -> Result<Vec<ArrayRef>> {
    match once(rows) {
        Some((rows, places)) => columns(&rows)?.iter().map(|column| Ok(take(column, &places, None)?)).collect(),
        None => columns(rows),
    }
}

/// The rows of a batch with what they add up to, given their ids: what is taken back comes before what takes its place. So the last row of
/// a key is the one that is there.
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
