//! Two projections over each other become one, unless an expression would be computed twice. So do two
//! unions.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::Expr;
use datafusion_expr::expr_rewriter::NamePreserver;

use super::filters::replaced;
use crate::rel::{Project, Rel, Union};

/// Merges all projections and unions of a plan.
pub(super) fn merge(plan: Rel) -> Result<Rel> {
    let merged = plan.walk_up(&mut |node| match node {
        Rel::Project(outer) => match outer.input.as_ref() {
            Rel::Project(inner) if can_merge(&outer, inner) => merged(outer),
            _ => Ok(Transformed::no(Rel::Project(outer))),
        },
        Rel::Union(union) if union.inputs.iter().any(is_union) => Ok(Transformed::yes(flat(union))),
        node => Ok(Transformed::no(node)),
    });
    merged.map(|plan| plan.data)
}

/// Whether each expression of the inner projection is read at most once, or costs nothing.
fn can_merge(outer: &Project, inner: &Project) -> bool {
    let mut reads: BTreeMap<&Column, usize> = BTreeMap::new();
    for (column, count) in outer.exprs.iter().flat_map(Expr::column_refs_counts) {
        *reads.entry(column).or_default() += count;
    }
    inner.columns.ids().iter().zip(&inner.exprs).all(|(column, expr)| {
        let reads = reads.get(column).copied().unwrap_or_default();
        is_plain(expr) || !has_metadata(expr) && reads <= 1
    })
}

fn is_union(plan: &Arc<Rel>) -> bool {
    matches!(plan.as_ref(), Rel::Union(_))
}

/// A union with the inputs of those within it.
fn flat(union: Union) -> Rel {
    let inputs = union.inputs.into_iter().flat_map(|input| match input.as_ref() {
        Rel::Union(inner) => inner.inputs.clone(),
        _ => vec![input],
    });
    Rel::Union(Union { inputs: inputs.collect(), columns: union.columns })
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

fn merged(outer: Project) -> Result<Transformed<Rel>> {
    let Project { exprs: outer_exprs, input, columns } = outer;
    let Rel::Project(inner) = Arc::unwrap_or_clone(input) else {
        return datafusion_common::internal_err!("an input that was a projection");
    };
    let values = inner.exprs.into_iter().map(|expr| expr.unalias_nested().data);
    let meanings: BTreeMap<Column, Expr> = inner.columns.ids().into_iter().zip(values).collect();
    let names = NamePreserver::new_for_projection();
    let exprs = outer_exprs.into_iter().map(|expr| {
        let name = names.save(&expr);
        replaced(expr, &meanings).map(|expr| name.restore(expr))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(Rel::Project(Project { exprs, input: inner.input, columns })))
}
