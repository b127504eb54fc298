//! Binds FROM: tables, queries, joins, and relations that depend on the tables before them.

use std::rc::Rc;

use anabranch_model::Error;
use arrow::datatypes::FieldRef;
use datafusion_common::{JoinType, Result, internal_err, not_impl_err};
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast::{
    self as ast, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Spanned, TableAlias, TableFactor, TableVersion,
    TableWithJoins,
};
use datafusion_sql::sqlparser::tokenizer::Location;

use super::select::conjuncts;
use super::subquery::{Pending, outer_of};
use super::{Binder, Env, Item, Names, Scope, TableName};
use crate::databases::joined;
use crate::hints::without_options;
use crate::origin::named_at;
use crate::place::{at, counted, or_start, through};
use crate::rel::{Output, Rel, kept, named};
use crate::temporal_join::plan_temporal_join;
use crate::unnest::{is_unnest, plan_unnest};
use crate::window_table::{check_qualifiers, plan_table_function};

/// Rows, and the columns that a query can name.
pub(crate) struct Rows {
    pub(crate) plan: Rel,
    pub(crate) items: Vec<Item>,
}

impl Rows {
    /// Makes the columns of a padded side of a join nullable.
    pub(crate) fn pad(&mut self) {
        let columns = self.plan.columns();
        for item in &mut self.items {
            if let Some(place) = columns.find(&item.column) {
                item.field = FieldRef::clone(columns.field(place));
            }
        }
    }
}

/// A condition of ON, and the subqueries whose values it reads.
struct OnCondition {
    expr: Expr,
    pending: Vec<Pending>,
    start: Location,
}

/// The kind and the condition of a join.
struct JoinForm<'j> {
    kind: JoinType,
    constraint: &'j JoinConstraint,
}

fn join_form(join: &Join) -> Result<JoinForm<'_>> {
    use JoinOperator as Operator;
    let (kind, constraint) = match &join.join_operator {
        Operator::Join(constraint) | Operator::Inner(constraint) | Operator::CrossJoin(constraint) => {
            (JoinType::Inner, constraint)
        }
        Operator::Left(constraint) | Operator::LeftOuter(constraint) => (JoinType::Left, constraint),
        Operator::Right(constraint) | Operator::RightOuter(constraint) => (JoinType::Right, constraint),
        Operator::FullOuter(constraint) => (JoinType::Full, constraint),
        Operator::LeftSemi(constraint) | Operator::Semi(constraint) => (JoinType::LeftSemi, constraint),
        Operator::LeftAnti(constraint) | Operator::Anti(constraint) => (JoinType::LeftAnti, constraint),
        Operator::RightSemi(constraint) => (JoinType::RightSemi, constraint),
        Operator::RightAnti(constraint) => (JoinType::RightAnti, constraint),
        other => return not_impl_err!("Unsupported JOIN operator {other:?}"),
    };
    Ok(JoinForm { kind, constraint })
}

/// Whether a table is `FOR SYSTEM_TIME AS OF` a time.
pub(crate) fn is_version(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::Table { version: Some(TableVersion::ForSystemTimeAsOf(_)), .. })
}

fn is_lateral(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::Derived { lateral: true, .. })
}

/// Whether a relation may read columns of the tables before it.
fn depends(relation: &TableFactor) -> bool {
    is_unnest(relation) || is_version(relation) || is_lateral(relation)
}

