//! State in runs on a local disk, in levels: a new run has level 0, and when a level of a pane has [`FAN_IN`]
//! runs, they are merged into one of the next level. Nothing here must survive the process: checkpoints
//! contain copies.
//!
//! Merging keeps pace with the puts. After each batch it does as many steps as needed to finish within half
//! the puts that fill a level. So a level has at most about one and a half times [`FAN_IN`] runs, whatever
//! the number of panes, and no batch waits for a backlog.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::datatypes::SchemaRef;

use super::compaction::{Compaction, Sorted, read};
use super::run::{RunWriter, Runs};
use super::{BUCKETS, Buckets, Merge, Run, StateBackend};

/// Number of runs of one level that are merged into one of the next. Rows are written again once per level,
/// and keys that return again and again take at most about this many times their space.
pub(super) const FAN_IN: usize = 8;
/// Tables are full at this share of the limit. A table that grows holds its old slots beside twice as many
/// new ones.
const TABLES_SHARE: usize = 4;
/// Tables are never larger: a table's strings must fit into one array, and flushing it is a pause.
const TABLES_BYTES_MAX: usize = 1 << 30;

/// State on a local disk.
pub struct DiskBackend {
    runs: Runs,
    bytes_max: usize,
    panes: BTreeMap<i64, Levels>,
    compaction: Option<Compaction>,
    pace: Pace,
}

/// Runs of one pane by level, each level's oldest first. Higher levels are older.
#[derive(Default)]
struct Levels {
    levels: Vec<Vec<Sorted>>,
}

/// The number of merge steps after a batch.
#[derive(Default)]
struct Pace {
    /// Batches since the last put, and between the two before it.
    batches: usize,
    batches_per_put: usize,
    steps_per_batch: usize,
}

impl Levels {
    fn oldest_first(&self) -> impl Iterator<Item = &Sorted> {
        self.levels.iter().rev().flatten()
    }

    fn add(&mut self, level: usize, sorted: Sorted) {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Vec::new);
        }
        self.levels[level].push(sorted);
    }
}

impl DiskBackend {
    /// Rows of this schema, in files in `directory`, so that the operator needs about `bytes_max` bytes of
    /// memory.
    pub fn new(schema: SchemaRef, directory: impl Into<PathBuf>, bytes_max: usize) -> Result<DiskBackend> {
        let runs = Runs::new(schema, directory.into())?;
        Ok(DiskBackend { runs, bytes_max, panes: BTreeMap::new(), compaction: None, pace: Pace::default() })
    }

    /// Lets a run continue in another file beyond this size.
    #[must_use]
    pub fn with_file_bytes(mut self, bytes: u64) -> DiskBackend {
        self.runs.file_bytes = bytes;
        self
    }

    fn tables_max(&self) -> usize {
        (self.bytes_max / TABLES_SHARE).min(TABLES_BYTES_MAX)
    }

    /// Begins to merge the oldest runs of the level with the most runs, if it has enough.
    fn begin_compaction(&mut self) {
        let levels = self
            .panes
            .iter()
            .flat_map(|(pane, levels)| levels.levels.iter().enumerate().map(move |(level, runs)| (runs, *pane, level)));
        let fullest = levels.max_by_key(|(runs, ..)| runs.len()).filter(|(runs, ..)| runs.len() >= FAN_IN);
        self.compaction = fullest.map(|(runs, pane, level)| Compaction::new(pane, level, runs[..FAN_IN].to_vec()));
    }

    /// Steps until no level has enough runs to be merged.
    fn steps_left(&self) -> usize {
        let levels = self.panes.values().flat_map(|levels| &levels.levels);
        let merges: usize = levels.map(|runs| runs.len() / FAN_IN).sum();
        let begun = self.compaction.as_ref().map_or(0, |compaction| BUCKETS - compaction.steps_left());
        (merges * BUCKETS).saturating_sub(begun)
    }

    fn set_pace(&mut self) {
        // Several panes are put at once: that counts as one put.
        if self.pace.batches > 0 {
            self.pace.batches_per_put = std::mem::take(&mut self.pace.batches);
        }
        let batches = self.pace.batches_per_put.max(1) * FAN_IN / 2;
        self.pace.steps_per_batch = self.steps_left().div_ceil(batches);
    }

    fn step(&mut self, merge: &mut dyn Merge) -> Result<()> {
        let Some(compaction) = &mut self.compaction else { return Ok(()) };
        compaction.step(merge, &mut self.runs)?;
        if compaction.steps_left() > 0 {
            return Ok(());
        }
        if let Some(compaction) = self.compaction.take()
            && let Some(levels) = self.panes.get_mut(&compaction.pane)
        {
            let level = compaction.level;
            levels.levels[level].drain(..compaction.inputs());
            levels.add(level + 1, compaction.finish(&mut self.runs)?);
        }
        self.begin_compaction();
        Ok(())
    }

    /// The most runs that a level of a pane has.
    #[cfg(test)]
    pub(super) fn most_runs(&self) -> usize {
        self.panes.values().flat_map(|levels| &levels.levels).map(Vec::len).max().unwrap_or(0)
    }
}

impl StateBackend for DiskBackend {
    fn is_full(&self, table_bytes: usize) -> Result<bool> {
        Ok(table_bytes > self.tables_max())
    }

    fn room_bytes(&self, table_bytes: usize) -> usize {
        self.tables_max().saturating_sub(table_bytes)
    }

    fn put(&mut self, pane: i64, rows: &Buckets) -> Result<()> {
        let mut writer = RunWriter::new(pane);
        let none = rows.none();
        for bucket in 0..BUCKETS {
            // A small table has no rows in most of its buckets.
            let rows = if rows.is_empty(bucket) { none.clone() } else { rows.rows(bucket)? };
            writer.add(bucket, &rows, &mut self.runs)?;
        }
        let sorted = writer.finish(&mut self.runs)?;
        self.panes.entry(pane).or_default().add(0, sorted);
        if self.compaction.is_none() {
            self.begin_compaction();
        }
        self.set_pace();
        Ok(())
    }

    fn holds(&self, panes: Range<i64>) -> bool {
        self.panes.range(panes).next().is_some()
    }

    fn read(&self, panes: Range<i64>, bucket: usize, merge: &mut dyn Merge) -> Result<()> {
        read(self.panes.range(panes).flat_map(|(_, levels)| levels.oldest_first()), bucket, merge)
    }

    fn remove_before(&mut self, pane: i64) {
        self.panes = self.panes.split_off(&pane);
        if self.compaction.as_ref().is_some_and(|compaction| compaction.pane < pane) {
            self.begin_compaction();
        }
    }

    fn work<'a>(&mut self, merge: &dyn Fn() -> Result<Box<dyn Merge + 'a>>) -> Result<()> {
        self.pace.batches += 1;
        if self.compaction.is_none() {
            return Ok(());
        }
        let mut merge = merge()?;
        (0..self.pace.steps_per_batch.max(1)).try_for_each(|_| self.step(merge.as_mut()))
    }

    fn runs(&self) -> Vec<Arc<Run>> {
        self.panes.values().flat_map(Levels::oldest_first).flatten().cloned().collect()
    }
}
