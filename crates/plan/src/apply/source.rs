//! The part of a query that has the values of some columns. The domain of a subquery is taken from it, so
//! that the values of other subqueries, which were joined before, are not computed twice.

use std::collections::BTreeSet;

use datafusion_common::{Column, JoinType, Result};
use datafusion_expr::Expr;
use datafusion_expr::utils::split_conjunction;

use super::exprs::columns_in;
use crate::rel::Rel;

/// A plan with these columns of another plan, and at least the values that they have there.
pub(super) fn source_of(plan: &Rel, columns: &BTreeSet<Column>) -> Result<Rel> {
    match plan {
        Rel::Join(join) => {
            let (left, right) = match join.join_type {
                JoinType::Inner => (true, true),
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => (true, false),
                JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => (false, true),
                _ => (false, false),
            };
            match (left && has(&join.left, columns), right && has(&join.right, columns)) {
                (true, _) => source_of(&join.left, columns),
                (_, true) => source_of(&join.right, columns),
                _ => Ok(plan.clone()),
            }
        }
        Rel::Project(projection) if has(&projection.input, columns) => {
            let is_kept = |expr: &Expr| expr.try_as_col().is_some_and(|column| columns.contains(column));
            match projection.exprs.iter().filter(|expr| is_kept(expr)).count() == columns.len() {
                true => source_of(&projection.input, columns),
                false => Ok(plan.clone()),
            }
        }
        Rel::Filter(filter) => {
            let source = source_of(&filter.input, columns)?;
            if source.ids() == filter.input.ids() {
                return Ok(plan.clone());
            }
            // What the other columns decide is left out.
            let parts = split_conjunction(&filter.predicate).into_iter();
            let own = parts.filter(|part| columns_in(part).iter().all(|column| source.columns().has(column)));
            let own: Vec<Expr> = own.cloned().collect();
            source.filter_all(own)
        }
        other => Ok(other.clone()),
    }
}

fn has(plan: &Rel, columns: &BTreeSet<Column>) -> bool {
    columns.iter().all(|column| plan.columns().has(column))
}
