//! The output of joins. Equal append-only rows are stored as one, and emitted as often as their weight says.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::taken;
use crate::Output;
use crate::operator::RESULT_ROWS;

/// The results of a join.
pub(crate) struct Results {
    pub(crate) schema: SchemaRef,
    /// Whether results have a column of weights.
    is_updating: bool,
    /// Rows that must be emitted more than once.
    repeated: VecDeque<Repeated>,
}

impl Results {
    pub(crate) fn new(schema: SchemaRef, is_updating: bool) -> Results {
        Results { schema, is_updating, repeated: VecDeque::new() }
    }

    /// Emits rows. `columns` does not contain the weights.
    pub(crate) fn emit(&mut self, mut columns: Vec<ArrayRef>, weights: Vec<i64>, out: &mut Output) -> Result<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(weights.len()));
        let are_equal = !self.is_updating && weights.iter().any(|weight| *weight != 1);
        if self.is_updating {
            columns.push(Arc::new(Int64Array::from(weights.clone())));
        }
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        match are_equal {
            true => self.repeated.push_back(Repeated { rows, weights, row: 0, emitted: 0 }),
            false => out.batch(rows),
        }
        Ok(())
    }

    /// Emits a piece of the rows that must be emitted more than once. Returns false if there was none.
    pub(crate) fn repeat(&mut self, out: &mut Output) -> Result<bool> {
        let Some(repeated) = self.repeated.front_mut() else { return Ok(false) };
        out.batch(repeated.next_rows()?);
        if repeated.row >= repeated.weights.len() {
            self.repeated.pop_front();
        }
        Ok(true)
    }
}

/// Append-only rows with weights greater than 1.
struct Repeated {
    rows: RecordBatch,
    weights: Vec<i64>,
    /// The next row, and how often it was already emitted.
    row: usize,
    emitted: i64,
}

impl Repeated {
    fn next_rows(&mut self) -> Result<RecordBatch> {
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
