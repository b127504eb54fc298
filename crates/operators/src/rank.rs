//! Top N of an updating stream: any row may become one of the first rows, so all rows are kept. Append-only
//! streams use `first_rows`.
//!
//! A row is kept as bytes that compare as the rows do (Arrow's row format): the columns of the order, then
//! the others. So the order covers all columns, does not depend on arrival, and is the same after a restore.
//! With state on a local disk, a partition is in memory as a whole or not at all (`keyed_state::OnDisk`).

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_dataflow::{JobOptions, RankSpec};
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::SortOptions;
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::row::{RowConverter, SortField};

use crate::first_rows::{self, FirstRows};
use crate::key_hash::canonical;
use crate::keyed_state::{
    ChangedRows, Extent, KeyedRows, KeyedState, Keys, Noted, SPARSE_MIN, Table, Taken, TimeToLive, narrow, numbers,
};
use crate::operator::RESULT_ROWS;
use crate::{Operator, Output, State};

/// A row of a partition.
type RowOf = (u32, Box<[u8]>);

pub(crate) struct Rank {
    spec: RankSpec,
    schema: SchemaRef,
    state: KeyedState<Partitions>,
}

/// The rows of all partitions.
struct Partitions {
    spec: RankSpec,
    converter: RowConverter,
    /// The rows, each with the number of its copies.
    rows: BTreeMap<RowOf, i64>,
    /// Number of distinct rows of each partition.
    sizes: Vec<u32>,
    /// Number of partitions that have rows.
    live: usize,
    /// Bytes of the rows.
    bytes: usize,
    /// The changed rows. Those that are not among `rows` have been removed.
    changes: ChangedRows<RowOf>,
}

/// The first rows of a partition, copies included.
type First = Vec<Box<[u8]>>;

impl Partitions {
    fn new(spec: &RankSpec) -> Result<Partitions> {
        let sorted = |(index, field): (usize, &Arc<arrow::datatypes::Field>)| {
            let order = spec.order.get(index);
            let order =
                order.map(|options| SortOptions { descending: options.descending, nulls_first: options.nulls_first });
            SortField::new_with_options(field.data_type().clone(), order.unwrap_or_default())
        };
        let fields = spec.schema.fields().iter().skip(spec.keys);
        let converter = RowConverter::new(fields.enumerate().map(sorted).collect()).map_err(|error| {
            Error::user(format!("the rows cannot be ordered: {error}")).remedy("leave out columns of such a type")
        })?;
        Ok(Partitions {
            spec: spec.clone(),
            converter,
            rows: BTreeMap::new(),
            sizes: Vec::new(),
            live: 0,
            bytes: 0,
            changes: ChangedRows::default(),
        })
    }

    /// The first rows of a partition.
    fn first(&self, group: u32) -> First {
        let mut first = First::new();
        for ((owner, row), copies) in self.rows.range((group, Box::default())..) {
            let left = self.spec.limit.saturating_sub(first.len() as u64);
            if *owner != group || left == 0 {
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

    /// Writes all rows of a partition again: they have an earlier time than the partition.
    fn renew(&mut self, group: u32) {
        if self.changes.are_noted() {
            self.rows_of(group).iter().for_each(|row| self.changes.add(row));
        }
    }

    fn rows_of(&self, group: u32) -> Vec<RowOf> {
        let rows = self.rows.range((group, Box::default())..).take_while(|((owner, _), _)| *owner == group);
        rows.map(|(row, _)| row.clone()).collect()
    }

    /// The columns of rows after their keys.
    fn values<'a>(&self, rows: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        Ok(self.converter.convert_rows(rows.map(|row| parser.parse(row)))?)
    }

    fn taken<'a>(&self, rows: impl Iterator<Item = (&'a RowOf, i64)> + Clone) -> Result<Taken> {
        let mut columns = self.values(rows.clone().map(|((_, row), _)| &**row))?;
        columns.push(Arc::new(rows.clone().map(|(_, copies)| copies).collect::<Int64Array>()));
        Ok(Taken::new(rows.map(|((group, _), _)| *group as usize).collect(), columns))
    }
}

impl KeyedRows for Partitions {
    fn tables(&self) -> Vec<Table> {
        vec![first_rows::table(&self.spec)]
    }

    fn changes(&mut self, each: &mut dyn FnMut(&mut dyn Noted)) {
        each(&mut self.changes);
    }

    fn make_room(&mut self, keys: usize) {
        self.sizes.resize(keys, 0);
    }

    fn take_out(&mut self, part: Extent, _number: i64) -> Result<Vec<Taken>> {
        let taken = match self.changes.take(part) {
            None => self.taken(self.rows.iter().map(|(row, copies)| (row, *copies))),
            Some(rows) => self.taken(rows.iter().map(|row| (row, self.rows.get(row).copied().unwrap_or(0)))),
        };
        Ok(vec![taken?])
    }

    fn put_in(
        &mut self,
        _table: usize,
        keys: &[usize],
        rows: &RecordBatch,
        versions: Option<&Int64Array>,
    ) -> Result<()> {
        let (columns, own) = rows.columns().split_at(self.spec.schema.fields().len());
        let encoded = self.converter.convert_columns(&columns[self.spec.keys..])?;
        let copies = numbers(own, 0)?;
        for (row, key) in keys.iter().enumerate() {
            let entry: RowOf = (narrow(*key)?, encoded.row(row).data().into());
            if versions.is_none_or(|versions| self.changes.is_latest(&entry, versions.value(row))) {
                self.set(entry, |_| copies.value(row));
            }
        }
        Ok(())
    }

