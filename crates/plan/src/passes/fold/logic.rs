//! Simplifies `AND`, `OR` and `NOT` in three-valued logic.

use std::collections::HashSet;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::{Between, InList, Like};
use datafusion_expr::utils::{split_binary_owned, split_conjunction};
use datafusion_expr::{BinaryExpr, Expr, Operator, binary_expr, lit};

use super::{InputColumns, simplify, step};

/// Simplifies a chain of AND or of OR.
pub(super) fn connect(expr: Expr, op: Operator, scope: &InputColumns) -> Result<Transformed<Expr>> {
    let before = split_binary_owned(expr, op);
    let count = before.len();
    let (mut operands, mut changed) = (Vec::with_capacity(count), false);
    for operand in before {
        let operand = simplify(operand, scope)?;
        changed |= operand.transformed;
        operands.push(operand.data);
    }
    let chain = connected(operands, op);
    let changed = changed || chain.transformed;
    Ok(Transformed::new_transformed(chain.data, changed))
}

/// Combines simple operands: a deciding operand stands alone, and neutral and repeated ones are dropped.
pub(super) fn connected(operands: Vec<Expr>, op: Operator) -> Transformed<Expr> {
    let decides = op == Operator::Or;
    let count = operands.len();
    // A simplified operand may be a chain of this operator.
    let mut operands: Vec<Expr> = operands.into_iter().flat_map(|operand| split_binary_owned(operand, op)).collect();
    if operands.iter().any(|operand| is(operand, decides)) {
        return Transformed::yes(lit(decides));
    }
    operands.retain(|operand| !is(operand, !decides));
    without_repeated(&mut operands);
    if op == Operator::Or
        && operands.len() > 1
        && let Some(factored) = shared_conditions(&operands)
    {
        return Transformed::yes(factored);
    }
    let changed = operands.len() != count;
    let chain = operands.into_iter().reduce(|left, right| binary_expr(left, op, right));
    Transformed::new_transformed(chain.unwrap_or_else(|| lit(!decides)), changed)
}

fn is(operand: &Expr, truth: bool) -> bool {
    matches!(operand, Expr::Literal(ScalarValue::Boolean(Some(value)), _) if *value == truth)
}

fn without_repeated(operands: &mut Vec<Expr>) {
    if operands.len() < 2 {
        return;
    }
    let mut seen = HashSet::with_capacity(operands.len());
    let keep: Vec<bool> = operands.iter().map(|operand| seen.insert(operand) || operand.is_volatile()).collect();
    let mut keep = keep.into_iter();
    operands.retain(|_| keep.next().unwrap_or(true));
}

/// `(a AND b) OR (a AND c)` is `a AND (b OR c)`, and `a OR (a AND b)` is `a`. `None`: the alternatives have
/// nothing in common.
fn shared_conditions(alternatives: &[Expr]) -> Option<Expr> {
    let parts: Vec<Vec<&Expr>> = alternatives.iter().map(split_conjunction).collect();
    let is_shared = |part: &&Expr| parts[1..].iter().all(|other| other.contains(part)) && !part.is_volatile();
    let shared: Vec<&Expr> = parts[0].iter().copied().filter(is_shared).collect();
    if shared.is_empty() {
        return None;
    }
    let rest = parts.iter().map(|parts| {
        let rest = parts.iter().filter(|part| !shared.contains(part));
        connected(rest.map(|part| (*part).clone()).collect(), Operator::And).data
    });
    // An alternative without further conditions is true where the common ones are.
    let rest = connected(rest.collect(), Operator::Or).data;
    let all = shared.iter().map(|part| (*part).clone()).chain([rest]);
    Some(connected(all.collect(), Operator::And).data)
}

/// `NOT expr` of a simple expression.
pub(super) fn negate(expr: Expr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    let negated = match expr {
        Expr::Not(operand) => *operand,
        Expr::Literal(ScalarValue::Boolean(truth), metadata) => {
            Expr::Literal(ScalarValue::Boolean(truth.map(|truth| !truth)), metadata)
        }
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
            let other = if op == Operator::And { Operator::Or } else { Operator::And };
            let operands = split_binary_owned(expr, op)
                .into_iter()
                .map(|operand| negate(operand, scope).map(|operand| operand.data));
            connected(operands.collect::<Result<_>>()?, other).data
        }
        Expr::BinaryExpr(binary) => match opposite(&binary, scope)? {
            Some(op) => step(Expr::BinaryExpr(BinaryExpr { op, ..binary }), scope)?.data,
            None => return Ok(Transformed::no(Expr::Not(Box::new(Expr::BinaryExpr(binary))))),
        },
        Expr::IsNull(operand) => Expr::IsNotNull(operand),
        Expr::IsNotNull(operand) => Expr::IsNull(operand),
        Expr::IsTrue(operand) => Expr::IsNotTrue(operand),
        Expr::IsNotTrue(operand) => Expr::IsTrue(operand),
        Expr::IsFalse(operand) => Expr::IsNotFalse(operand),
        Expr::IsNotFalse(operand) => Expr::IsFalse(operand),
        Expr::IsUnknown(operand) => Expr::IsNotUnknown(operand),
        Expr::IsNotUnknown(operand) => Expr::IsUnknown(operand),
        Expr::InList(list) => Expr::InList(InList { negated: !list.negated, ..list }),
        Expr::Between(between) => Expr::Between(Between { negated: !between.negated, ..between }),
        Expr::Like(like) => Expr::Like(Like { negated: !like.negated, ..like }),
        expr => return Ok(Transformed::no(Expr::Not(Box::new(expr)))),
    };
    Ok(Transformed::yes(negated))
}

/// The negated operator. An order of values that may be NaN has none.
fn opposite(binary: &BinaryExpr, scope: &InputColumns) -> Result<Option<Operator>> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    let has_order = !matches!(binary.op, Gt | GtEq | Lt | LtEq) || !scope.type_of(&binary.left)?.is_floating();
    Ok(binary.op.negate().filter(|_| has_order))
}
