//! Comparisons of maps. DataFusion compares the entries in order, but in SQL their order has no meaning.

use std::sync::Arc;

use anabranch_dataflow::sql_name;
pub(crate) use anabranch_functions::has_map;
use anabranch_model::Error;
use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::{Case, ScalarFunction};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator, ScalarUDF, lit, not, when};

use crate::place::{planning_error, through};
use crate::rel::{Columns, name_of};
use crate::rewrite::{InputColumns, is_comparison};
use crate::walk::Walk;

/// The error for a comparison, a key or a distinct value that is a map or contains one.
pub(crate) fn not_comparable(what: &str, data_type: &DataType) -> Error {
    Error::user(format!("{what} is {}: maps are only compared with = and <>", sql_name(data_type)))
        .remedy("use a value of the map, such as m['key'], or CAST(m AS STRING)")
}

/// Checks that values that `what` compares are no maps.
pub(crate) fn check_comparable(expr: &Expr, columns: &Columns, what: &str) -> anabranch_model::Result<()> {
    let data_type = expr.get_type(columns).map_err(planning_error)?;
    if has_map(&data_type) { Err(not_comparable(&format!("{} of {what}", shown(expr)), &data_type)) } else { Ok(()) }
}

/// The name of a column. Other expressions are not shown, because the user wrote them differently.
pub(crate) fn shown(expr: &Expr) -> String {
    match expr {
        Expr::Column(column) => name_of(column).to_owned(),
        _ => "a value".into(),
    }
}

/// Converts comparisons of maps to calls of a function. Runs before DataFusion's type coercion.
pub(crate) fn compare_maps(expr: Expr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    let Some(equal) = anabranch_functions::scalar_functions().get("map_equal") else {
        return Ok(Transformed::no(expr));
    };
    expr.walk_up(&mut |expr| compare(expr, scope, equal))
}

fn compare(expr: Expr, scope: &InputColumns, equal: &Arc<ScalarUDF>) -> Result<Transformed<Expr>> {
    let operand = match &expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => &binary.left,
        Expr::Between(between) => &between.expr,
        Expr::InList(list) => &list.expr,
        Expr::Case(Case { expr: Some(operand), .. }) => operand,
        Expr::ScalarFunction(call) if call.name() == "nullif" => match call.args.first() {
            Some(first) => first,
            None => return Ok(Transformed::no(expr)),
        },
        _ => return Ok(Transformed::no(expr)),
    };
    let data_type = scope.type_of(operand)?;
    if !has_map(&data_type) {
        return Ok(Transformed::no(expr));
    }
    let refused = |expr: &Expr| Err(through(not_comparable(&shown(expr), &data_type)));
    let comparable = anabranch_functions::map_parts(&data_type).is_some_and(|(_, value)| !has_map(value));
    if !comparable {
        return refused(operand);
    }
    let equals = |left: &Expr, right: &Expr| {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(equal), vec![left.clone(), right.clone()]))
    };
    let either = |expr: &Expr, list: &[Expr]| list.iter().map(|item| equals(expr, item)).reduce(Expr::or);
    Ok(Transformed::yes(match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Eq => equals(left, right),
            Operator::NotEq => not(equals(left, right)),
            Operator::IsNotDistinctFrom => same(left, right, equals(left, right))?,
            Operator::IsDistinctFrom => not(same(left, right, equals(left, right))?),
            _ => return refused(left),
        },
        Expr::InList(list) => {
            let found = either(&list.expr, &list.list).unwrap_or_else(|| lit(false));
            if list.negated { not(found) } else { found }
        }
        Expr::Case(case) => {
            let branches = case.when_then_expr.iter();
            let branches = branches.map(|(when, then)| (Box::new(equals(operand, when)), then.clone())).collect();
            Expr::Case(Case::new(None, branches, case.else_expr.clone()))
        }
        Expr::ScalarFunction(call) => match call.args.as_slice() {
            [left, right] => when(equals(left, right), null(&data_type)?).otherwise(left.clone())?,
            _ => return refused(operand),
        },
        _ => return refused(operand),
    }))
}

/// `left IS NOT DISTINCT FROM right`, where `equal` is `left = right`.
fn same(left: &Expr, right: &Expr, equal: Expr) -> Result<Expr> {
    let both = left.clone().is_null().and(right.clone().is_null());
    when(left.clone().is_null().or(right.clone().is_null()), both).otherwise(equal)
}

fn null(data_type: &DataType) -> Result<Expr> {
    Ok(Expr::Literal(ScalarValue::try_new_null(data_type)?, None))
}
