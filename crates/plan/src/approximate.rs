//! DECIMAL beside floating point is floating point, as in Flink. A number literal with a point is a DECIMAL, and the
//! library would compare `x > 0.5` by converting every `x` to a DECIMAL, which loses small values and fails for large
//! ones.

use arrow::datatypes::{DataType, Decimal128Type, DecimalType};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast};

use crate::rewrite::rewrite_expressions;

/// Functions whose arguments are converted to one type.
const OF_ONE_TYPE: [&str; 6] = ["coalesce", "greatest", "ifnull", "least", "nullif", "nvl"];

/// Converts each DECIMAL that meets floating point to DOUBLE in a comparison, `BETWEEN`, `IN`, `CASE`, or a function
/// whose arguments have one type. Runs before the library's type coercion.
pub(crate) fn approximate_decimals(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_expressions(plan, approximate)
}

fn approximate(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => alike([&mut *binary.left, &mut *binary.right], schema),
        Expr::Between(between) => alike([&mut *between.expr, &mut *between.low, &mut *between.high], schema),
        Expr::InList(list) => alike(std::iter::once(&mut *list.expr).chain(&mut list.list), schema),
        Expr::Case(case) => {
            let (whens, mut thens): (Vec<&mut Expr>, Vec<&mut Expr>) =
                case.when_then_expr.iter_mut().map(|(when, then)| (&mut **when, &mut **then)).unzip();
            thens.extend(case.else_expr.as_deref_mut());
            let compared = match case.expr.as_deref_mut() {
                Some(operand) => alike(std::iter::once(operand).chain(whens), schema),
                None => false,
            };
            alike(thens, schema) || compared
        }
        Expr::ScalarFunction(call) if OF_ONE_TYPE.contains(&call.name()) => alike(&mut call.args, schema),
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// If one of these is floating point, converts those that are DECIMAL to DOUBLE. Returns whether there were any.
fn alike<'a>(expressions: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let typed: Vec<_> = expressions.into_iter().map(|expr| (expr.get_type(schema), expr)).collect();
    let is_float = |data_type: &Result<DataType>| data_type.as_ref().is_ok_and(DataType::is_floating);
    if !typed.iter().any(|(data_type, _)| is_float(data_type)) {
        return false;
    }
    let mut changed = false;
    for (_, expr) in typed.into_iter().filter(|(data_type, _)| data_type.as_ref().is_ok_and(DataType::is_decimal)) {
        *expr = as_double(std::mem::take(expr));
        changed = true;
    }
    changed
}

fn as_double(expr: Expr) -> Expr {
    match &expr {
        // The DOUBLE nearest to the written digits.
        Expr::Literal(ScalarValue::Decimal128(Some(number), digits, scale), metadata) => {
            match Decimal128Type::format_decimal(*number, *digits, *scale).parse::<f64>() {
                Ok(number) => Expr::Literal(ScalarValue::Float64(Some(number)), metadata.clone()),
                Err(_) => cast(expr, DataType::Float64),
            }
        }
        _ => cast(expr, DataType::Float64),
    }
}
