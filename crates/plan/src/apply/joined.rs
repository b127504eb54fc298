//! Joins an outer query with the rows of a subquery whose plan no longer reads outer columns.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, ExprSchema, JoinType, Result, ScalarValue, internal_err};
use datafusion_expr::expr::Case;
use datafusion_expr::utils::conjunction;
use datafusion_expr::{Expr, lit};

use super::DependentJoin;
use super::exprs::{is_null, same, substitute};
use super::lift::{Lifted, Substitutions};
use crate::rel::{Columns, Output, Rel, fresh, kept, name_of};
use crate::varying::varies;
use crate::walk::Walk;

/// Name of the column that is NULL in rows without a match.
const FOUND: &str = "$found";

impl DependentJoin<'_> {
    /// Joins the outer query with the rows of a subquery. `None`: a join with these conditions is not
    /// possible.
    pub(super) fn join_lifted(&self, lifted: Lifted, kind: JoinType, on: &[Expr]) -> Result<Option<Rel>> {
        if lifted.empty.is_some() && kind == JoinType::Left && !on.is_empty() {
            return Ok(None);
        }
        let value = |column: Column| match lifted.deferred.iter().find(|(known, _)| *known == column) {
            Some((_, value)) => (column, value.clone()),
            None => kept(column),
        };
        let values: Substitutions = self.subquery.ids().into_iter().map(value).collect();
        let joined = if self.is_correlated(&self.subquery)?
            && let Some(row) = constant_row(&lifted.plan)?
        {
            self.with_row(lifted.conditions, values, &row, kind, on)?
        } else if let Some(empty) = lifted.empty {
            self.with_one_row(lifted.plan, lifted.conditions, (values, &empty), kind, on)?
        } else {
            self.with_rows(lifted.plan, lifted.conditions, values, kind, on)?
        };
        Ok(Some(joined))
    }

    /// The subquery has one row of constants.
    fn with_row(
        &self,
        conditions: Vec<Expr>,
        mut values: Substitutions,
        row: &[(Column, Expr)],
        kind: JoinType,
        on: &[Expr],
    ) -> Result<Rel> {
        let mut matches = Vec::new();
        for (_, value) in &mut values {
            *value = self.over_both(substitute(std::mem::take(value), row)?)?;
        }
        for condition in conditions {
            matches.push(self.over_both(substitute(condition, row)?)?);
        }
        for condition in on {
            matches.push(substitute(condition.clone(), &values)?);
        }
        let matches = conjunction(matches);
        if kind != JoinType::Left {
            return self.chosen(self.outer.clone(), matches, kind, values);
        }
        if let Some(matches) = matches {
            for (_, value) in &mut values {
                *value = only_if(matches.clone(), std::mem::take(value));
            }
        }
        self.with_values(self.outer.clone(), values)
    }

    /// The subquery has one row for each outer row. An outer row without a match gets the values `empty`.
    fn with_one_row(
        &self,
        plan: Rel,
        mut conditions: Vec<Expr>,
        (mut values, empty): (Substitutions, &Substitutions),
        kind: JoinType,
        on: &[Expr],
    ) -> Result<Rel> {
        if on.is_empty() && matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti) {
            return self.chosen(self.outer.clone(), None, kind, Vec::new());
        }
        let mut marker = None;
        for (column, value) in &mut values {
            let default = empty.iter().find(|(known, _)| known == column).map(|(_, default)| default.clone());
            let Some(default) = default else { return internal_err!("{column} has a value without rows") };
            *value = self.or_default(std::mem::take(value), default, plan.columns(), &mut marker)?;
        }
        let values_of = values.iter_mut().map(|(_, value)| value);
        let rows = with_marker(plan, marker, conditions.iter_mut().chain(values_of))?;
        let rows = self.join(rows, JoinType::Left, conditions)?;
        let matches = on.iter().map(|condition| substitute(condition.clone(), &values));
        let matches = conjunction(matches.collect::<Result<Vec<_>>>()?);
        self.chosen(rows, matches, kind, values)
    }

    /// The subquery has any number of rows.
    fn with_rows(
        &self,
        plan: Rel,
        mut conditions: Vec<Expr>,
        mut values: Substitutions,
        kind: JoinType,
        on: &[Expr],
    ) -> Result<Rel> {
        for condition in on {
            conditions.push(substitute(condition.clone(), &values)?);
        }
        if kind == JoinType::LeftSemi || kind == JoinType::LeftAnti {
            return self.join(plan, kind, conditions);
        }
        let mut marker = None;
        for (column, value) in &mut values {
            let taken = std::mem::take(value);
            *value = match kind {
                JoinType::Left => {
                    let default =
                        Expr::Literal(ScalarValue::try_from(self.subquery.columns().data_type(column)?)?, None);
                    self.or_default(taken, default, plan.columns(), &mut marker)?
                }
                _ => self.over_both(taken)?,
            };
        }
        let values_of = values.iter_mut().map(|(_, value)| value);
        let rows = with_marker(plan, marker, conditions.iter_mut().chain(values_of))?;
        let joined = self.join(rows, kind, conditions)?;
        self.with_values(joined, values)
    }

    /// Joins the outer query with a plan.
    fn join(&self, plan: Rel, kind: JoinType, conditions: Vec<Expr>) -> Result<Rel> {
        let conditions = conditions.into_iter().map(|condition| self.over_both(condition));
        let conditions = conjunction(conditions.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true));
        self.outer.clone().join(plan, kind, [conditions])
    }

    /// The rows for which the conditions are true. For [`JoinType::LeftAnti`], the rows for which they are
    /// not.
    fn chosen(&self, rows: Rel, matches: Option<Expr>, kind: JoinType, values: Substitutions) -> Result<Rel> {
        let condition = match (kind, matches) {
            (JoinType::LeftAnti, None) => Some(lit(false)),
            (JoinType::LeftAnti, Some(matches)) => Some(Expr::IsNotTrue(Box::new(matches))),
            (_, matches) => matches,
        };
        let rows = rows.filter_all(condition)?;
        let is_wide = matches!(kind, JoinType::Inner | JoinType::Left);
        self.with_values(rows, if is_wide { values } else { Vec::new() })
    }

    /// The columns of the outer query, and these values.
    fn with_values(&self, rows: Rel, values: Substitutions) -> Result<Rel> {
        let outputs: Substitutions = self.outer.ids().into_iter().map(kept).chain(values).collect();
        let is_same = rows.ids().into_iter().map(kept).eq(outputs.iter().cloned());
        if is_same { Ok(rows) } else { rows.project(outputs) }
    }

    /// A value over the columns of both sides, or `default` in rows without a match.
    pub(super) fn or_default(
        &self,
        value: Expr,
        default: Expr,
        right: &Columns,
        marker: &mut Option<Column>,
    ) -> Result<Expr> {
        let (value, default) = (self.over_both(value)?, self.over_both(default)?);
        let padded = value.clone().walk_up(&mut |expr| match &expr {
            Expr::Column(column) if !self.outer_columns.contains(column) => {
                let padding = ScalarValue::try_from(right.data_type(column)?)?;
                Ok(Transformed::yes(Expr::Literal(padding, None)))
            }
            _ => Ok(Transformed::no(expr)),
        })?;
        if padded.data == default || is_null(&padded.data) && is_null(&default) {
            return Ok(value);
        }
        let there = Expr::Column(marker.get_or_insert_with(|| fresh(FOUND)).clone());
        if is_null(&default) {
            return Ok(only_if(there.is_not_null(), value));
        }
        let when = vec![(Box::new(there.is_null()), Box::new(default))];
        Ok(Expr::Case(Case::new(None, when, Some(Box::new(value)))))
    }

    /// One condition for each outer column that the subquery reads: it equals its column of the domain.
    pub(super) fn same_values(&self, domain: &[Column]) -> Result<Vec<Expr>> {
        let schema = self.outer.columns();
        let pairs = self.read.iter().zip(domain).map(|(read, of_domain)| {
            let field = schema.field_from_column(read)?;
            let outer = Expr::OuterReferenceColumn(Arc::clone(field), read.clone());
            Ok(same(outer, Expr::Column(of_domain.clone()), field.is_nullable()))
        });
        pairs.collect()
    }
}

