//! Binds SELECT.

use std::collections::HashSet;

use anabranch_model::Error;
use datafusion_common::{Column, Result, Span};
use datafusion_expr::utils::{conjunction, find_aggregate_exprs, find_window_exprs};
use datafusion_expr::{Expr, SortExpr};
use datafusion_sql::sqlparser::ast::{self as ast, BinaryOperator, Distinct, GroupByExpr, OrderByExpr, Select};

use super::expr::Names;
use super::from::Rows;
use super::group::{Grouped, check_grouped, rebased};
use super::group_window::{GroupWindow, name_columns};
use super::order::{position, sort};
use super::results::{ResultSpans, Results};
use super::subquery::{Form, Pending};
use super::windows::check_windows;
use super::{Binder, Env, Scope};
use crate::origin::{or_at, span_of, with_spans};
use crate::place::{at, through};
use crate::rel::{self, Bounds, Output, Rel, computed, kept, named};

/// The operands of AND.
pub(super) fn conjuncts(condition: ast::Expr) -> Vec<ast::Expr> {
    let (mut open, mut found) = (vec![condition], Vec::new());
    while let Some(next) = open.pop() {
        match next {
            ast::Expr::BinaryOp { left, op: BinaryOperator::And, right } => open.extend([*right, *left]),
            ast::Expr::Nested(inner) => open.push(*inner),
            ast::Expr::UnaryOp { op: ast::UnaryOperator::Not, expr } => found.push(negated(*expr)),
            other => found.push(other),
        }
    }
    found
}

/// Turns `NOT (EXISTS ...)` and `NOT (x IN ...)` into `NOT EXISTS` and `NOT IN`.
fn negated(expr: ast::Expr) -> ast::Expr {
    match expr {
        ast::Expr::Nested(inner) if matches!(*inner, ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. }) => {
            negated(*inner)
        }
        ast::Expr::Exists { subquery, negated } => ast::Expr::Exists { subquery, negated: !negated },
        ast::Expr::InSubquery { expr, subquery, negated } => {
            ast::Expr::InSubquery { expr, subquery, negated: !negated }
        }
        expr => ast::Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(expr) },
    }
}

/// A condition that has been bound.
pub(super) enum Condition {
    /// An expression, the subqueries whose values it reads, and its place.
    Expr { expr: Expr, values: Vec<Pending>, span: Option<Span> },
    /// A subquery that filters the rows, and the subqueries whose values its operands read.
    Subquery { subquery: Box<Pending>, values: Vec<Pending> },
}

impl Condition {
    /// The expressions that the condition evaluates on the rows.
    fn exprs(&mut self) -> Vec<&mut Expr> {
        let (mut exprs, values) = match self {
            Condition::Expr { expr, values, .. } => (vec![expr], values),
            Condition::Subquery { subquery, values } => (subquery.operands(), values),
        };
        exprs.extend(values.iter_mut().flat_map(Pending::operands));
        exprs
    }

    /// The subqueries whose values the condition reads.
    fn values(&mut self) -> &mut Vec<Pending> {
        match self {
            Condition::Expr { values, .. } | Condition::Subquery { values, .. } => values,
        }
    }

    fn pending(&self) -> impl Iterator<Item = &Pending> {
        let (own, values) = match self {
            Condition::Expr { values, .. } => (None, values),
            Condition::Subquery { subquery, values } => (Some(subquery.as_ref()), values),
        };
        own.into_iter().chain(values)
    }
}

/// The results of SELECT, with HAVING, QUALIFY and ORDER BY.
#[derive(Default)]
struct Selected {
    results: Results,
    spans: ResultSpans,
    having: Vec<Condition>,
    qualify: Vec<Condition>,
    sorts: Vec<SortExpr>,
    /// The subqueries whose values the results read.
    pending: Vec<Pending>,
}

impl Selected {
    /// The expressions of the results, the conditions and the sort keys.
    fn exprs(&mut self) -> Vec<&mut Expr> {
        let of_results = self.results.iter_mut().map(|(_, expr)| expr);
        let of_sorts = self.sorts.iter_mut().map(|sort| &mut sort.expr);
        let conditions = self.having.iter_mut().chain(&mut self.qualify);
        of_results.chain(of_sorts).chain(conditions.flat_map(Condition::exprs)).collect()
    }

