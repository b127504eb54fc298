//! The values of each group, and how often each occurs: for functions whose result may depend on any of them.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, UInt32Type};

use super::accumulator::Rows;

use crate::hash_keys;
use crate::key_table::KeyTable;
use crate::keyed_state::{Changes, Part, SPARSE_MIN, narrow};

/// Pairs of group and value with their weights.
pub(crate) struct Entries {
    value_type: DataType,
    /// Whether NULL is a value too.
    has_nulls: bool,
    table: KeyTable,
    weights: Vec<i64>,
    /// How many occur.
    live: usize,
    pub(crate) changes: Changes,
    hashes: Vec<u64>,
    ids: Vec<usize>,
}

/// A value came to be in a group, or has ceased to be.
pub(super) struct Transition {
    /// The row that has caused it.
    pub(super) row: usize,
    pub(super) group: usize,
    pub(super) is_there: bool,
}

impl Entries {
    /// For values of this type. `has_nulls`: NULL is a value too.
    pub(super) fn new(value_type: &DataType, has_nulls: bool) -> Result<Entries> {
        Ok(Entries {
            value_type: value_type.clone(),
            has_nulls,
            table: KeyTable::by_id(vec![DataType::UInt32, value_type.clone()])?,
            weights: Vec::new(),
            live: 0,
            changes: Changes::default(),
            hashes: Vec::new(),
            ids: Vec::new(),
        })
    }

    /// The column of values in snapshots.
    pub(crate) fn value_field(&self) -> Field {
        Field::new("$value", self.value_type.clone(), self.has_nulls)
    }

    /// Adds rows.
    pub(super) fn update(&mut self, rows: &Rows<'_>) -> Result<Vec<Transition>> {
        let mut counted: Vec<(usize, usize, i64)> = Vec::with_capacity(rows.groups.len());
        match self.has_nulls {
            true => rows.for_each_with_nulls(|row, group, weight| counted.push((row, group, weight))),
            false => rows.for_each(|row, group, weight| counted.push((row, group, weight))),
        }
        let groups = counted.iter().map(|(_, group, _)| narrow(*group)).collect::<Result<Vec<_>>>()?;
        let values = match counted.len() == rows.groups.len() {
            true => Arc::clone(&rows.values[0]),
            false => {
                let kept: UInt64Array = counted.iter().map(|(row, ..)| *row as u64).collect();
                take(&rows.values[0], &kept, None)?
            }
        };
        self.intern(groups, values)?;
        let mut transitions = Vec::new();
        for ((row, group, weight), id) in counted.into_iter().zip(&self.ids) {
            let before = self.weights[*id] > 0;
            self.weights[*id] += weight;
            let is_there = self.weights[*id] > 0;
            self.changes.add(*id);
            if before != is_there {
                self.live = if is_there { self.live + 1 } else { self.live - 1 };
                transitions.push(Transition { row, group, is_there });
            }
        }
        Ok(transitions)
    }

    /// The ids of pairs, in `self.ids`.
    fn intern(&mut self, groups: Vec<u32>, values: ArrayRef) -> Result<()> {
        let columns: [ArrayRef; 2] = [Arc::new(UInt32Array::from(groups)), values];
        hash_keys(&columns, columns[0].len(), &mut self.hashes)?;
        self.table.intern(&columns, &self.hashes, &mut self.ids)?;
        self.weights.resize(self.table.len(), 0);
        Ok(())
    }

    /// The pairs with these ids, and their weights.
    pub(crate) fn of(&self, ids: &[usize]) -> Result<(Vec<usize>, ArrayRef, Int64Array)> {
        let pairs = self.table.keys_of(ids)?;
        let [groups, values] = pairs.as_slice() else { return Err(Error::internal("pairs of two columns")) };
        let groups = groups.as_primitive::<UInt32Type>().values().iter().map(|group| *group as usize).collect();
        Ok((groups, Arc::clone(values), ids.iter().map(|id| self.weights[*id]).collect()))
    }

