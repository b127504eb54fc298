//! The rows of a side by their ids.
//!
//! Rows that may be retracted, or whose matches are counted, are looked up by all of their columns: each
//! distinct row is stored once, with a weight. Append-only rows that are emitted in pairs, and have columns
//! after their keys, are never looked up: equal rows are rare, so they need no hash table. Instead, each has
//! a number, which identifies it in snapshots: equal rows have different numbers, and a row that is restored
//! twice is stored once.

use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, AsArray, Int64Array, UInt32Array};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, UInt32Type};

use crate::hash_keys;
use crate::key_table::KeyTable;
use crate::row_store::{Comparand, RowStore, Words};

/// Rows with the ids of their keys.
pub(crate) enum Kept {
    /// A hash table of the key's id and the columns after the keys, and the types of these columns.
    Found(KeyTable, Vec<DataType>),
    Numbered(Numbered),
}

/// Append-only rows.
pub(crate) struct Numbered {
    /// The columns after the keys.
    rows: RowStore,
    keys: Vec<u32>,
    numbers: Words,
    /// The number of the next row. It is greater than that of any row with the same key.
    next: i64,
    /// During a restore: the keys and numbers of the rows.
    restored: Option<KeyTable>,
}

impl Kept {
    /// A store for rows with these types of columns after the keys.
    pub(crate) fn new(types: &[DataType], is_numbered: bool) -> Result<Kept> {
        if !is_numbered {
            let types: Vec<DataType> = std::iter::once(DataType::UInt32).chain(types.iter().cloned()).collect();
            return Ok(Kept::Found(KeyTable::by_id(types.clone())?, types));
        }
        let types = types.iter().map(|data_type| (data_type.clone(), SortOptions::default()));
        Ok(Kept::Numbered(Numbered {
            rows: RowStore::new(types.collect())?,
            keys: Vec::new(),
            numbers: Words::default(),
            next: 1,
            restored: None,
        }))
    }

    pub(crate) fn is_numbered(&self) -> bool {
        matches!(self, Kept::Numbered(_))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Kept::Found(table, _) => table.len(),
            Kept::Numbered(numbered) => numbered.keys.len(),
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Kept::Found(table, _) => table.size_bytes(),
            // The temporary memory of a restore does not count: state that fitted before must fit again.
            Kept::Numbered(Numbered { rows, keys, numbers, .. }) => {
                rows.size_bytes() + keys.capacity() * size_of::<u32>() + numbers.size_bytes()
            }
        }
    }

    /// Adds rows of these keys and returns their ids. New ids are consecutive.
    pub(crate) fn add(&mut self, keys: Vec<u32>, values: &[ArrayRef], hashes: &mut Vec<u64>) -> Result<Vec<usize>> {
        match self {
            Kept::Found(table, _) => intern(table, keys, values, hashes),
            Kept::Numbered(numbered) => {
                let first = numbered.next;
                numbered.next += keys.len() as i64;
                let numbers: Vec<i64> = (first..numbered.next).collect();
                let all: Vec<usize> = (0..keys.len()).collect();
                numbered.append(&keys, values, &numbers, &all)
            }
        }
    }

    /// Adds rows of a snapshot, with their numbers if they have some. With `may_be_there`, some may already
    /// have been restored.
    pub(crate) fn restore(
        &mut self,
        keys: Vec<u32>,
        values: &[ArrayRef],
        numbers: Option<&Int64Array>,
        may_be_there: bool,
        hashes: &mut Vec<u64>,
    ) -> Result<Vec<usize>> {
        match (self, numbers) {
            (Kept::Found(table, _), _) => intern(table, keys, values, hashes),
            (Kept::Numbered(numbered), Some(numbers)) if may_be_there => {
                numbered.restore(&keys, values, numbers, hashes)
            }
            (Kept::Numbered(numbered), Some(numbers)) => {
                let all: Vec<usize> = (0..keys.len()).collect();
                numbered.append(&keys, values, numbers.values(), &all)
            }
            (Kept::Numbered(_), None) => Err(Error::internal("rows of a state without their numbers")),
        }
    }

    /// Notes the numbers of rows that are stored elsewhere: no new row may get one of them.
    pub(crate) fn exist(&mut self, numbers: &Int64Array) {
        if let Kept::Numbered(numbered) = self {
            let last = numbers.values().iter().copied().max().unwrap_or(0);
            numbered.next = numbered.next.max(last.saturating_add(1));
        }
    }

    /// Ends the restore.
    pub(crate) fn restored(&mut self) {
        if let Kept::Numbered(numbered) = self {
            numbered.restored = None;
        }
    }

    /// The ids of the keys of rows.
    pub(crate) fn keys_of(&self, ids: &[usize]) -> Result<Vec<usize>> {
        match self {
            Kept::Found(..) => Ok(self.rows_of(ids)?.0),
            Kept::Numbered(numbered) => Ok(ids.iter().map(|id| numbered.keys[*id] as usize).collect()),
        }
    }

    /// The ids of the keys of rows, and their columns after the keys.
    pub(crate) fn rows_of(&self, ids: &[usize]) -> Result<(Vec<usize>, Vec<ArrayRef>)> {
        match self {
            Kept::Found(table, _) => {
                let mut columns = table.keys_of(ids)?;
                let values = columns.split_off(1);
                let keys = columns.first().and_then(|keys| keys.as_primitive_opt::<UInt32Type>());
                let keys = keys.ok_or_else(|| Error::internal("rows without the ids of their keys"))?;
                Ok((keys.values().iter().map(|key| *key as usize).collect(), values))
            }
            Kept::Numbered(numbered) => Ok((self.keys_of(ids)?, numbered.rows.rows(ids)?)),
        }
    }

    /// The numbers of rows, if they have them.
    pub(crate) fn numbers_of(&self, ids: &[usize]) -> Option<ArrayRef> {
        let Kept::Numbered(numbered) = self else { return None };
        Some(Arc::new(ids.iter().map(|id| numbered.numbers.get(*id) as i64).collect::<Int64Array>()))
    }

    /// Keeps these rows only, and gives them new ids of keys. The first of them gets the id 0.
    pub(crate) fn keep(&mut self, ids: &[usize], keys: Vec<u32>, hashes: &mut Vec<u64>) -> Result<()> {
        match self {
            Kept::Found(_, types) => {
                let types = types.clone();
                let values = self.rows_of(ids)?.1;
                let mut table = KeyTable::by_id(types.clone())?;
                intern(&mut table, keys, &values, hashes)?;
                *self = Kept::Found(table, types);
            }
            Kept::Numbered(numbered) => {
                numbered.rows.keep(ids)?;
                numbered.numbers = ids.iter().map(|id| numbered.numbers.get(*id)).collect();
                (numbered.keys, numbered.restored) = (keys, None);
            }
        }
        Ok(())
    }
}

