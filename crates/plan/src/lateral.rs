//! `FROM a, LATERAL (SELECT ... FROM b WHERE b.k = a.k ORDER BY x LIMIT 3)`: the first rows of a subquery for each row before it. Where conditions with
//! `=` say of which rows these are, it is a join with all rows of the subquery, numbered by what is compared. The library has no such join.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion_sql::sqlparser::ast::{
    BinaryOperator, ExceptSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, LimitClause,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, TableWithJoins, Value, VisitMut, VisitorMut, WildcardAdditionalOptions,
    WindowSpec, WindowType,
};
use datafusion_sql::sqlparser::parser::Parser;

use crate::dialect::AnabranchDialect;
use crate::naming::{name_of, tables_of};
use crate::shared_columns::binary;
use crate::spelling::plain_function;
use crate::walk::{change_expressions, change_syntax, see_written};

/// How the names of columns begin that such a join needs.
const HIDDEN: &str = "$lateral";

/// A column that only such a join needs, with the name of the subquery that has got it.
struct Hidden {
    table: String,
    column: Ident,
}

/// Makes joins of such subqueries.
pub(crate) fn rewrite(query: &mut Query) {
    struct Rewriting;
    impl VisitorMut for Rewriting {
        type Break = Infallible;

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
            let mut hidden = Vec::new();
            for tables in std::mem::take(&mut select.from) {
                add(tables, &mut select.from, &mut hidden);
            }
            hide(&mut select.projection, &hidden);
            ControlFlow::Continue(())
        }
    }
    let _ = change_syntax(query, &mut Rewriting);
}

/// Adds tables that a comma separates from those before. A subquery becomes a join with them.
fn add(mut tables: TableWithJoins, from: &mut Vec<TableWithJoins>, hidden: &mut Vec<Hidden>) {
    let mut outer: Vec<String> = from.iter().flat_map(tables_of).collect();
    // Behind a comma, what the others keep of their sides is not of the tables before.
    let keeps_right = |join: &Join| {
        use JoinOperator::{FullOuter, Right, RightOuter};
        matches!(join.join_operator, FullOuter(_) | Right(_) | RightOuter(_))
    };
    let condition = match tables.joins.iter().any(keeps_right) {
        true => None,
        false => decorrelate(&mut tables.relation, &outer, hidden),
    };
    outer.extend(name_of(&tables.relation));
    for join in &mut tables.joins {
        if says_nothing(&join.join_operator)
            && let Some(condition) = decorrelate(&mut join.relation, &outer, hidden)
        {
            let on = JoinConstraint::On(condition);
            join.join_operator = match join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => JoinOperator::LeftOuter(on),
                _ => JoinOperator::Inner(on),
            };
        }
        outer.extend(name_of(&join.relation));
    }
    let Some(condition) = condition else {
        from.push(tables);
        return;
    };
    let joined = |relation, join_operator| Join { relation, global: false, join_operator };
    let mut before = std::mem::take(from).into_iter();
    let Some(mut all) = before.next() else { return };
    for other in before {
        all.joins.push(joined(other.relation, JoinOperator::CrossJoin(JoinConstraint::None)));
        all.joins.extend(other.joins);
    }
    all.joins.push(joined(tables.relation, JoinOperator::Inner(JoinConstraint::On(condition))));
    all.joins.extend(tables.joins);
    from.push(all);
}

/// Whether a join takes all rows: `CROSS JOIN`, or `LEFT JOIN ... ON TRUE`.
fn says_nothing(operator: &JoinOperator) -> bool {
    use JoinOperator::{CrossJoin, Inner, Join, Left, LeftOuter};
    let (CrossJoin(of) | Join(of) | Inner(of) | Left(of) | LeftOuter(of)) = operator else { return false };
    match of {
        JoinConstraint::On(Expr::Value(value)) => value.value == Value::Boolean(true),
        JoinConstraint::None => true,
        _ => false,
    }
}