    /// The ids of a part of the values.
    pub(crate) fn take(&mut self, part: Part) -> Vec<usize> {
        let weights = &self.weights;
        self.changes.take(part, || (0..weights.len()).filter(|id| weights[*id] > 0).collect())
    }

    /// The ids of all values that occur.
    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.weights.len()).filter(|id| self.weights[*id] > 0).collect()
    }

    /// Replaces weights by those of rows of a snapshot, unless the numbers of their snapshots say that later ones were restored. Returns
    /// the ids with their weights before.
    pub(crate) fn restore(
        &mut self,
        groups: &[usize],
        values: &ArrayRef,
        weights: &Int64Array,
        versions: Option<&Int64Array>,
    ) -> Result<Vec<(usize, i64)>> {
        let groups = groups.iter().map(|group| narrow(*group)).collect::<Result<Vec<_>>>()?;
        self.intern(groups, Arc::clone(values))?;
        let latest = match versions {
            Some(versions) => self.changes.latest(&self.ids, versions),
            None => (0..self.ids.len()).collect(),
        };
        let changed = latest.into_iter().map(|row| {
            let id = self.ids[row];
            let before = std::mem::replace(&mut self.weights[id], weights.value(row));
            match (before > 0, self.weights[id] > 0) {
                (false, true) => self.live += 1,
                (true, false) => self.live -= 1,
                _ => {}
            }
            (id, before)
        });
        Ok(changed.collect())
    }

    /// All values of these groups, which are marked, are in the next snapshot.
    pub(super) fn renew(&mut self, groups: &[bool]) -> Result<()> {
        self.of_groups(groups)?.into_iter().for_each(|id| self.changes.add(id));
        Ok(())
    }

    /// Removes the values of these groups, which are marked. Returns their ids with their weights before.
    pub(super) fn forget(&mut self, groups: &[bool]) -> Result<Vec<(usize, i64)>> {
        let forgotten = self.of_groups(groups)?.into_iter().map(|id| {
            self.changes.add(id);
            self.live -= usize::from(self.weights[id] > 0);
            (id, std::mem::take(&mut self.weights[id]))
        });
        Ok(forgotten.collect())
    }

    fn of_groups(&self, groups: &[bool]) -> Result<Vec<usize>> {
        let ids: Vec<usize> = (0..self.weights.len()).filter(|id| self.weights[*id] != 0).collect();
        let of = self.table.first_of(&ids)?;
        let of = of.as_primitive::<UInt32Type>().values();
        Ok(ids.into_iter().zip(of).filter(|(_, group)| groups[**group as usize]).map(|(id, _)| id).collect())
    }

    /// Whether so many values do not occur any more that they should be removed.
    pub(super) fn is_sparse(&self) -> bool {
        self.weights.len() > 2 * self.live + SPARSE_MIN
    }

    /// Removes values that do not occur, and the groups that are not among `groups`; the first of these becomes group 0. No change may
    /// be waiting for a snapshot.
    pub(super) fn keep(&mut self, groups: &[usize]) -> Result<()> {
        let (of, values, weights) = self.of(&self.all())?;
        let mut place = vec![usize::MAX; groups.iter().max().map_or(0, |group| group + 1)];
        groups.iter().enumerate().for_each(|(new, old)| place[*old] = new);
        let kept: Vec<usize> =
            (0..of.len()).filter(|row| place.get(of[*row]).is_some_and(|new| *new != usize::MAX)).collect();
        let rows: UInt64Array = kept.iter().map(|row| *row as u64).collect();
        let mut next = Entries::new(&self.value_type, self.has_nulls)?;
        next.intern(
            kept.iter().map(|row| narrow(place[of[*row]])).collect::<Result<_>>()?,
            take(&values, &rows, None)?,
        )?;
        for (row, id) in kept.iter().zip(&next.ids) {
            next.weights[*id] = weights.value(*row);
        }
        next.live = kept.len();
        next.changes = std::mem::take(&mut self.changes);
        *self = next;
        Ok(())
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.table.size_bytes() + self.weights.capacity() * size_of::<i64>() + self.changes.size_bytes()
    }
}
