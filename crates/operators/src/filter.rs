//! Filter: keeps the rows for which a predicate is true.

use anabranch_dataflow::{BinaryOp, Expr};
use anabranch_model::Result;
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema;

use crate::expression::types_of;
use crate::{CompiledExpr, Functions, Operator, Output};

/// Conditions that cannot fail are evaluated together. A condition that may fail is evaluated only for the rows that
/// pass those and the conditions before it. So `b <> 0 AND a / b > 1` does not depend on how rows are divided into
/// batches.
pub(crate) struct Filter {
    conditions: Vec<CompiledExpr>,
}

impl Filter {
    pub(crate) fn new(predicate: &Expr, input: &Schema, functions: &Functions) -> Result<Self> {
        let column = types_of(input);
        let (risky, safe): (Vec<&Expr>, Vec<&Expr>) =
            predicate.chain(BinaryOp::And).into_iter().partition(|condition| condition.may_fail(&column));
        let all = Expr::all(safe.into_iter().cloned().collect());
        let conditions = all.iter().chain(risky);
        let conditions = conditions.map(|condition| CompiledExpr::new(condition, input, functions));
        Ok(Filter { conditions: conditions.collect::<Result<_>>()? })
    }
}

impl Operator for Filter {
    fn batch(&mut self, mut batch: RecordBatch, out: &mut Output) -> Result<()> {
        for condition in &mut self.conditions {
            let keep = condition.evaluate_predicate(&batch)?;
            match keep.true_count() {
                0 => return Ok(()),
                all if all == batch.num_rows() => {}
                _ => batch = filter_record_batch(&batch, &keep)?,
            }
        }
        out.batch(batch);
        Ok(())
    }
}
