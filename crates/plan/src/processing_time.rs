//! `PROCTIME()`: the time at which a source has read a row.

use std::sync::{Arc, LazyLock};

use anabranch_dataflow::processing_time_field;
use arrow::datatypes::DataType;
use datafusion_common::tree_node::TreeNode;
use datafusion_common::{Result, not_impl_err};
use datafusion_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Name of the function.
pub(crate) const PROCTIME: &str = "proctime";

/// `PROCTIME()`: only planned, never called. Its value is a column of the source's rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ProcTime {
    signature: Signature,
}

impl ScalarUDFImpl for ProcTime {
    fn name(&self) -> &str {
        PROCTIME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(processing_time_field().data_type().clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("sources give rows their processing time")
    }
}

/// The function. The planner must not compute it: it is volatile.
pub(crate) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::nullary(Volatility::Volatile);
        Arc::new(ScalarUDF::new_from_impl(ProcTime { signature }))
    });
    Arc::clone(&FUNCTION)
}

/// Whether an expression is a call of the function.
pub(crate) fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == PROCTIME)
}

/// Whether some expression of a plan calls the function.
pub(crate) fn is_read(plan: &LogicalPlan) -> bool {
    let reads = |expr: &Expr| expr.exists(|expr| Ok(is_call(expr))).unwrap_or(true);
    let found = plan.exists(|node| Ok(node.expressions().iter().any(reads)));
    found.unwrap_or(true)
}
