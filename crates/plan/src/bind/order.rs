//! Binds ORDER BY, LIMIT, OFFSET and FETCH.

use anabranch_model::Error;
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue, not_impl_err};
use datafusion_expr::expr::Sort;
use datafusion_expr::{Expr, ExprSchemable};
use datafusion_sql::sqlparser::ast::{
    self as ast, Fetch, LimitClause, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, SetExpr, Spanned,
};

use super::expr::Names;
use super::{Binder, Env, Scope};
use crate::apply::first_rows;
use crate::origin::{first_span, with_spans};
use crate::place::{at, through};
use crate::rel::{Bounds, Rel, kept};

/// `LIMIT` and `OFFSET`, as they are written.
#[derive(Default)]
struct WrittenBounds {
    skip: Option<ast::Expr>,
    fetch: Option<ast::Expr>,
}

impl WrittenBounds {
    fn new(limit: Option<LimitClause>, fetch: Option<Fetch>) -> Result<WrittenBounds> {
        let bounds = match limit {
            None => WrittenBounds::default(),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
                if let Some(by) = limit_by.first() {
                    let error = Error::user("LIMIT BY is not supported").at(at(by.span().start));
                    return Err(through(
                        error.remedy("number the rows: ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts)"),
                    ));
                }
                WrittenBounds { skip: offset.map(|offset| offset.value), fetch: limit }
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                WrittenBounds { skip: Some(offset), fetch: Some(limit) }
            }
        };
        let Some(fetch) = fetch else { return Ok(bounds) };
        if bounds.fetch.is_some() {
            return Err(through(Error::user("LIMIT and FETCH are in one query").remedy("omit one of them")));
        }
        if fetch.with_ties || fetch.percent || fetch.quantity.is_none() {
            let error = Error::user(format!("{fetch} is not supported"));
            return Err(through(error.remedy("write FETCH FIRST 3 ROWS ONLY")));
        }
        Ok(WrittenBounds { fetch: fetch.quantity, ..bounds })
    }
}

impl Binder<'_> {
    /// A query without WITH.
    pub(super) fn ordered(&self, query: Query, env: &Env<'_>) -> Result<Rel> {
        let Query { body, order_by, limit_clause, fetch, pipe_operators, .. } = query;
        if let Some(operator) = pipe_operators.first() {
            return not_impl_err!("|> {operator}");
        }
        let written = WrittenBounds::new(limit_clause, fetch)?;
        let constant = |bound: &Option<ast::Expr>| bound.clone().map(|bound| self.constant(bound, env)).transpose();
        let (skip, fetch) = (constant(&written.skip)?, constant(&written.fetch)?);
        let first = first_of(skip.as_ref(), fetch.as_ref());
        let order = order_by.map(|order| keys_of(order, &body)).transpose()?.unwrap_or_default();
        let bounds = first.filter(|_| !order.is_empty());
        let plan = match *body {
            SetExpr::Select(select) => self.select(*select, Some((order, bounds)), env)?,
            body => {
                let plan = self.body(body, env)?;
                let items = Scope::items_of(&plan, None);
                let scope = Scope::new(items, None);
                let names = Names::new(&scope);
                let mut keys = Vec::new();
                for key in order {
                    let index = position(&key.expr, scope.items.len())?;
                    let expr = match index {
                        Some(index) => scope.items[index].expr(),
                        None => self.plain(key.expr.clone(), &names, env, "ORDER BY")?,
                    };
                    keys.push(sort(expr, &key)?);
                }
                self.sorted(plan, keys, bounds)?
            }
        };
        match (bounds, &skip, &fetch) {
            (Some(_), ..) | (None, None, None) => Ok(plan),
            _ => Ok(plan.limit(skip, fetch)),
        }
    }

    /// Sorts the rows of a plan, or returns the first rows of the order, which are unsorted.
    pub(super) fn sorted(&self, plan: Rel, keys: Vec<Sort>, first: Option<Bounds>) -> Result<Rel> {
        if keys.is_empty() {
            return Ok(plan);
        }
        let Some(bounds) = first else {
            let spans: Vec<_> = keys.iter().map(|key| first_span(&key.expr)).collect();
            return with_spans(plan.sort(keys), &spans);
        };
        let columns = plan.ids().into_iter().map(kept);
        first_rows(plan, keys, bounds, self.functions())?.project(columns)
    }
}

/// The keys of ORDER BY. `ALL`: the selected columns.
fn keys_of(order: OrderBy, body: &SetExpr) -> Result<Vec<OrderByExpr>> {
    if order.interpolate.is_some() {
        return not_impl_err!("ORDER BY INTERPOLATE");
    }
    match order.kind {
        OrderByKind::Expressions(keys) => Ok(keys),
        OrderByKind::All(options) => {
            let SetExpr::Select(select) = body else { return Ok(Vec::new()) };
            let key = |place: usize| OrderByExpr {
                expr: ast::Expr::value(ast::Value::Number(place.to_string(), false)),
                options,
                with_fill: None,
            };
            Ok((1..=select.projection.len()).map(key).collect())
        }
    }
}

/// The index of the column that a key names by number.
pub(super) fn position(key: &ast::Expr, columns: usize) -> Result<Option<usize>> {
    let ast::Expr::Value(value) = key else { return Ok(None) };
    let ast::Value::Number(number, _) = &value.value else { return Ok(None) };
    match number.parse::<usize>() {
        Ok(place) if (1..=columns).contains(&place) => Ok(Some(place - 1)),
        Ok(_) => {
            let error = Error::user(format!("there is no column {number}: the query gives {columns}"));
            Err(through(error.at(at(value.span.start)).remedy("count the columns from 1, or name one")))
        }
        Err(_) => Ok(None),
    }
}

/// A key of ORDER BY. NULL is the least value, as in Flink.
pub(super) fn sort(expr: Expr, key: &OrderByExpr) -> Result<Sort> {
    if let Some(fill) = &key.with_fill {
        return not_impl_err!("ORDER BY {fill}");
    }
    let OrderByOptions { asc, nulls_first, .. } = key.options;
    let asc = asc.unwrap_or(true);
    Ok(Sort::new(expr, asc, nulls_first.unwrap_or(asc)))
}

/// The bounds, if the query has a LIMIT or FETCH and all bounds are literal numbers.
fn first_of(skip: Option<&Expr>, fetch: Option<&Expr>) -> Option<Bounds> {
    let number = |expr: &Expr| {
        let value = match expr.get_type(&datafusion_common::DFSchema::empty()).ok()? {
            DataType::Int64 => expr.as_literal()?.clone(),
            _ => return None,
        };
        match value {
            ScalarValue::Int64(Some(rows)) => usize::try_from(rows).ok(),
            _ => None,
        }
    };
    let skip = skip.map_or(Some(0), number)?;
    Some(Bounds { skip, fetch: Some(number(fetch?)?) })
}