    /// The calls of aggregates or of window functions, without duplicates.
    fn calls(&mut self, find: fn(Vec<&Expr>) -> Vec<Expr>) -> Vec<Expr> {
        let mut pending = std::mem::take(&mut self.pending);
        let exprs = self.exprs().into_iter().chain(pending.iter_mut().flat_map(Pending::operands));
        let found = find(exprs.map(|expr| &*expr).collect());
        self.pending = pending;
        let mut seen = HashSet::new();
        found.into_iter().filter(|call| seen.insert(call.clone())).collect()
    }

    /// Removes the subqueries whose values these expressions read, and returns them.
    fn read_by<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr>) -> Vec<Pending> {
        let mut read: HashSet<Column> = exprs.flat_map(Expr::column_refs).cloned().collect();
        // A subquery in the operand of another one precedes it.
        for pending in self.pending.iter_mut().rev() {
            if read.contains(&pending.column) {
                let operands: Vec<Column> =
                    pending.operands().iter().flat_map(|expr| expr.column_refs()).cloned().collect();
                read.extend(operands);
            }
        }
        let of_conditions = self.having.iter_mut().chain(&mut self.qualify).map(Condition::values);
        let mut before = Vec::new();
        for pending in std::iter::once(&mut self.pending).chain(of_conditions) {
            before.extend(pending.extract_if(.., |subquery| read.contains(&subquery.column)));
        }
        before
    }
}

