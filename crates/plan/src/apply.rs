//! A dependent join pairs each row of an outer query with the rows that a correlated subquery returns for it.
//! The plan that [`apply`] returns has no correlation.
//!
//! There are two methods, after Neumann and Kemper, "Unnesting Arbitrary Queries" (BTW 2015):
//!
//! * [`lift`] moves the conditions that read outer columns to the top of the subquery, where they become
//!   conditions of an ordinary join. Most subqueries can be joined so, and nothing is read twice.
//! * [`domain`] computes the subquery once for each distinct combination of the outer values that it reads.
//!   The outer query is read twice.
//!
//! A column of a query further out is a constant here. The dependent join of that query removes it.

mod domain;
mod domain_join;
mod exprs;
mod joined;
mod lift;
mod lift_group;
mod lift_join;
mod numbered;
mod repeated;
mod source;

use std::collections::BTreeSet;

use anabranch_model::Error;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, DataFusionError, JoinType, Result, internal_err};
use datafusion_expr::Expr;

use self::exprs::columns_in;
pub(crate) use self::exprs::substitute;
use self::lift::Lifted;
pub(crate) use self::numbered::{NUMBER, first_rows, has_one_row};
use crate::functions::Functions;
use crate::place::{at_span, through};
use crate::rel::Rel;
use crate::walk::Walk;

/// Joins each row of `left` with the rows that `right` returns for it. `kind`: inner, left, semi or anti.
///
/// `on`: conditions over the columns of both sides. A match satisfies all of them.
///
/// The result has the columns of `left`. An inner and a left join add those of `right`.
pub(crate) fn apply(left: Rel, right: Rel, kind: JoinType, on: Vec<Expr>, functions: &Functions) -> Result<Rel> {
    if !matches!(kind, JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti) {
        return internal_err!("{kind} is no dependent join");
    }
    let join = DependentJoin::new(left, right, functions)?;
    let interest = match kind {
        JoinType::LeftSemi | JoinType::LeftAnti if on.is_empty() => Interest::Existence,
        JoinType::LeftSemi | JoinType::LeftAnti => Interest::Values,
        _ => Interest::Rows,
    };
    if let Some(lifted) = join.lift(&join.subquery, interest)?
        && let Some(joined) = join.join_lifted(lifted, kind, &on)?
    {
        return Ok(joined);
    }
    let rows = join.domain(&join.subquery, interest)?;
    let mut joined = Lifted::new(rows.plan);
    joined.conditions = join.same_values(&rows.domain)?;
    joined.conditions.extend(on);
    let joined = join.join_lifted(joined, kind, &[])?;
    joined.map_or_else(|| internal_err!("the rows of all values can be joined"), Ok)
}

/// Which properties of a plan's rows affect the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Interest {
    /// All rows, with duplicates.
    Rows,
    /// The set of rows, without duplicates.
    Values,
    /// Whether the plan has a row.
    Existence,
}

impl Interest {
    /// The interest in the inputs of a node that passes on only some of their rows.
    fn in_filtered_input(self) -> Self {
        self.min(Interest::Values)
    }
}

/// An outer query and its correlated subquery.
struct DependentJoin<'a> {
    outer: Rel,
    outer_columns: BTreeSet<Column>,
    subquery: Rel,
    /// The outer columns that the subquery reads, without duplicates.
    read: Vec<Column>,
    functions: &'a Functions,
}

impl<'a> DependentJoin<'a> {
    fn new(outer: Rel, subquery: Rel, functions: &'a Functions) -> Result<Self> {
        let outer_columns = outer.ids().into_iter().collect();
        let mut join = DependentJoin { outer, outer_columns, subquery, read: Vec::new(), functions };
        let mut read = Vec::new();
        join.subquery.see(&mut |node| {
            for expr in node.expressions() {
                expr.see(&mut |expr| {
                    if let Some(column) = join.outer_column(expr)
                        && !read.contains(column)
                    {
                        read.push(column.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        join.read = read;
        Ok(join)
    }

    /// The outer column that an expression names.
    fn outer_column<'e>(&self, expr: &'e Expr) -> Option<&'e Column> {
        match expr {
            Expr::OuterReferenceColumn(_, column) if self.outer_columns.contains(column) => Some(column),
            _ => None,
        }
    }

    /// Whether an expression reads outer columns.
    fn reads_outer(&self, expr: &Expr) -> Result<bool> {
        expr.has(&|expr| Ok(self.outer_column(expr).is_some()))
    }

    /// Whether one of several expressions reads outer columns.
    fn reads_outer_any<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> Result<bool> {
        exprs.into_iter().try_fold(false, |reads, expr| Ok(reads || self.reads_outer(expr)?))
    }

    /// Whether a plan reads outer columns.
    fn is_correlated(&self, plan: &Rel) -> Result<bool> {
        plan.has(&|node| self.reads_outer_any(node.expressions()))
    }

    /// Replaces the outer columns that an expression reads.
    fn replace_outer(&self, expr: Expr, column_of: &dyn Fn(&Column) -> Column) -> Result<Expr> {
        let changed = expr.walk_up(&mut |expr| {
            Ok(match self.outer_column(&expr) {
                Some(column) => Transformed::yes(Expr::Column(column_of(column))),
                None => Transformed::no(expr),
            })
        })?;
        Ok(changed.data)
    }

    /// The expression over the columns of both sides of a join.
    fn over_both(&self, expr: Expr) -> Result<Expr> {
        self.replace_outer(expr, &Column::clone)
    }

    /// The error for a subquery that cannot be joined.
    fn unsupported(&self) -> DataFusionError {
        self.refused("this subquery reads columns of the outer query in a place that is not supported")
    }

    fn refused(&self, why: &str) -> DataFusionError {
        let error = Error::user(why).remedy("join the tables in the outer query");
        through(at_span(error, self.read.iter().find_map(|column| column.spans.first())))
    }
}

/// The columns that expressions read.
fn columns_read<'e>(exprs: impl Iterator<Item = &'e Expr>) -> BTreeSet<Column> {
    exprs.flat_map(columns_in).collect()
}

#[cfg(test)]
mod tests;
