//! `RIGHT` and `FULL JOIN ... USING (k)`: the planner would take `k` from the left side, where it is NULL in rows that only
//! the right side has. `SELECT *` has the shared columns first. And where several joins share `k`, it would not know which of the tables it is of.

use std::convert::Infallible;
use std::ops::ControlFlow;

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{
    BinaryOperator, ExceptSelectItem, Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Spanned, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};

use crate::naming::name_of;
use crate::place::at;
use crate::spelling::plain_function;
use crate::walk::{change_expressions, change_syntax};

/// Takes each such column from the side that has it. Refuses queries in which that cannot be said of all of them.
pub(crate) fn rewrite(query: &mut Query) -> Result<()> {
    match change_syntax(query, &mut Rewriting) {
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
                SelectItem::Wildcard(_) => true,
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
        // The library would select a shared column in the place, and with the value, of the table whose name comes first in the alphabet.
        let selects_all = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
        let first = select.from.first().and_then(|tables| name_of(&tables.relation));
        let comes_first =
            |join: &Join| name_of(&join.relation).zip(first.as_ref()).is_none_or(|(name, first)| name < *first);
        let is_moved =
            |join: &&Join| shares(join) || selects_all && (has_using(join) || is_natural(join) && comes_first(join));
        let place = joins().find(is_moved).map(|join| at(join.relation.span().start));
        if place.is_none() && joins().filter(|join| has_using(join)).count() < 2 {
            return ControlFlow::Continue(());
        }
        let mut rewritten = select.clone();
        if rewrite_select(&mut rewritten).is_some() {
            *select = rewritten;
            return ControlFlow::Continue(());
        }
        let error = if joins().any(shares) { refused() } else { all_refused() };
        place.map_or(ControlFlow::Continue(()), |place| ControlFlow::Break(error.at(place)))
    }
}

fn refused() -> Error {
    Error::user("USING and NATURAL of a RIGHT or FULL JOIN are not supported in this query")
        .remedy("write the condition: FULL JOIN b ON a.k = b.k, and select COALESCE(a.k, b.k) AS k")
}

fn all_refused() -> Error {
    Error::user("SELECT * with USING or NATURAL is not supported in this query")
        .remedy("select the columns by their names")
}

fn shares(join: &Join) -> bool {
    use JoinConstraint::{Natural, Using};
    use JoinOperator::{FullOuter, Right, RightOuter};
    matches!(
        &join.join_operator,
        FullOuter(Using(_) | Natural) | Right(Using(_) | Natural) | RightOuter(Using(_) | Natural)
    )
}

fn is_natural(join: &Join) -> bool {
    use JoinOperator::{Inner, Join, Left, LeftOuter};
    let constraint = match &join.join_operator {
        Join(constraint) | Inner(constraint) | Left(constraint) | LeftOuter(constraint) => constraint,
        _ => return false,
    };
    matches!(constraint, JoinConstraint::Natural)
}

fn has_using(join: &Join) -> bool {
    use JoinOperator::{Inner, Join, Left, LeftOuter};
    matches!(
        &join.join_operator,
        Join(JoinConstraint::Using(_))
            | Inner(JoinConstraint::Using(_))
            | Left(JoinConstraint::Using(_))
            | LeftOuter(JoinConstraint::Using(_))
    )
}

/// The columns that joins share.
struct Shared {
    /// Each with its value, those of the last join first.
    values: Vec<(Ident, Expr)>,
    /// The names of the tables, and which of these columns each has.
    tables: Vec<(String, Vec<Ident>)>,
}

/// `None`: tables are listed with commas, one of them has no name, which of them has a column is not known, or a subquery may mean one.
fn rewrite_select(select: &mut Select) -> Option<()> {
    if select.qualify.is_some() {
        return None;
    }
    let [tables] = select.from.as_mut_slice() else { return None };
    let mut shared = Shared { values: Vec::new(), tables: vec![(name_of(&tables.relation)?, Vec::new())] };
    for join in &mut tables.joins {
        shared.join(join)?;
    }
    let value_of = |name: &Ident| shared.value(name);
    let mut is_plain = true;
    let mut settle = |expr: &mut Expr| {
        is_plain &= !matches!(expr, Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. });
        if let Some(value) = identifier(expr).as_ref().and_then(value_of) {
            *expr = value.clone();
        }
    };
    let mut items = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::UnnamedExpr(expr) => match identifier(&expr).filter(|name| value_of(name).is_some()) {
                Some(alias) => items.push(SelectItem::ExprWithAlias { expr, alias }),
                None => items.push(SelectItem::UnnamedExpr(expr)),
            },
            SelectItem::Wildcard(options) if options == WildcardAdditionalOptions::default() => {
                items.extend(shared.all_columns());
            }
            SelectItem::ExprWithAlias { .. } | SelectItem::QualifiedWildcard(..) => items.push(item),
            _ => return None,
        }
    }
    select.projection = items;
    visit(&mut select.projection, &mut settle);
    visit(&mut select.selection, &mut settle);
    visit(&mut select.having, &mut settle);
    visit(&mut select.group_by, &mut settle);
    is_plain.then_some(())
}

