//! `ORDER BY ... LIMIT n` within a query: the rows whose number in that order is at most `n`. They come in no order. And `ORDER BY` alone,
//! which has no effect where something reads the rows that keeps no order.

use std::sync::Arc;

use anabranch_model::Error;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion_expr::{
    Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, SkipType, Sort, WindowFrame, WindowFunctionDefinition, lit,
};

use crate::functions::Functions;
use crate::place::through;
use crate::walk::{Walk, WalkPlan};

/// Name of the column with the number of a row.
pub(crate) const NUMBER: &str = "$number";

/// Replaces each sort with a bound by a numbering of its rows.
pub(crate) fn number_first_rows(plan: LogicalPlan, functions: &Functions) -> Result<LogicalPlan> {
    let rewritten = plan.walk_up_with_subqueries(&mut |node| match node {
        LogicalPlan::Limit(limit) => match first_rows(&limit, functions)? {
            Some(rows) => Ok(Transformed::yes(rows)),
            None => Ok(Transformed::no(LogicalPlan::Limit(limit))),
        },
        node => Ok(Transformed::no(node)),
    })?;
    Ok(rewritten.data)
}

fn first_rows(limit: &Limit, functions: &Functions) -> Result<Option<LogicalPlan>> {
    let (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) = (limit.get_skip_type()?, limit.get_fetch_type()?)
    else {
        return Ok(None);
    };
    match limit.input.as_ref() {
        LogicalPlan::Sort(sort) => numbered(sort, skip, fetch, functions).map(Some),
        // It leaves out columns that only the order needs.
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Sort(sort) => {
                let rows = numbered(sort, skip, fetch, functions)?;
                LogicalPlanBuilder::from(rows).project(projection.expr.clone())?.build().map(Some)
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

fn numbered(sort: &Sort, skip: usize, fetch: usize, functions: &Functions) -> Result<LogicalPlan> {
    // Its condition would come to be applied to numbered rows.
    if !sort.input.all_out_ref_exprs().is_empty() {
        let error =
            Error::user("ORDER BY with LIMIT is not supported in a subquery that reads columns of the query around it");
        return Err(through(error.remedy("number the rows of each key: ROW_NUMBER() OVER (PARTITION BY k ORDER BY t) AS n, and join those with n <= 1")));
    }
    let params = WindowFunctionParams {
        args: Vec::new(),
        partition_by: Vec::new(),
        order_by: sort.expr.clone(),
        window_frame: WindowFrame::new(Some(true)),
        filter: None,
        null_treatment: None,
        distinct: false,
    };
    let fun = WindowFunctionDefinition::WindowUDF(functions.row_number());
    let number = Expr::from(WindowFunction { fun, params }).alias(NUMBER);
    let bound = |rows: usize| lit(i64::try_from(rows).unwrap_or(i64::MAX));
    let place = || Expr::Column(Column::from_name(NUMBER));
    let mut rows = LogicalPlanBuilder::from(sort.input.as_ref().clone()).window([number])?;
    let mut condition = place().lt_eq(bound(skip.saturating_add(fetch)));
    if skip > 0 {
        condition = condition.and(place().gt(bound(skip)));
    }
    rows = rows.filter(condition)?;
    rows.project(sort.input.schema().iter().map(Expr::from))?.build()
}

/// Removes orders without effect. Those of the rows of the whole plan stay.
pub(crate) fn without_inner_orders(plan: LogicalPlan) -> Result<LogicalPlan> {
    let keeps_order = matches!(
        plan,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) | LogicalPlan::Limit(_)
    );
    let mut removed = |node: LogicalPlan| match node {
        LogicalPlan::Sort(Sort { input, fetch: None, .. }) => Ok(Transformed::yes(Arc::unwrap_or_clone(input))),
        node => Ok(Transformed::no(node)),
    };
    let mut within = |child: LogicalPlan| match keeps_order {
        true => without_inner_orders(child).map(Transformed::yes),
        false => child.walk_up_with_subqueries(&mut removed),
    };
    Ok(plan.walk_children(&mut within)?.data)
}
