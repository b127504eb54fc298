//! From keys to dense ids: the table under grouping and joins.
//!
//! A batch of keys is mapped at once. One fixed-width column is compared as words, one string column as
//! bytes, and any other combination column by column. Probing is linear over packed slots of hash and id. The
//! slots of upcoming keys are prefetched, so a table larger than the caches costs about one miss per key
//! instead of a chain of misses.

mod bytes;
mod column;
mod columns;
mod views;
mod words;

#[cfg(test)]
mod tests;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayData, ArrayRef, AsArray, StringArray, make_array};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::DataType;

use self::bytes::BytesTable;
pub(crate) use self::bytes::same as same_bytes;
pub(crate) use self::column::{INLINE, Nulls, Values, check_bytes, texts_array};
use self::columns::ColumnsTable;
use self::views::Views;
use self::words::WordTable;
use crate::key_hash;

/// The result of [`KeyTable::lookup`] for a key that is not in the table.
pub(crate) const MISSING: u32 = u32::MAX;

/// How many keys ahead slots are prefetched.
const PREFETCH_DISTANCE: usize = 32;

/// Keys with dense ids. Nulls are keys like any other.
pub(crate) struct KeyTable {
    types: Vec<DataType>,
    table: Table,
    ids: Ids,
    views: Views,
}

/// The ids assigned so far.
#[derive(Default)]
struct Ids {
    len: u32,
    /// Id of the null key, which is kept outside of word and byte tables.
    null: Option<u32>,
}

impl Ids {
    #[inline]
    fn next(&mut self) -> u32 {
        self.len += 1;
        self.len - 1
    }

    fn of_null(&mut self) -> u32 {
        match self.null {
            Some(id) => id,
            None => {
                let id = self.next();
                self.null = Some(id);
                id
            }
        }
    }
}

enum Table {
    /// No key column: one key.
    Unit,
    Words(WordTable),
    /// With the key of each id, 0 for the null key.
    WordsById(WordTable, Vec<u64>),
    Bytes(BytesTable),
    Columns(ColumnsTable),
}

/// A hash table over keys of one form. `hash` is always the key's full hash.
trait Probe<K> {
    fn intern(&mut self, key: K, hash: u64, ids: &mut Ids) -> u32;
    fn find(&self, key: K, hash: u64) -> u32;
    /// Prefetches the first slot for this hash.
    fn prefetch(&self, hash: u64);
    /// Whether the table has outgrown the caches in which prefetching is of no use.
    fn is_large(&self) -> bool;
}

impl KeyTable {
    /// A table for keys of these types.
    pub(crate) fn new(types: Vec<DataType>) -> Result<Self> {
        let table = match types.as_slice() {
            [] => Table::Unit,
            [data_type] if key_hash::is_word(data_type) => Table::Words(WordTable::default()),
            [DataType::Utf8View | DataType::Utf8] => Table::Bytes(BytesTable::default()),
            types => Table::Columns(ColumnsTable::new(types)?),
        };
        Ok(KeyTable { types, table, ids: Ids::default(), views: Views::default() })
    }

    /// A table whose keys are [found by their ids](KeyTable::keys_of).
    pub(crate) fn by_id(types: Vec<DataType>) -> Result<Self> {
        let table = match types.as_slice() {
            [] => Table::Unit,
            [data_type] if key_hash::is_word(data_type) => Table::WordsById(WordTable::default(), Vec::new()),
            types => Table::Columns(ColumnsTable::new(types)?),
        };
        Ok(KeyTable { types, table, ids: Ids::default(), views: Views::default() })
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.ids.len as usize
    }

    /// Bytes that the table takes.
    pub(crate) fn size_bytes(&self) -> usize {
        match &self.table {
            Table::Unit => 0,
            Table::Words(table) => table.size_bytes(),
            Table::WordsById(table, keys) => table.size_bytes() + keys.capacity() * size_of::<u64>(),
            Table::Bytes(table) => table.size_bytes() + self.views.size_bytes(),
            Table::Columns(table) => table.size_bytes(),
        }
    }

