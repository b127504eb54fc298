//! The first rows of each partition, in an order, of rows that may be taken back: any of them may be among the first ones one day, so all
//! are kept. Rows that stay have `first_rows`.
//!
//! A row is kept as bytes that compare as the rows do (Arrow's row format): the columns of the order, then the others. So the order is one
//! of whole rows, whichever came first, and the same after a restore. With state on a local disk, a partition is in memory as a whole or
//! not at all (`keyed_state::OnDisk`).

mod on_disk;
mod snapshot;
mod time_to_live;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, RankSpec};
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::{SortOptions, take_record_batch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use arrow::row::{RowConverter, SortField};

use crate::first_rows::FirstRows;
use crate::key_hash::canonical;
use crate::key_table::KeyTable;
use crate::keyed_state::{OnDisk, SPARSE_MIN, Snapshots, TimeToLive, halves, is_full, narrow};
use crate::operator::{RESULT_ROWS, StateChange, StateShape, same_kind};
use crate::{Operator, Output, State, hash_keys};

/// A row of a partition.
type RowOf = (u32, Box<[u8]>);

pub(crate) struct Rank {
    spec: RankSpec,
    schema: SchemaRef,
    converter: RowConverter,
    keys: KeyTable,
    /// The rows of all partitions, each with the number of its copies.
    rows: BTreeMap<RowOf, i64>,
    /// Number of different rows of each partition.
    sizes: Vec<u32>,
    /// Number of partitions that have rows.
    live: usize,
    /// Bytes of the rows.
    bytes: usize,
    changes: Changes,
    snapshots: Snapshots,
    /// When partitions were changed last, if they do not live for ever.
    times: Option<TimeToLive>,
    bytes_max: usize,
    /// Where partitions are that do not fit into memory.
    disk: Option<OnDisk>,
    /// Parts of a batch whose partitions do not fit into memory at once.
    divided: VecDeque<RecordBatch>,
}

/// Rows that have changed since the last snapshot. One that is not among the rows is gone.
#[derive(Default)]
struct Changes {
    /// Nothing is noted before the first snapshot, which contains everything.
    noted: bool,
    rows: BTreeSet<RowOf>,
    /// Since the rows were written to the disk, if they are.
    unwritten: Option<BTreeSet<RowOf>>,
    /// While state is restored: the snapshot that each row is from.
    versions: BTreeMap<RowOf, i64>,
}

impl Changes {
    fn add(&mut self, row: &RowOf) {
        if self.noted {
            self.rows.insert(row.clone());
            self.unwritten.iter_mut().for_each(|unwritten| _ = unwritten.insert(row.clone()));
        }
    }

    fn len(&self) -> usize {
        self.rows.len() + self.unwritten.as_ref().map_or(0, BTreeSet::len) + self.versions.len()
    }
}

/// The first rows of a partition, each as often as it is there.
type First = Vec<Box<[u8]>>;

impl Rank {
    pub(crate) fn new(spec: &RankSpec, options: &JobOptions) -> Result<Rank> {
        let fields = spec.schema.fields();
        let key_types: Vec<DataType> = fields.iter().take(spec.keys).map(|field| field.data_type().clone()).collect();
        let sorted = |(index, field): (usize, &Arc<arrow::datatypes::Field>)| {
            let order = spec.order.get(index);
            let order = order.map(|of| SortOptions { descending: of.descending, nulls_first: of.nulls_first });
            SortField::new_with_options(field.data_type().clone(), order.unwrap_or_default())
        };
        let converter = RowConverter::new(fields.iter().skip(spec.keys).enumerate().map(sorted).collect());
        let converter = converter.map_err(|error| {
            Error::user(format!("the rows cannot be ordered: {error}")).remedy("leave out columns of such a type")
        })?;
        let mut rank = Rank {
            schema: Arc::new(spec.output_schema()),
            spec: spec.clone(),
            converter,
            keys: KeyTable::by_id(key_types)?,
            rows: BTreeMap::new(),
            sizes: Vec::new(),
            live: 0,
            bytes: 0,
            changes: Changes::default(),
            snapshots: Snapshots::new(options.thresholds.snapshot_changed_rows),
            times: spec.time_to_live_ms.map(|ms| TimeToLive::new(ms, options)),
            bytes_max: options.state_bytes,
            disk: None,
            divided: VecDeque::new(),
        };
        rank.disk = OnDisk::new(&[rank.shape()], None, options)?;
        rank.note_for_disk();
        Ok(rank)
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The first rows of a partition.
    fn first(&self, group: u32) -> First {
        let mut first = First::new();
        for ((of, row), copies) in self.rows.range((group, Box::default())..) {
            let left = self.spec.limit.saturating_sub(first.len() as u64);
            if *of != group || left == 0 {
                break;
            }
            let copies = u64::try_from(*copies).unwrap_or(0).min(left);
            (0..copies).for_each(|_| first.push(row.clone()));
        }
        first
    }

    /// Adds copies of a row.
    fn add(&mut self, row: RowOf, weight: i64) {
        self.changes.add(&row);
        self.set(row, |copies| copies + weight);
    }

    fn set(&mut self, row: RowOf, copies: impl Fn(i64) -> i64) {
        use std::collections::btree_map::Entry;
        let (size, bytes) = (&mut self.sizes[row.0 as usize], row.1.len());
        match self.rows.entry(row) {
            Entry::Vacant(entry) => {
                let copies = copies(0);
                if copies != 0 {
                    self.bytes += bytes;
                    self.live += usize::from(*size == 0);
                    *size += 1;
                    entry.insert(copies);
                }
            }
            Entry::Occupied(mut entry) => {
                *entry.get_mut() = copies(*entry.get());
                if *entry.get() == 0 {
                    self.bytes -= bytes;
                    *size -= 1;
                    self.live -= usize::from(*size == 0);
                    entry.remove();
                }
            }
        }
    }

    /// There may be new partitions.
    fn make_room(&mut self) {
        self.sizes.resize(self.keys.len(), 0);
    }

    /// Forgets partitions without rows, once they are most. None may be waiting for a snapshot.
    fn remove_dead(&mut self) -> Result<()> {
        if self.keys.len() <= 2 * self.live + SPARSE_MIN || !self.changes.rows.is_empty() || self.disk.is_some() {
            return Ok(());
        }
        let live: Vec<usize> = (0..self.sizes.len()).filter(|group| self.sizes[*group] > 0).collect();
        let columns = self.keys.keys_of(&live)?;
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(&columns, live.len(), &mut hashes)?;
        let mut keys = KeyTable::by_id(columns.iter().map(|column| column.data_type().clone()).collect())?;
        keys.intern(&columns, &hashes, &mut ids)?;
        let places: BTreeMap<u32, u32> =
            live.iter().zip(&ids).map(|(old, new)| Ok((narrow(*old)?, narrow(*new)?))).collect::<Result<_>>()?;
        let rows = std::mem::take(&mut self.rows).into_iter();
        self.rows = rows.filter_map(|((group, row), copies)| Some(((*places.get(&group)?, row), copies))).collect();
        self.sizes = live.iter().map(|group| self.sizes[*group]).collect();
        self.times.iter_mut().for_each(|times| times.keep(&live));
        self.keys = keys;
        Ok(())
    }

    /// Memory that it takes. Changes are copies of rows.
    fn size_bytes(&self) -> usize {
        // The nodes of the tree are about two thirds full.
        let row = 2 * size_of::<(RowOf, i64)>() + 16 + self.bytes / self.rows.len().max(1);
        let groups = self.sizes.capacity() * size_of::<u32>();
        let times = self.times.as_ref().map_or(0, TimeToLive::size_bytes);
        self.keys.size_bytes() + (self.rows.len() + self.changes.len()) * row + groups + times
    }
}

impl Rank {
    /// Adds the rows of a batch, and emits what differs among the first ones.
    fn take_in(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        let columns = &batch.columns()[..self.spec.schema.fields().len()];
        let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
        let (keys, values) = columns.split_at(self.spec.keys);
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(keys, batch.num_rows(), &mut hashes)?;
        let known = self.keys.len();
        self.keys.intern(keys, &hashes, &mut ids)?;
        self.make_room();
        if !self.load(known, &ids, &hashes)? {
            // What is in memory makes room, and each half needs half of the partitions.
            self.put_away()?;
            for half in halves(&hashes).iter().rev() {
                self.divided.push_front(take_record_batch(batch, half)?);
            }
            return Ok(());
        }
        let encoded = self.converter.convert_columns(values)?;
        let weights = batch.columns().get(columns.len()).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let weights = weights.ok_or_else(|| Error::internal("the weight of a row is not BIGINT"))?;
        let mut touched: BTreeMap<u32, First> = BTreeMap::new();
        for (row, id) in ids.into_iter().enumerate() {
            let group = narrow(id)?;
            let (row, weight) = ((group, encoded.row(row).data().into()), weights.value(row));
            if self.takes_back_forgotten(&row, weight) {
                continue;
            }
            touched.entry(group).or_insert_with(|| self.first(group));
            self.write(group);
            self.add(row, weight);
        }
        let mut changed = Emitted::default();
        for (group, before) in touched {
            let after = self.first(group);
            match self.spec.number {
                Some(_) => changed.add_numbered(group, before, after),
                None => changed.add(group, &before, &after),
            }
        }
        self.emit(&changed, out)?;
        if !self.changes.noted {
            self.remove_dead()?;
        }
        self.keep_to_size()
    }

    fn keep_to_size(&mut self) -> Result<()> {
        let is_full = is_full(self.disk.as_ref(), self.size_bytes(), self.bytes_max)?;
        if is_full { self.put_away() } else { Ok(()) }
    }
}

impl Operator for Rank {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.changes.versions.clear();
        if let Some(disk) = &mut self.disk {
            disk.restored()?;
        }
        self.take_in(&batch, out)?;
        self.disk.as_mut().map_or(Ok(()), OnDisk::work)
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(batch) = self.divided.pop_front() else { return Ok(false) };
        self.take_in(&batch, out)?;
        Ok(true)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Rank {
    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        self.forget(wall_ms)
    }

    fn tables(&self) -> Vec<StateShape> {
        vec![self.shape()]
    }

    fn snapshot(&mut self, adds: bool) -> Result<Vec<StateChange>> {
        let changes = self.take_snapshot(adds)?;
        self.remove_dead()?;
        Ok(changes)
    }

    fn restore(&mut self, _table: usize, rows: RecordBatch) -> Result<()> {
        self.take_up(rows)
    }

    fn goes_on(&mut self) {
        self.snapshots.go_on(self.rows.len());
        self.changes.noted = true;
        self.disk.iter_mut().for_each(OnDisk::goes_on);
    }

    fn succeed(&mut self, former: &mut dyn State) -> Result<()> {
        let former: &mut Rank = same_kind(former)?;
        std::mem::swap(&mut self.keys, &mut former.keys);
        std::mem::swap(&mut self.rows, &mut former.rows);
        std::mem::swap(&mut self.sizes, &mut former.sizes);
        std::mem::swap(&mut self.disk, &mut former.disk);
        std::mem::swap(&mut self.changes, &mut former.changes);
        (self.bytes, self.live) = (former.bytes, former.live);
        self.times = self.times.take().map(|own| own.follow(former.times.take()));
        self.snapshots = std::mem::take(&mut former.snapshots).succeed();
        Ok(())
    }
}

/// Rows to emit.
#[derive(Default)]
struct Emitted {
    groups: Vec<usize>,
    rows: Vec<Box<[u8]>>,
    numbers: Vec<i64>,
    weights: Vec<i64>,
}

impl Emitted {
    fn push(&mut self, group: u32, row: Box<[u8]>, number: usize, weight: i64) {
        self.groups.push(group as usize);
        self.rows.push(row);
        self.numbers.push(number as i64);
        self.weights.push(weight);
    }

    /// What is in one of the lists only: both are in order. What leaves comes first, so that the last row of a key is the one that is there.
    fn add(&mut self, group: u32, before: &First, after: &First) {
        let (mut b, mut a) = (0, 0);
        let mut entering = Vec::new();
        while b < before.len() || a < after.len() {
            match (before.get(b), after.get(a)) {
                (Some(was), Some(is)) if was == is => (b, a) = (b + 1, a + 1),
                (Some(was), is) if is.is_none_or(|is| was < is) => {
                    self.push(group, was.clone(), 0, -1);
                    b += 1;
                }
                (_, Some(is)) => {
                    entering.push(is.clone());
                    a += 1;
                }
                (_, None) => break,
            }
        }
        entering.into_iter().for_each(|row| self.push(group, row, 0, 1));
    }

    /// The places whose row is another one.
    fn add_numbered(&mut self, group: u32, before: First, after: First) {
        let rows = before.len().max(after.len());
        let (mut before, mut after) = (before.into_iter(), after.into_iter());
        for number in 1..=rows {
            let (was, is) = (before.next(), after.next());
            if was != is {
                was.into_iter().for_each(|row| self.push(group, row, number, -1));
                is.into_iter().for_each(|row| self.push(group, row, number, 1));
            }
        }
    }
}

impl Rank {
    /// The columns of rows.
    fn columns<'a>(&self, groups: &[usize], rows: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let values = self.converter.convert_rows(rows.map(|row| parser.parse(row)))?;
        Ok(self.keys.keys_of(groups)?.into_iter().chain(values).collect())
    }

    fn emit(&self, emitted: &Emitted, out: &mut Output) -> Result<()> {
        let Emitted { groups, rows, numbers, weights } = emitted;
        for first in (0..rows.len()).step_by(RESULT_ROWS) {
            let piece = first..rows.len().min(first + RESULT_ROWS);
            let all = self.columns(&groups[piece.clone()], rows[piece.clone()].iter().map(|row| &**row))?;
            let mut columns: Vec<ArrayRef> = self.spec.output.iter().map(|column| Arc::clone(&all[*column])).collect();
            if self.spec.number.is_some() {
                columns.push(Arc::new(Int64Array::from(numbers[piece.clone()].to_vec())));
            }
            columns.push(Arc::new(Int64Array::from(weights[piece.clone()].to_vec())));
            let options = RecordBatchOptions::new().with_row_count(Some(piece.len()));
            out.batch(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        }
        Ok(())
    }
}

/// The operator of a specification, and the schema of its output.
pub(crate) fn build(spec: &RankSpec, options: &JobOptions) -> Result<(Box<dyn Operator>, SchemaRef)> {
    if spec.updating {
        let rank = Rank::new(spec, options)?;
        let schema = Arc::clone(rank.schema());
        return Ok((Box::new(rank), schema));
    }
    let first_rows = FirstRows::new(spec, options)?;
    let schema = Arc::clone(first_rows.schema());
    Ok((Box::new(first_rows), schema))
}

/// Whether a rank can go on with the state of another one: the rows of a smaller limit are not enough for a larger one.
pub(crate) fn goes_on(former: &RankSpec, next: &RankSpec) -> bool {
    let columns = |spec: &RankSpec| spec.schema.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
    let kinds = |spec: &RankSpec| (spec.keys, spec.order.clone(), spec.limit, spec.latest, spec.updating, spec.window);
    kinds(former) == kinds(next)
        && columns(former) == columns(next)
        && former.time_to_live_ms.is_some() == next.time_to_live_ms.is_some()
}
