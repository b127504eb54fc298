//! `RIGHT` and `FULL JOIN ... USING (k)`: the planner would take `k` from the left side, where it is NULL in rows that only
//! the right side has.

use std::convert::Infallible;
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    Distinct, Expr, Ident, Join, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr, Spanned, VisitMut,
    VisitorMut, visit_expressions_mut,
};

use crate::naming::name_of;
use crate::place::at;
use crate::spelling::plain_function;

/// Takes each such column from the side that has it. Refuses queries in which that cannot be said of all of them.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    match query.visit(&mut Rewriting) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewriting;

impl VisitorMut for Rewriting {
    type Break = Error;

    /// ORDER BY may only mean what is selected.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let (Some(order), SetExpr::Select(select)) = (&mut query.order_by, query.body.as_ref()) else {
            return ControlFlow::Continue(());
        };
        let joins = || select.from.iter().flat_map(|tables| &tables.joins);
        let Some(join) = joins().find(|join| shares(join)) else { return ControlFlow::Continue(()) };
        let selected = |name: &Ident| {
            select.projection.iter().any(|item| match item {
                SelectItem::UnnamedExpr(Expr::Identifier(own)) | SelectItem::ExprWithAlias { alias: own, .. } => {
                    own.value == name.value
                }
                _ => false,
            })
        };
        let mut are_selected = true;
        visit(order, &mut |expr| {
            are_selected &= identifier(expr).is_none_or(|name| selected(&name));
        });
        match are_selected {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(refused().at(at(join.relation.span().start))),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let joins = || select.from.iter().flat_map(|tables| &tables.joins);
        let Some(join) = joins().find(|join| shares(join)) else { return ControlFlow::Continue(()) };
        let place = at(join.relation.span().start);
        if rewrite_select(select).is_some() {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(refused().at(place))
    }
}

fn refused() -> Error {
    Error::user("USING and NATURAL of a RIGHT or FULL JOIN are not supported in this query")
        .remedy("write the condition: FULL JOIN b ON a.k = b.k, and select COALESCE(a.k, b.k) AS k")
}

fn shares(join: &Join) -> bool {
    use JoinConstraint::{Natural, Using};
    use JoinOperator::{FullOuter, Right, RightOuter};
    matches!(
        &join.join_operator,
        FullOuter(Using(_) | Natural) | Right(Using(_) | Natural) | RightOuter(Using(_) | Natural)
    )
}

/// `None`: there are more tables than two, one of them has no name, the columns are not named, or a subquery may mean them.
fn rewrite_select(select: &mut Select) -> Option<()> {
    let names_columns_elsewhere =
        select.qualify.is_some() || !select.named_window.is_empty() || matches!(select.distinct, Some(Distinct::On(_)));
    if names_columns_elsewhere {
        return None;
    }
    let [tables] = select.from.as_slice() else { return None };
    let [join] = tables.joins.as_slice() else { return None };
    let sides = [name_of(&tables.relation)?, name_of(&join.relation)?];
    let (JoinOperator::FullOuter(JoinConstraint::Using(columns))
    | JoinOperator::Right(JoinConstraint::Using(columns))
    | JoinOperator::RightOuter(JoinConstraint::Using(columns))) = &join.join_operator
    else {
        return None;
    };
    let names: Option<Vec<String>> =
        columns.iter().map(|column| Some(column.0.first()?.as_ident()?.value.clone())).collect();
    let names = names?;
    let is_shared = |expr: &Expr| matches!(expr, Expr::Identifier(name) if names.contains(&name.value));
    let mut is_plain = true;
    let mut settle = |expr: &mut Expr| {
        is_plain &= !matches!(expr, Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. });
        if let Some(name) = identifier(expr).filter(|name| names.contains(&name.value)) {
            *expr = either(&sides, &name);
        }
    };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) if is_shared(expr) => {
                let alias = identifier(expr)?;
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => {}
            _ => return None,
        }
    }
    visit(&mut select.projection, &mut settle);
    visit(&mut select.selection, &mut settle);
    visit(&mut select.having, &mut settle);
    visit(&mut select.group_by, &mut settle);
    is_plain.then_some(())
}

fn visit(part: &mut impl VisitMut, each: &mut dyn FnMut(&mut Expr)) {
    let _: ControlFlow<Infallible> = visit_expressions_mut(part, |expr| {
        each(expr);
        ControlFlow::Continue(())
    });
}

fn identifier(expr: &Expr) -> Option<Ident> {
    if let Expr::Identifier(name) = expr { Some(name.clone()) } else { None }
}

/// The column of the side that has it.
fn either(sides: &[String; 2], name: &Ident) -> Expr {
    let column = |side: &String| Expr::CompoundIdentifier(vec![Ident::with_quote('`', side.clone()), name.clone()]);
    plain_function(Ident::new("coalesce"), sides.iter().map(column).collect())
}
