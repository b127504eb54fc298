//! The rows that may be in the frames of later ones: for each row, the columns that the functions read.
//!
//! Rows that were added together form a chunk of columns. A row has a number, higher than those of all rows
//! before it, and each partition has the list of its rows. Small adjacent chunks are merged. Rows that no
//! partition needs are removed once they are the majority.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, UInt64Array, new_null_array};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::DataType;

use crate::keyed_state::SPARSE_MIN;

/// Adjacent chunks are merged if together they have at most this number of rows, and the earlier one has at
/// most twice as many as the later one.
const CHUNK_ROWS: usize = 1 << 13;
/// A partition that no longer exists.
pub(super) const NONE: u32 = u32::MAX;

pub(super) struct History {
    types: Vec<DataType>,
    chunks: VecDeque<Chunk>,
    pub(super) lists: Vec<List>,
    /// The number of the next row.
    pub(super) next: u64,
    /// Rows with lower numbers are part of a snapshot.
    pub(super) snapshot: u64,
    /// Rows in lists.
    pub(super) live: usize,
    /// Rows in chunks, removed ones included.
    stored: usize,
    bytes: usize,
}

struct Chunk {
    first: u64,
    columns: Vec<ArrayRef>,
    /// The partition of each row.
    groups: Vec<u32>,
    last_time: i64,
    live: usize,
    bytes: usize,
}

/// The rows of a partition that are needed: their numbers and times.
#[derive(Default)]
pub(super) struct List {
    pub(super) rows: VecDeque<(u64, i64)>,
    /// Number of the first rows that are on the disk.
    pub(super) stored: usize,
    /// Number of rows that the partition has had.
    pub(super) count: i64,
}

/// Rows with their numbers, partitions, times, and indices among all rows of their partitions.
#[derive(Default)]
pub(super) struct Existing {
    pub(super) rows: Vec<u64>,
    pub(super) groups: Vec<usize>,
    pub(super) times: Vec<i64>,
    pub(super) places: Vec<i64>,
}

impl List {
    /// The index of one of the rows among all rows that the partition has had.
    fn total_index(&self, at: usize) -> i64 {
        self.count - (self.rows.len() - at) as i64
    }
}

impl Existing {
    fn push(&mut self, row: u64, group: usize, time: i64, place: i64) {
        self.rows.push(row);
        self.groups.push(group);
        self.times.push(time);
        self.places.push(place);
    }
}

impl Chunk {
    fn end(&self) -> u64 {
        self.first + self.groups.len() as u64
    }
}

impl History {
    pub(super) fn new(types: Vec<DataType>) -> History {
        let (chunks, lists) = (VecDeque::new(), Vec::new());
        History { types, chunks, lists, next: 0, snapshot: 0, live: 0, stored: 0, bytes: 0 }
    }

    /// Adds rows to no list yet; returns the number of the first. No row is earlier than those added before.
    pub(super) fn add(&mut self, columns: &[ArrayRef], groups: Vec<u32>, last_time: i64) -> u64 {
        let columns: Vec<ArrayRef> = columns.iter().map(compact).collect();
        let bytes = columns.iter().map(|column| column.get_array_memory_size()).sum();
        let first = self.next;
        self.next += groups.len() as u64;
        self.stored += groups.len();
        self.bytes += bytes;
        self.chunks.push_back(Chunk { first, columns, groups, last_time, live: 0, bytes });
        first
    }

