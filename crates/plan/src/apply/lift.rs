//! Moves the conditions of a subquery that read outer columns to the top of its plan.
//!
//! The plan of the subquery is then the same for all outer rows: for each outer row, the subquery returns the
//! rows of this plan for which the conditions hold. Every step keeps that true for NULL, for duplicates and
//! for empty inputs. Where no step applies, [`super::domain`] is used.

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::expr::Case;
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, lit};

use super::exprs::{substitute, uses};
use super::numbered::{has_one_row, lets_pass, numbered};
use super::{DependentJoin, Interest, columns_read};
use crate::rel::{Distinct, Filter, Limit, Output, Project, Rel, Values, computed, fresh, kept, values_as};
use crate::varying::varies;

/// Name of a column that only conditions read, and of the constant column of a plan that needs no other.
pub(super) const KEY: &str = "$match";
/// Name of the column with the number of a row of VALUES.
const ROW: &str = "$row";

/// Columns, and the expressions that replace them.
pub(super) type Substitutions = Vec<(Column, Expr)>;

/// A subquery whose plan is the same for all outer rows.
pub(super) struct Lifted {
    /// It has the columns of the subquery, except the `deferred` ones, and columns that only conditions read.
    pub(super) plan: Rel,
    /// The conditions that choose the rows for an outer row. They read columns of both sides.
    pub(super) conditions: Vec<Expr>,
    /// Columns of the subquery that read outer columns. They are computed after the join.
    pub(super) deferred: Substitutions,
    /// The subquery has one row for each outer row. An outer row without a match gets these values.
    pub(super) empty: Option<Substitutions>,
}

impl Lifted {
    pub(super) fn new(plan: Rel) -> Self {
        Lifted { plan, conditions: Vec::new(), deferred: Vec::new(), empty: None }
    }

    /// Replaces columns that conditions and deferred columns read.
    fn substitute(&mut self, values: &[(Column, Expr)]) -> Result<()> {
        let deferred = self.deferred.iter_mut().map(|(_, expr)| expr);
        for expr in self.conditions.iter_mut().chain(deferred) {
            *expr = substitute(std::mem::take(expr), values)?;
        }
        Ok(())
    }
}

