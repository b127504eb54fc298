//! The first rows of a subquery for each outer row: the rows are numbered, and the limit becomes a condition
//! on the number.

use datafusion_common::Result;
use datafusion_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion_expr::{Expr, WindowFrame, WindowFunctionDefinition, lit};

use crate::functions::Functions;
use crate::origin::{first_span, with_spans};
use crate::rel::{Bounds, Distinct, Output, Rel, computed, kept};

/// Name of the column with the row number.
pub(crate) const NUMBER: &str = "$number";

/// Whether the bounds drop no row that matters. `is_one`: there is at most one row, or the caller needs only
/// to know whether there is one.
pub(super) fn lets_pass(bounds: Bounds, is_one: bool) -> bool {
    bounds.skip == 0 && bounds.fetch.is_none_or(|fetch| is_one && fetch > 0)
}

/// The rows of `input` within the bounds, filtered by row number.
pub(super) fn numbered(input: &Rel, bounds: Bounds, functions: &Functions) -> Result<Rel> {
    let all = || input.ids().into_iter().map(kept).collect();
    let (columns, rows, order): (Vec<Output>, _, _) = match input {
        Rel::Sort(sort) => (all(), sort.input.as_ref(), sort.keys.clone()),
        // The projection drops columns that only the order needs.
        Rel::Project(projection) => match projection.input.as_ref() {
            Rel::Sort(sort) => {
                let outputs = projection.columns.ids().into_iter().zip(projection.exprs.iter().cloned());
                (outputs.collect(), sort.input.as_ref(), sort.keys.clone())
            }
            _ => (all(), input, Vec::new()),
        },
        _ => (all(), input, Vec::new()),
    };
    first_rows(rows.clone(), order, bounds, functions)?.project(columns)
}

/// The first rows of an order, filtered by row number. The number is the last column.
pub(crate) fn first_rows(rows: Rel, order: Vec<Sort>, bounds: Bounds, functions: &Functions) -> Result<Rel> {
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
    let (number, call) = computed(NUMBER, Expr::from(WindowFunction { fun, params }));
    let mut rows = with_spans(rows.over([(number.clone(), call)])?, &[span])?;
    let row_number = || Expr::Column(number.clone());
    let bound = |rows: usize| lit(i64::try_from(rows).unwrap_or(i64::MAX));
    if let Some(fetch) = bounds.fetch {
        rows = rows.filter(row_number().lt_eq(bound(bounds.skip.saturating_add(fetch))))?;
    }
    if bounds.skip > 0 {
        rows = rows.filter(row_number().gt(bound(bounds.skip)))?;
    }
    Ok(rows)
}

/// Whether a plan has at most one row for any contents of its tables.
pub(crate) fn has_one_row(plan: &Rel) -> bool {
    match plan {
        Rel::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        Rel::Project(projection) => has_one_row(&projection.input),
        Rel::Filter(filter) => has_one_row(&filter.input),
        Rel::Sort(sort) => has_one_row(&sort.input),
        Rel::Distinct(Distinct { input }) => has_one_row(input),
        Rel::Values(values) => values.rows.len() <= 1,
        _ => false,
    }
}
