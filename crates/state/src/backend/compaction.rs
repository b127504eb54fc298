//! Merging runs of a pane into one, a bucket at a time: in small steps between the batches of the task, instead of on a
//! thread of its own, so that a task's time is the task's and a run repeats itself under a simulator.

use std::path::Path;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::datatypes::SchemaRef;

use super::run::RunWriter;
use super::{BUCKETS, Merge, Run};

/// Rows of one pane, each key at most once: files that follow on each other in their buckets.
pub(super) type Sorted = Vec<Arc<Run>>;

/// A merge that is under way.
pub(super) struct Compaction {
    pub(super) pane: i64,
    /// The level whose oldest runs are merged.
    pub(super) level: usize,
    inputs: Vec<Sorted>,
    next_bucket: usize,
    writer: RunWriter,
}

impl Compaction {
    pub(super) fn new(schema: SchemaRef, pane: i64, level: usize, inputs: Vec<Sorted>) -> Compaction {
        Compaction { pane, level, inputs, next_bucket: 0, writer: RunWriter::new(schema, pane) }
    }

    /// Number of runs that it makes one of.
    pub(super) fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Merges the next bucket. True if that was the last.
    pub(super) fn step(&mut self, merge: Merge<'_>, directory: &Path, next_id: &mut u64) -> Result<bool> {
        let bucket = self.next_bucket;
        let rows = read(&self.inputs, bucket)?;
        let merged = merge(rows)?;
        self.writer.add(bucket, &merged, directory, next_id)?;
        self.next_bucket += 1;
        Ok(self.next_bucket == BUCKETS)
    }

    pub(super) fn finish(self, next_id: &mut u64) -> Result<Sorted> {
        self.writer.finish(next_id)
    }
}

/// The rows of a bucket in all of these.
pub(super) fn read<'a>(
    sorted: impl IntoIterator<Item = &'a Sorted>,
    bucket: usize,
) -> Result<Vec<arrow::array::RecordBatch>> {
    let mut rows = Vec::new();
    for runs in sorted {
        if let Some(run) = runs.iter().find(|run| run.buckets().contains(&bucket)) {
            rows.extend(run.read(bucket)?);
        }
    }
    Ok(rows)
}
