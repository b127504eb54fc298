//! Two projections over each other become one, unless an expression would be computed twice. So do two
//! unions.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{Expr, LogicalPlan, Projection, Union};

use super::filters::replaced;
use crate::walk::Walk;

/// Merges all projections and unions of a plan.
pub(super) fn merge(plan: LogicalPlan) -> Result<LogicalPlan> {
    let merged = plan.walk_up(&mut |node| match node {
        LogicalPlan::Projection(outer) => match outer.input.as_ref() {
            LogicalPlan::Projection(inner) if can_merge(&outer, inner) => merged(outer),
            _ => Ok(Transformed::no(LogicalPlan::Projection(outer))),
        },
        LogicalPlan::Union(union) if union.inputs.iter().any(is_union) => Ok(Transformed::yes(flat(union))),
        node => Ok(Transformed::no(node)),
    });
    merged.map(|plan| plan.data)
}

/// Whether each expression of the inner projection is read at most once, or costs nothing.
fn can_merge(outer: &Projection, inner: &Projection) -> bool {
    let mut reads: BTreeMap<&Column, usize> = BTreeMap::new();
    for (column, count) in outer.expr.iter().flat_map(Expr::column_refs_counts) {
        *reads.entry(column).or_default() += count;
    }
    inner.schema.columns().iter().zip(&inner.expr).all(|(column, expr)| {
        let reads = reads.get(column).copied().unwrap_or_default();
        is_plain(expr) || !has_metadata(expr) && reads <= 1
    })
}

fn is_union(plan: &Arc<LogicalPlan>) -> bool {
    matches!(plan.as_ref(), LogicalPlan::Union(_))
}

/// A union with the inputs of those within it.
fn flat(union: Union) -> LogicalPlan {
    let inputs = union.inputs.into_iter().flat_map(|input| match input.as_ref() {
        LogicalPlan::Union(inner) => inner.inputs.clone(),
        _ => vec![input],
    });
    LogicalPlan::Union(Union { inputs: inputs.collect(), schema: union.schema })
}

fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Alias(alias) => alias.metadata.is_none() && is_plain(&alias.expr),
        _ => false,
    }
}

/// Whether something is known of the column, such as that it is the event time.
fn has_metadata(expr: &Expr) -> bool {
    matches!(expr, Expr::Alias(alias) if alias.metadata.is_some() || has_metadata(&alias.expr))
}

fn merged(outer: Projection) -> Result<Transformed<LogicalPlan>> {
    let Projection { expr: outer_exprs, input, schema, .. } = outer;
    let LogicalPlan::Projection(inner) = Arc::unwrap_or_clone(input) else {
        return datafusion_common::internal_err!("an input that was a projection");
    };
    let values = inner.expr.into_iter().map(|expr| expr.unalias_nested().data);
    let columns: BTreeMap<Column, Expr> = inner.schema.columns().into_iter().zip(values).collect();
    let names = NamePreserver::new_for_projection();
    let exprs = outer_exprs.into_iter().map(|expr| {
        let name = names.save(&expr);
        replaced(expr, &columns).map(|expr| name.restore(expr))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let plan = Projection::try_new_with_schema(exprs, inner.input, schema)?;
    Ok(Transformed::yes(LogicalPlan::Projection(plan)))
}
