//! The first rows of a subquery for each row around it: rows are numbered, and the number is a condition.

use datafusion_common::{Column, Result};
use datafusion_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion_expr::{
    Distinct, Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, SkipType, WindowFrame, WindowFunctionDefinition,
    lit,
};

use crate::functions::Functions;
use crate::origin::{first_span, with_spans};

/// Name of the column with the number of a row.
pub(crate) const NUMBER: &str = "$number";

/// How many rows are left out, and how many come then.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) skip: usize,
    /// `None`: all.
    pub(crate) fetch: Option<usize>,
}

impl Bounds {
    /// `None`: they are not constants.
    pub(super) fn of(limit: &Limit) -> Result<Option<Self>> {
        Ok(match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (SkipType::Literal(skip), FetchType::Literal(fetch)) => Some(Bounds { skip, fetch }),
            _ => None,
        })
    }

    /// Whether the rows can stay as they are. `is_one`: only whether there is a row matters.
    pub(super) fn let_pass(self, is_one: bool) -> bool {
        self.skip == 0 && self.fetch.is_none_or(|fetch| is_one && fetch > 0)
    }
}

/// The rows of `input` within the bounds, chosen by their numbers.
pub(super) fn numbered(input: &LogicalPlan, bounds: Bounds, functions: &Functions) -> Result<LogicalPlan> {
    let all = || input.schema().columns().into_iter().map(Expr::Column).collect();
    let (columns, rows, order) = match input {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (all(), sort.input.as_ref(), sort.expr.clone()),
        // It leaves out columns that only the order needs.
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                (projection.expr.clone(), sort.input.as_ref(), sort.expr.clone())
            }
            _ => (all(), input, Vec::new()),
        },
        _ => (all(), input, Vec::new()),
    };
    first_rows(rows.clone(), order, bounds, functions)?.project(columns)?.build()
}

/// The first rows of an order, chosen by their numbers, which are a column behind the others.
pub(crate) fn first_rows(
    rows: LogicalPlan,
    order: Vec<Sort>,
    bounds: Bounds,
    functions: &Functions,
) -> Result<LogicalPlanBuilder> {
    let params = WindowFunctionParams {
        args: Vec::new(),
        partition_by: Vec::new(),
        order_by: order,
        window_frame: WindowFrame::new(Some(true)),
        filter: None,
        null_treatment: None,
        distinct: false,
    };
    let span = params.order_by.iter().find_map(|key| first_span(&key.expr));
    let fun = WindowFunctionDefinition::WindowUDF(functions.row_number());
    let number = Expr::from(WindowFunction { fun, params }).alias(NUMBER);
    let numbered = LogicalPlanBuilder::from(rows).window([number])?.build()?;
    let mut rows = LogicalPlanBuilder::from(with_spans(numbered, &[span])?);
    let place = || Expr::Column(Column::from_name(NUMBER));
    let bound = |rows: usize| lit(i64::try_from(rows).unwrap_or(i64::MAX));
    if let Some(fetch) = bounds.fetch {
        rows = rows.filter(place().lt_eq(bound(bounds.skip.saturating_add(fetch))))?;
    }
    if bounds.skip > 0 {
        rows = rows.filter(place().gt(bound(bounds.skip)))?;
    }
    Ok(rows)
}

/// Whether a plan has one row at most, whatever its tables have.
pub(crate) fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Filter(filter) => has_one_row(&filter.input),
        LogicalPlan::Sort(sort) => has_one_row(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => has_one_row(input),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Values(values) => values.values.len() == 1,
        _ => false,
    }
}
