//! `CURRENT_WATERMARK(ts)`: the watermark of the task that reads a row, before that row.

use std::sync::{Arc, LazyLock};

use anabranch_dataflow::current_watermark_field;
use anabranch_model::Error;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, not_impl_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast};

use crate::event_time::{TimeAttribute, time_attribute_of};
use crate::place::through;
use crate::rel::Rel;
use crate::rewrite::change_expressions;
use crate::stamps::Stamp;
use crate::walk::Walk;

pub(crate) const CURRENT_WATERMARK: &str = "current_watermark";

/// The function. It is only planned, never called: its value is a column that the source adds to its rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CurrentWatermark {
    signature: Signature,
    /// The type of the result, once the argument is known to be an event time. From then on the call has no
    /// argument, because the planner may replace a column by the expression that computes it.
    checked: Option<DataType>,
}

impl ScalarUDFImpl for CurrentWatermark {
    fn name(&self) -> &str {
        CURRENT_WATERMARK
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match (&self.checked, arguments) {
            (Some(data_type), _) => Ok(data_type.clone()),
            (None, [DataType::Timestamp(_, zone)]) => Ok(DataType::Timestamp(TimeUnit::Millisecond, zone.clone())),
            (None, _) => Err(through(no_event_time())),
        }
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        not_impl_err!("sources give rows their watermark")
    }
}

/// The function as queries call it. It is volatile, so that the planner does not evaluate it.
pub(crate) fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Volatile);
        Arc::new(ScalarUDF::new_from_impl(CurrentWatermark { signature, checked: None }))
    });
    Arc::clone(&FUNCTION)
}

fn no_event_time() -> Error {
    Error::user("the argument of CURRENT_WATERMARK is not an event time").remedy(
        "use the column of a table that WATERMARK FOR declares, before an aggregation: WHERE ts <= CURRENT_WATERMARK(ts)",
    )
}

/// The error for `CURRENT_WATERMARK` over rows that do not come directly from a source.
pub(crate) fn not_just_read() -> Error {
    Error::user("CURRENT_WATERMARK is only known for rows that come directly from a source")
        .remedy("call it first, in a query of the table: CREATE VIEW v AS SELECT *, CURRENT_WATERMARK(ts) AS w FROM t")
}

fn call_of(expr: &Expr) -> Option<(&ScalarFunction, &CurrentWatermark)> {
    match expr {
        Expr::ScalarFunction(call) => Some((call, call.func.inner().downcast_ref()?)),
        _ => None,
    }
}

pub(crate) fn is_call(expr: &Expr) -> bool {
    call_of(expr).is_some()
}

/// Whether an expression of a plan calls the function.
pub(crate) fn is_read(plan: &Rel) -> bool {
    plan.has(&|node| Ok(calls(node))).unwrap_or(true)
}

fn calls(node: &Rel) -> bool {
    node.expressions().into_iter().any(|expr| expr.has(&|expr| Ok(is_call(expr))).unwrap_or(true))
}

/// Checks all calls, and removes their arguments.
pub(crate) fn check_calls(plan: Rel) -> Result<Rel> {
    let checked = plan.walk_up(&mut |node| {
        if !calls(&node) {
            return Ok(Transformed::no(node));
        }
        let inputs: Vec<Rel> = node.inputs().into_iter().cloned().collect();
        let node = change_expressions(node, &mut |expr| expr.walk_up(&mut |expr| check_call(expr, &inputs)))?;
        node.map_data(Rel::with_types)
    });
    checked.map(|checked| checked.data)
}

fn check_call(expr: Expr, inputs: &[Rel]) -> Result<Transformed<Expr>> {
    let Some((call, CurrentWatermark { checked: None, .. })) = call_of(&expr) else { return Ok(Transformed::no(expr)) };
    let [Expr::Column(column)] = call.args.as_slice() else { return Err(through(no_event_time())) };
    let mut found = inputs.iter().filter_map(|input| Some((input, input.columns().find(column)?)));
    let Some((input, index)) = found.next() else { return Ok(Transformed::no(expr)) };
    let is_event_time = matches!(time_attribute_of(input, index), Some(TimeAttribute::Record | TimeAttribute::Window));
    let DataType::Timestamp(_, zone) = input.columns().field(index).data_type() else {
        return Err(through(no_event_time()));
    };
    if !is_event_time {
        return Err(through(no_event_time()));
    }
    let checked = Some(DataType::Timestamp(TimeUnit::Millisecond, zone.clone()));
    let signature = Signature::nullary(Volatility::Volatile);
    let function = Arc::new(ScalarUDF::new_from_impl(CurrentWatermark { signature, checked }));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, Vec::new()))))
}

/// The column of the source's rows that replaces a checked call.
pub(crate) fn column_of(expr: &Expr) -> Option<Expr> {
    let (_, CurrentWatermark { checked: Some(data_type), .. }) = call_of(expr)? else { return None };
    let stamp = Stamp::Watermark.placeholder();
    Some(if data_type == current_watermark_field().data_type() { stamp } else { cast(stamp, data_type.clone()) })
}