/// Makes a subquery one that means no table before it, and returns the condition that then joins it with these. `None`: it stays as it is.
fn decorrelate(relation: &mut TableFactor, outer: &[String], hidden: &mut Vec<Hidden>) -> Option<Expr> {
    let TableFactor::Derived { lateral: lateral @ true, subquery, alias, .. } = relation else { return None };
    let mut query = subquery.clone();
    let keyed = Keyed::of(&mut query, outer, hidden.len())?;
    let name = || Ident::with_quote('`', format!("{HIDDEN} {}", hidden.len()));
    let alias = alias.get_or_insert_with(|| TableAlias { explicit: true, name: name(), columns: Vec::new(), at: None });
    let own = keyed.own.iter().map(|own| Expr::CompoundIdentifier(vec![alias.name.clone(), own.clone()]));
    let equal = own.zip(keyed.outer).map(|(own, outer)| binary(own, BinaryOperator::Eq, outer));
    let condition = equal.reduce(|all, next| binary(all, BinaryOperator::And, next))?;
    // In the order in which the subquery has got them.
    let added: Vec<Ident> = std::iter::once(keyed.number).chain(keyed.own).collect();
    if !alias.columns.is_empty() {
        alias.columns.extend(added.iter().cloned().map(|name| TableAliasColumnDef { name, data_type: None }));
    }
    hidden.extend(added.into_iter().map(|column| Hidden { table: alias.name.value.clone(), column }));
    (**subquery, *lateral) = (*query, false);
    Some(condition)
}

/// What a subquery has in common with the tables before it.
struct Keyed {
    /// Expressions over the tables before.
    outer: Vec<Expr>,
    /// The columns that the subquery has got, which are equal to these.
    own: Vec<Ident>,
    /// The column that numbers its rows.
    number: Ident,
}

impl Keyed {
    /// Takes the conditions from a subquery, and gives it columns instead. `first`: the number of the first of them.
    fn of(query: &mut Query, outer: &[String], first: usize) -> Option<Keyed> {
        let Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, .. }) = query.limit_clause.take() else {
            return None;
        };
        let OrderByKind::Expressions(order) = query.order_by.take()?.kind else { return None };
        let SetExpr::Select(select) = query.body.as_mut() else { return None };
        let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
        let is_plain = select.distinct.is_none() && !is_grouped && select.having.is_none();
        // A function over rows has those of one key alone.
        if query.with.is_some() || !is_plain || has_over(&mut select.projection) {
            return None;
        }
        let inner: Vec<String> = select.from.iter().flat_map(tables_of).collect();
        let names = Names { outer, inner: &inner };
        let (mut keys, mut rest) = (Vec::new(), Vec::new());
        for mut condition in conjuncts(select.selection.take()?) {
            match names.equal_to_outer(&mut condition) {
                Some(pair) => keys.push(pair),
                None => rest.push(condition),
            }
        }
        select.selection = rest.into_iter().reduce(|all, next| binary(all, BinaryOperator::And, next));
        let mut all = Expr::Tuple(keys.iter().map(|(own, _)| own.clone()).collect());
        if keys.is_empty() || names.mean_outer(&mut **select) || names.mean_outer(&mut all) {
            return None;
        }
        let hidden = |number: usize| Ident::with_quote('`', format!("{HIDDEN} column {number}"));
        let (by, outer): (Vec<Expr>, Vec<Expr>) = keys.into_iter().unzip();
        let own: Vec<Ident> = (first..first + by.len()).map(hidden).collect();
        let number = hidden(first + own.len());
        number_rows(select, &by, order, &number)?;
        add_columns(select, &own, by);
        let inside = std::mem::replace(query, bounded(&number, &limit)?);
        let SetExpr::Select(outside) = query.body.as_mut() else { return None };
        if let Some(TableFactor::Derived { subquery, .. }) = outside.from.first_mut().map(|of| &mut of.relation) {
            **subquery = inside;
        }
        Some(Keyed { outer, own, number })
    }
}

fn add_columns(select: &mut Select, names: &[Ident], values: Vec<Expr>) {
    let named = |(expr, alias): (Expr, &Ident)| SelectItem::ExprWithAlias { expr, alias: alias.clone() };
    select.projection.extend(values.into_iter().zip(names).map(named));
}

