//! Repeat: each row as often as it counts.

use std::sync::Arc;

use anabranch_dataflow::RepeatSpec;
use anabranch_model::{Error, Result};
use arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};

use crate::operator::RESULT_ROWS;
use crate::{Operator, Output};

pub(crate) struct Repeat {
    copies: usize,
    kept: Vec<usize>,
    schema: SchemaRef,
}

impl Repeat {
    pub(crate) fn new(spec: RepeatSpec, input: &SchemaRef) -> Result<Self> {
        let kept: Vec<usize> = (0..input.fields().len()).filter(|column| *column != spec.copies).collect();
        Ok(Repeat { copies: spec.copies, schema: Arc::new(input.project(&kept)?), kept })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
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
        let mut rows: Vec<u32> = Vec::new();
        for (row, copies) in (0..).zip(copies.iter()) {
            for _ in 0..copies.unwrap_or(0) {
                rows.push(row);
                if rows.len() >= RESULT_ROWS {
                    out.batch(take_record_batch(&batch, &UInt32Array::from(std::mem::take(&mut rows)))?);
                }
            }
        }
        out.batch(take_record_batch(&batch, &UInt32Array::from(rows))?);
        Ok(())
    }
}
