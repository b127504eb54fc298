//! Subqueries as joins, where the library's own rules have none: a value of one row (`price > (SELECT AVG(price) FROM bids)`), `IN` and
//! `EXISTS` as values, and `NOT IN`. Subqueries that read columns of the outer query, and `IN` and `EXISTS` as conditions, are left to these
//! rules.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, ExprSchema, JoinType, Result, ScalarValue, Spans, internal_err, plan_err};
use datafusion_expr::expr::{Exists, InSubquery};
use datafusion_expr::utils::{conjunction, disjunction, split_conjunction, split_conjunction_owned};
use datafusion_expr::{
    Distinct, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, lit, when,
};

use crate::functions::Functions;
use crate::table::is_bounded;
use crate::walk::{Walk, WalkPlan};

/// Name of the rows of a subquery that gives one value, with a number.
const VALUE: &str = "$value";

/// Name of the column that a row of a list has.
const THERE: &str = "$there";

/// Names of the number of rows of a list, and of those that are not NULL.
const ROWS: [&str; 2] = ["$rows", "$values"];

/// Names of the column of a list, and of the column that says whether it is NULL.
const LISTED: &str = "$listed";
const IS_NULL: &str = "$is_null";

/// Replaces the subqueries; see the module. The types of the plan are coerced.
///
/// `streaming`: results over tables that end are updated too.
pub(crate) fn join_subqueries(plan: LogicalPlan, functions: &Functions, streaming: bool) -> Result<LogicalPlan> {
    let mut values = Values { count: 0, functions, streaming };
    let rewritten = plan.walk_up_with_subqueries(&mut |node| {
        let node = match node {
            LogicalPlan::Filter(filter) => excluded(filter)?,
            node => node,
        };
        let node = values.count_correlated(node)?;
        match node {
            LogicalPlan::Filter(Filter { predicate, input, .. }) if has_value(&predicate, true) => {
                let columns = columns_of(input.schema());
                let (conditions, input) = values.join_all(split_conjunction_owned(predicate), input, is_condition)?;
                let filtered =
                    LogicalPlanBuilder::from(input).filter(conjunction(conditions).unwrap_or_else(|| lit(true)))?;
                Ok(Transformed::yes(filtered.project(columns)?.build()?))
            }
            LogicalPlan::Projection(Projection { expr, input, .. })
                if expr.iter().any(|expr| has_value(expr, false)) =>
            {
                let names: Vec<String> = expr.iter().map(|expr| expr.schema_name().to_string()).collect();
                let (exprs, input) = values.join_all(expr, input, |_| false)?;
                let named = exprs.into_iter().zip(names).map(|(expr, name)| expr.alias_if_changed(name));
                let named = named.collect::<Result<Vec<_>>>()?;
                // A subquery without rows is NULL, whatever its column may be.
                Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(named, input.into())?)))
            }
            node @ (LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_)) => {
                Ok(Transformed::yes(node.recompute_schema()?))
            }
            node => Ok(Transformed::no(node)),
        }
    })?;
    Ok(rewritten.data)
}

fn columns_of(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

/// Whether a condition is `IN` or `EXISTS`, for which there are joins that only choose rows.
fn is_condition(expr: &Expr) -> bool {
    match expr {
        Expr::Not(inner) => is_condition(inner),
        expr => matches!(expr, Expr::InSubquery(_) | Expr::Exists(_)),
    }
}

/// Whether an expression is a subquery that stands for a value, wherever it is. `conditions`: `IN` and `EXISTS` are none.
fn is_value(expr: &Expr, conditions: bool) -> bool {
    match expr {
        Expr::ScalarSubquery(subquery) => subquery.outer_ref_columns.is_empty(),
        Expr::InSubquery(InSubquery { subquery, .. }) | Expr::Exists(Exists { subquery, .. }) => {
            !conditions && subquery.outer_ref_columns.is_empty()
        }
        _ => false,
    }
}

/// `condition`: it is one of a filter.
fn has_value(expr: &Expr, condition: bool) -> bool {
    if condition {
        let parts = split_conjunction(expr);
        return parts.into_iter().any(|part| has_value_in(part, is_condition(part)));
    }
    has_value_in(expr, false)
}

fn has_value_in(expr: &Expr, conditions: bool) -> bool {
    expr.has(&|expr| Ok(is_value(expr, conditions))).unwrap_or(false)
}

/// Whether a query aggregates all rows for a row of the query around it into one, which is also there for none.
fn has_one_row(plan: &LogicalPlan) -> bool {
    let reads_outer = |plan: &LogicalPlan| plan.expressions().iter().any(Expr::contains_outer);
    let is_one = |plan: &LogicalPlan| match plan {
        LogicalPlan::Aggregate(of) if of.group_expr.is_empty() => of.input.has(&|plan| Ok(reads_outer(plan))),
        _ => Ok(false),
    };
    plan.has(&is_one).unwrap_or(true)
}

/// The values so far.
struct Values<'a> {
    count: usize,
    functions: &'a Functions,
    streaming: bool,
}

