//! `PROCTIME()`: the time at which a source reads a row.

use std::sync::{Arc, LazyLock};

use anabranch_dataflow::processing_time_field;
use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, not_impl_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast, lit,
};

use crate::rel::Rel;
use crate::walk::Walk;

pub(crate) const PROCTIME: &str = "proctime";
/// The time of reading as an ordinary value, for event times that are computed from the clock. No query can
/// write this name.
const READ_TIME: &str = "$read_time";
/// The function that reads the clock at each evaluation. Flink has several names for it.
pub(crate) const CLOCK: &str = "current_row_timestamp";
/// The clock in seconds since 1970: Flink's `UNIX_TIMESTAMP()`.
const UNIX_CLOCK: &str = "current_unix_timestamp";

/// `PROCTIME()` or `$read_time`. It is only planned, never called: its value is a column that the source adds
/// to its rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ProcTime {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for ProcTime {
    fn name(&self) -> &str {
        self.name
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

/// The function. It is volatile, so that the planner does not evaluate it.
pub(crate) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| named(PROCTIME));
    Arc::clone(&FUNCTION)
}

fn named(name: &'static str) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(ProcTime { name, signature: Signature::nullary(Volatility::Volatile) }))
}

/// Replaces the clock in an event time by the time of reading, so that each row has one event time, however
/// often it is evaluated.
pub(crate) fn as_read(event_time: Expr) -> Result<Expr> {
    let replaced = event_time.walk_up(&mut |expr| match expr {
        Expr::ScalarFunction(call) if call.func.name() == CLOCK => {
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(named(READ_TIME), Vec::new()))))
        }
        // In seconds.
        Expr::ScalarFunction(call) if call.func.name() == UNIX_CLOCK => {
            let read = Expr::ScalarFunction(ScalarFunction::new_udf(named(READ_TIME), Vec::new()));
            Ok(Transformed::yes(cast(read, DataType::Int64) / lit(1000_i64)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(replaced.data)
}

pub(crate) fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == PROCTIME)
}

/// Whether an expression is the time of reading its row.
pub(crate) fn is_stamp(expr: &Expr) -> bool {
    is_call(expr) || matches!(expr, Expr::ScalarFunction(call) if call.func.name() == READ_TIME)
}

/// Whether an expression contains such a time.
pub(crate) fn is_read_by(expr: &Expr) -> bool {
    expr.has(&|expr| Ok(is_stamp(expr))).unwrap_or(true)
}

/// Whether an expression of a plan contains such a time.
pub(crate) fn is_read(plan: &Rel) -> bool {
    plan.has(&|node| Ok(node.expressions().into_iter().any(is_read_by))).unwrap_or(true)
}
