//! State in runs on a local disk, in levels: a run that is put is of level 0, and when a level of a pane has
//! [`FAN_IN`] runs they become one of the next. Nothing here must survive the process: checkpoints carry copies.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::compaction::{Compaction, Sorted, read};
use super::run::{RunWriter, failed};
use super::{BUCKETS, Buckets, Merge, Run, StateBackend};

/// Runs of one level that become one of the next: rows are written again once per level, and keys that come again and
/// again take at most so many times their room.
const FAN_IN: usize = 8;
/// Tables are full at this share of the bound. A table that grows holds its old slots beside twice as many new ones.
const TABLES_SHARE: usize = 4;

/// State on a local disk.
pub struct DiskBackend {
    schema: SchemaRef,
    directory: PathBuf,
    bytes_max: usize,
    panes: BTreeMap<i64, Levels>,
    compaction: Option<Compaction>,
    last_id: u64,
}

/// Runs of one pane by level, each level's oldest first. Higher levels are older.
#[derive(Default)]
struct Levels {
    levels: Vec<Vec<Sorted>>,
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

    fn most_runs(&self) -> usize {
        self.levels.iter().map(Vec::len).max().unwrap_or(0)
    }
}

impl DiskBackend {
    /// Rows of this schema, in files in `directory`, so that the operator needs about `bytes_max` bytes of memory.
    pub fn new(schema: SchemaRef, directory: impl Into<PathBuf>, bytes_max: usize) -> Result<DiskBackend> {
        let directory = directory.into();
        std::fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
        Ok(DiskBackend { schema, directory, bytes_max, panes: BTreeMap::new(), compaction: None, last_id: 0 })
    }

    fn tables_max(&self) -> usize {
        self.bytes_max / TABLES_SHARE
    }

    /// Begins to merge the oldest runs of a level that has enough of them, the lowest first.
    fn begin_compaction(&mut self) {
        let full = self
            .panes
            .iter()
            .flat_map(|(pane, levels)| levels.levels.iter().enumerate().map(move |(level, runs)| (level, *pane, runs)));
        let next = full.filter(|(_, _, runs)| runs.len() >= FAN_IN).min_by_key(|(level, pane, _)| (*level, *pane));
        self.compaction = next
            .map(|(level, pane, runs)| Compaction::new(Arc::clone(&self.schema), pane, level, runs[..FAN_IN].to_vec()));
    }

    fn step(&mut self, merge: Merge<'_>) -> Result<()> {
        let Some(compaction) = &mut self.compaction else { return Ok(()) };
        if !compaction.step(merge, &self.directory, &mut self.last_id)? {
            return Ok(());
        }
        if let Some(compaction) = self.compaction.take()
            && let Some(levels) = self.panes.get_mut(&compaction.pane)
        {
            let level = compaction.level;
            levels.levels[level].drain(..compaction.inputs());
            levels.add(level + 1, compaction.finish(&mut self.last_id)?);
        }
        self.begin_compaction();
        Ok(())
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
        let mut writer = RunWriter::new(Arc::clone(&self.schema), pane);
        for bucket in 0..BUCKETS {
            writer.add(bucket, &rows.rows(bucket)?, &self.directory, &mut self.last_id)?;
        }
        let sorted = writer.finish(&mut self.last_id)?;
        self.panes.entry(pane).or_default().add(0, sorted);
        if self.compaction.is_none() {
            self.begin_compaction();
        }
        Ok(())
    }

    fn holds(&self, panes: Range<i64>) -> bool {
        self.panes.range(panes).next().is_some()
    }

    fn read(&self, panes: Range<i64>, bucket: usize) -> Result<Vec<RecordBatch>> {
        read(self.panes.range(panes).flat_map(|(_, levels)| levels.oldest_first()), bucket)
    }

    fn remove_before(&mut self, pane: i64) {
        self.panes = self.panes.split_off(&pane);
        if self.compaction.as_ref().is_some_and(|compaction| compaction.pane < pane) {
            self.begin_compaction();
        }
    }

    fn has_work(&self) -> bool {
        self.compaction.is_some()
    }

    /// One step, or as many as it takes where runs come faster than they are merged.
    fn work(&mut self, merge: Merge<'_>) -> Result<()> {
        while let Some(compaction) = &self.compaction {
            let pane = compaction.pane;
            self.step(merge)?;
            if self.panes.get(&pane).is_none_or(|levels| levels.most_runs() < 2 * FAN_IN) {
                break;
            }
        }
        Ok(())
    }

    fn runs(&self) -> Vec<Arc<Run>> {
        self.panes.values().flat_map(Levels::oldest_first).flatten().cloned().collect()
    }
}