impl Values<'_> {
    /// Says by numbers of rows which `IN` and `EXISTS` are true that are values and whose subqueries read columns of the query around
    /// them. The library joins such numbers.
    fn count_correlated(&self, node: LogicalPlan) -> Result<LogicalPlan> {
        let is_counted = |expr: &Expr| match expr {
            Expr::InSubquery(InSubquery { subquery, .. }) | Expr::Exists(Exists { subquery, .. }) => {
                !subquery.outer_ref_columns.is_empty()
            }
            _ => false,
        };
        let has_some = |expr: &Expr| expr.has(&|expr| Ok(is_counted(expr))).unwrap_or(false);
        let schema = match &node {
            LogicalPlan::Filter(filter) => Arc::clone(filter.input.schema()),
            LogicalPlan::Projection(projection) => Arc::clone(projection.input.schema()),
            _ => return Ok(node),
        };
        let count = |expr: Expr| {
            if !has_some(&expr) {
                return Ok(expr);
            }
            let name = expr.schema_name().to_string();
            let counted = expr.walk_up(&mut |expr| match expr {
                expr if !is_counted(&expr) => Ok(Transformed::no(expr)),
                Expr::Exists(Exists { subquery, negated }) => {
                    let there = self.number(&subquery, None)?;
                    Ok(Transformed::yes(if negated { !there } else { there }))
                }
                Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                    let there = self.counted_list(*expr, &subquery, &schema)?;
                    Ok(Transformed::yes(if negated { !there } else { there }))
                }
                expr => Ok(Transformed::no(expr)),
            })?;
            counted.data.alias_if_changed(name)
        };
        match node {
            LogicalPlan::Filter(Filter { predicate, input, .. }) if has_some(&predicate) => {
                let conditions = split_conjunction_owned(predicate).into_iter();
                let conditions = conditions.map(|of| if is_condition(&of) { Ok(of) } else { Ok(count(of)?.unalias()) });
                let predicate = conjunction(conditions.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true));
                Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?))
            }
            LogicalPlan::Projection(Projection { expr, input, .. }) if expr.iter().any(has_some) => {
                let exprs = expr.into_iter().map(count).collect::<Result<Vec<_>>>()?;
                Ok(LogicalPlan::Projection(Projection::try_new(exprs, input)?))
            }
            node => Ok(node),
        }
    }

    /// [`Values::join_list`] by numbers of rows.
    fn counted_list(&self, value: Expr, list: &Subquery, schema: &DFSchema) -> Result<Expr> {
        let listed = Expr::Column(list.subquery.schema().columns().swap_remove(0));
        let (of_outer, outer_ref_columns) = outer(value.clone(), list, schema)?;
        let matches = Subquery { outer_ref_columns, ..list.clone() };
        let there = self.number(&matches, Some(listed.clone().eq(of_outer)))?;
        let mut unknown = Vec::new();
        if value.nullable(schema)? {
            unknown.push(value.is_null().and(self.number(list, None)?));
        }
        if list.subquery.schema().field(0).is_nullable() {
            unknown.push(self.number(list, Some(listed.is_null()))?);
        }
        match disjunction(unknown) {
            None => Ok(there),
            Some(unknown) => {
                when(there, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))
            }
        }
    }

    /// Whether a subquery has rows, by their number. `condition`: only those for which it is true count.
    fn number(&self, subquery: &Subquery, condition: Option<Expr>) -> Result<Expr> {
        if !subquery.outer_ref_columns.is_empty() && has_one_row(&subquery.subquery) {
            return plan_err!(
                "IN and EXISTS as values over an aggregate without GROUP BY that reads columns of the query around it are not supported; \
                 compare with the subquery as a value, as in x = (SELECT MAX(...) ...)"
            );
        }
        let rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone());
        let rows = condition.into_iter().try_fold(rows, LogicalPlanBuilder::filter)?.build()?;
        let rows = Subquery { subquery: Arc::new(rows), ..subquery.clone() };
        let counted = self.aggregated(&rows, Vec::new(), [(ROWS[0], "count", lit(1_i64))])?;
        let counted = Subquery { subquery: Arc::new(counted), ..rows };
        Ok(Expr::ScalarSubquery(counted).gt(lit(0_i64)))
    }

    /// Joins each row of `input` with the values that the expressions read. `is_condition`: `IN` and `EXISTS` in such an expression are no
    /// values.
    fn join_all(
        &mut self,
        exprs: Vec<Expr>,
        input: Arc<LogicalPlan>,
        is_condition: fn(&Expr) -> bool,
    ) -> Result<(Vec<Expr>, LogicalPlan)> {
        let mut joined = Arc::unwrap_or_clone(input);
        let mut replaced = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let name = expr.schema_name().to_string();
            let is_named = matches!(expr, Expr::Alias(_) | Expr::Column(_));
            let conditions = is_condition(&expr);
            let expr = expr.walk_up(&mut |expr| {
                if !is_value(&expr, conditions) {
                    return Ok(Transformed::no(expr));
                }
                self.count += 1;
                let (value, next) = self.join(expr, std::mem::take(&mut joined))?;
                joined = next;
                Ok(Transformed::yes(value))
            })?;
            replaced.push(if expr.transformed && !is_named { expr.data.alias(name) } else { expr.data });
        }
        Ok((replaced, joined))
    }

    /// Joins rows with what an expression reads of a subquery, and gives the expression over the result.
    fn join(&self, expr: Expr, input: LogicalPlan) -> Result<(Expr, LogicalPlan)> {
        match expr {
            Expr::ScalarSubquery(subquery) => {
                let row = self.one_row(&subquery)?;
                let (column, joined) = self.join_row(row, input)?;
                Ok((Expr::Column(column), joined))
            }
            Expr::Exists(Exists { subquery, negated }) => {
                let rows = self.aggregated(&subquery, Vec::new(), [(ROWS[0], "count", lit(1_i64))])?;
                let there = is_positive(Expr::Column(Column::new_unqualified(ROWS[0])));
                let (there, joined) = self.join_row(what_is_known(rows, [(THERE, there)])?, input)?;
                let there = Expr::Column(there).is_true();
                Ok((if negated { !there } else { there }, joined))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let (there, joined) = self.join_list(*expr, &subquery, input)?;
                Ok((if negated { !there } else { there }, joined))
            }
            other => internal_err!("{other} is no subquery"),
        }
    }

    /// Whether a value is in a list: NULL if that is not known, because one of them is NULL.
    fn join_list(&self, value: Expr, list: &Subquery, input: LogicalPlan) -> Result<(Expr, LogicalPlan)> {
        let listed = list.subquery.schema().columns().swap_remove(0);
        let nullable = value.nullable(input.schema())? || list.subquery.schema().field(0).is_nullable();
        let name = format!("{LISTED}_{}", self.count);
        let rows = self.aggregated(list, vec![Expr::Column(listed.clone())], [])?;
        let rows = LogicalPlanBuilder::from(rows)
            .project([Expr::Column(listed.clone()).alias(LISTED), lit(true).alias(THERE)])?;
        let of_list = |column: &str| Expr::Column(Column::new(Some(name.clone()), column));
        let rows = rows.alias(name.clone())?.build()?;
        let matches = [value.clone().eq(of_list(LISTED))];
        let joined = LogicalPlanBuilder::from(input).join_on(rows, JoinType::Left, matches)?.build()?;
        let there = of_list(THERE).is_not_null();
        if !nullable {
            return Ok((there, joined));
        }
        let [all, known] = ROWS;
        let counts =
            self.aggregated(list, Vec::new(), [(all, "count", lit(1_i64)), (known, "count", Expr::Column(listed))])?;
        let [all, known] = [all, known].map(|name| Expr::Column(Column::new_unqualified(name)));
        let counts = what_is_known(counts, [(THERE, is_positive(all.clone())), (IS_NULL, known.lt(all))])?;
        let (any, joined) = self.join_row(counts, joined)?;
        let has_null = Expr::Column(Column::new(any.relation.clone(), IS_NULL));
        let unknown = Expr::Column(any).is_true().and(value.is_null().or(has_null));
        let unknown = when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))?;
        Ok((when(there, lit(true)).otherwise(unknown)?, joined))
    }

    /// Aggregates of the rows of a subquery: names, functions and arguments.
    fn aggregated<const N: usize>(
        &self,
        subquery: &Subquery,
        keys: Vec<Expr>,
        calls: [(&str, &str, Expr); N],
    ) -> Result<LogicalPlan> {
        let call = |(name, function, argument): (&str, &str, Expr)| match self.functions.aggregate(function) {
            Some(function) => Ok(function.call(vec![argument]).alias(name)),
            None => internal_err!("there is no aggregate {function}"),
        };
        let calls = calls.into_iter().map(call).collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).aggregate(keys, calls)?.build()
    }

    /// The row of a subquery that stands for a value. One that may give several fails if it does.
    fn one_row(&self, subquery: &Subquery) -> Result<LogicalPlan> {
        let plan = subquery.subquery.as_ref();
        if gives_one_row_at_most(plan) {
            return Ok(plan.clone());
        }
        let value = plan.schema().columns().swap_remove(0);
        let [rows, first] = ROWS;
        let calls = [(first, "first_value", Expr::Column(value.clone())), (rows, "count", lit(1_i64))];
        let row = self.aggregated(subquery, Vec::new(), calls)?;
        let Some(single) = self.functions.scalar("$single") else {
            return internal_err!("there is no function $single");
        };
        let column = |name: &str| Expr::Column(Column::new_unqualified(name));
        let single = single.call(vec![column(first), column(rows)]).alias(value.name);
        LogicalPlanBuilder::from(row).project([single])?.build()
    }

    /// Joins each row with the first column of a plan that gives one row at most.
    fn join_row(&self, row: LogicalPlan, input: LogicalPlan) -> Result<(Column, LogicalPlan)> {
        let name = format!("{VALUE}_{}", self.count);
        let column = Column::new(Some(name.clone()), row.schema().field(0).name());
        // Without a row the value is NULL. An updating aggregate of no rows has none.
        let ends = is_bounded(&row) && !self.streaming;
        let kind = if ends && gives_a_row(&row) { JoinType::Inner } else { JoinType::Left };
        let right = LogicalPlanBuilder::from(row).alias(name)?.build()?;
        let joined = LogicalPlanBuilder::from(input).join_on(right, kind, Some(lit(true)))?.build()?;
        Ok((column, joined))
    }
}

