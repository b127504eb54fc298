//! Projections of many columns.
//!
//! The library finds the type of each column by comparing names from the first one on, in a time that grows
//! with the square of the columns.

use std::sync::Arc;

use datafusion_common::{DFSchema, Result};
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, Projection};

use crate::column_index::ColumnIndex;

/// A projection of a plan.
///
/// `exprs` name columns of the plan as it has them.
pub(crate) fn project(input: impl Into<Arc<LogicalPlan>>, exprs: Vec<Expr>) -> Result<LogicalPlan> {
    let input = input.into();
    let columns = ColumnIndex::of(input.schema());
    let fields = exprs.iter().map(|expr| expr.to_field(&columns)).collect::<Result<Vec<_>>>()?;
    let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
    Projection::try_new_with_schema(exprs, input, Arc::new(schema)).map(LogicalPlan::Projection)
}

/// The node with the types that its expressions and its inputs give.
pub(crate) fn with_types(node: LogicalPlan) -> Result<LogicalPlan> {
    match node {
        LogicalPlan::Projection(Projection { expr, input, .. }) => project(input, expr),
        node => node.recompute_schema(),
    }
}
