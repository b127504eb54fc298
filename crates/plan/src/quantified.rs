//! `x > ALL (SELECT ...)`, `x = ANY (SELECT ...)`, `SOME`, as conditions: the library knows lists, so they become `IN` and `EXISTS`,
//! or compare with the least or the greatest value.
//! And `FETCH FIRST n ROWS ONLY`, which is another word for `LIMIT n`.

use std::convert::Infallible;
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, LimitClause, Query, Select, SelectItem, SetExpr, Spanned, VisitorMut,
};

use crate::place::at;
use crate::spelling::plain_function;
use crate::tuples::rows_where;
use crate::walk::{change_syntax, see_written};

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
            let conditions =
                select.selection.iter_mut().map(|of| (of, false)).chain(select.having.iter_mut().map(|of| (of, true)));
            for (condition, of_groups) in conditions {
                if self.0.is_ok() {
                    self.0 = rewrite_condition(condition, of_groups);
                }
            }
            ControlFlow::Continue(())
        }
    }
    let mut rewriting = Rewriting(Ok(()));
    let _ = change_syntax(query, &mut rewriting);
    rewriting.0?;
    let left = see_written(query, &mut |expr| match expr {
        Expr::AnyOp { .. } | Expr::AllOp { .. } => ControlFlow::Break(expr.clone()),
        _ => ControlFlow::Continue(()),
    });
    match left {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. })
            if !matches!(right.as_ref(), Expr::Subquery(_)) =>
        {
            let error = Error::user("ANY, SOME and ALL compare with a subquery, not with an array");
            Err(error
                .at(at(left.span().start))
                .remedy("write ARRAY_CONTAINS(array, x), or NOT ARRAY_CONTAINS(array, x)"))
        }
        ControlFlow::Break(expr) => {
            let error = Error::user("ANY, SOME and ALL compare with a subquery in a condition of WHERE or HAVING");
            let error = error.at(at(expr.span().start));
            Err(error.remedy("write it there, joined to others by AND: WHERE x > ALL (SELECT ...) AND ..."))
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

/// `of_groups`: aggregates may be compared, which cannot be part of a subquery.
fn rewrite_condition(condition: &mut Expr, of_groups: bool) -> Result<()> {
    let (value, op, right, all) = match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            rewrite_condition(left, of_groups)?;
            return rewrite_condition(right, of_groups);
        }
        Expr::Nested(within) => return rewrite_condition(within, of_groups),
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return Ok(()),
    };
    let Expr::Subquery(rows) = right.as_ref() else { return Ok(()) };
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    *condition = match op {
        Eq if !all => Expr::InSubquery { expr: value.clone(), subquery: rows.clone(), negated: false },
        NotEq if all => Expr::InSubquery { expr: value.clone(), subquery: rows.clone(), negated: true },
        Lt | LtEq if !all => with_extreme(value, op, "MAX", rows)?,
        Gt | GtEq if !all => with_extreme(value, op, "MIN", rows)?,
        Eq | NotEq | Lt | LtEq | Gt | GtEq if of_groups => {
            return Err(Error::user(format!("{op} {} is no condition of HAVING", if all { "ALL" } else { "ANY" }))
                .at(at(value.span().start))
                .remedy(
                    "group in a subquery: FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) WHERE n > ALL (SELECT ...)",
                ));
        }
        Eq | NotEq | Lt | LtEq | Gt | GtEq => compared(value, op, rows, all)?,
        other => {
            return Err(Error::user(format!("{other} does not compare with {}", if all { "ALL" } else { "ANY" }))
                .at(at(value.span().start))
                .remedy("use one of =, <>, <, <=, > and >="));
        }
    };
    Ok(())
}

/// Some row is like that, or no row may be otherwise: one that is NULL may.
fn compared(value: &Expr, op: &BinaryOperator, rows: &Query, all: bool) -> Result<Expr> {
    let subquery = rows_where(rows, 1, |column| {
        let (left, right) = (Box::new(Expr::Nested(Box::new(value.clone()))), Box::new(column(0)));
        let is = Expr::BinaryOp { left, op: op.clone(), right };
        Some(if all { Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(is)))) } else { is })
    })?;
    Ok(Expr::Exists { subquery, negated: all })
}

/// Some row is like that if the least or the greatest is.
fn with_extreme(value: &Expr, op: &BinaryOperator, extreme: &str, rows: &Query) -> Result<Expr> {
    let mut of = None;
    let mut subquery = rows_where(rows, 1, |column| {
        of = Some(column(0));
        None
    })?;
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        let call = plain_function(Ident::new(extreme), of.into_iter().collect());
        select.projection = vec![SelectItem::UnnamedExpr(call)];
    }
    let (left, right) = (Box::new(Expr::Nested(Box::new(value.clone()))), Box::new(Expr::Subquery(subquery)));
    Ok(Expr::BinaryOp { left, op: op.clone(), right })
}
