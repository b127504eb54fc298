//! Equal rows that stay are kept as one, and emitted as often as they count.

use anabranch_model::Result;
use arrow::array::{RecordBatch, RecordBatchOptions};

use super::taken;
use crate::operator::RESULT_ROWS;

/// Rows that stay, each of which counts several times.
pub(crate) struct Repeated {
    rows: RecordBatch,
    weights: Vec<i64>,
    /// The row that is emitted next, and how often it was already.
    row: usize,
    emitted: i64,
}

impl Repeated {
    pub(crate) fn new(rows: RecordBatch, weights: Vec<i64>) -> Repeated {
        Repeated { rows, weights, row: 0, emitted: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.row >= self.weights.len()
    }

    pub(crate) fn next_rows(&mut self) -> Result<RecordBatch> {
        let mut places: Vec<u64> = Vec::new();
        while places.len() < RESULT_ROWS && self.row < self.weights.len() {
            if self.emitted < self.weights[self.row] {
                places.push(self.row as u64);
                self.emitted += 1;
            } else {
                (self.row, self.emitted) = (self.row + 1, 0);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        let columns = taken(self.rows.columns(), &places.into())?;
        Ok(RecordBatch::try_new_with_options(self.rows.schema(), columns, &options)?)
    }
}