impl DependentJoin<'_> {
    /// `None`: the conditions cannot be moved.
    pub(super) fn lift(&self, plan: &Rel, interest: Interest) -> Result<Option<Lifted>> {
        if !self.is_correlated(plan)? {
            return Ok(Some(Lifted::new(plan.clone())));
        }
        match plan {
            Rel::Filter(filter) => self.lift_filter(filter, interest),
            Rel::Project(projection) => self.lift_columns(projection, interest),
            // A subquery's rows have no order.
            Rel::Sort(sort) => self.lift(&sort.input, interest),
            Rel::Limit(limit) => self.lift_limit(limit, interest),
            Rel::Distinct(Distinct { input }) => self.lift_distinct(input, interest),
            Rel::Values(values) => self.lift_values(values),
            Rel::Join(join) => self.lift_join(join, interest),
            Rel::Aggregate(aggregate) => self.lift_aggregate(aggregate),
            Rel::Over(window) => self.lift_window(window),
            Rel::Union(union) => self.lift_union(union, interest),
            Rel::Assign(_) | Rel::Unnest(_) | Rel::Copies(_) | Rel::Temporal(_) => self.lift_by_row(plan, interest),
            _ => Ok(None),
        }
    }

    fn lift_filter(&self, filter: &Filter, interest: Interest) -> Result<Option<Lifted>> {
        let Some(mut below) = self.lift(&filter.input, interest.in_filtered_input())? else { return Ok(None) };
        if below.empty.is_some() {
            return Ok(None);
        }
        let mut kept = Vec::new();
        for part in split_conjunction_owned(filter.predicate.clone()) {
            let part = substitute(part, &below.deferred)?;
            if !self.reads_outer(&part)? {
                kept.push(part);
            } else if varies(&part) {
                return Ok(None);
            } else {
                below.conditions.push(part);
            }
        }
        if let Some(kept) = conjunction(kept) {
            below.plan = below.plan.filter(kept)?;
        }
        Ok(Some(below))
    }

    fn lift_columns(&self, projection: &Project, interest: Interest) -> Result<Option<Lifted>> {
        let Some(mut below) = self.lift(&projection.input, interest)? else { return Ok(None) };
        let (mut outputs, mut deferred, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for (expr, column) in projection.exprs.iter().zip(projection.columns.ids()) {
            if let Some(defaults) = &below.empty {
                empty.push((column.clone(), substitute(expr.clone(), defaults)?));
            }
            let is_deferred = self.reads_outer(expr)? || uses(expr, &below.deferred);
            // The caller may copy a moved expression.
            if varies(expr) && (is_deferred || below.empty.is_some()) {
                return Ok(None);
            }
            if is_deferred {
                deferred.push((column, substitute(expr.clone(), &below.deferred)?));
            } else {
                outputs.push((column, expr.clone()));
            }
        }
        below.deferred = deferred;
        add_needed(&mut below, &mut outputs)?;
        if outputs.is_empty() {
            outputs.push(computed(KEY, lit(true)));
        }
        below.plan = below.plan.project(outputs)?;
        below.empty = below.empty.map(|_| empty);
        Ok(Some(below))
    }

    fn lift_limit(&self, limit: &Limit, interest: Interest) -> Result<Option<Lifted>> {
        let Some(bounds) = limit.bounds() else { return Ok(None) };
        if lets_pass(bounds, interest == Interest::Existence || has_one_row(&limit.input)) {
            return self.lift(&limit.input, interest);
        }
        self.lift(&numbered(&limit.input, bounds, self.functions)?, interest)
    }

    fn lift_distinct(&self, input: &Rel, interest: Interest) -> Result<Option<Lifted>> {
        let Some(mut below) = self.lift(input, interest.max(Interest::Values))? else { return Ok(None) };
        if interest >= Interest::Values || below.empty.is_some() {
            return Ok(Some(below));
        }
        let Some((keys, mut conditions)) = self.keys(&below.conditions, below.plan.columns())? else { return Ok(None) };
        let is_deferred = |column: &Column| below.deferred.iter().any(|(known, _)| known == column);
        let columns: Vec<Column> = input.ids().into_iter().filter(|column| !is_deferred(column)).collect();
        // Rows that differ only in a column outside the result could become equal once a deferred column is
        // computed from it.
        let reads_only_result =
            columns_read(below.deferred.iter().map(|(_, expr)| expr)).iter().all(|read| columns.contains(read));
        if !reads_only_result {
            return Ok(None);
        }
        let mut outputs: Vec<Output> = columns.into_iter().map(kept).collect();
        for key in keys {
            let existing = outputs.iter().find(|(_, expr)| *expr == key.inner).map(|(column, _)| column.clone());
            let column = existing.unwrap_or_else(|| column_of(&key.inner));
            conditions.push(key.condition(&column));
            if !outputs.iter().any(|(known, _)| *known == column) {
                outputs.push((column, key.inner));
            }
        }
        if outputs.is_empty() {
            outputs.push(computed(KEY, lit(true)));
        }
        below.plan = below.plan.project(outputs)?.distinct();
        below.conditions = conditions;
        Ok(Some(below))
    }

    /// Numbers the rows of VALUES. A column that reads outer columns becomes a CASE over the number.
    fn lift_values(&self, values: &Values) -> Result<Option<Lifted>> {
        let columns = values.columns.ids();
        let (mut kept, mut deferred) = (Vec::new(), Vec::new());
        for index in 0..columns.len() {
            let exprs: Vec<Expr> = values.rows.iter().filter_map(|row| row.get(index)).cloned().collect();
            if !self.reads_outer_any(&exprs)? {
                kept.push(index);
            } else if exprs.iter().any(varies) {
                return Ok(None);
            } else {
                deferred.push((index, exprs));
            }
        }
        let mut rows = Vec::with_capacity(values.rows.len());
        for (number, row) in (0_i32..).zip(&values.rows) {
            let own = kept.iter().filter_map(|index| row.get(*index)).cloned();
            rows.push(own.chain([lit(number)]).collect());
        }
        let number = fresh(ROW);
        let own = kept.iter().filter_map(|index| columns.get(*index)).chain([&number]);
        let mut lifted = Lifted::new(values_as(rows, own.cloned().collect())?);
        for (index, mut exprs) in deferred {
            let Some(column) = columns.get(index) else { continue };
            let expr = match (exprs.len(), exprs.pop()) {
                (1, Some(only)) => only,
                (_, last) => {
                    let whens = (0_i32..).zip(exprs).map(|(row, expr)| (Box::new(lit(row)), Box::new(expr)));
                    let number = Box::new(Expr::Column(number.clone()));
                    Expr::Case(Case::new(Some(number), whens.collect(), last.map(Box::new)))
                }
            };
            lifted.deferred.push((column.clone(), expr));
        }
        Ok(Some(lifted))
    }

    /// Nodes that process each row of their first input independently.
    fn lift_by_row(&self, node: &Rel, interest: Interest) -> Result<Option<Lifted>> {
        let inputs = node.inputs();
        let Some((first, others)) = inputs.split_first() else { return Ok(None) };
        if !is_by_row(node) || self.reads_outer_any(node.expressions())? {
            return Ok(None);
        }
        for other in others {
            if self.is_correlated(other)? {
                return Ok(None);
            }
        }
        let Some(mut below) = self.lift(first, interest.in_filtered_input())? else { return Ok(None) };
        if below.empty.is_some() || node.expressions().into_iter().any(|expr| uses(expr, &below.deferred)) {
            return Ok(None);
        }
        if let Rel::Copies(_) = node {
            let Some(rows) = with_number_last(&below.plan, &first.ids())? else { return Ok(None) };
            below.plan = rows;
        }
        below.plan = with_first_input(node, below.plan)?.with_types()?;
        Ok(Some(below))
    }
}