/// What is read of the one row of a plan. While that stays the same nothing changes, however often the row does.
fn what_is_known<const N: usize>(row: LogicalPlan, columns: [(&str, Expr); N]) -> Result<LogicalPlan> {
    let columns = columns.map(|(name, expr)| expr.alias(name));
    LogicalPlanBuilder::from(row).project(columns)?.distinct()?.build()
}

/// Whether a number of rows, of which there is none without rows, is above 0.
fn is_positive(rows: Expr) -> Expr {
    rows.clone().is_not_null().and(rows.gt(lit(0_i64)))
}

fn gives_one_row_at_most(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => gives_one_row_at_most(&filter.input),
        LogicalPlan::Projection(projection) => gives_one_row_at_most(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row_at_most(&alias.input),
        plan => gives_a_row(plan),
    }
}

/// Whether a plan with one row at most has it always, where tables end.
fn gives_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => gives_a_row(&projection.input),
        LogicalPlan::Distinct(Distinct::All(input)) => gives_a_row(input),
        LogicalPlan::SubqueryAlias(alias) => gives_a_row(&alias.input),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Values(values) => values.values.len() == 1,
        _ => false,
    }
}

/// Replaces each `x NOT IN (list)` that must be true by `NOT EXISTS (row of the list = x)`, and where NULL may be on either side by
/// `NOT EXISTS (row of the list IS NULL OR x IS NULL)` too: with NULL among them nothing is known not to be in a list, unless it is empty.
fn excluded(filter: Filter) -> Result<LogicalPlan> {
    let negated = |condition: Expr| match condition {
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(list) => Expr::InSubquery(InSubquery { negated: !list.negated, ..list }),
            inner => Expr::Not(Box::new(inner)),
        },
        condition => condition,
    };
    let is_exclusion = |expr: &Expr| matches!(expr, Expr::InSubquery(InSubquery { negated: true, .. }));
    let conditions: Vec<Expr> = split_conjunction_owned(filter.predicate.clone()).into_iter().map(negated).collect();
    if !conditions.iter().any(is_exclusion) {
        return Ok(LogicalPlan::Filter(filter));
    }
    let mut all = Vec::new();
    for condition in conditions {
        match condition {
            Expr::InSubquery(InSubquery { expr, subquery, negated: true }) => {
                all.extend(not_in(*expr, &subquery, filter.input.schema())?);
            }
            condition => all.push(condition),
        }
    }
    let predicate = conjunction(all).unwrap_or_else(|| lit(true));
    Ok(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?))
}

