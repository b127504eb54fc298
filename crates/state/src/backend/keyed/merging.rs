//! Merges runs into one, a range of hashes at a time, in small steps between the batches of the task.

use std::sync::Arc;

use anabranch_model::Result;

use super::KeyedTable;
use super::filter::Filter;
use super::sorted::{SortedRun, SortedWriter};
use crate::Merge;
use crate::backend::run::Runs;

/// Blocks that a step reads, about.
const STEP_BLOCKS: usize = 64;

/// A merge in progress.
pub(super) struct Merging {
    pub(super) inputs: Vec<Arc<SortedRun>>,
    /// No other run has an earlier row of any key: rows that say that theirs is gone have done their work.
    removes_gone: bool,
    /// The next step begins with this hash.
    next: u64,
    /// The last hash of each step, those of later ones first. Each has as many blocks: hashes of windows lie
    /// close together.
    ends: Vec<u64>,
    /// Steps from one put to the next.
    pub(super) steps_per_put: usize,
    /// Those of them that are still to be done.
    pub(super) due: usize,
    writer: SortedWriter,
}

impl Merging {
    /// Number of puts within which it must be done.
    pub(super) fn new(inputs: Vec<Arc<SortedRun>>, removes_gone: bool, filter: Option<Filter>, puts: usize) -> Merging {
        let mut firsts: Vec<u64> = inputs.iter().flat_map(|run| run.firsts()).copied().collect();
        firsts.sort_unstable();
        let ends = firsts.chunks(STEP_BLOCKS).skip(1).map(|blocks| blocks[0].saturating_sub(1));
        let mut ends: Vec<u64> = ends.chain([u64::MAX]).collect();
        ends.dedup();
        ends.reverse();
        let steps_per_put = ends.len().div_ceil(puts.max(1));
        let writer = SortedWriter::new(filter);
        Merging { inputs, removes_gone, next: 0, ends, steps_per_put, due: steps_per_put, writer }
    }

    pub(super) fn steps_left(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn filter_bytes(&self) -> usize {
        self.writer.filter_bytes()
    }

    pub(super) fn step(&mut self, table: &KeyedTable, merge: &mut dyn Merge, runs: &mut Runs) -> Result<()> {
        let Some(end) = self.ends.pop() else { return Ok(()) };
        let range = self.next..=end;
        for run in &self.inputs {
            run.read(&range, table, merge)?;
        }
        let rows = merge.take()?;
        let rows = if self.removes_gone { table.those_there(rows)? } else { rows };
        if rows.num_rows() > 0 {
            let (rows, hashes) = table.in_order(&rows)?;
            self.writer.add(&rows, &hashes, table, runs)?;
        }
        self.next = end.saturating_add(1);
        Ok(())
    }

    pub(super) fn finish(self, runs: &mut Runs) -> Result<Option<SortedRun>> {
        let puts = self.inputs.iter().map(|run| &run.puts);
        let first = puts.clone().map(|puts| *puts.start()).min().unwrap_or(0);
        self.writer.finish(first..=puts.map(|puts| *puts.end()).max().unwrap_or(0), runs)
    }
}