impl Numbered {
    /// Appends rows of a batch and returns their ids.
    fn append(&mut self, keys: &[u32], values: &[ArrayRef], numbers: &[i64], rows: &[usize]) -> Result<Vec<usize>> {
        let first = self.keys.len();
        let values = self.rows.values(values)?;
        self.rows.append(&values, rows)?;
        self.keys.extend(rows.iter().map(|row| keys[*row]));
        let ids: Vec<usize> = (first..self.keys.len()).collect();
        ids.iter().zip(rows).for_each(|(id, row)| self.numbers.put(*id, numbers[*row] as u64));
        Ok(ids)
    }

    fn restore(
        &mut self,
        keys: &[u32],
        values: &[ArrayRef],
        numbers: &Int64Array,
        hashes: &mut Vec<u64>,
    ) -> Result<Vec<usize>> {
        let table = match self.restored.take() {
            Some(table) => table,
            None => KeyTable::new(vec![DataType::UInt32, DataType::Int64])?,
        };
        let table = self.restored.insert(table);
        let pairs: [ArrayRef; 2] = [Arc::new(UInt32Array::from(keys.to_vec())), Arc::new(numbers.clone())];
        hash_keys(&pairs, keys.len(), hashes)?;
        let mut ids = Vec::new();
        table.intern(&pairs, hashes, &mut ids)?;
        let (mut new, mut known) = (Vec::new(), self.keys.len());
        for (row, id) in ids.iter().enumerate() {
            if *id == known {
                new.push(row);
                known += 1;
            }
        }
        self.append(keys, values, numbers.values(), &new)?;
        let values = self.rows.values(values)?;
        for (row, id) in ids.iter().enumerate() {
            if self.rows.order(&values, row, Comparand::Kept(*id)).is_ne() {
                return Err(Error::internal("two rows of a state have the same key and number"));
            }
        }
        Ok(ids)
    }
}

fn intern(table: &mut KeyTable, keys: Vec<u32>, values: &[ArrayRef], hashes: &mut Vec<u64>) -> Result<Vec<usize>> {
    let rows = keys.len();
    let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(keys))];
    columns.extend(values.iter().cloned());
    hash_keys(&columns, rows, hashes)?;
    let mut ids = Vec::new();
    table.intern(&columns, hashes, &mut ids)?;
    Ok(ids)
}
