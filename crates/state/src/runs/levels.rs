//! Which runs there are, and when they are merged.
//!
//! A new run has level 0, and some runs of a level ([`Layout::fan_in`]) are merged into one of the next. Each
//! level has a merge of its own, which must keep pace with the puts, because those are what adds runs: a
//! merge of a level is done in half of the puts that fill it. Between two puts, batches do their share of it
//! (`work`). The put does the rest, of panes only once a level has too many runs: one batch may put many
//! times. So a put waits for merges only if no batches came between, and a level never has more than
//! [`RUNS_MAX`] runs.

use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::RecordBatch;

use super::Merge;
use super::filter::Filter;
use super::layout::Layout;
use super::merging::Merging;
use super::run::{Files, Run};
use super::sorted::{SortedRun, SortedWriter};
use super::table::Table;

/// A put waits until its level has fewer runs. Largest number of runs that are merged together: a restore
/// writes many at once.
pub(super) const RUNS_MAX: usize = 16;

/// Creates merges.
pub type NewMerge<'f, 'a> = &'f dyn Fn() -> Result<Box<dyn Merge + 'a>>;

/// Runs of a table, or of a pane of it, by level.
pub(super) struct Levels {
    layout: Layout,
    pane: i64,
    /// Filters take no more. Runs without one are read for each key.
    filter_bytes_max: usize,
    /// Each level's oldest first.
    levels: Vec<Vec<Arc<SortedRun>>>,
    /// Of each level.
    merging: Vec<Option<Merging>>,
    /// Runs that are not merged, with their levels: snapshots that follow have the same ones.
    frozen: Vec<(usize, Arc<SortedRun>)>,
    /// Rows that say that theirs is gone stay: earlier snapshots have the rows that they delete.
    keeps_gone: bool,
}

/// What a step of a merge needs.
pub(super) struct Steps<'s, 'f, 'a> {
    table: &'s Table,
    files: &'s mut Files,
    create: NewMerge<'f, 'a>,
    merge: Option<Box<dyn Merge + 'a>>,
}

impl<'s, 'f, 'a> Steps<'s, 'f, 'a> {
    pub(super) fn new(table: &'s Table, files: &'s mut Files, create: NewMerge<'f, 'a>) -> Self {
        Steps { table, files, create, merge: None }
    }

    fn run(&mut self, merging: &mut Merging, steps: usize) -> Result<()> {
        for _ in 0..steps.min(merging.steps_left()) {
            let merge = match &mut self.merge {
                Some(merge) => merge,
                None => self.merge.insert((self.create)()?),
            };
            merging.step(self.table, merge.as_mut(), self.files)?;
        }
        Ok(())
    }
}

/// Number of batches between two puts, which share the merges that follow a put.
pub(super) struct Pace {
    /// Since the last put.
    batches: usize,
    /// Between the two before it.
    pub(super) batches_per_put: usize,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace { batches: 0, batches_per_put: 1 }
    }

    /// A batch was processed.
    pub(super) fn batch(&mut self) {
        self.batches += 1;
    }

    /// Rows are put. Several puts without a batch between them count as one.
    pub(super) fn put(&mut self) {
        if self.batches > 0 {
            self.batches_per_put = std::mem::take(&mut self.batches);
        }
    }
}

impl Levels {
    /// For rows of this pane, with filters of so many bytes at most.
    pub(super) fn new(layout: Layout, pane: i64, filter_bytes_max: usize) -> Levels {
        let (levels, merging, frozen) = (Vec::new(), Vec::new(), Vec::new());
        Levels { layout, pane, filter_bytes_max, levels, merging, frozen, keeps_gone: false }
    }

