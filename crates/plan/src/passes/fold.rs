//! Computes constants and simplifies expressions. DataFusion's rule for this changes results: it simplifies
//! `CAST(d AS DECIMAL(20,2)) = 1.23` to `d = 1.23`, merges lists of one column that may contain NULL, and
//! compares constants by other rules than values.
//!
//! Each step is an equation of three-valued logic. It holds for NULL and NaN, and within every expression,
//! not only in conditions.
//!
//! * Constants are computed where DataFusion gives the same result as the operators: [`constants`].
//! * `AND` and `OR` lose neutral and repeated operands, and conditions common to all alternatives are
//!   factored out: [`logic`].
//! * `NOT` moves to the comparisons.
//! * A lossless cast around a column is removed if the compared constant has a value in the column's type:
//!   [`casts`].
//! * `BETWEEN` becomes two comparisons, and constants move to the right, so that joins and windows recognize
//!   them.

mod casts;
mod constants;
mod logic;

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::{Between, InList, ScalarFunction};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{BinaryExpr, Case, Expr, Operator, lit};

use crate::rewrite::{InputColumns, is_comparison};
use crate::walk::Walk;

/// Functions that DataFusion only computes in another form.
const IN_OTHER_FORMS: [&str; 10] = [
    "arrow_cast",
    "arrow_try_cast",
    "cast_to_type",
    "coalesce",
    "get_field",
    "nvl",
    "nvl2",
    "starts_with",
    "try_cast_to_type",
    "typeof",
];

/// An equivalent expression that is simpler.
pub(crate) fn simplify(expr: Expr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    if let Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) = expr {
        return logic::connect(expr, op, scope);
    }
    expr.walk_children(&mut |operand| simplify(operand, scope))?.transform_data(|expr| step(expr, scope))
}

/// Simplifies an expression with simple operands.
fn step(expr: Expr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Not(operand) => logic::negate(*operand, scope),
        Expr::Between(between) => bounds(between, scope),
        Expr::BinaryExpr(binary) => operator(binary, scope),
        Expr::Case(case) => Ok(branches(case)),
        Expr::Cast(cast) if scope.is_of_type(&cast.expr, cast.field.data_type()) => Ok(Transformed::yes(*cast.expr)),
        Expr::TryCast(cast) if scope.is_of_type(&cast.expr, cast.field.data_type()) => Ok(Transformed::yes(*cast.expr)),
        Expr::InList(list) => one_of(list, scope),
        Expr::ScalarFunction(call) if IN_OTHER_FORMS.contains(&call.name()) => {
            let context = SimplifyContext::builder().with_schema(Arc::clone(scope.schema()?)).build();
            match call.func.simplify(call.args, &context)? {
                ExprSimplifyResult::Simplified(other) => {
                    let other = other.walk_children(&mut |operand| step(operand, scope))?.data;
                    step(other, scope).map(|expr| Transformed::yes(expr.data))
                }
                ExprSimplifyResult::Original(args) => {
                    constants::compute(Expr::ScalarFunction(ScalarFunction::new_udf(call.func, args)))
                }
            }
        }
        expr => constants::compute(expr),
    }
}

/// `x BETWEEN a AND b` is `x >= a AND x <= b`.
fn bounds(between: Between, scope: &InputColumns) -> Result<Transformed<Expr>> {
    if between.expr.is_volatile() {
        return Ok(Transformed::no(Expr::Between(between)));
    }
    let Between { expr, negated, low, high } = between;
    let bounds = [expr.clone().gt_eq(*low), expr.lt_eq(*high)].map(|bound| step(bound, scope).map(|bound| bound.data));
    let both = logic::connected(bounds.into_iter().collect::<Result<_>>()?, Operator::And).data;
    Ok(Transformed::yes(if negated { logic::negate(both, scope)?.data } else { both }))
}

