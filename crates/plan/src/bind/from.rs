//! Binds FROM: tables, queries, joins, and relations that read columns of the relations before them.

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
use crate::place::{at, counted, or_start, same_name, through};
use crate::rel::{Output, Rel, kept, named};
use crate::temporal_join::plan_temporal_join;
use crate::unnest::{is_unnest, plan_unnest};
use crate::window_table::{check_qualifiers, plan_table_function};

/// A bound relation: its plan, and the columns that a query can name.
pub(crate) struct Rows {
    pub(crate) plan: Rel,
    pub(crate) items: Vec<Item>,
}

impl Rows {
    /// Copies the fields of the columns from the plan again. An outer join makes columns nullable.
    pub(crate) fn refresh_fields(&mut self) {
        let columns = self.plan.columns();
        for item in &mut self.items {
            if let Some(index) = columns.find(&item.column) {
                item.field = FieldRef::clone(columns.field(index));
            }
        }
    }
}

/// A bound condition of ON, and the subqueries whose values it reads.
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
        _ => return not_impl_err!("{join}"),
    };
    Ok(JoinForm { kind, constraint })
}

/// Whether a relation is a table with `FOR SYSTEM_TIME AS OF`.
pub(crate) fn is_version(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::Table { version: Some(TableVersion::ForSystemTimeAsOf(_)), .. })
}

/// Whether a relation is `LATERAL (SELECT ...)`.
fn is_lateral(relation: &TableFactor) -> bool {
    matches!(relation, TableFactor::Derived { lateral: true, .. })
}

/// Whether a relation can read columns of the relations before it.
fn depends(relation: &TableFactor) -> bool {
    is_unnest(relation) || is_version(relation) || is_lateral(relation)
}

