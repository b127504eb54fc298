//! A run in order of its keys' hashes, with what finds a key in it: the least hash of each block, and a
//! filter.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anabranch_model::{Result, batch_bytes};
use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;

use super::KeyedTable;
use super::filter::Filter;
use crate::backend::detached;
use crate::backend::run::{RunWriter, Runs};
use crate::{Merge, Run};

/// Rows of a block: what is read for a key. Its bytes are bounded too.
const BLOCK_ROWS: usize = 128;
const BLOCK_BYTES: usize = 32 << 10;
/// Number of blocks that are in memory at once while rows are looked up.
const BLOCKS_AT_ONCE: usize = 64;

/// Rows in order of their keys' hashes.
pub(super) struct SortedRun {
    /// Its files, each with the next blocks.
    files: Vec<Arc<Run>>,
    /// The least hash of each block.
    firsts: Vec<u64>,
    /// The greatest hash.
    last: u64,
    /// The latest time of its rows.
    pub(super) latest: i64,
    /// Number of different hashes.
    pub(super) keys: usize,
    filter: Option<Filter>,
    /// Numbers of the first and the last put whose rows it has. Restored rows have the number 0 and no order:
    /// another run with this number may have earlier or later rows of the same keys.
    pub(super) puts: RangeInclusive<u64>,
}

impl SortedRun {
    pub(super) fn files(&self) -> &[Arc<Run>] {
        &self.files
    }

    /// The least hash of each block.
    pub(super) fn firsts(&self) -> &[u64] {
        &self.firsts
    }

    /// The greatest hash.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Those after the beginning of a range, at most one more than so many.
    pub(super) fn firsts_after(&self, range: &RangeInclusive<u64>, blocks: usize) -> &[u64] {
        let from = self.firsts.partition_point(|first| first <= range.start());
        let to = self.firsts.partition_point(|first| first <= range.end());
        &self.firsts[from..to.min(from.saturating_add(blocks + 1)).max(from)]
    }

    pub(super) fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::size_bytes)
    }

    /// Adds the rows whose keys have one of these hashes, which are in order. Stops when they have more bytes
    /// than are left.
    pub(super) fn look_up(
        &self,
        wanted: &[u64],
        (table, bytes_left): (&KeyedTable, &mut usize),
        merge: &mut dyn Merge,
    ) -> Result<bool> {
        let may_be_here = |hash: &u64| *hash <= self.last && self.filter.as_ref().is_none_or(|of| of.has(*hash));
        let wanted: Vec<u64> = wanted.iter().copied().filter(may_be_here).collect();
        let mut hashes = Vec::new();
        for blocks in self.blocks_of(&wanted).chunks(BLOCKS_AT_ONCE) {
            let (mut read, mut places) = (Vec::with_capacity(blocks.len()), Vec::new());
            for block in blocks {
                let rows = self.block(*block, table)?;
                table.hashes(&rows, &mut hashes)?;
                let mut at = wanted.partition_point(|hash| *hash < self.firsts[*block]);
                for (row, hash) in hashes.iter().enumerate() {
                    while wanted.get(at).is_some_and(|wanted| wanted < hash) {
                        at += 1;
                    }
                    if wanted.get(at) == Some(hash) {
                        places.push((read.len(), row));
                    }
                }
                read.push(rows);
            }
            if !places.is_empty() {
                let rows = interleave_record_batch(&read.iter().collect::<Vec<_>>(), &places)?;
                let Some(left) = bytes_left.checked_sub(batch_bytes(&rows)) else { return Ok(false) };
                *bytes_left = left;
                merge.add(&rows)?;
            }
        }
        Ok(true)
    }

    /// The blocks that may have keys with these hashes.
    fn blocks_of(&self, wanted: &[u64]) -> Vec<usize> {
        let (mut blocks, mut from) = (Vec::new(), 0);
        for hash in wanted {
            // The block before the first one that begins with this hash may end with it.
            let first = from + self.firsts[from..].partition_point(|first| first < hash);
            from = from.max(first.saturating_sub(1));
            let unread = blocks.last().map_or(from, |last: &usize| from.max(last + 1));
            blocks.extend((unread..self.firsts.len()).take_while(|block| self.firsts[*block] <= *hash));
        }
        blocks
    }

    /// Adds the rows whose keys have a hash in this range.
    pub(super) fn read(&self, range: &RangeInclusive<u64>, table: &KeyedTable, merge: &mut dyn Merge) -> Result<()> {
        if self.last < *range.start() {
            return Ok(());
        }
        let mut hashes = Vec::new();
        let from = self.firsts.partition_point(|first| first < range.start()).saturating_sub(1);
        for block in (from..self.firsts.len()).take_while(|block| self.firsts[*block] <= *range.end()) {
            let rows = self.block(block, table)?;
            table.hashes(&rows, &mut hashes)?;
            let begin = hashes.partition_point(|hash| hash < range.start());
            let end = hashes.partition_point(|hash| hash <= range.end());
            if begin < end {
                merge.add(&rows.slice(begin, end - begin))?;
            }
        }
        Ok(())
    }

    fn block(&self, block: usize, table: &KeyedTable) -> Result<RecordBatch> {
        let file = self.files.partition_point(|file| file.buckets().end <= block);
        self.files[file].rows_of(block, &table.schema)
    }
}

/// Writes rows in order of their keys' hashes.
pub(super) struct SortedWriter {
    writer: RunWriter,
    firsts: Vec<u64>,
    last: u64,
    latest: i64,
    keys: usize,
    filter: Option<Filter>,
}

impl SortedWriter {
    pub(super) fn new(filter: Option<Filter>) -> SortedWriter {
        SortedWriter { writer: RunWriter::new(0), firsts: Vec::new(), last: 0, latest: i64::MIN, keys: 0, filter }
    }

    pub(super) fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::size_bytes)
    }

    /// Adds rows with these hashes, which are in order and not before those of earlier rows.
    pub(super) fn add(
        &mut self,
        rows: &RecordBatch,
        hashes: &[u64],
        table: &KeyedTable,
        runs: &mut Runs,
    ) -> Result<()> {
        self.latest = self.latest.max(table.latest(rows)?);
        let row_bytes = batch_bytes(rows).div_ceil(rows.num_rows().max(1)).max(1);
        let step = (BLOCK_BYTES / row_bytes).clamp(1, BLOCK_ROWS);
        for first in (0..rows.num_rows()).step_by(step) {
            let block = detached(&rows.slice(first, step.min(rows.num_rows() - first)))?;
            self.writer.add(self.firsts.len(), &block, runs)?;
            self.firsts.push(hashes[first]);
        }
        for hash in hashes {
            if self.keys == 0 || *hash != self.last {
                (self.keys, self.last) = (self.keys + 1, *hash);
                self.filter.iter_mut().for_each(|filter| filter.add(*hash));
            }
        }
        Ok(())
    }

    /// `None` if there were no rows.
    pub(super) fn finish(self, puts: RangeInclusive<u64>, runs: &mut Runs) -> Result<Option<SortedRun>> {
        let SortedWriter { writer, firsts, last, latest, keys, filter } = self;
        let files = writer.finish(runs)?;
        Ok((!firsts.is_empty()).then_some(SortedRun { files, firsts, last, latest, keys, filter, puts }))
    }
}
