//! GROUP BY: the keys, the aggregates, and what names them afterwards.

use std::collections::HashSet;

use anabranch_model::Error;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result, internal_err};
use datafusion_expr::utils::{find_aggregate_exprs, grouping_set_to_exprlist};
use datafusion_expr::{Expr, lit};
use datafusion_sql::sqlparser::ast::{self as ast, GroupByExpr};

use super::expr::Names;
use super::order::position;
use super::{Binder, Env, Scope};
use crate::logical_text::with_plain_constants;
use crate::origin::{first_span, with_spans, written_at};
use crate::place::{at_span, through};
use crate::rel::Rel;
use crate::walk::Walk;

/// An aggregation, and the columns that its keys and calls have become.
pub(super) struct Grouped {
    pub(super) plan: Rel,
    pub(super) columns: Vec<(Expr, Expr)>,
}

impl Grouped {
    pub(super) fn of(plan: Rel, keys: Vec<Expr>, calls: Vec<Expr>) -> Result<Grouped> {
        let mut names: HashSet<String> = HashSet::new();
        let keys = keys.into_iter().map(|key| key_named(key.unalias(), &mut names)).collect::<Result<Vec<_>>>()?;
        let count = calls.len();
        let (calls, _) = unique_calls(calls, &names);
        let spans: Vec<_> = keys.iter().map(first_span).collect();
        let plan = plan.aggregate(keys, calls.clone())?;
        let plan = with_spans(plan, &spans)?;
        // Several groupings have become one list.
        let Rel::Aggregate(aggregate) = &plan else { return internal_err!("an aggregation is another node") };
        let listed: Vec<Expr> = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
        let outputs = plan.ids();
        let of_calls = outputs.len() - count;
        let of = |expr: Expr, column: &Column| (expr.unalias(), Expr::Column(column.clone()));
        let keys = listed.into_iter().zip(&outputs).map(|(key, column)| of(key, column));
        let calls = calls.into_iter().zip(&outputs[of_calls..]).map(|(call, column)| of(call, column));
        let columns = keys.chain(calls).collect();
        Ok(Grouped { plan, columns })
    }
}

/// A key under a name that says what is computed, whatever its tables are called: state is known by it.
fn key_named(key: Expr, names: &mut HashSet<String>) -> Result<Expr> {
    if let Expr::GroupingSet(sets) = &key {
        names.extend(sets.distinct_expr().into_iter().map(|key| key.schema_name().to_string()));
        return Ok(key);
    }
    if let Expr::Column(column) = &key {
        names.insert(column.flat_name());
        return Ok(key);
    }
    let plain = key.clone().walk_up(&mut |expr| match expr {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
        expr => Ok(Transformed::no(expr)),
    })?;
    let name = with_plain_constants(&plain.data.to_string());
    Ok(key.alias(unique_name(name, names)))
}

fn unique_name(name: String, names: &mut HashSet<String>) -> String {
    if names.insert(name.clone()) {
        return name;
    }
    let mut number = 2;
    while !names.insert(format!("{name}_{number}")) {
        number += 1;
    }
    format!("{name}_{number}")
}

/// The calls, with aliases where two would have one name, and the columns that they become.
pub(super) fn unique_calls(calls: Vec<Expr>, taken: &HashSet<String>) -> (Vec<Expr>, Vec<(Expr, Expr)>) {
    let mut names = taken.clone();
    // The library calls a cast what it calls its operand.
    let named = |call: Expr| {
        let own = call.schema_name().to_string();
        let name = unique_name(own.clone(), &mut names);
        if name == own { call } else { call.alias(name) }
    };
    let calls: Vec<Expr> = calls.into_iter().map(named).collect();
    let column = |call: &Expr| {
        let name = call.schema_name().to_string();
        (call.clone().unalias(), Expr::Column(Column::new_unqualified(name)))
    };
    let columns = calls.iter().map(column).collect();
    (calls, columns)
}

/// An expression over the columns that parts of it have become, where these parts are written.
pub(super) fn rebased(expr: Expr, columns: &[(Expr, Expr)]) -> Result<Expr> {
    if let Some((_, column)) = columns.iter().find(|(of, _)| *of == expr) {
        return Ok(written_at(column.clone(), first_span(&expr)));
    }
    Ok(expr.walk_children(&mut |child| rebased(child, columns).map(Transformed::yes))?.data)
}

/// Refuses a column of `scope` that an aggregation does not give.
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
    /// The number of rows.
    pub(super) fn count(&self) -> Result<Expr> {
        match self.functions().aggregate("count") {
            Some(count) => Ok(count.call(vec![lit(1_i64)])),
            None => internal_err!("there is no COUNT"),
        }
    }

    /// The keys. `None`: the query has no GROUP BY.
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
        // Parentheses around several keys mean nothing, and those around none mean one group of all rows.
        for key in keys.iter().flat_map(parts) {
            let key = match position(key, names.results.len())? {
                Some(place) => names.results[place].1.clone(),
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