impl Binder<'_> {
    /// Binds FROM. Without tables it gives one row without columns.
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

    /// Binds a relation of FROM with its joins. `before`: the relations before the comma.
    fn tables(&self, table: TableWithJoins, before: Option<Rows>, env: &Env<'_>) -> Result<Rows> {
        let TableWithJoins { relation, joins } = table;
        let Some(before) = before else {
            let first = self.relation(relation, env)?;
            return self.joins(first, joins, env);
        };
        let comma =
            |relation| Join { relation, global: false, join_operator: JoinOperator::CrossJoin(JoinConstraint::None) };
        // A relation that can read columns of earlier relations is joined with all of them. But a RIGHT or
        // FULL JOIN applies only to the relations after the comma, so these are joined first.
        let preserves_right =
            |join: &Join| join_form(join).is_ok_and(|form| matches!(form.kind, JoinType::Right | JoinType::Full));
        let depends = depends(&relation) || joins.iter().any(|join| depends(&join.relation));
        if depends && !joins.iter().any(preserves_right) {
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

    /// The columns of two relations of one FROM. Their tables must have different names.
    pub(crate) fn both_items(&self, left: Vec<Item>, right: Vec<Item>) -> Result<Vec<Item>> {
        let (left, right) = (Scope::new(left, None), Scope::new(right, None));
        let tables = left.tables();
        if let Some(twice) = right.tables().iter().find(|table| tables.contains(table)) {
            return Err(through(same_name(&twice.own)));
        }
        Ok(left.items.into_iter().chain(right.items).collect())
    }

    fn both(&self, plan: Rel, left: Vec<Item>, right: Vec<Item>) -> Result<Rows> {
        Ok(Rows { plan, items: self.both_items(left, right)? })
    }

    /// Binds a relation, and joins it with the relations before it.
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
            JoinConstraint::None => self.join_unconditionally(left, right, kind),
            JoinConstraint::Using(columns) => {
                let names = columns.iter().map(one_name).collect::<Result<Vec<_>>>()?;
                self.join_using(left, right, kind, names, start)
            }
            JoinConstraint::Natural => {
                let visible = |items: &[Item], name: &str| items.iter().any(|item| !item.hidden && item.name == name);
                let common = left.items.iter().filter(|item| !item.hidden && visible(&right.items, &item.name));
                let names: Vec<Ident> = common.map(|item| Ident::with_quote('`', item.name.clone())).collect();
                match names.is_empty() {
                    true => self.join_unconditionally(left, right, kind),
                    false => self.join_using(left, right, kind, names, start),
                }
            }
        }
    }

    fn join_unconditionally(&self, left: Rows, right: Rows, kind: JoinType) -> Result<Rows> {
        let plan = left.plan.join(right.plan, kind, [])?;
        self.joined(plan, kind, left.items, right.items)
    }

    /// The plan of a join, with the columns that a query can name: those of both sides, or of the kept side
    /// of a semi or anti join.
    fn joined(&self, plan: Rel, kind: JoinType, left: Vec<Item>, right: Vec<Item>) -> Result<Rows> {
        match kind {
            JoinType::LeftSemi | JoinType::LeftAnti => Ok(Rows { plan, items: left }),
            JoinType::RightSemi | JoinType::RightAnti => Ok(Rows { plan, items: right }),
            JoinType::Inner => self.both(plan, left, right),
            JoinType::Left | JoinType::Right | JoinType::Full | JoinType::LeftMark | JoinType::RightMark => {
                let mut rows = self.both(plan, left, right)?;
                rows.refresh_fields();
                Ok(rows)
            }
        }
    }

    /// Joins two relations by ON.
    ///
    /// A condition of an inner join with a subquery is bound twice. The first binding finds the subquery. The
    /// second one binds the condition as a filter of the pairs, because EXISTS or IN as a filter becomes a
    /// semi join. In another join, the subquery's value is joined to one side, and the condition reads it.
    fn join_on(&self, left: Rows, right: Rows, kind: JoinType, on: ast::Expr, env: &Env<'_>) -> Result<Rows> {
        let all = left.items.iter().chain(&right.items).cloned().collect();
        let scope = Scope::new(all, env.outer);
        let names = Names::new(&scope);
        let (mut conditions, mut with_subqueries) = (Vec::new(), Vec::new());
        for condition in conjuncts(on) {
            let mut pending = Vec::new();
            let start = condition.span().start;
            let unbound = condition.clone();
            let expr = self.expr(condition, &names, env, &mut pending)?;
            match kind {
                JoinType::Inner if !pending.is_empty() => with_subqueries.push(unbound),
                _ => conditions.push(OnCondition { expr, pending, start }),
            }
        }
        let reads = |condition: &OnCondition, side: &Rel| condition.pending.iter().any(|pending| pending.reads(side));
        let reads_both = |condition: &&OnCondition| reads(condition, &left.plan) && reads(condition, &right.plan);
        let of_both = conditions.iter().find(reads_both);
        if let Some(start) = of_both.map(|condition| condition.start) {
            return self.join_each(left, right, kind, conditions).map_err(|error| or_start(error, start));
        }
        let (mut left_plan, mut right_plan) = (left.plan, right.plan);
        let mut exprs = Vec::with_capacity(conditions.len());
        for mut condition in conditions {
            // The value is joined to the side whose columns the subquery reads.
            let side = if reads(&condition, &right_plan) { &mut right_plan } else { &mut left_plan };
            if !condition.pending.is_empty() {
                *side = self.join_values(side.clone(), condition.pending, &mut [&mut condition.expr])?;
            }
            exprs.push(condition.expr);
        }
        let plan = left_plan.join(right_plan, kind, exprs)?;
        let mut rows = self.joined(plan, kind, left.items, right.items)?;
        if !with_subqueries.is_empty() {
            let bound = |condition| self.condition(condition, &names, env);
            let filters = with_subqueries.into_iter().map(bound).collect::<Result<_>>()?;
            rows.plan = self.filtered(rows.plan, filters)?;
        }
        Ok(rows)
    }

    /// A LEFT or RIGHT JOIN with a subquery in ON that reads both sides. It becomes a lateral outer join: it
    /// joins each row of the preserved side with the rows of the other side that satisfy the conditions.
    fn join_each(&self, left: Rows, right: Rows, kind: JoinType, conditions: Vec<OnCondition>) -> Result<Rows> {
        let (preserved, other) = match kind {
            JoinType::Left => (&left.plan, &right.plan),
            JoinType::Right => (&right.plan, &left.plan),
            _ => return Err(through(reads_both_sides(kind))),
        };
        let mut matches = other.clone();
        for OnCondition { mut expr, mut pending, .. } in conditions {
            for operand in pending.iter_mut().flat_map(Pending::operands) {
                *operand = outer_of(std::mem::take(operand), preserved)?;
            }
            matches = self.join_values(matches, pending, &mut [&mut expr])?;
            matches = matches.filter(outer_of(expr, preserved)?)?;
        }
        let matches = matches.project(other.ids().into_iter().map(kept))?;
        let pairs = self.apply(preserved.clone(), matches, JoinType::Left, Vec::new())?;
        let plan = pairs.project(left.plan.ids().into_iter().chain(right.plan.ids()).map(kept))?;
        self.joined(plan, kind, left.items, right.items)
    }

    /// Joins two relations by equal values of shared columns (USING, NATURAL). The shared columns come first.
    /// Their values are those of the preserved side, or after a FULL JOIN those of the side that has a row.
    fn join_using(&self, left: Rows, right: Rows, kind: JoinType, shared: Vec<Ident>, start: Location) -> Result<Rows> {
        let (left_scope, right_scope) = (Scope::new(left.items, None), Scope::new(right.items, None));
        let (mut merged, mut conditions, mut used) = (Vec::new(), Vec::new(), Vec::new());
        for name in shared {
            let item_of = |scope: &Scope<'_>| -> Result<Item> {
                let found = scope.own(std::slice::from_ref(&name))?;
                let place = if name.span.start.line == 0 { start } else { name.span.start };
                let missing = || through(scope.unknown(std::slice::from_ref(&name)).at(at(place)));
                found.map(|found| found.item).ok_or_else(missing)
            };
            let (left_item, right_item) = (item_of(&left_scope)?, item_of(&right_scope)?);
            conditions.push(named_at(left_item.expr(), &name).eq(named_at(right_item.expr(), &name)));
            let (item, value) = match kind {
                JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => (&right_item, right_item.value.clone()),
                JoinType::Full => (&left_item, Some(self.coalesce(vec![left_item.expr(), right_item.expr()])?)),
                _ => (&left_item, left_item.value.clone()),
            };
            merged.push(Item { table: None, value, ..item.clone() });
            used.push(name.value);
        }
        let hide = |item: Item| {
            let hidden = item.hidden || used.contains(&item.name);
            // The new shared column replaces that of an earlier USING.
            (!hidden || item.table.is_some()).then_some(Item { hidden, ..item })
        };
        let plan = left.plan.join(right.plan, kind, conditions)?;
        let [left, right] =
            [left_scope.items, right_scope.items].map(|items| items.into_iter().filter_map(hide).collect());
        let mut rows = self.joined(plan, kind, left, right)?;
        rows.items.splice(0..0, merged);
        Ok(rows)
    }

    /// Binds a LATERAL query, and joins it with the relations before it. It can read their columns.
    fn lateral(&self, left: Rows, join: &Join, env: &Env<'_>) -> Result<Rows> {
        let JoinForm { kind, constraint } = join_form(join)?;
        let start = join.relation.span().start;
        if !matches!(kind, JoinType::Inner | JoinType::Left) {
            let error = Error::user("LATERAL does not support this kind of join").at(at(start));
            return Err(through(error.remedy("use CROSS JOIN LATERAL, or LEFT JOIN LATERAL (...) ON TRUE")));
        }
        let left_scope = Scope::new(left.items.clone(), env.outer);
        let right = self.relation(join.relation.clone(), &env.within(&left_scope))?;
        let all = left.items.iter().chain(&right.items).cloned().collect();
        let scope = Scope::new(all, env.outer);
        let on = match constraint {
            JoinConstraint::None => Vec::new(),
            JoinConstraint::On(condition) if is_true(condition) => Vec::new(),
            JoinConstraint::On(condition) => {
                let bound = |on| self.plain(on, &Names::new(&scope), env, "the condition of LATERAL");
                conjuncts(condition.clone()).into_iter().map(bound).collect::<Result<_>>()?
            }
            JoinConstraint::Using(_) | JoinConstraint::Natural => {
                let error = Error::user("LATERAL takes a condition in ON, and neither USING nor NATURAL").at(at(start));
                return Err(through(error.remedy("compare the columns in ON: JOIN LATERAL (...) AS b ON a.id = b.id")));
            }
        };
        let plan = self.apply(left.plan, right.plan, kind, on)?;
        self.joined(plan, kind, left.items, right.items)
    }

    /// Binds a relation of FROM without its joins.
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
                    return not_impl_err!("TABLE({call}) in FROM");
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
            other => not_impl_err!("{other} in FROM"),
        }
    }

    /// A table, a view, or a query of WITH.
    fn table(&self, name: &ObjectName, alias: Option<&TableAlias>, env: &Env<'_>) -> Result<Rows> {
        let start = name.span().start;
        let idents: Vec<&Ident> = name.0.iter().filter_map(ast::ObjectNamePart::as_ident).collect();
        let Some((own, before)) = idents.split_last().filter(|_| idents.len() == name.0.len()) else {
            return Err(through(Error::user(format!("{name} is not the name of a table")).at(at(start))));
        };
        let named = if before.is_empty() { env.named(&own.value) } else { None };
        if before.is_empty() {
            self.check_hint(&own.value, env, start)?;
        }
        let base_name = without_options(&own.value).unwrap_or(&own.value);
        let (plan, database) = match named {
            Some(plan) => (plan.clone().instance()?, Vec::new()),
            None => {
                let name = joined(idents.iter().map(|ident| ident.value.as_str()));
                let found = self.planner.relation(&name, start).map_err(|error| through(error.at(at(start))))?;
                let path = self.planner.catalog().databases.path(&name).map_err(through)?;
                (found.instance()?, path.database().map(str::to_owned).into())
            }
        };
        let table = match alias {
            Some(alias) => TableName::alias(&alias.name.value),
            None => Rc::new(TableName { own: base_name.to_owned(), before: database }),
        };
        self.called(plan, &table, alias, start)
    }

    /// The relation under its alias, with the visible columns only and with distinct names. Without an alias
    /// it is unchanged.
    pub(crate) fn with_alias(&self, rows: Rows, alias: Option<TableAlias>, start: Location) -> Result<Rows> {
        let Some(alias) = alias else { return Ok(rows) };
        let table = TableName::alias(&alias.name.value);
        let visible = || rows.items.iter().filter(|item| !item.hidden);
        let names: Vec<&str> = visible().map(|item| item.name.as_str()).collect();
        let outputs = distinct_names(&names).into_iter().zip(visible().map(Item::expr));
        let outputs: Vec<Output> = outputs.map(|(name, expr)| named(&name, expr)).collect();
        let is_same = rows.plan.ids().into_iter().map(kept).eq(outputs.iter().cloned());
        let plan = if is_same { rows.plan } else { rows.plan.project(outputs)? };
        self.called(plan, &table, Some(&alias), start)
    }

    /// The plan as a table of this name, with the column names of the alias.
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

    /// Renames the columns of a plan to those that an alias or a query of WITH lists.
    pub(super) fn renamed(&self, plan: Rel, names: &[Ident], start: Location) -> Result<Rel> {
        let width = plan.width();
        if width != names.len() {
            let error = Error::user(format!(
                "the alias has {}, but the relation has {}",
                counted(names.len(), "name"),
                counted(width, "column")
            ));
            return Err(through(error.at(at(start)).remedy("name every column, or none")));
        }
        let columns = plan.ids().into_iter().map(Expr::Column);
        plan.project(names.iter().zip(columns).map(|(name, column)| named(&name.value, column)).collect::<Vec<_>>())
    }
}