/// A value of the outer query in the subquery of a list, and the columns that the subquery reads then.
fn outer(value: Expr, list: &Subquery, schema: &DFSchema) -> Result<(Expr, Vec<Expr>)> {
    let mut outer = list.outer_ref_columns.clone();
    let value = value.walk_up(&mut |expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            let expr = Expr::OuterReferenceColumn(field, column);
            if !outer.contains(&expr) {
                outer.push(expr.clone());
            }
            Ok(Transformed::yes(expr))
        }
        expr => Ok(Transformed::no(expr)),
    })?;
    Ok((value.data, outer))
}

fn not_in(value: Expr, list: &Subquery, schema: &DFSchema) -> Result<Vec<Expr>> {
    let may_be_null = value.nullable(schema)?;
    let (value, outer) = outer(value, list, schema)?;
    // Its name must not be that of a column of the outer query.
    let rows = LogicalPlanBuilder::from(list.subquery.as_ref().clone());
    let key = Expr::Column(rows.schema().columns().swap_remove(0));
    let rows = rows.project([key.alias(LISTED)])?.build()?;
    let key = Expr::Column(Column::new_unqualified(LISTED));
    let key_may_be_null = key.nullable(rows.schema())?;
    let not_exists = |rows: LogicalPlan, condition: Expr| {
        let subquery = LogicalPlanBuilder::from(rows).filter(condition)?.build()?;
        let outer_ref_columns = outer.clone();
        let subquery = Subquery { subquery: Arc::new(subquery), outer_ref_columns, spans: Spans::new() };
        Ok::<_, datafusion_common::DataFusionError>(Expr::Exists(Exists { subquery, negated: true }))
    };
    let equal = not_exists(rows.clone(), key.clone().eq(value.clone()))?;
    if !may_be_null && !key_may_be_null {
        return Ok(vec![equal]);
    }
    // Of an uncorrelated list two rows at most are needed here.
    let nulls = LogicalPlanBuilder::from(rows).project([key.is_null().alias(IS_NULL)])?;
    let nulls = if list.outer_ref_columns.is_empty() { nulls.distinct()? } else { nulls };
    let is_null = Expr::Column(Column::new_unqualified(IS_NULL));
    let unknown = not_exists(nulls.build()?, is_null.or(value.is_null()))?;
    Ok(vec![equal, unknown])
}
