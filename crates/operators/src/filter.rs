//! Filter: keeps the rows for which a predicate is true.

use std::sync::Arc;

use anabranch_dataflow::{BinaryOp, Expr};
use anabranch_model::Result;
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;

use crate::expression::types_of;
use crate::{CompiledExpr, Functions, Operator, Output};

/// Conditions that cannot fail are evaluated together. A condition that may fail is evaluated only for the
/// rows that satisfy those and the conditions before it. So the result of `b <> 0 AND a / b > 1` does not
/// depend on how rows are divided into batches.
pub(crate) struct Filter {
    conditions: Vec<CompiledExpr>,
    /// The columns that it passes on. `None`: all.
    keep: Option<Vec<usize>>,
    schema: SchemaRef,
}

impl Filter {
    pub(crate) fn new(
        predicate: &Expr,
        keep: Option<&[usize]>,
        input: &SchemaRef,
        functions: &Functions,
    ) -> Result<Self> {
        let column = types_of(input);
        let (risky, safe): (Vec<&Expr>, Vec<&Expr>) =
            predicate.chain(BinaryOp::And).into_iter().partition(|condition| condition.may_fail(&column));
        let all = Expr::all(safe.into_iter().cloned().collect());
        let conditions = all.iter().chain(risky);
        let conditions = conditions.map(|condition| CompiledExpr::new(condition, input, functions));
        let schema = match keep {
            Some(keep) => Arc::new(input.project(keep)?),
            None => Arc::clone(input),
        };
        Ok(Filter { conditions: conditions.collect::<Result<_>>()?, keep: keep.map(<[_]>::to_vec), schema })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Operator for Filter {
    fn batch(&mut self, mut batch: RecordBatch, out: &mut Output) -> Result<()> {
        let mut left = self.conditions.len();
        for condition in &mut self.conditions {
            let passes = condition.evaluate_predicate(&batch)?;
            left -= 1;
            // Columns that no later condition reads are not copied.
            if left == 0
                && let Some(keep) = &self.keep
            {
                batch = batch.project(keep)?;
            }
            match passes.true_count() {
                0 => return Ok(()),
                all if all == batch.num_rows() => {}
                _ => batch = filter_record_batch(&batch, &passes)?,
            }
        }
        out.batch(batch);
        Ok(())
    }
}
