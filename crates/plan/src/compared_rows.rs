//! Compares rows field by field: `(a, b) = (1, 2)` is `a = 1 AND b = 2`, and `(a, b) IN ((1, 2), (3, NULL))`
//! compares each row of the list in this way. A NULL in a field can make the result NULL. DataFusion compares
//! whole rows, and treats NULL as equal to NULL.

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::utils::{conjunction, disjunction};
use datafusion_expr::{BinaryExpr, Expr, Operator, lit};

use crate::rewrite::InputColumns;
use crate::walk::Walk;

/// Replaces comparisons of row constructors. Runs before type coercion, so that the fields get their types.
pub(crate) fn compare_fields(expr: Expr, _: &InputColumns) -> Result<Transformed<Expr>> {
    expr.walk_up(&mut |expr| {
        let compared = match &expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => equal(left, right),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::NotEq, right }) => equal(left, right).map(negated),
            Expr::InList(list) if fields(&list.expr).is_some() => {
                let rows: Option<Vec<Expr>> = list.list.iter().map(|row| equal(&list.expr, row)).collect();
                rows.map(|rows| {
                    let found = disjunction(rows).unwrap_or_else(|| lit(false));
                    if list.negated { negated(found) } else { found }
                })
            }
            _ => None,
        };
        Ok(compared.map_or_else(|| Transformed::no(expr), Transformed::yes))
    })
}

fn negated(expr: Expr) -> Expr {
    Expr::Not(Box::new(expr))
}

/// The equality of two row constructors with the same number of fields.
fn equal(left: &Expr, right: &Expr) -> Option<Expr> {
    let (left, right) = (fields(left)?, fields(right)?);
    let varies = |field: &&Expr| field.is_volatile();
    if left.len() != right.len() || left.iter().any(varies) {
        return None;
    }
    let fields = left.into_iter().zip(right);
    conjunction(fields.map(|(left, right)| equal(left, right).unwrap_or_else(|| left.clone().eq(right.clone()))))
}

/// The fields of a row constructor.
fn fields(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Alias(alias) => fields(&alias.expr),
        Expr::ScalarFunction(call) if call.name() == "struct" => Some(call.args.iter().collect()),
        Expr::ScalarFunction(call) if call.name() == "named_struct" => {
            Some(call.args.iter().skip(1).step_by(2).collect())
        }
        _ => None,
    }
}