impl Binder<'_> {
    pub(super) fn from(&self, tables: Vec<TableWithJoins>, env: &Env<'_>) -> Result<Rows> {
        let mut all: Option<Rows> = None;
        for table in tables {
            all = Some(self.tables(table, all, env)?);
        }
        let none = || {
            let plan = Rel::one_row();
            Rows { plan, items: Vec::new() }
        };
        Ok(all.unwrap_or_else(none))
    }

    /// Tables with their joins, after the tables before the comma.
    fn tables(&self, table: TableWithJoins, before: Option<Rows>, env: &Env<'_>) -> Result<Rows> {
        let TableWithJoins { relation, joins } = table;
        let Some(before) = before else {
            let first = self.relation(relation, env)?;
            return self.joins(first, joins, env);
        };
        let comma =
            |relation| Join { relation, global: false, join_operator: JoinOperator::CrossJoin(JoinConstraint::None) };
        // A relation that depends on earlier tables is joined with all of them.
        let keeps_right =
            |join: &Join| join_form(join).is_ok_and(|form| matches!(form.kind, JoinType::Right | JoinType::Full));
        let depends = depends(&relation) || joins.iter().any(|join| depends(&join.relation));
        if depends && !joins.iter().any(keeps_right) {
            let first = self.join(before, comma(relation), env)?;
            return self.joins(first, joins, env);
        }
        let first = self.relation(relation, env)?;
        let own = self.joins(first, joins, env)?;
        let plan = before.plan.cross_join(own.plan)?;
        self.both(plan, before.items, own.items)
    }

    fn joins(&self, mut rows: Rows, joins: Vec<Join>, env: &Env<'_>) -> Result<Rows> {
        for join in joins {
            rows = self.join(rows, join, env)?;
        }
        Ok(rows)
    }

    /// The columns of two relations of one FROM.
    pub(crate) fn both_items(&self, left: Vec<Item>, right: Vec<Item>) -> Result<Vec<Item>> {
        let of_left = Scope::new(left, None);
        let of_right = Scope::new(right, None);
        let tables = of_left.tables();
        if let Some(twice) = of_right.tables().iter().find(|table| tables.contains(table)) {
            let name = &twice.own;
            let error = Error::user(format!("two tables of one FROM are called '{name}'"));
            return Err(through(error.remedy(format!("give one another name: FROM {name} AS a, {name} AS b"))));
        }
        Ok(of_left.items.into_iter().chain(of_right.items).collect())
    }

    fn both(&self, plan: Rel, left: Vec<Item>, right: Vec<Item>) -> Result<Rows> {
        Ok(Rows { plan, items: self.both_items(left, right)? })
    }

    pub(crate) fn join(&self, left: Rows, join: Join, env: &Env<'_>) -> Result<Rows> {
        if is_version(&join.relation) {
            let start = join.relation.span().start;
            return plan_temporal_join(left, join, self, env).map_err(|error| or_start(error, start));
        }
        if is_unnest(&join.relation) {
            return plan_unnest(left, &join, self, env);
        }
        if is_lateral(&join.relation) {
            return self.lateral(left, &join, env);
        }
        let right = self.relation(join.relation.clone(), env)?;
        self.join_with(left, right, &join, env)
    }

    /// Joins two relations by the written kind and condition.
    pub(crate) fn join_with(&self, left: Rows, right: Rows, join: &Join, env: &Env<'_>) -> Result<Rows> {
        let JoinForm { kind, constraint } = join_form(join)?;
        let start = join.relation.span().start;
        match constraint {
            JoinConstraint::On(condition) => self.join_on(left, right, kind, condition.clone(), env),
            JoinConstraint::None => {
                let plan = left.plan;
                let plan = match kind {
                    JoinType::Inner => plan.cross_join(right.plan)?,
                    kind => plan.join(right.plan, kind, [])?,
                };
                self.joined(plan, kind, left.items, right.items)
            }
            JoinConstraint::Using(columns) => {
                let names = columns.iter().map(one_name).collect::<Result<Vec<_>>>()?;
                self.join_using(left, right, kind, names, start)
            }
            JoinConstraint::Natural => {
                let visible = |items: &[Item], name: &str| items.iter().any(|item| !item.hidden && item.name == name);
                let common = left.items.iter().filter(|item| !item.hidden && visible(&right.items, &item.name));
                let names: Vec<Ident> = common.map(|item| Ident::with_quote('`', item.name.clone())).collect();
                if names.is_empty() {
                    let plan = left.plan.join(right.plan, kind, [])?;
                    return self.joined(plan, kind, left.items, right.items);
                }
                self.join_using(left, right, kind, names, start)
            }
        }
    }

    /// The columns of a join.
    fn joined(&self, plan: Rel, kind: JoinType, left: Vec<Item>, right: Vec<Item>) -> Result<Rows> {
        match kind {
            JoinType::LeftSemi | JoinType::LeftAnti => Ok(Rows { plan, items: left }),
            JoinType::RightSemi | JoinType::RightAnti => Ok(Rows { plan, items: right }),
            JoinType::Inner => self.both(plan, left, right),
            _ => {
                let mut rows = self.both(plan, left, right)?;
                rows.pad();
                Ok(rows)
            }
        }
    }

    fn join_on(&self, left: Rows, right: Rows, kind: JoinType, on: ast::Expr, env: &Env<'_>) -> Result<Rows> {
        let all = left.items.iter().chain(&right.items).cloned().collect();
        let scope = Scope::new(all, env.outer);
        let names = Names::new(&scope);
        let (mut conditions, mut with_subqueries) = (Vec::new(), Vec::new());
        for condition in conjuncts(on) {
            let mut pending = Vec::new();
            let start = condition.span().start;
            let shown = condition.clone();
            let expr = self.expr(condition, &names, env, &mut pending)?;
            match kind {
                JoinType::Inner if !pending.is_empty() => with_subqueries.push(shown),
                _ => conditions.push(OnCondition { expr, pending, start }),
            }
        }
        let reads = |of: &OnCondition, side: &Rel| of.pending.iter().any(|pending| pending.reads(side));
        let of_both = conditions.iter().find(|of| reads(of, &left.plan) && reads(of, &right.plan));
        if let Some(start) = of_both.map(|of| of.start) {
            return self.join_each(left, right, kind, conditions).map_err(|error| or_start(error, start));
        }
        let (mut left_plan, mut right_plan) = (left.plan, right.plan);
        let mut exprs = Vec::with_capacity(conditions.len());
        for mut of in conditions {
            // The value is joined to the side whose columns the subquery reads.
            let side = if reads(&of, &right_plan) { &mut right_plan } else { &mut left_plan };
            if !of.pending.is_empty() {
                *side = self.join_values(side.clone(), of.pending, &mut [&mut of.expr])?;
            }
            exprs.push(of.expr);
        }
        let plan = left_plan.join(right_plan, kind, exprs)?;
        let mut rows = self.joined(plan, kind, left.items, right.items)?;
        if !with_subqueries.is_empty() {
            let filters =
                with_subqueries.into_iter().map(|part| self.condition(part, &names, env)).collect::<Result<_>>()?;
            rows.plan = self.filtered(rows.plan, filters)?;
        }
        Ok(rows)
    }

    /// An outer join whose condition has a subquery that reads both sides: a dependent join of the preserved
    /// side with the rows of the other side.
    fn join_each(&self, left: Rows, right: Rows, kind: JoinType, conditions: Vec<OnCondition>) -> Result<Rows> {
        let (around, other) = match kind {
            JoinType::Left => (&left.plan, &right.plan),
            JoinType::Right => (&right.plan, &left.plan),
            _ => {
                let error = Error::user("a subquery in ON reads columns of both sides of this join");
                let remedy = "write the LEFT JOIN, and UNION ALL the rows of the right side without a match: WHERE NOT EXISTS (...)";
                return Err(through(error.remedy(remedy)));
            }
        };
        let mut matches = other.clone();
        for OnCondition { mut expr, mut pending, .. } in conditions {
            for operand in pending.iter_mut().flat_map(Pending::operands) {
                *operand = outer_of(std::mem::take(operand), around)?;
            }
            matches = self.join_values(matches, pending, &mut [&mut expr])?;
            matches = matches.filter(outer_of(expr, around)?)?;
        }
        let matches = matches.project(other.ids().into_iter().map(kept))?;
        let pairs = self.apply(around.clone(), matches, JoinType::Left, Vec::new())?;
        let plan = pairs.project(left.plan.ids().into_iter().chain(right.plan.ids()).map(kept))?;
        self.joined(plan, kind, left.items, right.items)
    }

    /// `USING`: the shared columns come first, with the value of the side that has one.
    fn join_using(&self, left: Rows, right: Rows, kind: JoinType, shared: Vec<Ident>, start: Location) -> Result<Rows> {
        let (left_scope, right_scope) = (Scope::new(left.items, None), Scope::new(right.items, None));
        let (mut merged, mut conditions, mut used) = (Vec::new(), Vec::new(), Vec::new());
        for name in shared {
            let of_side = |scope: &Scope<'_>| -> Result<Item> {
                let found = scope.own(std::slice::from_ref(&name))?;
                let place = if name.span.start.line == 0 { start } else { name.span.start };
                let missing = || through(scope.unknown(std::slice::from_ref(&name)).at(at(place)));
                found.map(|found| found.item).ok_or_else(missing)
            };
            let (of_left, of_right) = (of_side(&left_scope)?, of_side(&right_scope)?);
            conditions.push(named_at(of_left.expr(), &name).eq(named_at(of_right.expr(), &name)));
            let (item, value) = match kind {
                JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => (&of_right, of_right.value.clone()),
                JoinType::Full => (&of_left, Some(self.coalesce(vec![of_left.expr(), of_right.expr()])?)),
                _ => (&of_left, of_left.value.clone()),
            };
            merged.push(Item { table: None, value, ..item.clone() });
            used.push(name.value);
        }
        let hide = |item: Item| {
            let hidden = item.hidden || used.contains(&item.name);
            // A column that an earlier USING merged has only its new value.
            (!hidden || item.table.is_some()).then_some(Item { hidden, ..item })
        };
        let plan = left.plan.join(right.plan, kind, conditions)?;
        let [left, right] =
            [left_scope.items, right_scope.items].map(|items| items.into_iter().filter_map(hide).collect());
        let mut rows = self.joined(plan, kind, left, right)?;
        rows.items.splice(0..0, merged);
        Ok(rows)
    }

    /// Binds a LATERAL query, which reads columns of the tables before it.
    fn lateral(&self, left: Rows, join: &Join, env: &Env<'_>) -> Result<Rows> {
        let JoinForm { kind, constraint } = join_form(join)?;
        let start = join.relation.span().start;
        if !matches!(kind, JoinType::Inner | JoinType::Left) {
            let error = Error::user("LATERAL does not support this kind of join").at(at(start));
            return Err(through(error.remedy("use CROSS JOIN LATERAL, or LEFT JOIN LATERAL (...) ON TRUE")));
        }
        let around = Scope::new(left.items.clone(), env.outer);
        let right = self.relation(join.relation.clone(), &env.within(&around))?;
        let all = left.items.iter().chain(&right.items).cloned().collect();
        let scope = Scope::new(all, env.outer);
        let on = match constraint {
            JoinConstraint::None => Vec::new(),
            JoinConstraint::On(condition) if is_true(condition) => Vec::new(),
            JoinConstraint::On(condition) => {
                let bound = |on| self.plain(on, &Names::new(&scope), env, "the condition of LATERAL");
                conjuncts(condition.clone()).into_iter().map(bound).collect::<Result<_>>()?
            }
            _ => {
                let error = Error::user("LATERAL takes a condition with ON").at(at(start));
                return Err(through(error.remedy("write LEFT JOIN LATERAL (...) ON TRUE")));
            }
        };
        let plan = self.apply(left.plan, right.plan, kind, on)?;
        self.joined(plan, kind, left.items, right.items)
    }

    pub(crate) fn relation(&self, relation: TableFactor, env: &Env<'_>) -> Result<Rows> {
        let start = relation.span().start;
        check_qualifiers(&relation).map_err(|error| through(error.at(at(start))))?;
        match relation {
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                let rows = plan_table_function(&name, &args.args, self, env).map_err(|error| or_start(error, start))?;
                self.with_alias(rows, alias, start)
            }
            TableFactor::Table { name, alias, .. } => self.table(&name, alias.as_ref(), env),
            TableFactor::Derived { subquery, alias, .. } => {
                let plan = self.query(*subquery, env)?;
                self.with_alias(Rows { items: Scope::items_of(&plan, None), plan }, alias, start)
            }
            TableFactor::TableFunction { expr: ast::Expr::Function(call), alias } => {
                let Some(args) = super::expr::plain_arguments(&call) else {
                    return not_impl_err!("Unsupported ast node {call} in create_relation");
                };
                let rows = plan_table_function(&call.name, args, self, env).map_err(|error| or_start(error, start))?;
                self.with_alias(rows, alias, start)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let rows = self.tables(*table_with_joins, None, env)?;
                self.with_alias(rows, alias, start)
            }
            relation if is_unnest(&relation) => {
                let one = self.from(Vec::new(), env)?;
                let join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
                plan_unnest(one, &Join { relation, global: false, join_operator }, self, env)
            }
            other => not_impl_err!("Unsupported ast node {other:?} in create_relation"),
        }
    }

    /// A table, a view, or a query of WITH.
    fn table(&self, name: &ObjectName, alias: Option<&TableAlias>, env: &Env<'_>) -> Result<Rows> {
        let start = name.span().start;
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let Some((own, before)) = parts.split_last().filter(|_| parts.len() == name.0.len()) else {
            return Err(through(Error::user(format!("{name} is not the name of a table")).at(at(start))));
        };
        let named = if before.is_empty() { env.named(&own.value) } else { None };
        if before.is_empty() {
            self.check_hint(&own.value, env, start)?;
        }
        let called = without_options(&own.value).unwrap_or(&own.value);
        let (plan, database) = match named {
            Some(plan) => (plan.clone().instance()?, Vec::new()),
            None => {
                let name = joined(parts.iter().map(|part| part.value.as_str()));
                let found = self.planner.relation(&name, start).map_err(|error| through(error.at(at(start))))?;
                let path = self.planner.catalog().databases.path(&name).map_err(through)?;
                (found.instance()?, path.database().map(str::to_owned).into())
            }
        };
        let table = match alias {
            Some(alias) => TableName::alias(&alias.name.value),
            None => Rc::new(TableName { own: called.to_owned(), before: database }),
        };
        self.called(plan, &table, alias, start)
    }

    /// A relation under the name that its alias gives.
    pub(crate) fn with_alias(&self, rows: Rows, alias: Option<TableAlias>, start: Location) -> Result<Rows> {
        let Some(alias) = alias else { return Ok(rows) };
        let table = TableName::alias(&alias.name.value);
        let shown = || rows.items.iter().filter(|item| !item.hidden);
        let names: Vec<&str> = shown().map(|item| item.name.as_str()).collect();
        let outputs = distinct_names(&names).into_iter().zip(shown().map(Item::expr));
        let outputs: Vec<Output> = outputs.map(|(name, expr)| named(&name, expr)).collect();
        let is_same = rows.plan.ids().into_iter().map(kept).eq(outputs.iter().cloned());
        let plan = if is_same { rows.plan } else { rows.plan.project(outputs)? };
        self.called(plan, &table, Some(&alias), start)
    }

    fn called(&self, plan: Rel, table: &Rc<TableName>, alias: Option<&TableAlias>, start: Location) -> Result<Rows> {
        let names: Vec<Ident> =
            alias.iter().flat_map(|alias| &alias.columns).map(|column| column.name.clone()).collect();
        let plan = if names.is_empty() { plan } else { self.renamed(plan, &names, start)? };
        let plan = plan.called(&table.own)?;
        Ok(Rows { items: Scope::items_of(&plan, Some(table)), plan })
    }

    fn coalesce(&self, values: Vec<Expr>) -> Result<Expr> {
        match self.functions().scalar("coalesce") {
            Some(function) => Ok(function.call(values)),
            None => internal_err!("there is no function COALESCE"),
        }
    }

    /// Renames the columns of a plan.
    pub(super) fn renamed(&self, plan: Rel, names: &[Ident], start: Location) -> Result<Rel> {
        let width = plan.width();
        if width != names.len() {
            let error = Error::user(format!(
                "the alias has {}, but there are {}",
                counted(names.len(), "name"),
                counted(width, "column")
            ));
            return Err(through(error.at(at(start)).remedy("name each of them, or none")));
        }
        let columns = plan.ids().into_iter().map(Expr::Column);
        plan.project(names.iter().zip(columns).map(|(name, column)| named(&name.value, column)).collect::<Vec<_>>())
    }
}

fn one_name(name: &ObjectName) -> Result<Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident().cloned().ok_or_else(|| through(Error::user("USING names columns"))),
        _ => {
            let error = Error::user(format!("USING names columns without their tables, not {name}"));
            Err(through(error.at(at(name.span().start))))
        }
    }
}

pub(crate) fn is_true(condition: &ast::Expr) -> bool {
    matches!(condition, ast::Expr::Value(value) if value.value == ast::Value::Boolean(true))
}

/// Makes names unique by appending numbers, as in Flink: `k`, `k0`, `k1`.
pub(crate) fn distinct_names(names: &[&str]) -> Vec<String> {
    let all: std::collections::HashSet<&str> = names.iter().copied().collect();
    let mut seen = std::collections::HashSet::with_capacity(names.len());
    let mut distinct = Vec::with_capacity(names.len());
    for name in names {
        let mut unique = (*name).to_owned();
        let mut number = 0;
        while seen.contains(&unique) || unique != *name && all.contains(unique.as_str()) {
            unique = format!("{name}{number}");
            number += 1;
        }
        seen.insert(unique.clone());
        distinct.push(unique);
    }
    distinct
}