    fn chunk_of(&self, row: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.first <= row).saturating_sub(1)
    }

    /// Adds a row of the last chunk to the list of its partition.
    pub(super) fn push(&mut self, group: usize, row: u64, time: i64) {
        let list = &mut self.lists[group];
        list.rows.push_back((row, time));
        list.count += 1;
        self.live += 1;
        self.chunks.iter_mut().next_back().into_iter().for_each(|chunk| chunk.live += 1);
    }

    /// Removes the first row of a partition, and returns its number. Its columns stay until
    /// [`History::tidy`].
    pub(super) fn pop(&mut self, group: usize) -> Option<u64> {
        let list = &mut self.lists[group];
        let (row, _) = list.rows.pop_front()?;
        list.stored = list.stored.saturating_sub(1);
        self.live -= 1;
        let chunk = self.chunk_of(row);
        self.chunks[chunk].live -= 1;
        Some(row)
    }

    /// Removes the rows of the first chunk, if none of them is after `last`. Returns them with their
    /// partitions.
    pub(super) fn pop_chunk(&mut self, last: i64) -> Option<(Vec<u64>, Vec<usize>)> {
        let chunk = self.chunks.front().filter(|chunk| chunk.last_time <= last && !chunk.groups.is_empty())?;
        let (end, groups) = (chunk.end(), chunk.groups.clone());
        let (mut rows, mut groups_of) = (Vec::new(), Vec::new());
        for group in groups.into_iter().filter(|group| *group != NONE) {
            let group = group as usize;
            while self.lists[group].rows.front().is_some_and(|(row, _)| *row < end) {
                rows.extend(self.pop(group));
                groups_of.push(group);
            }
        }
        Some((rows, groups_of))
    }

    /// Forgets the first chunk, whose rows have been removed.
    pub(super) fn drop_first(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.stored -= chunk.groups.len();
            self.bytes -= chunk.bytes;
        }
    }

    /// A column of these rows. For `None`: the value at that index of `otherwise`, or NULL.
    pub(super) fn column(&self, column: usize, rows: &[Option<u64>], otherwise: Option<&ArrayRef>) -> Result<ArrayRef> {
        let mut place_of = vec![usize::MAX; self.chunks.len()];
        let missing = otherwise.cloned().unwrap_or_else(|| new_null_array(&self.types[column], 1));
        let mut arrays: Vec<&dyn Array> = vec![missing.as_ref()];
        let mut places = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let Some(row) = row else {
                places.push((0, if otherwise.is_some() { at } else { 0 }));
                continue;
            };
            let chunk = self.chunk_of(*row);
            let stored = self.chunks.get(chunk).ok_or_else(|| Error::internal("a row of no chunk"))?;
            if place_of[chunk] == usize::MAX {
                place_of[chunk] = arrays.len();
                arrays.push(stored.columns[column].as_ref());
            }
            places.push((place_of[chunk], (*row - stored.first) as usize));
        }
        Ok(interleave(&arrays, &places)?)
    }

    pub(super) fn columns(&self, rows: &[u64]) -> Result<Vec<ArrayRef>> {
        let rows: Vec<Option<u64>> = rows.iter().copied().map(Some).collect();
        (0..self.types.len()).map(|column| self.column(column, &rows, None)).collect()
    }

    /// The rows from a number on that exist and are not on the disk, and all rows of the `renewed`
    /// partitions.
    pub(super) fn rows_from(&self, first: u64, renewed: &[usize]) -> Existing {
        let mut found = Existing::default();
        for group in renewed {
            let list = &self.lists[*group];
            for (at, (row, time)) in list.rows.iter().enumerate().take_while(|(_, (row, _))| *row < first) {
                found.push(*row, *group, *time, list.total_index(at));
            }
        }
        for chunk in self.chunks.iter().filter(|chunk| chunk.end() > first) {
            let rows = (chunk.first..chunk.end()).zip(&chunk.groups);
            for (row, group) in rows.filter(|(row, group)| *row >= first && **group != NONE) {
                let list = &self.lists[*group as usize];
                let found_at = list.rows.binary_search_by_key(&row, |(row, _)| *row);
                if let Some(at) = found_at.ok().filter(|at| *at >= list.stored) {
                    found.push(row, *group as usize, list.rows[at].1, list.total_index(at));
                }
            }
        }
        found
    }

    /// Frees the memory of removed rows, and merges small chunks.
    pub(super) fn tidy(&mut self) -> Result<()> {
        while self.chunks.front().is_some_and(|chunk| chunk.live == 0) {
            self.drop_first();
        }
        if self.stored > 2 * self.live + SPARSE_MIN {
            return self.rewrite();
        }
        while let Some(last) = self.chunks.len().checked_sub(1).filter(|last| *last > 0) {
            let (a, b) = (&self.chunks[last - 1], &self.chunks[last]);
            let rows = (a.groups.len(), b.groups.len());
            if rows.0 > 2 * rows.1 || rows.0 + rows.1 > CHUNK_ROWS || a.end() != b.first {
                break;
            }
            let (Some(b), Some(a)) = (self.chunks.pop_back(), self.chunks.pop_back()) else { break };
            self.bytes -= a.bytes + b.bytes;
            let both = a.columns.iter().zip(&b.columns).map(|(a, b)| Ok(compact(&concat(&[a, b])?)));
            let columns = both.collect::<Result<Vec<_>>>()?;
            let bytes = columns.iter().map(|column| column.get_array_memory_size()).sum();
            self.bytes += bytes;
            let groups = a.groups.into_iter().chain(b.groups).collect();
            let (last_time, live) = (a.last_time.max(b.last_time), a.live + b.live);
            self.chunks.push_back(Chunk { first: a.first, columns, groups, last_time, live, bytes });
        }
        Ok(())
    }

    /// Keeps only the rows that exist, with new numbers in the same order.
    fn rewrite(&mut self) -> Result<()> {
        let mut alive = vec![false; usize::try_from(self.next - self.first()).unwrap_or(0)];
        let first = self.first();
        self.lists.iter().flat_map(|list| &list.rows).for_each(|(row, _)| alive[(*row - first) as usize] = true);
        let mut numbers = vec![0_u64; alive.len()];
        let (mut next, mut bytes) = (0, 0);
        for chunk in &mut self.chunks {
            let range = (chunk.first - first) as usize..(chunk.end() - first) as usize;
            let kept: UInt64Array =
                (0..range.len()).filter(|row| alive[range.start + row]).map(|row| row as u64).collect();
            chunk.first = next;
            for row in kept.values() {
                numbers[range.start + *row as usize] = next;
                next += 1;
            }
            chunk.groups = kept.values().iter().map(|row| chunk.groups[*row as usize]).collect();
            let columns = chunk.columns.iter().map(|column| Ok(compact(&take(column, &kept, None)?)));
            chunk.columns = columns.collect::<Result<_>>()?;
            chunk.bytes = chunk.columns.iter().map(|column| column.get_array_memory_size()).sum();
            bytes += chunk.bytes;
        }
        let in_snapshot = (0..alive.len()).filter(|row| alive[*row] && first + (*row as u64) < self.snapshot).count();
        self.lists
            .iter_mut()
            .flat_map(|list| &mut list.rows)
            .for_each(|(row, _)| *row = numbers[(*row - first) as usize]);
        self.chunks.retain(|chunk| !chunk.groups.is_empty());
        (self.next, self.snapshot, self.stored, self.bytes) = (next, in_snapshot as u64, self.live, bytes);
        Ok(())
    }

    fn first(&self) -> u64 {
        self.chunks.front().map_or(self.next, |chunk| chunk.first)
    }

    /// Gives partitions new numbers, or [`NONE`]. Those without a number have no rows.
    pub(super) fn renumber(&mut self, numbers: &[u32], live: &[usize]) {
        self.lists = live.iter().map(|group| std::mem::take(&mut self.lists[*group])).collect();
        let renumber = |group: &mut u32| *group = numbers.get(*group as usize).copied().unwrap_or(NONE);
        self.chunks.iter_mut().flat_map(|chunk| &mut chunk.groups).for_each(renumber);
    }

    pub(super) fn size_bytes(&self) -> usize {
        let lists = self.lists.capacity() * size_of::<List>() + self.live * 2 * size_of::<(u64, i64)>();
        self.bytes + self.stored * size_of::<u32>() + lists + self.chunks.len() * size_of::<Chunk>()
    }
}

/// Copies texts that lie in larger shared buffers, so that these can be freed.
fn compact(column: &ArrayRef) -> ArrayRef {
    match column.as_string_view_opt() {
        Some(texts) => Arc::new(texts.gc()),
        None => Arc::clone(column),
    }
}
