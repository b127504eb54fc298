//! Expressions of a subquery: the columns that they read, and their replacement.

use std::collections::BTreeSet;

use arrow::datatypes::DataType;
use datafusion_common::{Column, Result};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable, Operator, binary_expr};

use super::DependentJoin;
use crate::exact::meaning;
use crate::rel::Columns;
use crate::rewrite::with_values;

/// An equality between an outer value and an expression of the subquery.
pub(super) struct Key {
    pub(super) outer: Expr,
    pub(super) op: Operator,
    pub(super) inner: Expr,
}

impl Key {
    /// The condition for a column that has the value of `inner`.
    pub(super) fn condition(&self, column: &Column) -> Expr {
        binary_expr(self.outer.clone(), self.op, Expr::Column(column.clone()))
    }
}

/// A condition that two values are equal. `nullable`: NULL equals NULL.
pub(super) fn same(left: Expr, right: Expr, nullable: bool) -> Expr {
    binary_expr(left, if nullable { Operator::IsNotDistinctFrom } else { Operator::Eq }, right)
}

/// Replaces columns of an expression by values.
pub(crate) fn substitute(expr: Expr, values: &[(Column, Expr)]) -> Result<Expr> {
    if values.is_empty() {
        return Ok(expr);
    }
    with_values(expr, &|column| values.iter().find(|(known, _)| known == column).map(|(_, value)| value.clone()))
}

/// Whether an expression reads one of these columns.
pub(super) fn uses(expr: &Expr, columns: &[(Column, Expr)]) -> bool {
    columns_in(expr).iter().any(|column| columns.iter().any(|(known, _)| known == column))
}

pub(super) fn columns_in(expr: &Expr) -> BTreeSet<Column> {
    expr.column_refs().into_iter().cloned().collect()
}

/// Whether an expression is certainly NULL.
pub(super) fn is_null(expr: &Expr) -> bool {
    use Operator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus};
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        Expr::TryCast(cast) => is_null(&cast.expr),
        Expr::Negative(inner) | Expr::Not(inner) => is_null(inner),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_null_for_null =
                matches!(op, Plus | Minus | Multiply | Divide | Modulo | Eq | NotEq | Lt | LtEq | Gt | GtEq);
            is_null_for_null && (is_null(left) || is_null(right))
        }
        // The first argument is the subquery's value. It is NULL if there is no row.
        Expr::ScalarFunction(call) if call.func.name() == "$single" => call.args.first().is_some_and(is_null),
        Expr::ScalarFunction(call) => meaning(&call.func).is_some() && call.args.iter().any(is_null),
        _ => false,
    }
}

/// Whether values of these types are equal if and only if they are equal after conversion to a common type.
fn compare_exactly(left: &DataType, right: &DataType) -> bool {
    let is_exact = |data_type: &DataType| data_type.is_integer() || matches!(data_type, DataType::Decimal128(..));
    left == right
        || is_exact(left) && is_exact(right)
        || left.is_string() && right.is_string()
        || left.is_floating() && right.is_floating()
}

impl DependentJoin<'_> {
    /// Splits conditions into keys and conditions that read only outer columns. `None`: a condition is
    /// neither.
    pub(super) fn keys(&self, conditions: &[Expr], schema: &Columns) -> Result<Option<(Vec<Key>, Vec<Expr>)>> {
        let (mut keys, mut of_outer) = (Vec::new(), Vec::new());
        for condition in conditions {
            if !condition.any_column_refs() {
                of_outer.push(condition.clone());
                continue;
            }
            match self.key(condition, schema)? {
                Some(key) => keys.push(key),
                None => return Ok(None),
            }
        }
        Ok(Some((keys, of_outer)))
    }

    /// A condition as a key: it holds for exactly the rows with one value of its inner side.
    fn key(&self, condition: &Expr, schema: &Columns) -> Result<Option<Key>> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return Ok(None) };
        if !matches!(op, Operator::Eq | Operator::IsNotDistinctFrom) {
            return Ok(None);
        }
        let (outer, inner) = if !left.any_column_refs() && !self.reads_outer(right)? {
            (left, right)
        } else if !right.any_column_refs() && !self.reads_outer(left)? {
            (right, left)
        } else {
            return Ok(None);
        };
        let (Ok(of_outer), Ok(of_inner)) = (outer.get_type(schema), inner.get_type(schema)) else { return Ok(None) };
        if inner.is_volatile() || !compare_exactly(&of_outer, &of_inner) {
            return Ok(None);
        }
        Ok(Some(Key { outer: outer.as_ref().clone(), op: *op, inner: inner.as_ref().clone() }))
    }
}
