//! A run in the order of its rows' places, with what finds a row in it: the least and the greatest place of
//! each block, and a filter.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anabranch_model::{Result, batch_bytes};
use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;

use super::filter::Filter;
use super::run::{Files, Run, RunWriter};
use super::table::Table;
use super::{Merge, Ordered};

/// Number of blocks that are in memory at once while rows are looked up.
const BLOCKS_AT_ONCE: usize = 64;

/// Rows in the order of their places.
pub(super) struct SortedRun {
    /// Its files, each with the next blocks.
    files: Vec<Arc<Run>>,
    /// The least and the greatest place of each block.
    firsts: Vec<u64>,
    lasts: Vec<u64>,
    /// The latest time of its rows.
    pub(super) latest: i64,
    /// Number of different places.
    pub(super) places: usize,
    filter: Option<Filter>,
    /// Numbers of the first and the last put whose rows it has. Restored rows have the number 0 and no order:
    /// another run with this number may have earlier or later rows of the same keys.
    pub(super) puts: RangeInclusive<u64>,
}

impl SortedRun {
    pub(super) fn files(&self) -> &[Arc<Run>] {
        &self.files
    }

    /// The least place of each block.
    pub(super) fn firsts(&self) -> &[u64] {
        &self.firsts
    }

    /// The greatest place.
    pub(super) fn last(&self) -> u64 {
        self.lasts.last().copied().unwrap_or(0)
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
        (table, bytes_left): (&Table, &mut usize),
        merge: &mut dyn Merge,
    ) -> Result<bool> {
        let last = self.last();
        let may_be_here = |hash: &u64| *hash <= last && self.filter.as_ref().is_none_or(|of| of.has(*hash));
        let wanted: Vec<u64> = wanted.iter().copied().filter(may_be_here).collect();
        let mut hashes = Vec::new();
        for blocks in self.blocks_of(&wanted).chunks(BLOCKS_AT_ONCE) {
            let (mut read, mut places) = (Vec::with_capacity(blocks.len()), Vec::new());
            for block in blocks {
                let rows = self.block(*block, table)?;
                table.places(&rows, &mut hashes)?;
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
            from += self.lasts[from..].partition_point(|last| last < hash);
            let unread = blocks.last().map_or(from, |last: &usize| from.max(last + 1));
            blocks.extend((unread..self.firsts.len()).take_while(|block| self.firsts[*block] <= *hash));
        }
        blocks
    }

    /// Adds the rows with a place in this range.
    pub(super) fn read(&self, range: &RangeInclusive<u64>, table: &Table, merge: &mut dyn Merge) -> Result<()> {
        let mut places = Vec::new();
        let from = self.lasts.partition_point(|last| last < range.start());
        for block in (from..self.firsts.len()).take_while(|block| self.firsts[*block] <= *range.end()) {
            let rows = self.block(block, table)?;
            if range.contains(&self.firsts[block]) && range.contains(&self.lasts[block]) {
                merge.add(&rows)?;
                continue;
            }
            table.places(&rows, &mut places)?;
            let begin = places.partition_point(|place| place < range.start());
            let end = places.partition_point(|place| place <= range.end());
            if begin < end {
                merge.add(&rows.slice(begin, end - begin))?;
            }
        }
        Ok(())
    }

    fn block(&self, block: usize, table: &Table) -> Result<RecordBatch> {
        let file = self.files.partition_point(|file| file.blocks().end <= block);
        self.files[file].rows_of(block, &table.of.schema)
    }
}

/// Writes rows in the order of their places.
pub(super) struct SortedWriter {
    writer: RunWriter,
    firsts: Vec<u64>,
    lasts: Vec<u64>,
    latest: i64,
    places: usize,
    filter: Option<Filter>,
}

impl SortedWriter {
    /// For rows of a pane.
    pub(super) fn new(pane: i64, filter: Option<Filter>) -> SortedWriter {
        let (writer, firsts, lasts) = (RunWriter::new(pane), Vec::new(), Vec::new());
        SortedWriter { writer, firsts, lasts, latest: i64::MIN, places: 0, filter }
    }

    pub(super) fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::size_bytes)
    }

    /// Adds rows whose places are not before those of earlier rows.
    pub(super) fn add(&mut self, rows: &Ordered, table: &Table, files: &mut Files) -> Result<()> {
        self.latest = self.latest.max(table.of.latest(rows.all())?);
        let mut last = self.lasts.last().copied();
        for place in rows.places() {
            if last.replace(*place) != Some(*place) {
                self.places += 1;
                self.filter.iter_mut().for_each(|filter| filter.add(*place));
            }
        }
        let row_bytes = batch_bytes(rows.all()).div_ceil(rows.places().len().max(1));
        let mut begin = 0;
        while begin < rows.places().len() {
            let end = table.layout.block_end(rows.places(), begin, row_bytes);
            self.writer.add(self.firsts.len(), &rows.rows(begin..end)?, files)?;
            self.firsts.push(rows.places()[begin]);
            self.lasts.push(rows.places()[end - 1]);
            begin = end;
        }
        Ok(())
    }

    /// `None` if there were no rows.
    pub(super) fn finish(self, puts: RangeInclusive<u64>, files: &mut Files) -> Result<Option<SortedRun>> {
        let SortedWriter { writer, firsts, lasts, latest, places, filter } = self;
        let files = writer.finish(files)?;
        Ok((!firsts.is_empty()).then_some(SortedRun { files, firsts, lasts, latest, places, filter, puts }))
    }
}