impl Shared {
    /// Adds a table, and says by ON what USING says.
    fn join(&mut self, join: &mut Join) -> Option<()> {
        use JoinConstraint::{Natural, Using};
        use JoinOperator::{CrossJoin, FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
        let name = name_of(&join.relation)?;
        let (constraint, keeps_left, keeps_right) = match &mut join.join_operator {
            Join(of) | Inner(of) | CrossJoin(of) => (of, false, false),
            Left(of) | LeftOuter(of) => (of, true, false),
            Right(of) | RightOuter(of) => (of, false, true),
            FullOuter(of) => (of, true, true),
            _ => return None,
        };
        let columns = match constraint {
            Using(columns) => columns.iter().map(|column| column.0.first()?.as_ident().cloned()),
            Natural => return None,
            other => {
                let mut asks = false;
                visit(other, &mut |expr| {
                    asks |= matches!(expr, Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. });
                });
                // Names in it are those of its own tables.
                if asks {
                    return None;
                }
                visit(other, &mut |expr| {
                    if let Some(value) = identifier(expr).as_ref().and_then(|name| self.value(name)) {
                        *expr = value.clone();
                    }
                });
                self.tables.push((name, Vec::new()));
                return Some(());
            }
        };
        let columns: Vec<Ident> = columns.collect::<Option<_>>()?;
        let mut conditions = Vec::new();
        for (place, column) in columns.iter().enumerate() {
            let known = self.values.iter().position(|(of, _)| of.value == column.value);
            let left = match known {
                Some(known) => self.values.remove(known).1,
                None => {
                    // It may be in any of several tables.
                    let [(only, own)] = self.tables.as_mut_slice() else { return None };
                    own.push(column.clone());
                    column_of(only, column)
                }
            };
            let right = column_of(&name, column);
            conditions.push(binary(left.clone(), BinaryOperator::Eq, right.clone()));
            let value = match (keeps_left, keeps_right) {
                (true, true) => plain_function(Ident::new("coalesce"), vec![left, right]),
                (false, true) => right,
                _ => left,
            };
            self.values.insert(place, (column.clone(), value));
        }
        *constraint =
            JoinConstraint::On(conditions.into_iter().reduce(|all, next| binary(all, BinaryOperator::And, next))?);
        self.tables.push((name, columns));
        Some(())
    }

    fn value(&self, name: &Ident) -> Option<&Expr> {
        self.values.iter().find(|(of, _)| of.value == name.value).map(|(_, value)| value)
    }

    /// What `*` selects: the shared columns, then those of each table.
    fn all_columns(&self) -> Vec<SelectItem> {
        let shared =
            |(name, value): &(Ident, Expr)| SelectItem::ExprWithAlias { expr: value.clone(), alias: name.clone() };
        let rest = |(table, own): &(String, Vec<Ident>)| {
            let except = own.split_first().map(|(first, others)| ExceptSelectItem {
                first_element: first.clone(),
                additional_elements: others.to_vec(),
            });
            let name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('`', table))]);
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                WildcardAdditionalOptions { opt_except: except, ..WildcardAdditionalOptions::default() },
            )
        };
        self.values.iter().map(shared).chain(self.tables.iter().map(rest)).collect()
    }
}

pub(crate) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn visit(part: &mut impl VisitMut, each: &mut dyn FnMut(&mut Expr)) {
    let _: ControlFlow<Infallible> = change_expressions(part, &mut |expr| {
        each(expr);
        ControlFlow::Continue(())
    });
}

fn identifier(expr: &Expr) -> Option<Ident> {
    if let Expr::Identifier(name) = expr { Some(name.clone()) } else { None }
}

fn column_of(table: &str, name: &Ident) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::with_quote('`', table), name.clone()])
}