impl Binder<'_> {
    /// `order`: the keys, and the bounds on the number of rows.
    pub(super) fn select(
        &self,
        select: Select,
        order: Option<(Vec<OrderByExpr>, Option<Bounds>)>,
        env: &Env<'_>,
    ) -> Result<Rel> {
        refuse(&select)?;
        check_windows(&select.named_window).map_err(through)?;
        let Select { distinct, mut projection, from, selection, mut group_by, mut having, qualify, .. } = select;
        let has_tables = !from.is_empty();
        let Rows { mut plan, items } = self.from(from, env)?;
        let mut scope = env.scope(items);
        if let Some(condition) = selection {
            let conditions = self.bound(Some(condition), &Names::new(&scope), env)?;
            check_no_aggregate(&conditions)?;
            plan = self.filtered(plan, conditions)?;
        }
        if let GroupByExpr::Expressions(keys, _) = &mut group_by
            && let Some(window) = GroupWindow::extract(keys).map_err(through)?
        {
            projection.iter_mut().for_each(|item| window.name_item(item));
            having.iter_mut().for_each(|having| name_columns(having, &window));
            let rows = self.group_window(Rows { plan, items: scope.items }, window, keys, env)?;
            plan = rows.plan;
            scope = env.scope(rows.items);
        }
        let mut selected = Selected::default();
        let names = Names { windows: &select.named_window, ..Names::new(&scope) };
        let (results, spans) = self.results(projection, &names, env, &mut selected.pending, has_tables)?;
        let values: Vec<_> = selected.pending.iter().map(Pending::value).collect();
        let after = Names { results: &results, values: &values, ..names };
        let keys = self.keys(&group_by, &after, env)?;
        selected.having = self.bound(having, &after, env)?;
        selected.qualify = self.bound(qualify, &after, env)?;
        let (order, first) = order.unwrap_or_default();
        let by = Names { results_first: true, ..after };
        for key in &order {
            let expr = match position(&key.expr, results.len())? {
                Some(index) => results[index].1.clone(),
                None => self.plain(key.expr.clone(), &by, env, "ORDER BY")?,
            };
            selected.sorts.push(sort(expr, key)?);
        }
        (selected.results, selected.spans) = (results, spans);
        let calls = selected.calls(|exprs| find_aggregate_exprs(exprs));
        if keys.is_some() || !calls.is_empty() || !selected.having.is_empty() {
            plan = self.grouped(plan, keys.unwrap_or_default(), calls, &mut selected, &scope)?;
        }
        let plan = self.over_rows(plan, &mut selected)?;
        let is_distinct = matches!(distinct, Some(Distinct::Distinct));
        let Selected { results, spans, sorts, .. } = selected;
        self.projected(plan, (results, &spans), is_distinct, sorts, first)
    }

    /// Aggregates, and applies HAVING. The selected expressions then read the aggregate's columns.
    fn grouped(
        &self,
        mut plan: Rel,
        mut keys: Vec<Expr>,
        mut calls: Vec<Expr>,
        selected: &mut Selected,
        scope: &Scope<'_>,
    ) -> Result<Rel> {
        if keys.is_empty() && calls.is_empty() {
            // One group of all rows.
            calls.push(self.count()?);
        }
        let before = selected.read_by(calls.iter().chain(&keys));
        let mut exprs = selected.exprs();
        exprs.extend(keys.iter_mut().chain(&mut calls));
        plan = self.join_values(plan, before, &mut exprs)?;
        let groups = Grouped::new(plan, keys, calls)?;
        let mut pending = std::mem::take(&mut selected.pending);
        for expr in selected.exprs().into_iter().chain(pending.iter_mut().flat_map(Pending::operands)) {
            *expr = rebased(std::mem::take(expr), &groups.columns)?;
            check_grouped(expr, &groups.plan, scope)?;
        }
        let conditions = selected.having.iter().chain(&selected.qualify);
        for outer in conditions.flat_map(Condition::pending).chain(&pending).flat_map(Pending::outer) {
            check_grouped(&outer, &groups.plan, scope)?;
        }
        selected.pending = pending;
        plan = groups.plan;
        let having: Vec<Expr> =
            selected.having.iter_mut().flat_map(Condition::exprs).map(|expr| expr.clone()).collect();
        let before = selected.read_by(having.iter());
        plan = self.join_values(plan, before, &mut selected.exprs())?;
        let having = std::mem::take(&mut selected.having);
        self.filtered(plan, having)
    }

    /// Adds the values of subqueries and window functions, and applies QUALIFY.
    fn over_rows(&self, mut plan: Rel, selected: &mut Selected) -> Result<Rel> {
        let pending = std::mem::take(&mut selected.pending);
        plan = self.join_values(plan, pending, &mut selected.exprs())?;
        let calls = selected.calls(|exprs| find_window_exprs(exprs));
        if calls.is_empty() && !selected.qualify.is_empty() {
            let error = Error::user("QUALIFY needs a window function in the query");
            return Err(through(error.remedy("write the condition after WHERE or HAVING")));
        }
        if !calls.is_empty() {
            let calls = calls.into_iter().map(|call| rel::call(call, plan.columns())).collect::<Result<Vec<_>>>()?;
            let columns = calls.iter().map(|(column, call)| (call.clone(), Expr::Column(column.clone())));
            let columns: Vec<(Expr, Expr)> = columns.collect();
            plan = plan.over_all(calls)?;
            for expr in selected.exprs() {
                *expr = rebased(std::mem::take(expr), &columns)?;
            }
        }
        self.filtered(plan, std::mem::take(&mut selected.qualify))
    }

    /// Projects, removes duplicates and sorts.
    fn projected(
        &self,
        plan: Rel,
        (results, spans): (Results, &[Option<Span>]),
        distinct: bool,
        mut sorts: Vec<SortExpr>,
        first: Option<Bounds>,
    ) -> Result<Rel> {
        let mut outputs: Vec<Output> = results.into_iter().map(|(name, expr)| named(&name, expr.unalias())).collect();
        let columns = outputs.iter().map(|(column, expr)| (expr.clone(), Expr::Column(column.clone())));
        let columns: Vec<(Expr, Expr)> = columns.collect();
        let given: HashSet<Column> = outputs.iter().map(|(column, _)| column.clone()).collect();
        let width = outputs.len();
        for sort in &mut sorts {
            let rebased_key = rebased(sort.expr.clone().unalias(), &columns)?;
            if rebased_key.column_refs().into_iter().all(|column| given.contains(column)) {
                sort.expr = rebased_key;
                continue;
            }
            if distinct {
                let error = Error::user("ORDER BY of SELECT DISTINCT reads a column that is not selected");
                return Err(through(error.remedy("select it too, or omit DISTINCT")));
            }
            let hidden = match std::mem::take(&mut sort.expr) {
                Expr::Column(column) => kept(column),
                expr => computed(&format!("$order_{}", outputs.len() - width), expr),
            };
            sort.expr = Expr::Column(hidden.0.clone());
            if !outputs.contains(&hidden) {
                outputs.push(hidden);
            }
        }
        let shown: Vec<Output> = outputs[..width].iter().map(|(column, _)| kept(column.clone())).collect();
        let has_hidden = outputs.len() > width;
        let rows = with_spans(plan.project(outputs)?, spans)?;
        let rows = if distinct { rows.distinct() } else { rows };
        let plan = self.sorted(rows, sorts, first)?;
        if has_hidden { plan.project(shown) } else { Ok(plan) }
    }

    /// Binds the operands of AND in a condition.
    pub(super) fn bound(
        &self,
        condition: Option<ast::Expr>,
        names: &Names<'_>,
        env: &Env<'_>,
    ) -> Result<Vec<Condition>> {
        let parts = condition.into_iter().flat_map(conjuncts);
        parts.map(|part| self.condition(part, names, env)).collect()
    }

    pub(super) fn condition(&self, part: ast::Expr, names: &Names<'_>, env: &Env<'_>) -> Result<Condition> {
        let mut values = Vec::new();
        let span = span_of(&part);
        let is_choice = matches!(
            part,
            ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } | ast::Expr::AnyOp { .. } | ast::Expr::AllOp { .. }
        );
        let expr = self.expr(part, names, env, &mut values)?;
        // The whole condition is the value of the last subquery.
        let is_last = |last: &Pending| is_choice && expr.try_as_col() == Some(&last.column);
        match values.pop_if(|last| is_last(last) && !matches!(last.form, Form::Value)) {
            Some(subquery) => Ok(Condition::Subquery { subquery: Box::new(subquery), values }),
            None => Ok(Condition::Expr { expr, values, span }),
        }
    }

    /// Filters the rows by conditions.
    pub(super) fn filtered(&self, mut plan: Rel, conditions: Vec<Condition>) -> Result<Rel> {
        let (mut plain, mut rest) = (Vec::new(), Vec::new());
        for condition in conditions {
            match condition {
                Condition::Expr { expr, values, span } if values.is_empty() => plain.push(or_at(expr, span)?),
                other => rest.push(other),
            }
        }
        let plain = conjunction(plain);
        if let Some(condition) = &plain {
            plan = plan.filter(condition.clone())?;
        }
        let chooses = rest.iter().any(|condition| matches!(condition, Condition::Subquery { .. }));
        for condition in rest {
            match condition {
                Condition::Expr { mut expr, values, span } => {
                    plan = self.join_values(plan, values, &mut [&mut expr])?;
                    plan = plan.filter(or_at(expr, span)?)?;
                }
                Condition::Subquery { mut subquery, values } => {
                    plan = self.join_values(plan, values, &mut subquery.operands())?;
                    plan = self.filter_by_subquery(plan, *subquery)?;
                }
            }
        }
        // A plain condition on the keys of a semi join also holds for the rows of its other side. So it is
        // repeated above the semi joins, from where the optimizer can move it into those sides.
        match plain.filter(|condition| chooses && !condition.is_volatile()) {
            Some(condition) => plan.filter(condition),
            None => Ok(plan),
        }
    }
}