fn operator(binary: BinaryExpr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    let is_null = |operand: &Expr| operand.as_literal().is_some_and(ScalarValue::is_null);
    if binary.op.returns_null_on_null() && (is_null(&binary.left) || is_null(&binary.right)) {
        let null = ScalarValue::try_new_null(&scope.type_of(&Expr::BinaryExpr(binary))?)?;
        return Ok(Transformed::yes(Expr::Literal(null, None)));
    }
    match (binary.left.as_literal(), binary.right.as_literal()) {
        (Some(_), Some(_)) => return constants::compute(Expr::BinaryExpr(binary)),
        (None, None) => return Ok(Transformed::no(Expr::BinaryExpr(binary))),
        _ if !is_comparison(binary.op) => return Ok(Transformed::no(Expr::BinaryExpr(binary))),
        (Some(_), None) => {
            let Some(op) = binary.op.swap() else { return Ok(Transformed::no(Expr::BinaryExpr(binary))) };
            let swapped = BinaryExpr { left: binary.right, op, right: binary.left };
            return operator(swapped, scope).map(|expr| Transformed::yes(expr.data));
        }
        (None, Some(_)) => {}
    }
    match (binary.op, binary.right.as_literal()) {
        (Operator::Eq, Some(ScalarValue::Boolean(Some(true))))
        | (Operator::NotEq, Some(ScalarValue::Boolean(Some(false)))) => Ok(Transformed::yes(*binary.left)),
        (Operator::Eq, Some(ScalarValue::Boolean(Some(false))))
        | (Operator::NotEq, Some(ScalarValue::Boolean(Some(true)))) => {
            logic::negate(*binary.left, scope).map(|expr| Transformed::yes(expr.data))
        }
        _ => casts::compared(binary, scope),
    }
}

/// A list of one value is a comparison.
fn one_of(mut list: InList, scope: &InputColumns) -> Result<Transformed<Expr>> {
    if list.list.len() == 1 {
        let op = if list.negated { Operator::NotEq } else { Operator::Eq };
        let Some(value) = list.list.pop() else { return Ok(Transformed::no(Expr::InList(list))) };
        let compared = BinaryExpr { left: list.expr, op, right: Box::new(value) };
        return operator(compared, scope).map(|expr| Transformed::yes(expr.data));
    }
    if list.expr.as_literal().is_some_and(ScalarValue::is_null) {
        return Ok(Transformed::yes(Expr::Literal(ScalarValue::Boolean(None), None)));
    }
    if list.expr.as_literal().is_some() {
        return constants::compute(Expr::InList(list));
    }
    casts::listed(list, scope)
}

/// Removes branches of `CASE` with constant conditions.
fn branches(case: Case) -> Transformed<Expr> {
    let truth = |when: &Expr| match when.as_literal() {
        Some(ScalarValue::Boolean(truth)) => Some(truth.unwrap_or(false)),
        _ => None,
    };
    if case.expr.is_some() || !case.when_then_expr.iter().any(|(when, _)| truth(when).is_some()) {
        return Transformed::no(Expr::Case(case));
    }
    let (mut open, mut otherwise) = (Vec::new(), case.else_expr);
    let first = case.when_then_expr.first().map(|(_, then)| then.clone());
    for (when, then) in case.when_then_expr {
        match truth(&when) {
            Some(false) => {}
            Some(true) => {
                otherwise = Some(then);
                break;
            }
            None => open.push((when, then)),
        }
    }
    Transformed::yes(match (open.is_empty(), otherwise, first) {
        (true, Some(otherwise), _) => *otherwise,
        // No branch is left: NULL with the type of the branches.
        (true, None, Some(first)) => {
            Expr::Case(Case { expr: None, when_then_expr: vec![(Box::new(lit(false)), first)], else_expr: None })
        }
        (_, otherwise, _) => Expr::Case(Case { expr: None, when_then_expr: open, else_expr: otherwise }),
    })
}
