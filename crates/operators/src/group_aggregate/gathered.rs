//! Batches that are processed as one: a group that many rows touch changes once.

use anabranch_model::{Result, batch_bytes};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

/// The batches that wait to be processed, at most until the epoch ends.
pub(super) struct Gathered {
    /// The number of rows at which they are processed. `None`: batches are not gathered.
    rows_max: Option<u64>,
    /// The number of bytes at which they are processed.
    bytes_max: usize,
    bytes: usize,
    batches: Vec<RecordBatch>,
    rows: u64,
}

impl Gathered {
    pub(super) fn new(rows_max: Option<u64>, bytes_max: usize) -> Gathered {
        Gathered { rows_max, bytes_max, bytes: 0, batches: Vec::new(), rows: 0 }
    }

    /// Adds a batch. Returns rows once there are enough to be processed.
    pub(super) fn add(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let Some(rows_max) = self.rows_max else { return Ok(Some(batch)) };
        self.rows += batch.num_rows() as u64;
        self.bytes += batch_bytes(&batch);
        self.batches.push(batch);
        if self.rows < rows_max && self.bytes < self.bytes_max { Ok(None) } else { self.take() }
    }

    /// Returns the gathered rows.
    pub(super) fn take(&mut self) -> Result<Option<RecordBatch>> {
        (self.rows, self.bytes) = (0, 0);
        let batches = std::mem::take(&mut self.batches);
        match batches.as_slice() {
            [] => Ok(None),
            [batch] => Ok(Some(batch.clone())),
            [first, ..] => Ok(Some(concat_batches(first.schema_ref(), &batches)?)),
        }
    }
}