/// Adds the marker to a plan: a column that is NULL in rows without a match. The plan's other columns get new
/// identities, in the plan and in the expressions. The result of the join computes the columns with the old
/// identities from them.
pub(super) fn with_marker<'e>(
    plan: Rel,
    marker: Option<Column>,
    exprs: impl Iterator<Item = &'e mut Expr>,
) -> Result<Rel> {
    let Some(marker) = marker else { return Ok(plan) };
    let (outputs, values): (Vec<Output>, Substitutions) = plan.ids().into_iter().map(renewed).unzip();
    for expr in exprs {
        *expr = substitute(std::mem::take(expr), &values)?;
    }
    plan.project(outputs.into_iter().chain([(marker, lit(true))]))
}

/// A new column with the values of another column, and the substitution that replaces the other by the new
/// one.
fn renewed(column: Column) -> (Output, (Column, Expr)) {
    let new = fresh(name_of(&column));
    ((new.clone(), Expr::Column(column.clone())), (column, Expr::Column(new)))
}

/// The value where the condition is true, and NULL elsewhere.
fn only_if(condition: Expr, value: Expr) -> Expr {
    Expr::Case(Case::new(None, vec![(Box::new(condition), Box::new(value))], None))
}

/// The values of a plan that reads no table and has one row.
fn constant_row(plan: &Rel) -> Result<Option<Substitutions>> {
    match plan {
        Rel::Values(values) => match values.rows.as_slice() {
            [row] => Ok(Some(values.columns.ids().into_iter().zip(row.iter().cloned()).collect())),
            _ => Ok(None),
        },
        Rel::Project(projection) => {
            let Some(row) = constant_row(&projection.input)? else { return Ok(None) };
            let exprs = projection.columns.ids().into_iter().zip(projection.exprs.iter().cloned());
            let exprs = exprs.map(|(column, expr)| Ok((column, substitute(expr, &row)?)));
            let exprs = exprs.collect::<Result<Vec<_>>>()?;
            // The caller may copy the expressions, so each must have the same value at every evaluation.
            Ok((!exprs.iter().any(|(_, expr)| varies(expr))).then_some(exprs))
        }
        _ => Ok(None),
    }
}
