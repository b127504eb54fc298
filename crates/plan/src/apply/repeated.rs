//! Whether a plan gives the same values each time it is evaluated.

use std::collections::BTreeSet;

use datafusion_common::{Column, Result};
use datafusion_expr::Expr;

use super::columns_read;
use crate::rel::Rel;

/// Whether the rows, and these columns of them, are the same at each evaluation.
pub(super) fn is_repeatable(plan: &Rel, columns: &BTreeSet<Column>) -> Result<bool> {
    let read = match plan {
        Rel::Project(projection) => {
            let exprs = projection.exprs.iter().zip(projection.columns.ids());
            let exprs: Vec<&Expr> =
                exprs.filter(|(_, column)| columns.contains(column)).map(|(expr, _)| expr).collect();
            if exprs.iter().any(|expr| expr.is_volatile()) {
                return Ok(false);
            }
            columns_read(exprs.into_iter())
        }
        // A limit without an order may pass different rows each time.
        Rel::Limit(limit) if !is_ordered(&limit.input) => return Ok(false),
        Rel::Filter(_) | Rel::Join(_) | Rel::Sort(_) | Rel::Limit(_) => {
            let mut read = columns.clone();
            let mut varies = false;
            for expr in plan.expressions() {
                varies |= expr.is_volatile();
                read.extend(columns_read(std::iter::once(expr)));
            }
            if varies {
                return Ok(false);
            }
            read
        }
        // All input columns affect the result.
        other => {
            if other.expressions().into_iter().any(Expr::is_volatile) {
                return Ok(false);
            }
            other.inputs().into_iter().flat_map(|input| input.ids()).collect()
        }
    };
    for input in plan.inputs() {
        let own: BTreeSet<Column> = input.ids().into_iter().filter(|column| read.contains(column)).collect();
        if !is_repeatable(input, &own)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_ordered(plan: &Rel) -> bool {
    match plan {
        Rel::Sort(_) => true,
        Rel::Project(projection) => projection.columns.called().is_none() && is_ordered(&projection.input),
        _ => false,
    }
}