    /// Maps the key of each of `rows` rows to its id, and adds new keys. `hashes` is reused memory.
    pub(crate) fn intern_rows(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        hashes: &mut Vec<u64>,
        out: &mut Vec<usize>,
    ) -> Result<()> {
        if let (Table::Bytes(table), Some(texts)) =
            (&mut self.table, columns.first().and_then(|column| column.as_string_view_opt()))
            && self.views.intern(texts, table, &mut self.ids, out)
        {
            return Ok(());
        }
        key_hash::hash_keys(columns, rows, hashes)?;
        self.intern(columns, hashes, out)
    }

    /// Maps each row's key to its id, and adds new keys. `hashes` are those of [`key_hash::hash_keys`].
    pub(crate) fn intern(&mut self, columns: &[ArrayRef], hashes: &[u64], out: &mut Vec<usize>) -> Result<()> {
        let ids = &mut self.ids;
        let nulls = columns.first().and_then(|c| c.nulls()).filter(|n| n.null_count() > 0);
        match &mut self.table {
            Table::Unit => {
                ids.len = ids.len.max(u32::from(!hashes.is_empty()));
                out.clear();
                out.resize(hashes.len(), 0);
            }
            Table::Words(table) => {
                let words = words_of(&columns[0])?;
                intern_all(table, |row| words[row], hashes, nulls, ids, out);
            }
            Table::WordsById(table, keys) => {
                let words = words_of(&columns[0])?;
                intern_all(table, |row| words[row], hashes, nulls, ids, out);
                // New ids are consecutive.
                for (row, id) in out.iter().enumerate() {
                    if *id == keys.len() {
                        keys.push(if ids.null == Some(*id as u32) { 0 } else { words[row] });
                    }
                }
            }
            Table::Bytes(table) if columns[0].data_type() == &DataType::Utf8View => {
                let strings = columns[0].as_string_view();
                intern_all(table, |row| strings.value(row).as_bytes(), hashes, nulls, ids, out);
            }
            Table::Bytes(table) => {
                let strings = columns[0].as_string::<i32>();
                intern_all(table, |row| strings.value(row).as_bytes(), hashes, nulls, ids, out);
            }
            Table::Columns(table) => table.intern(columns, hashes, ids, out)?,
        }
        Ok(())
    }

    /// Maps each row's key to its id, or to [`MISSING`]. A null key is missing: SQL's `=` finds no null.
    pub(crate) fn lookup(&self, columns: &[ArrayRef], hashes: &[u64], out: &mut Vec<u32>) -> Result<()> {
        self.find(columns, hashes, out)?;
        for nulls in columns.iter().filter_map(|c| c.nulls()).filter(|n| n.null_count() > 0) {
            out.iter_mut().zip(nulls.iter()).filter(|(_, valid)| !valid).for_each(|(id, _)| *id = MISSING);
        }
        Ok(())
    }

    /// Maps each row's key to its id, or to [`MISSING`]. Nulls are keys like any other.
    pub(crate) fn find(&self, columns: &[ArrayRef], hashes: &[u64], out: &mut Vec<u32>) -> Result<()> {
        match &self.table {
            Table::Unit => {
                out.clear();
                out.resize(hashes.len(), if self.ids.len == 0 { MISSING } else { 0 });
            }
            Table::Words(table) | Table::WordsById(table, _) => {
                let words = words_of(&columns[0])?;
                lookup_all(table, |row| words[row], hashes, out);
            }
            Table::Bytes(table) if columns[0].data_type() == &DataType::Utf8View => {
                let strings = columns[0].as_string_view();
                lookup_all(table, |row| strings.value(row).as_bytes(), hashes, out);
            }
            Table::Bytes(table) => {
                let strings = columns[0].as_string::<i32>();
                lookup_all(table, |row| strings.value(row).as_bytes(), hashes, out);
            }
            Table::Columns(table) => return table.lookup(columns, hashes, out),
        }
        if let Some(nulls) = columns.first().and_then(|column| column.nulls()).filter(|nulls| nulls.null_count() > 0) {
            let null = self.ids.null.unwrap_or(MISSING);
            out.iter_mut().zip(nulls.iter()).filter(|(_, valid)| !valid).for_each(|(id, _)| *id = null);
        }
        Ok(())
    }

