//! A run whose rows are sorted by place, a number computed from the hash of the key
//! ([`Layout`](super::layout::Layout)). The least and the greatest place of each block are in memory, and a
//! filter of the places. With them a lookup finds the blocks that it must read.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anabranch_model::{Result, batch_bytes};
use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;

use super::filter::Filter;
use super::run::{Files, Run, RunWriter};
use super::table::Table;
use super::{Merge, Ordered};

/// Largest number of blocks that are in memory at once while rows are looked up.
const BLOCKS_AT_ONCE: usize = 64;

/// A run whose rows are sorted by place.
pub(super) struct SortedRun {
    /// The files of the run, in the order of the blocks in them.
    files: Vec<Arc<Run>>,
    /// The least place of each block.
    firsts: Vec<u64>,
    /// The greatest place of each block.
    lasts: Vec<u64>,
    /// The latest time of the rows, in milliseconds. `i64::MAX` if rows have no times.
    pub(super) latest: i64,
    /// Number of different places.
    pub(super) places: usize,
    /// The places. `None`: filters take too much memory, or no row is looked up.
    filter: Option<Filter>,
    /// The numbers of the first and the last put of which the run has rows. The number of restored rows is 0.
    /// It says nothing about their order: of two runs with restored rows of one key, either may have the
    /// later ones.
    pub(super) puts: RangeInclusive<u64>,
}

impl SortedRun {
    /// The files of the run, in the order of the blocks in them.
    pub(super) fn files(&self) -> &[Arc<Run>] {
        &self.files
    }

    /// The least place of each block, in order.
    pub(super) fn firsts(&self) -> &[u64] {
        &self.firsts
    }

    /// The greatest place of the run.
    pub(super) fn last(&self) -> u64 {
        self.lasts.last().copied().unwrap_or(0)
    }

    /// The least places of the blocks that begin within a range, after its start: at most `blocks + 1` of
    /// them, in order.
    pub(super) fn firsts_after(&self, range: &RangeInclusive<u64>, blocks: usize) -> &[u64] {
        let from = self.firsts.partition_point(|first| first <= range.start());
        let to = self.firsts.partition_point(|first| first <= range.end());
        &self.firsts[from..to.min(from.saturating_add(blocks + 1)).max(from)]
    }

    /// Size of the filter in bytes.
    pub(super) fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, Filter::size_bytes)
    }

    /// Gives `merge` the rows whose keys have one of the `wanted` hashes. The hashes are sorted. The place of
    /// a row must be the hash of its key. Subtracts the size of the rows from `bytes_left`. Returns false if
    /// they have more bytes: then some rows are missing.
    pub(super) fn look_up(
        &self,
        wanted: &[u64],
        (table, bytes_left): (&Table, &mut usize),
        merge: &mut dyn Merge,
    ) -> Result<bool> {
        let last = self.last();
        let may_be_here = |hash: &u64| *hash <= last && self.filter.as_ref().is_none_or(|of| of.has(*hash));
        let wanted: Vec<u64> = wanted.iter().copied().filter(may_be_here).collect();
        let mut places = Vec::new();
        for blocks in self.blocks_of(&wanted).chunks(BLOCKS_AT_ONCE) {
            // The rows of the blocks, and the block and the index of each row that is wanted.
            let (mut read, mut found) = (Vec::with_capacity(blocks.len()), Vec::new());
            for block in blocks {
                let rows = self.block(*block, table)?;
                table.places(&rows, &mut places)?;
                let mut at = wanted.partition_point(|hash| *hash < self.firsts[*block]);
                for (row, place) in places.iter().enumerate() {
                    while wanted.get(at).is_some_and(|wanted| wanted < place) {
                        at += 1;
                    }
                    if wanted.get(at) == Some(place) {
                        found.push((read.len(), row));
                    }
                }
                read.push(rows);
            }
            if !found.is_empty() {
                let rows = interleave_record_batch(&read.iter().collect::<Vec<_>>(), &found)?;
                let Some(left) = bytes_left.checked_sub(batch_bytes(&rows)) else { return Ok(false) };
                *bytes_left = left;
                merge.add(&rows)?;
            }
        }
        Ok(true)
    }

    /// The blocks that may have rows with these hashes as places, in order.
    fn blocks_of(&self, wanted: &[u64]) -> Vec<usize> {
        let (mut blocks, mut from) = (Vec::new(), 0);
        for hash in wanted {
            from += self.lasts[from..].partition_point(|last| last < hash);
            let unread = blocks.last().map_or(from, |last: &usize| from.max(last + 1));
            blocks.extend((unread..self.firsts.len()).take_while(|block| self.firsts[*block] <= *hash));
        }
        blocks
    }

    /// Gives `merge` the rows with a place in this range.
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

    /// Reads the rows of a block.
    fn block(&self, block: usize, table: &Table) -> Result<RecordBatch> {
        let file = self.files.partition_point(|file| file.blocks().end <= block);
        self.files[file].rows_of(block, &table.of.schema)
    }
}

/// Writes a run whose rows are sorted by place.
pub(super) struct SortedWriter {
    writer: RunWriter,
    /// What is known of the run so far. Its files and puts are set at the end.
    run: SortedRun,
}

impl SortedWriter {
    /// For rows of a pane, with an empty filter of their places.
    pub(super) fn new(pane: i64, filter: Option<Filter>) -> SortedWriter {
        let (files, firsts, lasts) = (Vec::new(), Vec::new(), Vec::new());
        let run = SortedRun { files, firsts, lasts, latest: i64::MIN, places: 0, filter, puts: 0..=0 };
        SortedWriter { writer: RunWriter::new(pane), run }
    }

    /// Size of the filter in bytes.
    pub(super) fn filter_bytes(&self) -> usize {
        self.run.filter_bytes()
    }

    /// Adds rows. No place is less than those of the rows that were added before.
    pub(super) fn add(&mut self, rows: &Ordered, table: &Table, files: &mut Files) -> Result<()> {
        let SortedWriter { writer, run } = self;
        run.latest = run.latest.max(table.of.latest(rows.all())?);
        let mut last = run.lasts.last().copied();
        for place in rows.places() {
            if last.replace(*place) != Some(*place) {
                run.places += 1;
                run.filter.iter_mut().for_each(|filter| filter.add(*place));
            }
        }
        let row_bytes = batch_bytes(rows.all()).div_ceil(rows.places().len().max(1));
        let mut begin = 0;
        while begin < rows.places().len() {
            let end = table.layout.block_end(rows.places(), begin, row_bytes);
            writer.add(run.firsts.len(), &rows.rows(begin..end)?, files)?;
            run.firsts.push(rows.places()[begin]);
            run.lasts.push(rows.places()[end - 1]);
            begin = end;
        }
        Ok(())
    }

    /// Ends the run, which has rows of these puts. `None`: no rows were added.
    pub(super) fn finish(self, puts: RangeInclusive<u64>, files: &mut Files) -> Result<Option<SortedRun>> {
        let SortedWriter { writer, run } = self;
        let run = SortedRun { files: writer.finish(files)?, puts, ..run };
        Ok((!run.firsts.is_empty()).then_some(run))
    }
}