/// Adds the columns that conditions and deferred columns still read to a projection.
fn add_needed(below: &mut Lifted, outputs: &mut Vec<Output>) -> Result<()> {
    let mut replaced = Vec::new();
    for column in columns_read(below.conditions.iter().chain(below.deferred.iter().map(|(_, expr)| expr))) {
        let is_there = |(_, expr): &&Output| expr.try_as_col() == Some(&column);
        match outputs.iter().find(is_there).map(|(there, _)| there.clone()) {
            Some(there) if there == column => {}
            Some(there) => replaced.push((column, Expr::Column(there))),
            None => outputs.push(kept(column)),
        }
    }
    below.substitute(&replaced)
}

/// The column for an expression that only conditions read.
pub(super) fn column_of(value: &Expr) -> Column {
    value.try_as_col().cloned().unwrap_or_else(|| fresh(KEY))
}

/// Whether a node processes each row of its first input independently of the other rows.
pub(super) fn is_by_row(node: &Rel) -> bool {
    match node {
        Rel::Assign(assign) => !assign.window.follows_rows(),
        Rel::Unnest(_) | Rel::Copies(_) | Rel::Temporal(_) => true,
        _ => false,
    }
}

/// The node with another plan as its first input. The node's columns stay the same.
pub(super) fn with_first_input(node: &Rel, first: Rel) -> Result<Rel> {
    let mut first = Some(first);
    let changed = node.clone().walk_children(&mut |input| {
        Ok(match first.take() {
            Some(first) => Transformed::yes(first),
            None => Transformed::no(input),
        })
    });
    changed.map(|node| node.data)
}

/// Moves the last one of `columns` behind all other columns of a plan. `None`: the plan does not have it.
pub(super) fn with_number_last(plan: &Rel, columns: &[Column]) -> Result<Option<Rel>> {
    let all = plan.ids();
    let Some(number) = columns.last().filter(|number| all.contains(number)) else { return Ok(None) };
    let columns = all.iter().filter(|column| *column != number).chain([number]).cloned().map(kept);
    plan.clone().project(columns).map(Some)
}
