//! Keys of several columns, or of a type without a table of its own.

use anabranch_model::{Error, Result};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::column::{KeyColumn, Values};
use super::{Ids, MISSING, PREFETCH_DISTANCE, prefetch};

/// Linear probing over slots of hash and id; the keys are stored column by column.
///
/// A batch is mapped in two steps. First each row takes the first key with the same hash. Then each column is
/// compared, in one pass, with the keys that its rows have taken; rows that have added their key are skipped.
/// Rows whose key differs, despite an equal hash, are mapped one by one.
pub(super) struct ColumnsTable {
    slots: Vec<Slot>,
    used: usize,
    columns: Vec<KeyColumn>,
    /// Rows of the batch with new keys, and the other rows.
    new: Vec<usize>,
    old: Vec<usize>,
    differing: Vec<usize>,
}

/// Packed: a large table has two to four slots for each key.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Slot {
    hash: u64,
    id: u32,
}

const EMPTY: Slot = Slot { hash: 0, id: MISSING };
const INITIAL_SLOTS: usize = 64;

impl ColumnsTable {
    /// A table for keys of these types. A type that cannot be compared is an error.
    pub(super) fn new(types: &[DataType]) -> Result<Self> {
        Ok(ColumnsTable {
            slots: vec![EMPTY; INITIAL_SLOTS],
            used: 0,
            columns: types.iter().map(KeyColumn::new).collect::<Result<_>>()?,
            new: Vec::new(),
            old: Vec::new(),
            differing: Vec::new(),
        })
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>() + self.columns.iter().map(KeyColumn::size_bytes).sum::<usize>()
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(EMPTY);
        self.used = 0;
        self.columns.iter_mut().for_each(KeyColumn::clear);
    }

    /// The keys in order of their ids.
    pub(super) fn keys(&self) -> Result<Vec<ArrayRef>> {
        self.columns.iter().map(KeyColumn::array).collect()
    }

    pub(super) fn keys_of(&self, ids: &[usize]) -> Result<Vec<ArrayRef>> {
        self.columns.iter().map(|column| column.array_of(ids)).collect()
    }

    /// The first columns of the keys of these ids.
    pub(super) fn first_of(&self, ids: &[usize]) -> Result<ArrayRef> {
        let first = self.columns.first().ok_or_else(|| Error::internal("keys without a column"))?;
        first.array_of(ids)
    }

    /// Maps each row to its key's id; adds the keys that are new.
    pub(super) fn intern(
        &mut self,
        columns: &[ArrayRef],
        hashes: &[u64],
        ids: &mut Ids,
        out: &mut Vec<usize>,
    ) -> Result<()> {
        let values = self.values(columns)?;
        out.clear();
        self.new.clear();
        self.old.clear();
        for (row, hash) in hashes.iter().enumerate() {
            self.prefetch(hashes, row);
            let found = self.next_with(*hash, *hash as usize);
            out.push(match found {
                Ok((_, id)) => {
                    self.old.push(row);
                    id as usize
                }
                Err(free) => {
                    self.new.push(row);
                    self.insert(free, *hash, ids) as usize
                }
            });
        }
        for (column, values) in self.columns.iter_mut().zip(&values) {
            column.append(values, &self.new)?;
        }
        let mut differing = std::mem::take(&mut self.differing);
        match self.new.is_empty() {
            true => self.compare(&values, |row| out[row], &(0..hashes.len()), &mut differing),
            false => self.compare(&values, |row| out[row], &self.old.iter().copied(), &mut differing),
        }
        for row in &differing {
            out[*row] = match self.find_exactly(&values, *row, hashes[*row]) {
                Ok(id) => id as usize,
                Err(free) => {
                    for (column, values) in self.columns.iter_mut().zip(&values) {
                        column.append(values, &[*row])?;
                    }
                    self.insert(free, hashes[*row], ids) as usize
                }
            };
        }
        self.differing = differing;
        Ok(())
    }

    /// Maps each row to its key's id, or to [`MISSING`].
    pub(super) fn lookup(&self, columns: &[ArrayRef], hashes: &[u64], out: &mut Vec<u32>) -> Result<()> {
        let values = self.values(columns)?;
        out.clear();
        out.extend(hashes.iter().enumerate().map(|(row, hash)| {
            self.prefetch(hashes, row);
            self.next_with(*hash, *hash as usize).map_or(MISSING, |(_, id)| id)
        }));
        let mut differing = Vec::new();
        self.compare(&values, |row| out[row] as usize, &(0..hashes.len()), &mut differing);
        for row in differing {
            out[row] = self.find_exactly(&values, row, hashes[row]).unwrap_or(MISSING);
        }
        Ok(())
    }

    fn values<'a>(&self, columns: &'a [ArrayRef]) -> Result<Vec<Values<'a>>> {
        self.columns.iter().zip(columns).map(|(column, values)| column.values(values)).collect()
    }

    /// Collects, in order, the rows whose key differs from the key `id_of(row)`. An id without a key counts
    /// as equal.
    fn compare(
        &self,
        values: &[Values<'_>],
        id_of: impl Fn(usize) -> usize,
        rows: &(impl Iterator<Item = usize> + Clone),
        differing: &mut Vec<usize>,
    ) {
        differing.clear();
        for (column, values) in self.columns.iter().zip(values) {
            column.compare(values, &id_of, rows.clone(), differing);
        }
        if !differing.is_empty() {
            differing.sort_unstable();
            differing.dedup();
        }
    }

    /// The id of a row's key, or the free slot in which it belongs.
    #[cold]
    fn find_exactly(&self, values: &[Values<'_>], row: usize, hash: u64) -> std::result::Result<u32, usize> {
        let mut from = hash as usize;
        loop {
            let (at, id) = self.next_with(hash, from)?;
            let mut pairs = self.columns.iter().zip(values);
            if pairs.all(|(column, values)| column.equal(values, row, id as usize)) {
                return Ok(id);
            }
            from = at + 1;
        }
    }

    /// The next slot with this hash, from slot `from` on, and its id; or the free slot before it.
    #[inline(always)]
    fn next_with(&self, hash: u64, from: usize) -> std::result::Result<(usize, u32), usize> {
        let mask = self.slots.len() - 1;
        let mut index = from;
        loop {
            let slot = self.slots[index & mask];
            if slot.id == MISSING {
                return Err(index & mask);
            }
            if slot.hash == hash {
                return Ok((index, slot.id));
            }
            index += 1;
        }
    }

    fn insert(&mut self, free: usize, hash: u64, ids: &mut Ids) -> u32 {
        let id = ids.next();
        self.slots[free] = Slot { hash, id };
        self.used += 1;
        if self.used * 2 > self.slots.len() {
            self.grow();
        }
        id
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![EMPTY; old.len() * 2];
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|slot| slot.id != MISSING) {
            let mut index = slot.hash as usize & mask;
            while self.slots[index].id != MISSING {
                index = (index + 1) & mask;
            }
            self.slots[index] = slot;
        }
    }

    /// Prefetches the first slot of the key [`PREFETCH_DISTANCE`] rows ahead, if the table has outgrown the
    /// nearest caches.
    #[inline(always)]
    fn prefetch(&self, hashes: &[u64], row: usize) {
        if self.slots.len() * size_of::<Slot>() > 256 << 10
            && let Some(ahead) = hashes.get(row + PREFETCH_DISTANCE)
        {
            prefetch(&self.slots, *ahead as usize & (self.slots.len() - 1));
        }
    }
}