/// Adds the numbers of rows among those with the same keys. The order may name what is selected, or give its place.
fn number_rows(select: &mut Select, by: &[Expr], mut order: Vec<OrderByExpr>, name: &Ident) -> Option<()> {
    for sort in &mut order {
        if let Expr::Value(place) = &sort.expr {
            let Value::Number(place, _) = &place.value else { return None };
            let place: usize = place.to_string().parse().ok()?;
            let of_item = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
                _ => None,
            };
            // None of the columns before may be those of `*`.
            let before: Option<Vec<Expr>> = select.projection.get(..place)?.iter().map(of_item).collect();
            sort.expr = before?.pop()?;
            continue;
        }
        let of_name = |item: &SelectItem| match (item, &sort.expr) {
            (SelectItem::ExprWithAlias { expr, alias }, Expr::Identifier(name)) if alias.value == name.value => {
                Some(expr.clone())
            }
            _ => None,
        };
        if let Some(selected) = select.projection.iter().find_map(of_name) {
            sort.expr = selected;
        }
    }
    let mut number = plain_function(Ident::new("ROW_NUMBER"), Vec::new());
    if let Expr::Function(call) = &mut number {
        let window = WindowSpec { window_name: None, partition_by: by.to_vec(), order_by: order, window_frame: None };
        call.over = Some(WindowType::WindowSpec(window));
    }
    add_columns(select, std::slice::from_ref(name), vec![number]);
    Some(())
}

/// `SELECT * FROM (...) WHERE number <= limit`.
fn bounded(number: &Ident, limit: &Expr) -> Option<Query> {
    let text = format!("SELECT * FROM (SELECT 1) AS `{HIDDEN}` WHERE {number} <= {limit}");
    let dialect = AnabranchDialect::default();
    let parser = Parser::new(&dialect).try_with_sql(&text);
    parser.and_then(|mut parser| parser.parse_query()).ok().map(|query| *query)
}

/// Whether a function over rows is selected.
fn has_over(projection: &mut Vec<SelectItem>) -> bool {
    change_expressions(projection, &mut |expr| match expr {
        Expr::Function(call) if call.over.is_some() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The names of tables that a subquery may mean.
struct Names<'a> {
    outer: &'a [String],
    inner: &'a [String],
}

impl Names<'_> {
    fn is_outer(&self, expr: &Expr) -> bool {
        let Expr::CompoundIdentifier(parts) = expr else { return false };
        parts.first().is_some_and(|of| self.outer.contains(&of.value) && !self.inner.contains(&of.value))
    }

    fn mean_outer(&self, tree: &mut impl VisitMut) -> bool {
        change_expressions(tree, &mut |expr| match self.is_outer(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
        .is_break()
    }

    fn mean_inner(&self, expr: &Expr) -> bool {
        let is_inner = |expr: &Expr| match expr {
            Expr::Identifier(_) | Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => true,
            Expr::CompoundIdentifier(_) => !self.is_outer(expr),
            _ => false,
        };
        see_written(expr, &mut |expr| if is_inner(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            .is_break()
    }

    /// Both sides of `own = outer`.
    fn equal_to_outer(&self, condition: &mut Expr) -> Option<(Expr, Expr)> {
        let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return None };
        for _ in 0..2 {
            if !self.mean_inner(right) && self.mean_outer(&mut **right) && !self.mean_outer(&mut **left) {
                return Some(((**left).clone(), (**right).clone()));
            }
            std::mem::swap(left, right);
        }
        None
    }
}

/// The parts of a condition that AND joins.
fn conjuncts(condition: Expr) -> Vec<Expr> {
    let (mut open, mut found) = (vec![condition], Vec::new());
    while let Some(next) = open.pop() {
        match next {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => open.extend([*right, *left]),
            Expr::Nested(inner) => open.push(*inner),
            other => found.push(other),
        }
    }
    found
}

/// `*` gives the columns of the user.
fn hide(projection: &mut [SelectItem], hidden: &[Hidden]) {
    for item in projection {
        let (table, options) = match item {
            SelectItem::Wildcard(options) => (None, options),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                (name.0.last().and_then(|part| part.as_ident()), options)
            }
            _ => continue,
        };
        let of_table = |of: &&Hidden| table.is_none_or(|table| table.value == of.table);
        let mut columns = hidden.iter().filter(of_table).map(|of| of.column.clone());
        if let (Some(first_element), true) = (columns.next(), *options == WildcardAdditionalOptions::default()) {
            options.opt_except = Some(ExceptSelectItem { first_element, additional_elements: columns.collect() });
        }
    }
}
