//! `x > ALL (SELECT ...)`, `x = ANY (SELECT ...)`, `SOME`, as conditions: by a list, or by the least and the greatest value of the subquery.
//! And `FETCH FIRST n ROWS ONLY`, which is another word for `LIMIT n`.

use std::convert::Infallible;
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, LimitClause, Query, Select, SelectItem, SetExpr, Spanned, TableFactor,
    Value, VisitMut, VisitorMut, visit_expressions, visit_expressions_mut,
};
use datafusion_sql::sqlparser::parser::Parser;

use crate::dialect::AnabranchDialect;
use crate::place::at;
use crate::spelling::plain_function;

/// Names of the rows of the subquery, and of its only column.
const ROWS: &str = "$compared";
const VALUE: &str = "$value";

/// Rewrites each such condition of a WHERE or HAVING. Elsewhere, where one that is false and one that is NULL are not the same, it is refused.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    struct Rewriting(Result<()>);
    impl VisitorMut for Rewriting {
        type Break = Infallible;

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
            if self.0.is_ok() {
                self.0 = limit(query);
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
            for condition in select.selection.iter_mut().chain(&mut select.having) {
                if self.0.is_ok() {
                    self.0 = rewrite_condition(condition);
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut rewriting = Rewriting(Ok(()));
    let _ = query.visit(&mut rewriting);
    rewriting.0?;
    let left = visit_expressions(query, |expr| match expr {
        Expr::AnyOp { .. } | Expr::AllOp { .. } => ControlFlow::Break(expr.clone()),
        _ => ControlFlow::Continue(()),
    });
    match left {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(expr) => {
            Err(Error::user("ANY, SOME and ALL compare with a subquery in a condition of WHERE or HAVING")
                .at(at(expr.span().start))
                .remedy("write it there, joined to others by AND: WHERE x > ALL (SELECT ...) AND ..."))
        }
    }
}

fn limit(query: &mut Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    let offset = match query.limit_clause.take() {
        None => None,
        Some(LimitClause::LimitOffset { limit: None, offset, .. }) => offset,
        Some(_) => return Err(Error::user("LIMIT and FETCH are in one query").remedy("omit one of them")),
    };
    if fetch.with_ties || fetch.percent || fetch.quantity.is_none() {
        return Err(Error::user(format!("{fetch} is not supported")).remedy("write FETCH FIRST 3 ROWS ONLY"));
    }
    query.limit_clause = Some(LimitClause::LimitOffset { limit: fetch.quantity, offset, limit_by: Vec::new() });
    Ok(())
}

fn rewrite_condition(condition: &mut Expr) -> Result<()> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            rewrite_condition(left)?;
            rewrite_condition(right)
        }
        Expr::Nested(within) => rewrite_condition(within),
        Expr::AnyOp { left, compare_op, right, .. } => {
            if let Expr::Subquery(rows) = right.as_ref() {
                *condition = any(left, compare_op, rows)?;
            }
            Ok(())
        }
        Expr::AllOp { left, compare_op, right } => {
            if let Expr::Subquery(rows) = right.as_ref() {
                *condition = all(left, compare_op, rows)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether some row is like that: one that is NULL is not.
fn any(value: &Expr, op: &BinaryOperator, rows: &Query) -> Result<Expr> {
    let than = |of: &str| aggregate(&format!("{of}(`{VALUE}`)"), rows).map(|other| compared(value, op, other));
    match op {
        BinaryOperator::Eq => Ok(in_list(value, rows, false)),
        BinaryOperator::NotEq => Ok(nested(binary(than("MIN")?, BinaryOperator::Or, than("MAX")?))),
        BinaryOperator::Gt | BinaryOperator::GtEq => than("MIN"),
        _ => than("MAX"),
    }
}

/// Whether all rows are like that: there may be none, and none may be NULL.
fn all(value: &Expr, op: &BinaryOperator, rows: &Query) -> Result<Expr> {
    let than = |of: &str| -> Result<Expr> {
        let known = format!("CASE WHEN COUNT(`{VALUE}`) = COUNT(*) THEN {of}(`{VALUE}`) END");
        Ok(compared(value, op, aggregate(&known, rows)?))
    };
    let are = match op {
        BinaryOperator::NotEq => return Ok(in_list(value, rows, true)),
        BinaryOperator::Eq => binary(than("MIN")?, BinaryOperator::And, than("MAX")?),
        BinaryOperator::Gt | BinaryOperator::GtEq => than("MAX")?,
        _ => than("MIN")?,
    };
    // A subquery over a stream gives no row before its first one.
    let zero = || Expr::value(Value::Number("0".to_owned(), false));
    let rows = plain_function(Ident::new("COALESCE"), vec![aggregate("COUNT(*)", rows)?, zero()]);
    Ok(nested(binary(binary(rows, BinaryOperator::Eq, zero()), BinaryOperator::Or, nested(are))))
}

/// An aggregate of the rows, as a value. Where the rows are a column of a plain SELECT, that aggregates: so it may read columns of the query
/// around it.
fn aggregate(of: &str, rows: &Query) -> Result<Expr> {
    let text = format!("SELECT {of} FROM (SELECT 1) AS `{ROWS}` (`{VALUE}`)");
    let mut query = Parser::new(&AnabranchDialect::default())
        .try_with_sql(&text)
        .and_then(|mut parser| parser.parse_query())
        .map_err(|error| Error::internal(error.to_string()).at(at(rows.span().start)))?;
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(Expr::Subquery(query)) };
    if let Some((plain, column)) = plain(rows) {
        let _: ControlFlow<()> = visit_expressions_mut(&mut select.projection, |expr| {
            if matches!(expr, Expr::Identifier(name) if name.value == VALUE) {
                *expr = nested(column.clone());
            }
            ControlFlow::Continue(())
        });
        **select = Select { projection: std::mem::take(&mut select.projection), ..plain.clone() };
    } else if let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation) {
        **subquery = rows.clone();
    }
    Ok(Expr::Subquery(query))
}

/// A SELECT that gives a value for each of its rows.
fn plain(rows: &Query) -> Option<(&Select, &Expr)> {
    let SetExpr::Select(select) = rows.body.as_ref() else { return None };
    let [SelectItem::UnnamedExpr(column) | SelectItem::ExprWithAlias { expr: column, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    let groups = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let is_aggregate = visit_expressions(column, |expr| match expr {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let is_whole = rows.with.is_none() && rows.limit_clause.is_none() && rows.fetch.is_none();
    let is_plain = groups && select.having.is_none() && select.qualify.is_none() && select.distinct.is_none();
    (is_whole && is_plain && is_aggregate.is_continue()).then_some((select, column))
}

fn in_list(value: &Expr, rows: &Query, negated: bool) -> Expr {
    Expr::InSubquery { expr: Box::new(value.clone()), subquery: Box::new(rows.clone()), negated }
}

fn compared(value: &Expr, op: &BinaryOperator, other: Expr) -> Expr {
    binary(nested(value.clone()), op.clone(), other)
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}