    /// The keys in order of their ids, as columns.
    pub(crate) fn keys(&self) -> Result<Vec<ArrayRef>> {
        Ok(match &self.table {
            Table::Unit => Vec::new(),
            Table::Words(table) => vec![words_array(&table.keys(self.len()), self.nulls(), &self.types[0])?],
            Table::WordsById(_, keys) => vec![words_array(keys, self.nulls(), &self.types[0])?],
            Table::Bytes(table) => vec![bytes_array(table, self.len(), self.nulls(), &self.types[0])?],
            Table::Columns(table) => table.keys()?,
        })
    }

    /// The keys of these ids, as columns. Only for a table [by id](KeyTable::by_id).
    pub(crate) fn keys_of(&self, ids: &[usize]) -> Result<Vec<ArrayRef>> {
        match &self.table {
            Table::Unit => Ok(Vec::new()),
            Table::Columns(table) => table.keys_of(ids),
            Table::WordsById(_, keys) => {
                let words: Vec<u64> = ids.iter().map(|id| keys[*id]).collect();
                let nulls = self.ids.null.map(|null| ids.iter().map(|id| *id != null as usize).collect());
                Ok(vec![words_array(&words, nulls, &self.types[0])?])
            }
            Table::Words(_) | Table::Bytes(_) => {
                Err(Error::internal("the keys of this table are not found by their ids"))
            }
        }
    }

    /// Keeps these keys only; the first of them gets the id 0. Returns them as columns. Only for a table [by
    /// id](KeyTable::by_id).
    pub(crate) fn keep(&mut self, ids: &[usize]) -> Result<Vec<ArrayRef>> {
        let columns = self.keys_of(ids)?;
        let (mut hashes, mut new) = (Vec::new(), Vec::new());
        key_hash::hash_keys(&columns, ids.len(), &mut hashes)?;
        *self = KeyTable::by_id(std::mem::take(&mut self.types))?;
        self.intern(&columns, &hashes, &mut new)?;
        Ok(columns)
    }

    /// The first columns of the keys of these ids. Only for a table of several columns.
    pub(crate) fn first_of(&self, ids: &[usize]) -> Result<ArrayRef> {
        match &self.table {
            Table::Columns(table) => table.first_of(ids),
            _ => Err(Error::internal("keys of one column")),
        }
    }

    fn nulls(&self) -> Option<NullBuffer> {
        self.ids.null.map(|null| (0..self.ids.len).map(|id| id != null).collect())
    }

    /// Removes all keys and keeps the memory for the next ones.
    pub(crate) fn clear(&mut self) {
        self.ids = Ids::default();
        self.views.clear();
        match &mut self.table {
            Table::Unit => {}
            Table::Words(table) => table.clear(),
            Table::WordsById(table, keys) => (table.clear(), keys.clear()).0,
            Table::Bytes(table) => table.clear(),
            Table::Columns(table) => table.clear(),
        }
    }
}

fn intern_all<K>(
    table: &mut impl Probe<K>,
    key: impl Fn(usize) -> K,
    hashes: &[u64],
    nulls: Option<&NullBuffer>,
    ids: &mut Ids,
    out: &mut Vec<usize>,
) {
    out.clear();
    match nulls {
        Some(nulls) => out.extend(hashes.iter().enumerate().map(|(row, hash)| match nulls.is_valid(row) {
            true => table.intern(key(row), *hash, ids) as usize,
            false => ids.of_null() as usize,
        })),
        None if table.is_large() => out.extend(hashes.iter().enumerate().map(|(row, hash)| {
            if let Some(ahead) = hashes.get(row + PREFETCH_DISTANCE) {
                table.prefetch(*ahead);
            }
            table.intern(key(row), *hash, ids) as usize
        })),
        None => out.extend(hashes.iter().enumerate().map(|(row, hash)| table.intern(key(row), *hash, ids) as usize)),
    }
}