fn check_no_aggregate(conditions: &[Condition]) -> Result<()> {
    let exprs = conditions.iter().filter_map(|condition| match condition {
        Condition::Expr { expr, .. } => Some(expr),
        Condition::Subquery { .. } => None,
    });
    match find_aggregate_exprs(exprs).is_empty() {
        true => Ok(()),
        false => Err(through(Error::user("an aggregate is in WHERE").remedy("write the condition after HAVING"))),
    }
}

const FIRST_ROW: &str = "take the first row of each key: SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM t) \
     WHERE n = 1";

/// Refuses clauses of other databases.
fn refuse(select: &Select) -> Result<()> {
    let clauses = [
        (matches!(select.distinct, Some(Distinct::On(_))), "DISTINCT ON", Some(FIRST_ROW)),
        (!select.connect_by.is_empty(), "CONNECT BY", Some("join the table with itself, once for each step")),
        (!select.cluster_by.is_empty(), "CLUSTER BY", None),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY", None),
        (!select.lateral_views.is_empty(), "LATERAL VIEW", None),
        (select.top.is_some(), "TOP", None),
        (!select.sort_by.is_empty(), "SORT BY", None),
        (select.into.is_some(), "SELECT INTO", None),
        (select.prewhere.is_some(), "PREWHERE", None),
        (select.value_table_mode.is_some(), "SELECT AS", None),
    ];
    match clauses.into_iter().find(|(is_there, ..)| *is_there) {
        Some((_, clause, remedy)) => {
            let error = Error::user(format!("{clause} is not supported")).at(at(select.select_token.0.span.start));
            Err(through(remedy.into_iter().fold(error, Error::remedy)))
        }
        None => Ok(()),
    }
}
