//! Project: computes columns.

use anabranch_model::Result;
use arrow::array::RecordBatch;

use crate::{Operator, Output, Projection};

pub(crate) struct Project {
    pub(crate) projection: Projection,
}

impl Operator for Project {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        out.batch(self.projection.apply(&batch)?);
        Ok(())
    }
}
