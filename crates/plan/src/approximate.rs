//! Arithmetic and comparisons of DECIMAL with floating point use floating point, as in Flink. DataFusion
//! would compare `x > 0.5` by converting every `x` to DECIMAL, because it reads `0.5` as a DECIMAL. That
//! loses small values and fails for large ones.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue, internal_datafusion_err};
use datafusion_expr::{Expr, ExprSchemable, Operator, binary_expr, cast};

use crate::exact::{nearest, operator_of};
use crate::rel::{Columns, Rel, Union, computed, kept, project};
use crate::rewrite::{InputColumns, is_comparison};
use crate::walk::Walk;

/// Functions that convert all arguments to one type.
const OF_ONE_TYPE: [&str; 6] = ["coalesce", "greatest", "ifnull", "least", "nullif", "nvl"];

/// Converts each DECIMAL operand beside floating point to DOUBLE: in comparisons, arithmetic, `BETWEEN`,
/// `IN`, `CASE`, and functions that convert all arguments to one type. Runs before DataFusion's type
/// coercion.
pub(crate) fn approximate_decimals(expr: Expr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    expr.walk_up(&mut |expr| approximate(expr, scope.columns()))
}

/// Converts DECIMAL columns of a union's inputs to DOUBLE where another input has floating point. The inputs
/// of nested unions count as inputs of the outer union.
pub(crate) fn approximate_union(union: Union) -> Result<Transformed<Rel>> {
    let within = |input: &Arc<Rel>| match input.as_ref() {
        Rel::Union(union) => union.inputs.clone(),
        _ => vec![Arc::clone(input)],
    };
    let all: Vec<Arc<Rel>> = union.inputs.iter().flat_map(within).collect();
    let is_float = |column: usize| all.iter().any(|input| input.columns().field(column).data_type().is_floating());
    let floats: Vec<bool> = (0..union.columns.fields().len()).map(is_float).collect();
    let needs_cast =
        |input: &Rel, column: usize| floats[column] && input.columns().field(column).data_type().is_decimal();
    // The union was typed before its inputs were converted, so its column may still be DECIMAL.
    let mut cols = union.columns.to_vec();
    for (col, is_float) in cols.iter_mut().zip(&floats) {
        if *is_float && col.field.data_type().is_decimal() {
            col.field = Arc::new(col.field.as_ref().clone().with_data_type(DataType::Float64));
        }
    }
    let columns = Columns::new(cols)?;
    let mut changed = columns.fields() != union.columns.fields();
    let inputs = all.iter().map(|input| {
        if !(0..floats.len()).any(|column| needs_cast(input, column)) {
            return Ok(Arc::clone(input));
        }
        changed = true;
        let columns = input.columns().iter().enumerate().map(|(index, col)| match needs_cast(input, index) {
            true => computed(col.field.name(), as_double(col.expr())),
            false => kept(col.id.clone()),
        });
        project(Arc::clone(input), columns).map(Arc::new)
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(match changed {
        true => Transformed::yes(Rel::Union(Union { inputs, columns })),
        false => Transformed::no(Rel::Union(union)),
    })
}

fn approximate(mut expr: Expr, schema: &Columns) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) || is_arithmetic(binary.op) => {
            alike([&mut *binary.left, &mut *binary.right], schema)
        }
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
        // The arithmetic was planned as exact, because its operands were exact before the conversion.
        Expr::ScalarFunction(call) => match operator_of(&call.func) {
            Some(op) if call.args.iter().any(|arg| arg.get_type(schema).is_ok_and(|found| found.is_floating())) => {
                alike(&mut call.args, schema);
                let [left, right] = <[Expr; 2]>::try_from(std::mem::take(&mut call.args))
                    .map_err(|_| internal_datafusion_err!("an operator of two operands"))?;
                expr = binary_expr(left, op, right);
                true
            }
            _ => false,
        },
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

fn is_arithmetic(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
}

/// Converts DECIMAL expressions to DOUBLE if one of the expressions is floating point. Returns whether it
/// converted any.
fn alike<'a>(expressions: impl IntoIterator<Item = &'a mut Expr>, schema: &Columns) -> bool {
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
        Expr::Literal(value, metadata) if nearest(value).is_some() => {
            Expr::Literal(ScalarValue::Float64(nearest(value)), metadata.clone())
        }
        _ => cast(expr, DataType::Float64),
    }
}
