//! Subqueries as joins, where the library's own rules have none: a value of one row (`price > (SELECT AVG(price) FROM bids)`) and
//! `NOT IN`. Subqueries that read columns of the outer query, `IN` and `EXISTS` are left to these rules.

use std::sync::Arc;

use anabranch_model::Error;
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_common::{Column, DFSchema, ExprSchema, JoinType, Result, Spans};
use datafusion_expr::expr::{Exists, InSubquery};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, lit};

use crate::place::{place, through};
use crate::table::is_bounded;

/// Name of the rows of a subquery that gives one value, with a number.
const VALUE: &str = "$value";

/// Names of the column of a list, and of the column that says whether it is NULL.
const LISTED: &str = "$listed";
const IS_NULL: &str = "$is_null";

/// Replaces the subqueries; see the module. The types of the plan are coerced.
///
/// `streaming`: results over tables that end are updated too.
pub(crate) fn join_subqueries(plan: LogicalPlan, streaming: bool) -> Result<LogicalPlan> {
    let mut values = Values { count: 0, streaming };
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let node = match node {
            LogicalPlan::Filter(filter) => excluded(filter)?,
            node => node,
        };
        match node {
            LogicalPlan::Filter(Filter { predicate, input, .. }) if has_value(&predicate) => {
                let columns = columns_of(input.schema());
                let (exprs, input) = join_values(vec![predicate], input, &mut values)?;
                let filtered =
                    exprs.into_iter().try_fold(LogicalPlanBuilder::from(input), LogicalPlanBuilder::filter)?;
                Ok(Transformed::yes(filtered.project(columns)?.build()?))
            }
            LogicalPlan::Projection(Projection { expr, input, schema, .. }) if expr.iter().any(has_value) => {
                let (exprs, input) = join_values(expr, input, &mut values)?;
                Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new_with_schema(
                    exprs,
                    input.into(),
                    schema,
                )?)))
            }
            node => Ok(Transformed::no(node)),
        }
    })?;
    Ok(rewritten.data)
}

fn columns_of(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(subquery) if subquery.outer_ref_columns.is_empty())
}

fn has_value(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(is_value(expr))).unwrap_or(false)
}

/// Joins each row of `input` with the values that the expressions read.
fn join_values(exprs: Vec<Expr>, input: Arc<LogicalPlan>, values: &mut Values) -> Result<(Vec<Expr>, LogicalPlan)> {
    let mut joined = Arc::unwrap_or_clone(input);
    let mut replaced = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let name = expr.schema_name().to_string();
        let is_named = matches!(expr, Expr::Alias(_) | Expr::Column(_));
        let expr = expr.transform_up(|expr| match expr {
            Expr::ScalarSubquery(subquery) if subquery.outer_ref_columns.is_empty() => {
                values.count += 1;
                let (column, next) = join_value(&subquery, std::mem::take(&mut joined), values)?;
                joined = next;
                Ok(Transformed::yes(Expr::Column(column)))
            }
            expr => Ok(Transformed::no(expr)),
        })?;
        replaced.push(if expr.transformed && !is_named { expr.data.alias(name) } else { expr.data });
    }
    Ok((replaced, joined))
}

fn join_value(subquery: &Subquery, input: LogicalPlan, values: &Values) -> Result<(Column, LogicalPlan)> {
    let plan = subquery.subquery.as_ref();
    if !gives_one_row_at_most(plan) {
        let error = Error::user("this subquery may give more than one row, and a value is needed")
            .remedy("let it aggregate without GROUP BY, for example SELECT MAX(x) FROM t; or write a join");
        let span = subquery.spans.first();
        return Err(through(match span {
            Some(span) => error.at(place(span.start.line, span.start.column)),
            None => error,
        }));
    }
    let name = format!("{VALUE}_{}", values.count);
    let column = Column::new(Some(name.clone()), plan.schema().field(0).name());
    let right = LogicalPlanBuilder::from(plan.clone()).alias(name)?.build()?;
    // Without a row the value is NULL. An updating aggregate of no rows has none.
    let ends = is_bounded(plan) && !values.streaming;
    let kind = if ends && gives_a_row(plan) { JoinType::Inner } else { JoinType::Left };
    let joined = LogicalPlanBuilder::from(input).join_on(right, kind, Some(lit(true)))?.build()?;
    Ok((column, joined))
}

/// The values so far.
struct Values {
    count: usize,
    streaming: bool,
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

fn not_in(value: Expr, list: &Subquery, schema: &DFSchema) -> Result<Vec<Expr>> {
    let may_be_null = value.nullable(schema)?;
    let mut outer = list.outer_ref_columns.clone();
    let value = value.transform_up(|expr| match expr {
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
    let value = value.data;
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
