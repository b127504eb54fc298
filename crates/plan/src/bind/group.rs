//! Binds GROUP BY: the keys, the aggregates, and the expressions over them.

use anabranch_model::Error;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result, internal_err};
use datafusion_expr::utils::{find_aggregate_exprs, grouping_set_to_exprlist};
use datafusion_expr::{Expr, lit};
use datafusion_sql::sqlparser::ast::{self as ast, GroupByExpr};

use super::expr::Names;
use super::order::position;
use super::{Binder, Env, Scope};
use crate::origin::{first_span, with_spans, written_at};
use crate::place::{at_span, through};
use crate::rel::{self, Rel};
use crate::walk::Walk;

/// A plan that aggregates.
pub(super) struct Grouped {
    pub(super) plan: Rel,
    /// Each key and each call, with the column that holds its value.
    pub(super) columns: Vec<(Expr, Expr)>,
}

impl Grouped {
    pub(super) fn new(plan: Rel, keys: Vec<Expr>, calls: Vec<Expr>) -> Result<Grouped> {
        let calls = calls.into_iter().map(|call| rel::call(call, plan.columns())).collect::<Result<Vec<_>>>()?;
        let spans: Vec<_> = keys.iter().map(first_span).collect();
        let plan = plan.aggregate(keys, calls.iter().cloned())?;
        let plan = with_spans(plan, &spans)?;
        // Several grouping sets have become one list.
        let Rel::Aggregate(aggregate) = &plan else { return internal_err!("an aggregation is another node") };
        let keys = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().zip(plan.ids());
        let calls = calls.into_iter().map(|(column, call)| (call, column));
        let columns = keys.chain(calls).map(|(expr, column)| (expr, Expr::Column(column))).collect();
        Ok(Grouped { plan, columns })
    }
}

/// Replaces parts of an expression by the columns that hold their values, and keeps the places of these
/// parts.
pub(super) fn rebased(expr: Expr, columns: &[(Expr, Expr)]) -> Result<Expr> {
    if let Some((_, column)) = columns.iter().find(|(known, _)| *known == expr) {
        return Ok(written_at(column.clone(), first_span(&expr)));
    }
    Ok(expr.walk_children(&mut |child| rebased(child, columns).map(Transformed::yes))?.data)
}

/// Refuses a column of `scope` that is no column of the aggregation.
pub(super) fn check_grouped(expr: &Expr, grouped: &Rel, scope: &Scope<'_>) -> Result<()> {
    let mut columns: Vec<&Column> = expr.column_refs().into_iter().collect();
    if let Expr::OuterReferenceColumn(_, column) = expr {
        columns.push(column);
    }
    columns.sort();
    let lost = columns.into_iter().filter(|column| !grouped.columns().has(column));
    let item_of = |column: &Column| scope.items.iter().find(|item| item.column == *column);
    let Some((column, item)) = lost.filter_map(|column| Some((column, item_of(column)?))).next() else {
        return Ok(());
    };
    let name = match &item.table {
        Some(table) => format!("{}.{}", table.own, item.name),
        None => item.name.clone(),
    };
    let error = Error::user(format!("column '{name}' is neither in GROUP BY nor in an aggregate"));
    let error = error.remedy("add it to GROUP BY, or aggregate it, for example MAX(...)");
    Err(through(at_span(error, column.spans.first())))
}

impl Binder<'_> {
    /// `COUNT(*)`.
    pub(super) fn count(&self) -> Result<Expr> {
        match self.functions().aggregate("count") {
            Some(count) => Ok(count.call(vec![lit(1_i64)])),
            None => internal_err!("there is no COUNT"),
        }
    }

    /// The keys of GROUP BY. `None`: the query has no GROUP BY.
    pub(super) fn keys(&self, by: &GroupByExpr, names: &Names<'_>, env: &Env<'_>) -> Result<Option<Vec<Expr>>> {
        let keys = match by {
            GroupByExpr::Expressions(keys, _) => keys,
            GroupByExpr::All(_) => {
                let is_key = |expr: &&Expr| find_aggregate_exprs(std::iter::once(*expr)).is_empty();
                let keys: Vec<Expr> = names.results.iter().map(|(_, expr)| expr).filter(is_key).cloned().collect();
                return Ok(Some(keys));
            }
        };
        if keys.is_empty() {
            return Ok(None);
        }
        let mut bound: Vec<Expr> = Vec::with_capacity(keys.len());
        // Parentheses around several keys are ignored. Empty parentheses mean one group of all rows.
        for key in keys.iter().flat_map(parts) {
            let key = match position(key, names.results.len())? {
                Some(index) => names.results[index].1.clone(),
                None => self.plain(key.clone(), names, env, "GROUP BY")?,
            };
            let key = key.unalias();
            if !bound.contains(&key) {
                bound.push(key);
            }
        }
        Ok(Some(bound))
    }
}

fn parts(key: &ast::Expr) -> Vec<&ast::Expr> {
    match key {
        ast::Expr::Tuple(parts) => parts.iter().collect(),
        ast::Expr::Nested(inner) => parts_of_nested(inner, key),
        key => vec![key],
    }
}

fn parts_of_nested<'k>(inner: &'k ast::Expr, key: &'k ast::Expr) -> Vec<&'k ast::Expr> {
    match inner {
        ast::Expr::Tuple(_) | ast::Expr::Nested(_) => parts(inner),
        _ => vec![key],
    }
}
