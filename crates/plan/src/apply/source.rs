//! Finds a smaller plan for the domain of a subquery: the part of the outer query that provides the needed
//! columns. So the domain does not recompute the values of subqueries that were joined before.

use std::collections::BTreeSet;

use datafusion_common::{Column, JoinType, Result};
use datafusion_expr::Expr;
use datafusion_expr::utils::split_conjunction;

use super::exprs::columns_in;
use crate::rel::Rel;

/// A plan that has these columns of another plan, with at least the values that they have there.
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
            // Conditions on other columns are dropped.
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
