//! Subqueries that read columns of the query around them, as the library would join them otherwise than they are meant. They are refused.
//!
//! The library moves the conditions that read outer columns out of the subquery, into a join with the query around it. That changes the
//! answer in three cases:
//!
//! * Two tables within have a column of one name, and both columns are needed above: only the name is kept.
//! * A condition is below an outer join on the side that is padded: above the join it drops the padded rows.
//! * An aggregate without `GROUP BY` has a row for no rows, but there is nothing to join. As a value the library fills it in; `EXISTS`, `IN` and
//!   a `HAVING` do not get it.

use std::collections::BTreeSet;

use anabranch_model::Error;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Column, JoinType, Result};
use datafusion_expr::expr::{Exists, InSubquery};
use datafusion_expr::{Expr, LogicalPlan, Subquery};

use crate::place::{at_span, through};
use crate::walk::{Walk, WalkPlan};

/// Refuses such subqueries.
pub(crate) fn check(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.see_with_subqueries(&mut |node| {
        node.see_expressions(&mut |expr| {
            expr.see(&mut |expr| {
                match expr {
                    Expr::Exists(Exists { subquery, .. }) => check_subquery(subquery, "EXISTS", false)?,
                    Expr::InSubquery(InSubquery { subquery, .. }) => check_subquery(subquery, "IN", true)?,
                    Expr::ScalarSubquery(subquery) => check_subquery(subquery, "", true)?,
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(plan)
}

/// `of`: `EXISTS` or `IN`; empty for a value. `has_result`: its columns are read.
fn check_subquery(subquery: &Subquery, of: &str, has_result: bool) -> Result<()> {
    let Some(first) = subquery.outer_ref_columns.first() else { return Ok(()) };
    let plan = subquery.subquery.as_ref();
    let error = if let Some(name) = name_of_two(plan, has_result)? {
        let error = format!("this subquery reads columns of the query around it and two columns called {name}");
        Error::user(error).remedy("rename one of them: FROM (SELECT a AS a1, ... FROM t) AS x JOIN ...")
    } else if is_below_padding(plan, false)? {
        Error::user("this subquery reads columns of the query around it below its outer join")
            .remedy("move the condition to the WHERE of the subquery, or join the tables in the query around it")
    } else if !of.is_empty() && has_single_row(plan)? {
        let error = format!(
            "{of} over an aggregate without GROUP BY that reads columns of the query around it is not supported"
        );
        Error::user(error).remedy("compare with the subquery as a value, as in x = (SELECT MAX(...) ...); EXISTS of such a row is always true")
    } else if of.is_empty() && filters_single_row(plan)? {
        Error::user("HAVING without GROUP BY is not supported in a subquery that reads columns of the query around it")
            .remedy("write it with CASE: (SELECT CASE WHEN COUNT(*) > 1 THEN MAX(...) END FROM ...)")
    } else {
        return Ok(());
    };
    Err(through(match first {
        Expr::OuterReferenceColumn(_, column) => at_span(error, column.spans.first()),
        _ => error,
    }))
}

/// Whether an expression of this node reads outer columns.
fn reads_outer(node: &LogicalPlan) -> Result<bool> {
    let mut reads = false;
    node.see_expressions(&mut |expr| {
        reads |= expr.contains_outer();
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(reads)
}

/// A name of two columns that must both be kept: for the conditions that move out of the subquery, and as its result.
fn name_of_two(plan: &LogicalPlan, has_result: bool) -> Result<Option<String>> {
    let mut kept: BTreeSet<Column> = BTreeSet::new();
    plan.see(&mut |node| {
        if reads_outer(node)? {
            node.see_expressions(&mut |expr| {
                kept.extend(expr.column_refs().into_iter().cloned());
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if let (true, LogicalPlan::Projection(projection)) = (has_result, plan) {
        kept.extend(projection.expr.iter().filter_map(|expr| expr.clone().unalias().try_as_col().cloned()));
    }
    let mut names = BTreeSet::new();
    Ok(kept.into_iter().map(|column| column.name).find(|name| !names.insert(name.clone())))
}

/// Whether a node reads outer columns in the `ON` of an outer join, or below it where rows are padded.
fn is_below_padding(plan: &LogicalPlan, padded: bool) -> Result<bool> {
    if padded && reads_outer(plan)? {
        return Ok(true);
    }
    let LogicalPlan::Join(join) = plan else {
        for input in plan.inputs() {
            if is_below_padding(input, padded)? {
                return Ok(true);
            }
        }
        return Ok(false);
    };
    let (left, right) = match join.join_type {
        JoinType::Inner => (false, false),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (false, true),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (true, false),
        JoinType::Full => (true, true),
    };
    let in_on = join.join_type != JoinType::Inner && reads_outer(plan)?;
    Ok(in_on || is_below_padding(&join.left, padded || left)? || is_below_padding(&join.right, padded || right)?)
}

fn is_single_row(node: &LogicalPlan) -> Result<bool> {
    match node {
        LogicalPlan::Aggregate(of) if of.group_expr.is_empty() => of.input.has(&reads_outer),
        _ => Ok(false),
    }
}

/// Whether some aggregate has one row for all rows that the subquery reads for a row of the query around it.
fn has_single_row(plan: &LogicalPlan) -> Result<bool> {
    plan.has(&is_single_row)
}

fn filters_single_row(plan: &LogicalPlan) -> Result<bool> {
    plan.has(&|node| match node {
        LogicalPlan::Filter(filter) => filter.input.has(&is_single_row),
        _ => Ok(false),
    })
}