    /// All runs. If none was restored or frozen: those with earlier rows first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<SortedRun>> {
        self.frozen.iter().map(|(_, run)| run).chain(self.levels.iter().rev().flatten())
    }

    /// The files of runs that are not frozen.
    pub(super) fn files_since_freeze(&self) -> Vec<Arc<Run>> {
        self.levels.iter().rev().flatten().flat_map(|run| run.files()).cloned().collect()
    }

    fn add(&mut self, level: usize, run: Option<SortedRun>) {
        self.make_room(level);
        self.levels[level].extend(run.map(Arc::new));
    }

    fn make_room(&mut self, level: usize) {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Vec::new);
            self.merging.resize_with(level + 1, || None);
        }
    }

    /// All runs stay as they are until [`Levels::thaw`]. Merges that have begun are given up.
    pub(super) fn freeze(&mut self) {
        self.merging.fill_with(|| None);
        let levels = self.levels.iter_mut().enumerate();
        self.frozen.extend(levels.flat_map(|(level, runs)| runs.drain(..).map(move |run| (level, run))));
        self.keeps_gone = true;
    }

    pub(super) fn thaw(&mut self) {
        for (level, run) in std::mem::take(&mut self.frozen).into_iter().rev() {
            self.make_room(level);
            self.levels[level].insert(0, run);
        }
        self.keeps_gone = false;
    }

    /// Writes rows as a run. `number`: the number of the put; 0 if it is part of a restore. Does the steps of
    /// merges that are still due, and begins merges.
    pub(super) fn put(&mut self, rows: &RecordBatch, number: u64, steps: &mut Steps<'_, '_, '_>) -> Result<()> {
        let rows = steps.table.in_order(rows)?;
        let mut writer = self.writer(rows.places().chunk_by(|a, b| a == b).count());
        writer.add(&rows, steps.table, steps.files)?;
        self.add(0, writer.finish(number..=number, steps.files)?);
        let (restored, mut level) = (number == 0, 0);
        while level < self.levels.len() {
            if !restored {
                // Panes are merged one after the other: what is due for one was done for others.
                if self.layout == Layout::Keys {
                    self.run(level, steps, |merging| merging.due)?;
                }
                self.begin(level, self.layout.fan_in(), false);
                self.merging[level].iter_mut().for_each(|merging| merging.due = merging.steps_per_put);
            }
            while self.levels[level].len() >= RUNS_MAX {
                self.begin(level, RUNS_MAX, restored);
                self.run(level, steps, Merging::steps_left)?;
            }
            level += 1;
        }
        Ok(())
    }

    /// Does one batch's share of the merges. `batches_per_put` batches share the merges that follow a put.
    pub(super) fn work(&mut self, batches_per_put: usize, steps: &mut Steps<'_, '_, '_>) -> Result<()> {
        (0..self.levels.len()).try_for_each(|level| self.work_at(level, batches_per_put, steps).map(drop))
    }

    /// Does one batch's share of a level's merge, if the next level has room for its result. Returns whether
    /// it has.
    pub(super) fn work_at(
        &mut self,
        level: usize,
        batches_per_put: usize,
        steps: &mut Steps<'_, '_, '_>,
    ) -> Result<bool> {
        self.begin(level, self.layout.fan_in(), false);
        let has_room = self.levels.get(level + 1).is_none_or(|runs| runs.len() < RUNS_MAX);
        if has_room {
            self.run(level, steps, |merging| merging.steps_per_put.div_ceil(batches_per_put))?;
        }
        Ok(has_room)
    }

    /// Does this number of steps of a level's merge, if it has one.
    fn run(
        &mut self,
        level: usize,
        steps: &mut Steps<'_, '_, '_>,
        count: impl FnOnce(&Merging) -> usize,
    ) -> Result<()> {
        let Some(merging) = &mut self.merging[level] else { return Ok(()) };
        let count = count(merging);
        steps.run(merging, count)?;
        merging.due = merging.due.saturating_sub(count);
        if merging.steps_left() > 0 {
            return Ok(());
        }
        let Some(merging) = self.merging[level].take() else { return Ok(()) };
        let inputs = merging.inputs.clone();
        let output = merging.finish(steps.files)?;
        self.levels[level].retain(|run| !inputs.iter().any(|input| Arc::ptr_eq(input, run)));
        self.add(level + 1, output);
        Ok(())
    }

    /// Begins to merge the oldest runs of a level, if it has enough of them. `restored`: more may follow that
    /// are restored.
    fn begin(&mut self, level: usize, least: usize, restored: bool) {
        if self.merging[level].is_some() || self.levels[level].len() < least {
            return;
        }
        let inputs = self.levels[level][..self.levels[level].len().min(RUNS_MAX)].to_vec();
        let last = inputs.iter().map(|run| *run.puts.end()).max().unwrap_or(0);
        let is_input = |run: &Arc<SortedRun>| inputs.iter().any(|input| Arc::ptr_eq(input, run));
        // No other run has an earlier row of any key.
        let are_oldest = self.all().all(|run| is_input(run) || *run.puts.start() > last);
        let removes_gone = are_oldest && !restored && !self.keeps_gone;
        let writer = self.writer(inputs.iter().map(|run| run.places).sum());
        // Number of puts that fill a level. The merge is done in half of the time.
        let puts = self.layout.fan_in().saturating_pow(level as u32 + 1) / 2;
        self.merging[level] = Some(Merging::new(inputs, removes_gone, self.layout, writer, puts));
    }

    /// Writes a run with so many places, with a filter, unless filters take too much memory.
    fn writer(&self, places: usize) -> SortedWriter {
        let present: usize = self.all().map(|run| run.filter_bytes()).sum();
        let coming: usize = self.merging.iter().flatten().map(Merging::filter_bytes).sum();
        let fits = present + coming + Filter::bytes_for(places) <= self.filter_bytes_max;
        SortedWriter::new(self.pane, fits.then(|| Filter::new(places)))
    }

    /// Number of levels.
    pub(super) fn count(&self) -> usize {
        self.levels.len()
    }

    /// Whether runs of a level are being merged, or are to be.
    pub(super) fn has_work(&self, level: usize) -> bool {
        let has_enough = |runs: &Vec<Arc<SortedRun>>| runs.len() >= self.layout.fan_in();
        self.merging.get(level).is_some_and(Option::is_some) || self.levels.get(level).is_some_and(has_enough)
    }

    /// Removes the other runs. Runs that are being merged stay.
    pub(super) fn retain(&mut self, is_needed: impl Fn(&SortedRun) -> bool) {
        self.frozen.retain(|(_, run)| is_needed(run));
        for (runs, _) in self.levels.iter_mut().zip(&self.merging).filter(|(_, merging)| merging.is_none()) {
            runs.retain(|run| is_needed(run));
        }
    }

    pub(super) fn clear(&mut self) {
        (self.levels, self.merging, self.frozen) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// The most runs that a level has.
    #[cfg(test)]
    pub(super) fn most_runs(&self) -> usize {
        self.levels.iter().map(Vec::len).max().unwrap_or(0)
    }
}