fn lookup_all<K>(table: &impl Probe<K>, key: impl Fn(usize) -> K, hashes: &[u64], out: &mut Vec<u32>) {
    out.clear();
    let is_large = table.is_large();
    out.extend(hashes.iter().enumerate().map(|(row, hash)| {
        if let Some(ahead) = hashes.get(row + PREFETCH_DISTANCE).filter(|_| is_large) {
            table.prefetch(*ahead);
        }
        table.find(key(row), *hash)
    }));
}

/// Prefetches the cache line of an element. An index out of range is allowed and has no effect.
#[inline]
pub(crate) fn prefetch<T>(slots: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing; the pointer is computed without dereferencing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(slots.as_ptr().wrapping_add(index).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slots, index);
}

/// Advises the system to use large pages for a table with random access. With small pages nearly every access
/// to a large table would also miss the TLB, which costs twice as much in a virtual machine.
fn prefer_huge_pages<T>(room: &Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        const HUGE: usize = 2 << 20;
        let (start, bytes) = (room.as_ptr() as usize, room.capacity() * size_of::<T>());
        let aligned = start.next_multiple_of(HUGE);
        let whole = (start + bytes).saturating_sub(aligned) / HUGE * HUGE;
        if whole > 0 {
            // SAFETY: the range lies within the vector's allocation, and the advice changes no content. A
            // refusal only costs speed.
            unsafe { libc::madvise(aligned as *mut libc::c_void, whole, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = room;
}

/// Smaller allocations are left to the allocator, which keeps them for the next table.
#[cfg(target_os = "linux")]
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Bytes that are given back at once.
#[cfg(target_os = "linux")]
const GIVEN_BACK_BYTES: usize = 1 << 20;

/// Returns the memory of keys to the system in pieces. To unmap a gigabyte at once takes a tenth of a second,
/// during which no other thread of the process gets new memory.
pub(crate) fn give_back(keys: &mut Vec<u8>) {
    keys.clear();
    #[cfg(target_os = "linux")]
    if keys.capacity() > KEPT_BYTES_MAX {
        const PAGE: usize = 1 << 16;
        let end = (keys.as_ptr() as usize + keys.capacity()) / PAGE * PAGE;
        let mut start = (keys.as_ptr() as usize).next_multiple_of(PAGE);
        while start < end {
            let bytes = GIVEN_BACK_BYTES.min(end - start);
            // SAFETY: the range lies within the vector's allocation, which has no content any more. Pages
            // have at most 64 KiB. A refusal only costs time.
            unsafe { libc::madvise(start as *mut libc::c_void, bytes, libc::MADV_DONTNEED) };
            start += bytes;
        }
    }
}

fn words_of(column: &ArrayRef) -> Result<std::borrow::Cow<'_, [u64]>> {
    key_hash::words(column).ok_or_else(|| Error::internal(format!("{} is not a word key", column.data_type())))
}

pub(crate) fn words_array(words: &[u64], nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    let values = match data_type {
        DataType::Int32 | DataType::UInt32 => words.iter().map(|word| *word as u32).collect::<Buffer>(),
        _ => Buffer::from_slice_ref(words),
    };
    let data = ArrayData::builder(data_type.clone()).len(words.len()).add_buffer(values).nulls(nulls);
    Ok(make_array(data.build()?))
}

fn bytes_array(table: &BytesTable, len: usize, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef> {
    let offsets: Option<Vec<i32>> = table.offsets(len).map(|offset| i32::try_from(offset).ok()).collect();
    let offsets = offsets.ok_or_else(|| {
        Error::user("the texts of one key column exceed 2 GiB").remedy("use shorter keys, or raise the parallelism")
    })?;
    let strings = StringArray::try_new(OffsetBuffer::new(offsets.into()), Buffer::from_slice_ref(table.data()), nulls)?;
    let strings: ArrayRef = std::sync::Arc::new(strings);
    Ok(arrow::compute::cast(&strings, data_type)?)
}
