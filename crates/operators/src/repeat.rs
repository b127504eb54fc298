//! Repeat: each row as often as it counts.

use std::sync::Arc;

use anabranch_dataflow::RepeatSpec;
use anabranch_model::{Error, Result};
use arrow::array::{Array, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};

use crate::keyed_state::narrow;
use crate::operator::RESULT_ROWS;
use crate::{Operator, Output};

pub(crate) struct Repeat {
    copies: usize,
    kept: Vec<usize>,
    schema: SchemaRef,
    /// The batch whose rows are being repeated.
    open: Option<Open>,
}

/// A batch, and what of it comes next.
struct Open {
    batch: RecordBatch,
    copies: Int64Array,
    row: usize,
    /// How often the row was emitted.
    emitted: i64,
}

impl Repeat {
    pub(crate) fn new(spec: RepeatSpec, input: &SchemaRef) -> Result<Self> {
        let kept: Vec<usize> = (0..input.fields().len()).filter(|column| *column != spec.copies).collect();
        Ok(Repeat { copies: spec.copies, schema: Arc::new(input.project(&kept)?), kept, open: None })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Repeat {
    /// Emits a piece of the open batch. Returns false if there is none.
    fn go_on(&mut self, out: &mut Output) -> Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let mut rows: Vec<u32> = Vec::new();
        while open.row < open.batch.num_rows() && rows.len() < RESULT_ROWS {
            let copies = if open.copies.is_valid(open.row) { open.copies.value(open.row) } else { 0 };
            if open.emitted < copies {
                rows.push(narrow(open.row)?);
                open.emitted += 1;
            } else {
                (open.row, open.emitted) = (open.row + 1, 0);
            }
        }
        out.batch(take_record_batch(&open.batch, &UInt32Array::from(rows))?);
        if open.row == open.batch.num_rows() {
            self.open = None;
        }
        Ok(true)
    }
}

impl Operator for Repeat {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let copies = batch.column(self.copies).as_primitive_opt::<Int64Type>().cloned();
        let copies = copies.ok_or_else(|| Error::internal("the number of copies is not BIGINT"))?;
        let batch = batch.project(&self.kept)?;
        if copies.null_count() == 0 && copies.values().iter().all(|copies| *copies == 1) {
            out.batch(batch);
            return Ok(());
        }
        self.open = Some(Open { batch, copies, row: 0, emitted: 0 });
        self.go_on(out).map(|_| ())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        self.go_on(out)
    }
}