    fn succeed(&mut self, former: &mut Self) {
        std::mem::swap(&mut self.rows, &mut former.rows);
        std::mem::swap(&mut self.sizes, &mut former.sizes);
        std::mem::swap(&mut self.changes, &mut former.changes);
        (self.live, self.bytes) = (former.live, former.bytes);
    }

    fn count(&mut self) -> usize {
        self.rows.len()
    }

    /// Noted changes contain copies of rows.
    fn size_bytes(&self) -> usize {
        // The nodes of the tree are about two thirds full.
        let row = 2 * size_of::<(RowOf, i64)>() + 16 + self.bytes / self.rows.len().max(1);
        (self.rows.len() + self.changes.len()) * row + self.sizes.capacity() * size_of::<u32>()
    }

    fn living(&mut self) -> Result<Option<Vec<usize>>> {
        let is_sparse = self.sizes.len() > 2 * self.live + SPARSE_MIN && self.changes.is_empty();
        Ok(is_sparse.then(|| (0..self.sizes.len()).filter(|group| self.sizes[*group] > 0).collect()))
    }

    fn keep(&mut self, keys: &[usize]) -> Result<()> {
        let rows = std::mem::take(&mut self.rows).into_iter();
        let moved = |group: u32| keys.binary_search(&(group as usize)).ok().and_then(|index| u32::try_from(index).ok());
        self.rows = rows.filter_map(|((group, row), copies)| Some(((moved(group)?, row), copies))).collect();
        self.sizes = keys.iter().map(|group| self.sizes[*group]).collect();
        self.bytes = self.rows.keys().map(|(_, row)| row.len()).sum();
        self.live = self.sizes.iter().filter(|size| **size > 0).count();
        Ok(())
    }

    fn exists(&self, key: usize) -> bool {
        self.sizes[key] > 0
    }

    fn forget(&mut self, keys: &[usize]) -> Result<()> {
        for group in keys {
            for row in self.rows_of(narrow(*group)?) {
                self.changes.add(&row);
                self.set(row, |_| 0);
            }
        }
        Ok(())
    }
}

impl Rank {
    pub(crate) fn new(spec: &RankSpec, options: &JobOptions) -> Result<Rank> {
        let keys = Keys { time_to_live_ms: spec.time_to_live_ms, ..Keys::first_of(&spec.schema, spec.keys) };
        Ok(Rank {
            schema: Arc::new(spec.output_schema()),
            spec: spec.clone(),
            state: KeyedState::new(Partitions::new(spec)?, keys, options)?,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds the rows of a batch, and emits the changes among the first rows.
    fn take_in(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        let columns = &batch.columns()[..self.spec.schema.fields().len()];
        let columns: Vec<ArrayRef> = columns.iter().map(canonical).collect();
        let (keys, values) = columns.split_at(self.spec.keys);
        if let Some(halves) = self.state.bring(keys, batch.num_rows())? {
            return self.state.divide(batch, &halves);
        }
        let KeyedState { rows: partitions, ids, times, .. } = &mut self.state;
        let encoded = partitions.converter.convert_columns(values)?;
        let weights = batch.columns().get(columns.len()).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let weights = weights.ok_or_else(|| Error::internal("the weight of a row is not BIGINT"))?;
        let mut touched: BTreeMap<u32, First> = BTreeMap::new();
        for (row, id) in ids.iter().enumerate() {
            let group = narrow(*id)?;
            let (row, weight): (RowOf, i64) = ((group, encoded.row(row).data().into()), weights.value(row));
            // A retraction of a forgotten row does not count.
            if times.is_some() && weight < 0 && partitions.rows.get(&row).copied().unwrap_or(0) + weight < 0 {
                continue;
            }
            touched.entry(group).or_insert_with(|| partitions.first(group));
            if times.as_mut().is_some_and(|times: &mut TimeToLive| times.write(*id)) {
                partitions.renew(group);
            }
            partitions.add(row, weight);
        }
        let mut changed = Emitted::default();
        for (group, before) in touched {
            let after = partitions.first(group);
            match self.spec.number {
                Some(_) => changed.add_numbered(group, before, after),
                None => changed.add(group, &before, &after),
            }
        }
        self.emit(&changed, out)?;
        if !self.state.rows.changes.are_noted() {
            self.state.remove_dead()?;
        }
        self.state.keep_to_size(0).map(|_| ())
    }

    fn emit(&self, emitted: &Emitted, out: &mut Output) -> Result<()> {
        let Emitted { groups, rows, numbers, weights } = emitted;
        for first in (0..rows.len()).step_by(RESULT_ROWS) {
            let piece = first..rows.len().min(first + RESULT_ROWS);
            let mut all = self.state.keys.keys_of(&groups[piece.clone()])?;
            all.extend(self.state.rows.values(rows[piece.clone()].iter().map(|row| &**row))?);
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

impl Operator for Rank {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.state.end_restore()?;
        self.take_in(&batch, out)?;
        self.state.work()
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        let Some(batch) = self.state.divided.pop_front() else { return Ok(false) };
        self.take_in(&batch, out)?;
        Ok(true)
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(&mut self.state)
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

    /// Adds the rows that are in one of the lists only; both are in order. Retractions come first, so that
    /// the last row of a key is the current one.
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

    /// Adds the row numbers whose row has changed.
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

/// Whether a rank can take over the state of another one: the state for a smaller limit is not sufficient for
/// a larger one.
pub(crate) fn goes_on(former: &RankSpec, next: &RankSpec) -> bool {
    let columns = |spec: &RankSpec| spec.schema.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
    let kinds = |spec: &RankSpec| (spec.keys, spec.order.clone(), spec.limit, spec.latest, spec.updating, spec.window);
    kinds(former) == kinds(next)
        && columns(former) == columns(next)
        && former.time_to_live_ms.is_some() == next.time_to_live_ms.is_some()
}
