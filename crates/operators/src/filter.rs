//! Filter: keeps the rows for which a predicate is true.

use anabranch_dataflow::Expr;
use anabranch_model::Result;
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema;

use crate::{CompiledExpr, Functions, Operator, Output};

pub(crate) struct Filter {
    predicate: CompiledExpr,
}

impl Filter {
    pub(crate) fn new(predicate: &Expr, input: &Schema, functions: &Functions) -> Result<Self> {
        Ok(Filter { predicate: CompiledExpr::new(predicate, input, functions)? })
    }
}

impl Operator for Filter {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let keep = self.predicate.evaluate_predicate(&batch)?;
        match keep.true_count() {
            0 => {}
            all if all == batch.num_rows() => out.batch(batch),
            _ => out.batch(filter_record_batch(&batch, &keep)?),
        }
        Ok(())
    }
}
