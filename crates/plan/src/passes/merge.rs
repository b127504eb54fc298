//! Merges nested projections, unless an expression would be computed twice, and nested unions.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::Expr;

use super::filters::replaced;
use crate::rel::{Col, Project, Rel, Union};

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

/// Whether each expression of the inner projection is read at most once, or is free.
fn can_merge(outer: &Project, inner: &Project) -> bool {
    let mut reads: BTreeMap<&Column, usize> = BTreeMap::new();
    for (column, count) in outer.exprs.iter().flat_map(Expr::column_refs_counts) {
        *reads.entry(column).or_default() += count;
    }
    let is_free = |expr: &Expr| matches!(expr, Expr::Column(_) | Expr::Literal(..));
    let is_read_once = |column: &Column| reads.get(column).is_none_or(|reads| *reads <= 1);
    // A later pass may duplicate a value inside an expression.
    let is_bare = |id: &Column| outer.exprs.iter().all(|of| is_cast_of(of, id) || !of.column_refs().contains(id));
    let is_moved = |col: &Col, expr: &Expr| is_read_once(&col.id) && (!expr.is_volatile() || is_bare(&col.id));
    let is_plain = inner.event_time.is_none() && inner.columns.called().is_none();
    is_plain && inner.columns.iter().zip(&inner.exprs).all(|(col, expr)| is_free(expr) || is_moved(col, expr))
}

/// Whether an expression is a column, perhaps cast.
fn is_cast_of(expr: &Expr, column: &Column) -> bool {
    match expr {
        Expr::Cast(cast) => is_cast_of(&cast.expr, column),
        expr => expr.try_as_col() == Some(column),
    }
}

fn is_union(plan: &Arc<Rel>) -> bool {
    matches!(plan.as_ref(), Rel::Union(_))
}

/// Replaces nested unions by their inputs.
fn flat(union: Union) -> Rel {
    let inputs = union.inputs.into_iter().flat_map(|input| match input.as_ref() {
        Rel::Union(inner) => inner.inputs.clone(),
        _ => vec![input],
    });
    Rel::Union(Union { inputs: inputs.collect(), columns: union.columns })
}

fn merged(outer: Project) -> Result<Transformed<Rel>> {
    let Project { exprs, input, event_time, columns } = outer;
    let Rel::Project(inner) = Arc::unwrap_or_clone(input) else {
        return datafusion_common::internal_err!("an input that was a projection");
    };
    let meanings: BTreeMap<Column, Expr> = inner.columns.ids().into_iter().zip(inner.exprs).collect();
    let exprs = exprs.into_iter().map(|expr| replaced(expr, &meanings)).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(Rel::Project(Project { exprs, input: inner.input, event_time, columns })))
}
