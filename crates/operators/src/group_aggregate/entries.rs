//! The values of each group with their multiplicities: for functions whose result may depend on any value.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, UInt32Type};

use super::accumulator::InputRows;

use crate::hash_keys;
use crate::key_table::KeyTable;
use crate::keyed_state::{Changes, Extent, SPARSE_MIN, narrow};

/// The pairs of group and value of a function, with their weights.
pub(crate) struct Entries {
    pairs: Arc<Mutex<Pairs>>,
    /// The pairs belong to another function, which is updated first.
    follows: bool,
    /// The weight of each pair in this function.
    weights: Vec<i64>,
    pub(crate) changes: Changes,
}

/// Pairs of group and value, shared by functions of the same values. One thread has all of these functions,
/// so the lock is never contended.
struct Pairs {
    value_type: DataType,
    /// Whether NULL is a value too.
    has_nulls: bool,
    table: KeyTable,
    /// For each pair: the number of functions in which its weight is not 0. A weight is negative if a value
    /// was retracted before it arrived.
    users: Vec<u32>,
    /// Number of pairs that occur in some function.
    live: usize,
    hashes: Vec<u64>,
    ids: Vec<usize>,
    /// Whether several functions share the pairs. Then the ids of the rows of the last batch are kept
    /// ([`NONE`] for rows that do not count), and so are the new ids after pairs were removed.
    shared: bool,
    ids_of_rows: Vec<usize>,
    new_ids: Vec<usize>,
}

const NONE: usize = usize::MAX;

/// A value has appeared in a group, or has disappeared from it.
pub(super) struct Transition {
    /// The row that caused it.
    pub(super) row: usize,
    pub(super) group: usize,
    pub(super) is_there: bool,
}

fn locked(pairs: &Mutex<Pairs>) -> MutexGuard<'_, Pairs> {
    pairs.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pairs {
    fn new(value_type: &DataType, has_nulls: bool) -> Result<Pairs> {
        Ok(Pairs {
            value_type: value_type.clone(),
            has_nulls,
            table: KeyTable::by_id(vec![DataType::UInt32, value_type.clone()])?,
            users: Vec::new(),
            live: 0,
            hashes: Vec::new(),
            ids: Vec::new(),
            shared: false,
            ids_of_rows: Vec::new(),
            new_ids: Vec::new(),
        })
    }

    /// Adds the pairs that are new, and writes the ids of all to `self.ids`.
    fn intern(&mut self, groups: Vec<u32>, values: ArrayRef) -> Result<()> {
        let columns: [ArrayRef; 2] = [Arc::new(UInt32Array::from(groups)), values];
        hash_keys(&columns, columns[0].len(), &mut self.hashes)?;
        self.table.intern(&columns, &self.hashes, &mut self.ids)?;
        self.users.resize(self.table.len(), 0);
        self.new_ids = Vec::new();
        Ok(())
    }

    /// Like [`Pairs::intern`], for the pairs of these rows.
    fn intern_rows(&mut self, rows: &InputRows<'_>, counting: Option<&UInt32Array>) -> Result<()> {
        let (groups, values) = match counting {
            None => (rows.groups.iter().map(|group| narrow(*group)).collect::<Result<_>>()?, rows.values[0].clone()),
            Some(counting) => {
                let groups = counting.values().iter().map(|row| narrow(rows.groups[*row as usize]));
                (groups.collect::<Result<_>>()?, take(&rows.values[0], counting, None)?)
            }
        };
        self.intern(groups, values)?;
        if self.shared {
            self.ids_of_rows.clear();
            match counting {
                None => self.ids_of_rows.extend_from_slice(&self.ids),
                Some(counting) => {
                    self.ids_of_rows.resize(rows.groups.len(), NONE);
                    let ids = counting.values().iter().zip(&self.ids);
                    ids.for_each(|(row, id)| self.ids_of_rows[*row as usize] = *id);
                }
            }
        }
        Ok(())
    }

    /// Notes whether a pair occurs in a function, before and now.
    #[inline]
    fn occurs(&mut self, id: usize, before: bool, now: bool) {
        let users = &mut self.users[id];
        match (before, now) {
            (false, true) => {
                self.live += usize::from(*users == 0);
                *users += 1;
            }
            (true, false) => {
                *users -= 1;
                self.live -= usize::from(*users == 0);
            }
            _ => {}
        }
    }

    /// The groups and values of these pairs.
    fn with_ids(&self, ids: &[usize]) -> Result<(Vec<usize>, ArrayRef)> {
        let pairs = self.table.keys_of(ids)?;
        let [groups, values] = pairs.as_slice() else { return Err(Error::internal("pairs of two columns")) };
        let groups = groups.as_primitive::<UInt32Type>().values().iter().map(|group| *group as usize).collect();
        Ok((groups, Arc::clone(values)))
    }

    /// Removes pairs that do not occur, and the groups that are not among `groups`; the first of these
    /// becomes group 0.
    fn keep(&mut self, groups: &[usize]) -> Result<()> {
        let ids: Vec<usize> = (0..self.users.len()).filter(|id| self.users[*id] > 0).collect();
        let (groups_of, values) = self.with_ids(&ids)?;
        let mut place = vec![NONE; groups.iter().max().map_or(0, |group| group + 1)];
        groups.iter().enumerate().for_each(|(new, old)| place[*old] = new);
        let kept: Vec<usize> =
            (0..groups_of.len()).filter(|row| place.get(groups_of[*row]).is_some_and(|new| *new != NONE)).collect();
        let rows: UInt64Array = kept.iter().map(|row| *row as u64).collect();
        let mut next = Pairs::new(&self.value_type, self.has_nulls)?;
        let groups = kept.iter().map(|row| narrow(place[groups_of[*row]])).collect::<Result<_>>()?;
        next.intern(groups, take(&values, &rows, None)?)?;
        next.new_ids = vec![NONE; self.users.len()];
        for (row, id) in kept.into_iter().zip(&next.ids) {
            next.new_ids[ids[row]] = *id;
            next.users[*id] = self.users[ids[row]];
        }
        (next.live, next.shared) = (next.users.len(), self.shared);
        *self = next;
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        let ids = self.ids_of_rows.capacity() + self.new_ids.capacity();
        self.table.size_bytes() + self.users.capacity() * size_of::<u32>() + ids * size_of::<usize>()
    }
}