/// The error for a subquery in ON that reads both sides. Only INNER, LEFT and RIGHT JOIN support it.
fn reads_both_sides(kind: JoinType) -> Error {
    let remedy = match kind {
        JoinType::Full => {
            "write a LEFT JOIN, and add the unmatched right rows: UNION ALL SELECT ... WHERE NOT EXISTS (...)"
        }
        JoinType::LeftSemi | JoinType::RightSemi => {
            "replace the join by a condition: WHERE EXISTS (SELECT 1 FROM t WHERE ...)"
        }
        JoinType::LeftAnti | JoinType::RightAnti => {
            "replace the join by a condition: WHERE NOT EXISTS (SELECT 1 FROM t WHERE ...)"
        }
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::LeftMark | JoinType::RightMark => {
            return Error::internal(format!("a subquery in ON reads both sides of a {kind} join"));
        }
    };
    Error::user("a subquery in ON reads columns of both sides of this join").remedy(remedy)
}

/// The column that USING names.
fn one_name(name: &ObjectName) -> Result<Ident> {
    let column = match name.0.as_slice() {
        [only] => only.as_ident().cloned(),
        _ => None,
    };
    column.ok_or_else(|| {
        let error = Error::user(format!("USING takes names of columns without their tables, not {name}"));
        through(error.at(at(name.span().start)))
    })
}

/// Whether a condition is the literal TRUE.
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
