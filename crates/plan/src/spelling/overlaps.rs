//! `(start, end) OVERLAPS (start, end)`: whether two periods have a common moment. The end may be an
//! interval. The earlier one of a period's two times is its start.

use datafusion_sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::case;

/// The comparisons that replace the condition.
pub(super) fn comparisons(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } = expr else { return None };
    let (left, right) = (period(left)?, period(right)?);
    let touches =
        |one: &(Expr, Expr), other: &(Expr, Expr)| binary(one.1.clone(), BinaryOperator::GtEq, other.0.clone());
    Some(nested(binary(touches(&left, &right), BinaryOperator::And, touches(&right, &left))))
}

/// The start and the end of a period.
fn period(expr: &Expr) -> Option<(Expr, Expr)> {
    let Expr::Tuple(parts) = expr else { return None };
    let [start, end] = parts.as_slice() else { return None };
    let start = nested(start.clone());
    let end = match is_interval(end) {
        true => nested(binary(start.clone(), BinaryOperator::Plus, end.clone())),
        false => nested(end.clone()),
    };
    let in_order = binary(start.clone(), BinaryOperator::LtEq, end.clone());
    Some((nested(case(&in_order, &start, &end)), nested(case(&in_order, &end, &start))))
}

fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(_) => true,
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } => is_interval(inner),
        _ => false,
    }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
