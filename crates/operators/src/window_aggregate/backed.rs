//! Keeping to the bound of memory: which groups go to the state backend, and when.

use anabranch_dataflow::{AggregatePhase, JobOptions, StateBackendKind};
use anabranch_model::Result;
use anabranch_state::{Buckets, DiskBackend, MemoryBackend, StateBackend};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::groups::{Grouped, Groups};
use super::{Pane, WindowAggregate};
use crate::hash_keys;

/// A row is taken to bring no more than this before the next look at the size of the tables.
const ROW_BYTES: usize = 256;
/// Rows after which there is a look at the latest.
const ROWS_PER_LOOK_MAX: usize = 1 << 19;

/// When to look at the size of the tables next: the sum over all panes is not for every batch.
#[derive(Default)]
pub(super) struct Sizes {
    rows_until_look: usize,
}

pub(super) fn backend(
    phase: AggregatePhase,
    schema: &SchemaRef,
    options: &JobOptions,
) -> Result<Box<dyn StateBackend>> {
    let bytes_max = options.state_bytes;
    Ok(match options.state_backend {
        StateBackendKind::Disk if phase != AggregatePhase::Partial => {
            let directory = options.state_directory.clone().unwrap_or_else(std::env::temp_dir);
            Box::new(DiskBackend::new(SchemaRef::clone(schema), directory, bytes_max)?)
        }
        _ => Box::new(MemoryBackend { bytes_max }),
    })
}

impl WindowAggregate {
    /// Called after so many rows were added. The state has a stated bound: beyond it groups go to the backend, or the job
    /// stops with an error instead of taking the machine down.
    pub(super) fn keep_to_size(&mut self, rows: usize) -> Result<()> {
        self.compact()?;
        if let Some(left) = self.sizes.rows_until_look.checked_sub(rows) {
            self.sizes.rows_until_look = left;
            return Ok(());
        }
        let mut bytes: usize = self.panes.values().map(Pane::size_bytes).sum();
        if self.backend.is_full(bytes)? {
            // The largest first: few large runs are better than many small ones. Not all: what stays needs no merging.
            let mut panes: Vec<(usize, i64)> = self.panes.iter().map(|(pane, of)| (of.size_bytes(), *pane)).collect();
            panes.sort_unstable();
            let enough = bytes / 2;
            while bytes > enough
                && let Some((size, pane)) = panes.pop()
            {
                self.put_away(pane)?;
                bytes -= size;
            }
        }
        self.sizes.rows_until_look = (self.backend.room_bytes(bytes) / ROW_BYTES).min(ROWS_PER_LOOK_MAX);
        Ok(())
    }

    /// Gives all groups of a pane to the backend.
    pub(super) fn put_away(&mut self, pane: i64) -> Result<()> {
        if let Some(buckets) = self.take_buckets(pane)? {
            self.backend.put(pane, &buckets)?;
            self.snapshots.put_away();
        }
        Ok(())
    }

    /// What is in memory of a pane, which is empty there afterwards.
    pub(super) fn take_buckets(&mut self, pane: i64) -> Result<Option<Buckets>> {
        let states = match self.panes.get_mut(&pane).map(|pane| std::mem::replace(pane, Pane::Away)) {
            Some(Pane::Open(open)) => open.whole()?.states()?,
            Some(Pane::Sealed(states)) => states,
            Some(Pane::Away) | None => return Ok(None),
        };
        if states.len == 0 {
            return Ok(None);
        }
        let mut hashes = Vec::new();
        hash_keys(&states.keys, states.len, &mut hashes)?;
        let panes = self.times.map(|_| vec![pane; states.len]);
        Ok(Some(Buckets::new(self.state_batch(panes, states)?, &hashes)))
    }

    /// The backend has nothing to do with panes that are gone.
    pub(super) fn forget_panes_away(&mut self) {
        self.backend.remove_before(self.panes.keys().next().copied().unwrap_or(i64::MAX));
    }

    fn compact(&mut self) -> Result<()> {
        if !self.backend.has_work() {
            return Ok(());
        }
        // The backend calls back for merging; meanwhile the operator does without it.
        let mut backend = std::mem::replace(&mut self.backend, Box::new(MemoryBackend { bytes_max: 0 }));
        let worked = backend.work(&mut |rows| self.merge_rows(&rows));
        self.backend = backend;
        worked
    }

    /// Rows of state of one pane as one row per key.
    fn merge_rows(&self, rows: &[RecordBatch]) -> Result<RecordBatch> {
        let pane = match rows.first() {
            Some(rows) if self.times.is_some() => crate::event_times(rows.column(0))?.first().copied().unwrap_or(0),
            _ => 0,
        };
        let mut groups = Groups::new(self.key_types.clone(), &self.functions)?;
        self.merge_into(&mut groups, rows)?;
        let states = groups.states()?;
        self.state_batch(self.times.map(|_| vec![pane; states.len]), states)
    }

    /// Merges rows of state, whatever their panes.
    pub(super) fn merge_into(&self, groups: &mut Groups, rows: &[RecordBatch]) -> Result<()> {
        for rows in rows {
            let input = self.states(rows)?.0;
            groups.merge(&Grouped { len: input.rows, keys: input.keys, values: input.grouped })?;
        }
        Ok(())
    }
}
