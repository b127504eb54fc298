//! Merges the runs of a pane into one, a bucket at a time, in small steps between the batches of the task. A
//! separate thread would not be deterministic under a simulator, and would use more than the task's own time.

use std::sync::Arc;

use anabranch_model::Result;

use super::run::{RunWriter, Runs};
use super::{BUCKETS, Merge, Run};

/// Rows of one pane, each key at most once: files in the order of their buckets.
pub(super) type Sorted = Vec<Arc<Run>>;

/// A merge in progress.
pub(super) struct Compaction {
    pub(super) pane: i64,
    /// The level whose oldest runs are merged.
    pub(super) level: usize,
    inputs: Vec<Sorted>,
    next_bucket: usize,
    writer: RunWriter,
}

impl Compaction {
    pub(super) fn new(pane: i64, level: usize, inputs: Vec<Sorted>) -> Compaction {
        Compaction { pane, level, inputs, next_bucket: 0, writer: RunWriter::new(pane) }
    }

    /// Number of runs that it merges into one.
    pub(super) fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Steps until it is done.
    pub(super) fn steps_left(&self) -> usize {
        BUCKETS - self.next_bucket
    }

    /// Merges the next bucket.
    pub(super) fn step(&mut self, merge: &mut dyn Merge, runs: &mut Runs) -> Result<()> {
        read(&self.inputs, self.next_bucket, merge)?;
        self.writer.add(self.next_bucket, &merge.take()?, runs)?;
        self.next_bucket += 1;
        Ok(())
    }

    pub(super) fn finish(self, runs: &mut Runs) -> Result<Sorted> {
        self.writer.finish(runs)
    }
}

/// Adds the rows of a bucket in all of these runs.
pub(super) fn read<'a>(
    sorted: impl IntoIterator<Item = &'a Sorted>,
    bucket: usize,
    merge: &mut dyn Merge,
) -> Result<()> {
    for run in sorted.into_iter().flatten().filter(|run| run.buckets().contains(&bucket)) {
        run.read(bucket)?.iter().try_for_each(|rows| merge.add(rows))?;
    }
    Ok(())
}
