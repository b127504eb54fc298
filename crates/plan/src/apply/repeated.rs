//! Whether a plan that is computed twice has the same values both times.

use std::collections::BTreeSet;

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Column, Result};
use datafusion_expr::{Expr, LogicalPlan};

use super::needed;
use crate::walk::WalkPlan;

/// Whether these columns of a plan are the same each time, and the rows that there are.
pub(super) fn is_repeatable(plan: &LogicalPlan, columns: &BTreeSet<Column>) -> Result<bool> {
    let read = match plan {
        LogicalPlan::Projection(projection) => {
            let exprs = projection.expr.iter().zip(projection.schema.columns());
            let exprs: Vec<&Expr> =
                exprs.filter(|(_, column)| columns.contains(column)).map(|(expr, _)| expr).collect();
            if exprs.iter().any(|expr| expr.is_volatile()) {
                return Ok(false);
            }
            needed(exprs.into_iter())
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let own = alias.schema.columns().into_iter().zip(alias.input.schema().columns());
            own.filter(|(column, _)| columns.contains(column)).map(|(_, of_input)| of_input).collect()
        }
        // Which rows a bound without an order lets pass is not said.
        LogicalPlan::Limit(limit) if !is_ordered(&limit.input) => return Ok(false),
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => {
            let mut read = columns.clone();
            let mut varies = false;
            plan.see_expressions(&mut |expr| {
                varies |= expr.is_volatile();
                read.extend(needed(std::iter::once(expr)));
                Ok(TreeNodeRecursion::Continue)
            })?;
            if varies {
                return Ok(false);
            }
            read
        }
        // All of what comes in decides on what comes out.
        other => {
            if other.expressions().iter().any(Expr::is_volatile) {
                return Ok(false);
            }
            other.inputs().into_iter().flat_map(|input| input.schema().columns()).collect()
        }
    };
    for input in plan.inputs() {
        let own: BTreeSet<Column> = input.schema().columns().into_iter().filter(|of| read.contains(of)).collect();
        if !is_repeatable(input, &own)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => is_ordered(&projection.input),
        _ => false,
    }
}
