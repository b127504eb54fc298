//! Batches that are taken as one: a group that many rows touch changes once.

use anabranch_model::Result;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

/// Batches until the end of an epoch.
pub(super) struct Gathered {
    /// So many rows are gathered. `None`: none are.
    rows_max: Option<u64>,
    batches: Vec<RecordBatch>,
    rows: u64,
}

impl Gathered {
    pub(super) fn new(rows_max: Option<u64>) -> Gathered {
        Gathered { rows_max, batches: Vec::new(), rows: 0 }
    }

    /// Takes a batch. Returns what is to be taken now.
    pub(super) fn add(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        let Some(rows_max) = self.rows_max else { return Ok(Some(batch)) };
        self.rows += batch.num_rows() as u64;
        self.batches.push(batch);
        if self.rows < rows_max { Ok(None) } else { self.take() }
    }

    /// Returns what there is.
    pub(super) fn take(&mut self) -> Result<Option<RecordBatch>> {
        self.rows = 0;
        let batches = std::mem::take(&mut self.batches);
        match batches.as_slice() {
            [] => Ok(None),
            [batch] => Ok(Some(batch.clone())),
            [first, ..] => Ok(Some(concat_batches(first.schema_ref(), &batches)?)),
        }
    }
}
