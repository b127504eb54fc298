//! `(a, b) IN (SELECT x, y ...)` as a condition: the library knows lists of one column, so it becomes an `EXISTS`. And `NOT IN` becomes a
//! `NOT EXISTS`.

use std::convert::Infallible;
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, Select, SetExpr, Spanned, TableFactor, VisitorMut,
};
use datafusion_sql::sqlparser::parser::Parser;

use crate::dialect::AnabranchDialect;
use crate::place::at;
use crate::walk::change_syntax;

/// Name of the rows of the list.
const LISTED: &str = "$listed";

/// Rewrites each such condition of a WHERE. Elsewhere, where a row that is not listed and one that may be are not the same,
/// it stays.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    struct Rewriting(Result<()>);
    impl VisitorMut for Rewriting {
        type Break = Infallible;

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
            if let (Some(condition), Ok(())) = (&mut select.selection, &self.0) {
                self.0 = rewrite_condition(condition);
            }
            ControlFlow::Continue(())
        }
    }
    let mut rewriting = Rewriting(Ok(()));
    let _ = change_syntax(query, &mut rewriting);
    rewriting.0
}

fn rewrite_condition(condition: &mut Expr) -> Result<()> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            rewrite_condition(left)?;
            rewrite_condition(right)
        }
        Expr::Nested(within) => rewrite_condition(within),
        Expr::InSubquery { expr, subquery, negated } => {
            if let Expr::Tuple(values) = expr.as_ref() {
                *condition = exists(values, subquery, *negated)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A query that gives a row for each row of a list of so many columns that satisfies a condition. `condition`: over its columns, by their places.
/// Only they are names of the list there: other names are those of the query around it.
pub(crate) fn rows_where(
    list: &Query,
    columns: usize,
    condition: impl FnOnce(&dyn Fn(usize) -> Expr) -> Option<Expr>,
) -> Result<Box<Query>> {
    let names: Vec<String> = (0..columns).map(|place| format!("`${place}`")).collect();
    let text = format!("SELECT 1 FROM (SELECT 1) AS `{LISTED}` ({})", names.join(", "));
    let mut query = Parser::new(&AnabranchDialect::default())
        .try_with_sql(&text)
        .and_then(|mut parser| parser.parse_query())
        .map_err(|error| Error::internal(error.to_string()).at(at(list.span().start)))?;
    let column = |place: usize| {
        let parts = [LISTED.to_owned(), format!("${place}")];
        Expr::CompoundIdentifier(parts.into_iter().map(|part| Ident::with_quote('`', part)).collect())
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = condition(&column);
        if let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation) {
            **subquery = list.clone();
        }
    }
    Ok(query)
}

/// A row of the list has these values. `negated`: no row of the list has them, or may have them: NULL may be any value.
fn exists(values: &[Expr], list: &Query, negated: bool) -> Result<Expr> {
    let binary = |left: Expr, op: BinaryOperator, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    };
    let equal = |(place, value): (usize, &Expr), column: &dyn Fn(usize) -> Expr| {
        let value = Expr::Nested(Box::new(value.clone()));
        let equal = binary(column(place), BinaryOperator::Eq, value.clone());
        if !negated {
            return equal;
        }
        let are_null = [column(place), value].map(|side| Expr::IsNull(Box::new(side)));
        let may_be = are_null.into_iter().fold(equal, |left, right| binary(left, BinaryOperator::Or, right));
        Expr::Nested(Box::new(may_be))
    };
    let both = |left, right| binary(left, BinaryOperator::And, right);
    let condition =
        |column: &dyn Fn(usize) -> Expr| values.iter().enumerate().map(|value| equal(value, column)).reduce(both);
    let subquery = rows_where(list, values.len(), condition)?;
    Ok(Expr::Exists { subquery, negated })
}
