//! Computes expressions over constants where DataFusion gives the same result as the operators.

use std::sync::Arc;

use anabranch_functions::per_second;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::execution_props::ExecutionProps;
use datafusion_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion_expr::{BinaryExpr, ColumnarValue, Expr, Volatility};
use datafusion_physical_expr::{PhysicalExpr, create_physical_expr, expressions};

use crate::exact::meaning;
use crate::rewrite::is_comparison;
use crate::walk::Walk;

/// Computes an expression over constants. An expression that fails stays, so that it fails on a row if one
/// arrives. But a cast to a type without the value is an error at once.
pub(super) fn compute(expr: Expr) -> Result<Transformed<Expr>> {
    if !is_constant(&expr)? || !is_computed_alike(&expr) {
        return Ok(Transformed::no(expr));
    }
    match value(&expr) {
        Ok(Some(value)) => Ok(Transformed::yes(Expr::Literal(value, None))),
        Ok(None) => Ok(Transformed::no(expr)),
        Err(error) if matches!(expr, Expr::Cast(_)) => Err(error),
        Err(_) => Ok(Transformed::no(expr)),
    }
}

fn is_constant(expr: &Expr) -> Result<bool> {
    let has_value = match expr {
        Expr::Cast(_) | Expr::TryCast(_) | Expr::Negative(_) | Expr::Like(_) | Expr::InList(_) => true,
        Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::IsTrue(_) | Expr::IsFalse(_) | Expr::IsUnknown(_) => true,
        Expr::IsNotTrue(_) | Expr::IsNotFalse(_) | Expr::IsNotUnknown(_) | Expr::BinaryExpr(_) => true,
        Expr::ScalarFunction(call) => {
            call.func.signature().volatility != Volatility::Volatile && meaning(&call.func).is_none()
        }
        _ => false,
    };
    let mut constant = has_value;
    if has_value {
        expr.see_children(&mut |operand| {
            constant &= operand.as_literal().is_some();
            Ok(if constant { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
    }
    Ok(constant)
}

/// Whether DataFusion gives the same result as the operators.
fn is_computed_alike(expr: &Expr) -> bool {
    let type_of = |operand: &Expr| operand.as_literal().map_or(DataType::Null, ScalarValue::data_type);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, .. }) if is_comparison(*op) => is_ordered_alike(&type_of(left)),
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => !type_of(left).is_decimal() && !type_of(right).is_decimal(),
        Expr::InList(list) => is_ordered_alike(&type_of(&list.expr)),
        Expr::Cast(cast) => cast.expr.as_literal().is_some_and(|value| is_cast_alike(value, cast.field.data_type())),
        Expr::TryCast(cast) => cast.expr.as_literal().is_some_and(|value| is_cast_alike(value, cast.field.data_type())),
        // The smallest integer has no negation.
        Expr::Negative(operand) => !type_of(operand).is_signed_integer() || !is_smallest(operand),
        Expr::ScalarFunction(call) if call.name() == "nullif" => {
            call.args.iter().all(|arg| is_ordered_alike(&type_of(arg)))
        }
        _ => true,
    }
}

fn is_smallest(operand: &Expr) -> bool {
    use ScalarValue::{Int8, Int16, Int32, Int64};
    matches!(
        operand.as_literal(),
        Some(Int8(Some(i8::MIN)) | Int16(Some(i16::MIN)) | Int32(Some(i32::MIN)) | Int64(Some(i64::MIN)))
    )
}

/// DataFusion orders floating-point numbers totally, and compares intervals and nested values field by field.
fn is_ordered_alike(data_type: &DataType) -> bool {
    !data_type.is_floating() && !data_type.is_nested() && !matches!(data_type, DataType::Interval(_))
}

fn is_cast_alike(value: &ScalarValue, to: &DataType) -> bool {
    match (value.data_type(), to) {
        (from, to) if from == *to || value.is_null() => true,
        (from, DataType::Decimal128(..)) => !from.is_floating() && !from.is_string(),
        (from, DataType::Timestamp(..)) if from.is_integer() => false,
        // DataFusion rounds times towards 1970.
        (DataType::Timestamp(from, _), DataType::Timestamp(unit, _)) if per_second(from) > per_second(*unit) => {
            value.cast_to(&DataType::Int64).is_ok_and(|number| matches!(number, ScalarValue::Int64(Some(0..))))
        }
        (from, to) => !from.is_nested() && !to.is_nested(),
    }
}

fn value(expr: &Expr) -> Result<Option<ScalarValue>> {
    let physical: Arc<dyn PhysicalExpr> = match expr {
        // An overflow is an error.
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (Some(left), Some(right)) = (left.as_literal(), right.as_literal()) else { return Ok(None) };
            let operand = |value: &ScalarValue| Arc::new(expressions::Literal::new(value.clone()));
            Arc::new(expressions::BinaryExpr::new(operand(left), *op, operand(right)).with_fail_on_overflow(true))
        }
        expr => {
            create_physical_expr(expr, &DFSchema::empty(), &ExecutionProps::new(), &PhysicalPlanningContext::default())?
        }
    };
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    match physical.evaluate(&row)? {
        ColumnarValue::Scalar(value) => Ok(Some(value)),
        ColumnarValue::Array(values) if values.len() == 1 => ScalarValue::try_from_array(&values, 0).map(Some),
        ColumnarValue::Array(_) => Ok(None),
    }
}