impl Entries {
    /// Entries for values of this type. `has_nulls`: NULL is a value too.
    pub(super) fn new(value_type: &DataType, has_nulls: bool) -> Result<Entries> {
        Ok(Entries {
            pairs: Arc::new(Mutex::new(Pairs::new(value_type, has_nulls)?)),
            follows: false,
            weights: Vec::new(),
            changes: Changes::default(),
        })
    }

    /// Shares the pairs of a function of the same values. From now on that function must process each batch
    /// before this one does, and with all of its rows.
    pub(super) fn follow(&mut self, other: &Entries) {
        other.pairs().shared = true;
        (self.pairs, self.follows) = (Arc::clone(&other.pairs), true);
    }

    fn pairs(&self) -> MutexGuard<'_, Pairs> {
        locked(&self.pairs)
    }

    /// The column of values in snapshots.
    pub(crate) fn value_field(&self) -> Field {
        let pairs = self.pairs();
        Field::new("$value", pairs.value_type.clone(), pairs.has_nulls)
    }

    /// Adds rows.
    pub(super) fn update(&mut self, rows: &InputRows<'_>) -> Result<Vec<Transition>> {
        let pairs = &mut *locked(&self.pairs);
        let counting = rows.counting(pairs.has_nulls);
        if !self.follows {
            pairs.intern_rows(rows, counting.as_ref())?;
        }
        self.weights.resize(pairs.table.len(), 0);
        // The ids are put back: a function that follows needs them.
        let ids = std::mem::take(if self.follows { &mut pairs.ids_of_rows } else { &mut pairs.ids });
        let mut transitions = Vec::new();
        let mut add = |row: usize, id: usize| {
            let weight = &mut self.weights[id];
            let before = *weight;
            *weight += rows.weights.map_or(1, |weights| weights[row]);
            let is_there = *weight > 0;
            self.changes.add(id);
            pairs.occurs(id, before != 0, *weight != 0);
            if (before > 0) != is_there {
                transitions.push(Transition { row, group: rows.groups[row], is_there });
            }
        };
        match &counting {
            None => ids.iter().enumerate().for_each(|(row, id)| add(row, *id)),
            Some(counting) => counting.values().iter().enumerate().for_each(|(index, row)| {
                let row = *row as usize;
                add(row, ids[if self.follows { row } else { index }]);
            }),
        }
        *(if self.follows { &mut pairs.ids_of_rows } else { &mut pairs.ids }) = ids;
        Ok(transitions)
    }

    /// The pairs with these ids, and their weights.
    pub(crate) fn with_ids(&self, ids: &[usize]) -> Result<(Vec<usize>, ArrayRef, Int64Array)> {
        let (groups, values) = self.pairs().with_ids(ids)?;
        Ok((groups, values, ids.iter().map(|id| self.weights[*id]).collect()))
    }

    /// Takes the ids of the values of this extent.
    pub(crate) fn take(&mut self, part: Extent) -> Vec<usize> {
        let weights = &self.weights;
        self.changes.take(part, || (0..weights.len()).filter(|id| weights[*id] != 0).collect())
    }

    /// The ids of all values that occur.
    pub(super) fn all(&self) -> Vec<usize> {
        (0..self.weights.len()).filter(|id| self.weights[*id] > 0).collect()
    }

    /// Replaces weights by those of rows of a snapshot, unless rows of a later snapshot were already
    /// restored. Returns the ids with their former weights.
    pub(crate) fn restore(
        &mut self,
        groups: &[usize],
        values: &ArrayRef,
        weights: &Int64Array,
        versions: Option<&Int64Array>,
    ) -> Result<Vec<(usize, i64)>> {
        let groups = groups.iter().map(|group| narrow(*group)).collect::<Result<Vec<_>>>()?;
        let pairs = &mut *locked(&self.pairs);
        pairs.intern(groups, Arc::clone(values))?;
        self.weights.resize(pairs.table.len(), 0);
        let latest = match versions {
            Some(versions) => self.changes.latest(&pairs.ids, versions),
            None => (0..pairs.ids.len()).collect(),
        };
        let changed = latest.into_iter().map(|row| {
            let id = pairs.ids[row];
            let before = std::mem::replace(&mut self.weights[id], weights.value(row));
            pairs.occurs(id, before != 0, self.weights[id] != 0);
            (id, before)
        });
        Ok(changed.collect())
    }

    /// Includes all values of the marked groups in the next snapshot.
    pub(crate) fn renew(&mut self, groups: &[bool]) -> Result<()> {
        self.of_groups(groups)?.into_iter().for_each(|id| self.changes.add(id));
        Ok(())
    }

    /// Removes the values of the marked groups. Returns their ids with their former weights.
    pub(super) fn forget(&mut self, groups: &[bool]) -> Result<Vec<(usize, i64)>> {
        let ids = self.of_groups(groups)?;
        let mut pairs = locked(&self.pairs);
        let forgotten = ids.into_iter().map(|id| {
            self.changes.add(id);
            let before = std::mem::take(&mut self.weights[id]);
            pairs.occurs(id, before != 0, false);
            (id, before)
        });
        Ok(forgotten.collect())
    }

    fn of_groups(&self, groups: &[bool]) -> Result<Vec<usize>> {
        let ids: Vec<usize> = (0..self.weights.len()).filter(|id| self.weights[*id] != 0).collect();
        let groups_of = self.pairs().table.first_of(&ids)?;
        let groups_of = groups_of.as_primitive::<UInt32Type>().values();
        Ok(ids.into_iter().zip(groups_of).filter(|(_, group)| groups[**group as usize]).map(|(id, _)| id).collect())
    }

    /// Whether so many values no longer occur that removing them is worthwhile.
    pub(super) fn is_sparse(&self) -> bool {
        let pairs = self.pairs();
        pairs.users.len() > 2 * pairs.live + SPARSE_MIN
    }

    /// Removes values that do not occur, and the groups that are not among `groups`; the first of these
    /// becomes group 0. No removed value may be pending for a snapshot. A function that is
    /// [followed](Entries::follow) does this before its followers.
    pub(super) fn keep(&mut self, groups: &[usize]) -> Result<()> {
        let pairs = &mut *locked(&self.pairs);
        if !self.follows {
            pairs.keep(groups)?;
        }
        let mut weights = vec![0; pairs.users.len()];
        let moved = pairs.new_ids.iter().zip(&self.weights).filter(|(id, _)| **id != NONE);
        moved.for_each(|(id, weight)| weights[*id] = *weight);
        self.weights = weights;
        self.changes.renumber(|id| pairs.new_ids.get(id).copied().filter(|id| *id != NONE));
        if !pairs.shared {
            pairs.new_ids = Vec::new();
        }
        Ok(())
    }

    pub(super) fn size_bytes(&self) -> usize {
        let pairs = if self.follows { 0 } else { self.pairs().size_bytes() };
        pairs + self.weights.capacity() * size_of::<i64>() + self.changes.size_bytes()
    }
}
