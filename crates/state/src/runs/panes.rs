//! Rows of state that add up, by the panes of windows, in runs on a local disk.
//!
//! An operator whose tables are full puts the states of a pane here as they are: a new state of a key lies
//! beside those of the same key, none of which is read. When a window fires, all rows of its panes are read
//! and merged, a [bucket](BUCKETS) of the keys at a time. A pane has levels of its own, so no row is merged
//! with rows of another pane, and a pane whose last window has fired is removed with its files.
//!
//! On each level panes are merged one after the other, a bit after each batch: each merge in progress has a
//! buffer for what it writes. The more panes are to be merged, the more is done after a batch, so that all
//! are merged in time and no batch waits for a backlog. Levels do not wait for each other: a merge of a high
//! level takes long, and meanwhile all panes get new runs on the lowest.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::layout::Layout;
use super::levels::{Levels, NewMerge, Pace, Steps};
use super::run::{Files, Run};
use super::table::{HashKeys, KeyedTable, Table};
use super::{Merge, Ordered};

/// Rows of the panes of one operator in one task, by the pane's start in milliseconds (0 without windows).
pub struct PaneRuns {
    table: Table,
    files: Files,
    panes: BTreeMap<i64, Levels>,
    /// Of each level.
    queues: Vec<Queue>,
    /// Number of puts.
    puts: u64,
    pace: Pace,
}

/// Panes that have runs of a level to merge.
#[derive(Default)]
struct Queue {
    /// In the order in which they had enough of them.
    panes: VecDeque<i64>,
    /// The most panes at once, since there were none.
    panes_max: usize,
}

impl PaneRuns {
    /// Rows of this schema with these columns as their keys, in files in `directory`.
    pub fn new(
        schema: SchemaRef,
        keys: Range<usize>,
        hash: HashKeys,
        directory: impl Into<PathBuf>,
    ) -> Result<PaneRuns> {
        let files = Files::new(SchemaRef::clone(&schema), directory.into())?;
        let of = KeyedTable { schema, keys, identity: Vec::new(), count: None, window: None, time: None, hash };
        let table = Table { of, layout: Layout::Buckets };
        Ok(PaneRuns { table, files, panes: BTreeMap::new(), queues: Vec::new(), puts: 0, pace: Pace::new() })
    }

    /// Lets a run continue in another file beyond this size.
    #[must_use]
    pub fn with_file_bytes(mut self, bytes: u64) -> PaneRuns {
        self.files.file_bytes = bytes;
        self
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.panes.is_empty()
    }

    /// Whether it has rows of any of these panes.
    #[must_use]
    pub fn holds(&self, panes: Range<i64>) -> bool {
        self.panes.range(panes).next().is_some()
    }

    /// The rows in the order of their buckets.
    pub fn in_order(&self, rows: &RecordBatch) -> Result<Ordered> {
        self.table.in_order(rows)
    }

    /// Stores rows of a pane, which are newer than all that are here. Merges runs as far as is needed to keep
    /// them few.
    pub fn put(&mut self, pane: i64, rows: &RecordBatch, merge: NewMerge<'_, '_>) -> Result<()> {
        self.puts += 1;
        self.pace.put();
        let levels = self.panes.entry(pane).or_insert_with(|| Levels::new(Layout::Buckets, pane, 0));
        levels.put(rows, self.puts, &mut Steps::new(&self.table, &mut self.files, merge))?;
        for level in 0..levels.count() {
            enqueue(&mut self.queues, pane, levels, level);
        }
        Ok(())
    }

    /// Adds the rows of a bucket in these panes, the oldest of each pane first.
    pub fn read(&self, panes: Range<i64>, bucket: usize, merge: &mut dyn Merge) -> Result<()> {
        let bucket = bucket as u64..=bucket as u64;
        let mut runs = self.panes.range(panes).flat_map(|(_, levels)| levels.all());
        runs.try_for_each(|run| run.read(&bucket, &self.table, merge))
    }

    /// Removes the rows of panes that start before this.
    pub fn remove_before(&mut self, pane: i64) {
        self.panes = self.panes.split_off(&pane);
        self.queues.iter_mut().for_each(|queue| queue.panes.retain(|of| *of >= pane));
    }

    /// Does a small step of the merges that the next puts would do otherwise. Called after every batch. On
    /// each level, the first pane does the shares of all.
    pub fn work(&mut self, merge: NewMerge<'_, '_>) -> Result<()> {
        self.pace.batch();
        let batches = self.pace.batches_per_put;
        let PaneRuns { table, files, panes, queues, .. } = self;
        let mut steps = Steps::new(table, files, merge);
        let mut level = 0;
        while level < queues.len() {
            let waiting = queues[level].panes_max;
            for _ in 0..waiting.div_ceil(batches) {
                let Some(&pane) = queues[level].panes.front() else { break };
                let Some(levels) = panes.get_mut(&pane) else { break };
                let has_room = levels.work_at(level, (batches / waiting).max(1), &mut steps)?;
                // A pane without room on the next level lets the others go first.
                if !has_room || !levels.has_work(level) {
                    queues[level].panes.pop_front();
                    enqueue(queues, pane, levels, level);
                    enqueue(queues, pane, levels, level + 1);
                }
            }
            if queues[level].panes.is_empty() {
                queues[level].panes_max = 0;
            }
            level += 1;
        }
        Ok(())
    }

    /// The files of all runs, those of each pane with the oldest first. They never change.
    #[must_use]
    pub fn files(&self) -> Vec<Arc<Run>> {
        self.panes.values().flat_map(Levels::all).flat_map(|run| run.files()).cloned().collect()
    }

    /// The most runs that a level of a pane has.
    #[cfg(test)]
    fn most_runs(&self) -> usize {
        self.panes.values().map(Levels::most_runs).max().unwrap_or(0)
    }
}

/// Adds a pane to the queue of a level, if it has runs of it to merge.
fn enqueue(queues: &mut Vec<Queue>, pane: i64, levels: &Levels, level: usize) {
    if !levels.has_work(level) {
        return;
    }
    if queues.len() <= level {
        queues.resize_with(level + 1, Queue::default);
    }
    let queue = &mut queues[level];
    if !queue.panes.contains(&pane) {
        queue.panes.push_back(pane);
        queue.panes_max = queue.panes_max.max(queue.panes.len());
    }
}
