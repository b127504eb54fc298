//! Merges runs into one, a range of places at a time, in small steps between the batches of the task. A
//! separate thread would not be deterministic under a simulator, and would use more than the task's own time.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anabranch_model::Result;

use super::layout::Layout;
use super::run::Files;
use super::sorted::{SortedRun, SortedWriter};
use super::table::Table;
use super::{Merge, Ordered};

/// A merge in progress.
pub(super) struct Merging {
    pub(super) inputs: Vec<Arc<SortedRun>>,
    /// No other run has an earlier row of any key: rows that say that theirs is gone have done their work.
    removes_gone: bool,
    /// The places that are still to be merged, those of later steps first.
    steps: Vec<RangeInclusive<u64>>,
    /// Steps from one put to the next.
    pub(super) steps_per_put: usize,
    /// Those of them that are still to be done.
    pub(super) due: usize,
    writer: SortedWriter,
}

impl Merging {
    /// `puts`: number of puts within which it must be done.
    pub(super) fn new(
        inputs: Vec<Arc<SortedRun>>,
        removes_gone: bool,
        layout: Layout,
        writer: SortedWriter,
        puts: usize,
    ) -> Merging {
        let mut steps = layout.steps(inputs.iter().flat_map(|run| run.firsts()).copied().collect());
        steps.reverse();
        let steps_per_put = steps.len().div_ceil(puts.max(1));
        Merging { inputs, removes_gone, steps, steps_per_put, due: steps_per_put, writer }
    }

    pub(super) fn steps_left(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn filter_bytes(&self) -> usize {
        self.writer.filter_bytes()
    }

    pub(super) fn step(&mut self, table: &Table, merge: &mut dyn Merge, files: &mut Files) -> Result<()> {
        let Some(range) = self.steps.pop() else { return Ok(()) };
        for run in &self.inputs {
            run.read(&range, table, merge)?;
        }
        let rows = merge.take()?;
        let rows = if self.removes_gone { table.of.those_there(rows)? } else { rows };
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let rows = match range.start() == range.end() {
            true => Ordered::at(*range.start(), rows),
            false => table.in_order(&rows)?,
        };
        self.writer.add(&rows, table, files)
    }

    pub(super) fn finish(self, files: &mut Files) -> Result<Option<SortedRun>> {
        let puts = self.inputs.iter().map(|run| &run.puts);
        let first = puts.clone().map(|puts| *puts.start()).min().unwrap_or(0);
        self.writer.finish(first..=puts.map(|puts| *puts.end()).max().unwrap_or(0), files)
    }
}
