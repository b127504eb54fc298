//! Removes conditions that are always true, nodes without rows, and semi and anti joins that pair nothing.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{JoinType, Result, ScalarValue};
use datafusion_expr::Expr;

use crate::rel::{Columns, Join, Rel, Union, project};

pub(super) fn without_rows(plan: Rel) -> Result<Rel> {
    let removed = plan.walk_up(&mut |node| {
        let nothing = |node: Rel| Ok(Transformed::yes(Rel::nothing(Arc::clone(node.shared_columns()))));
        match node {
            Rel::Filter(filter) => match filter.predicate.as_literal() {
                Some(ScalarValue::Boolean(Some(true))) => Ok(Transformed::yes(Arc::unwrap_or_clone(filter.input))),
                Some(ScalarValue::Boolean(_)) => nothing(Rel::Filter(filter)),
                _ if is_empty(&filter.input) => nothing(Rel::Filter(filter)),
                _ => Ok(Transformed::no(Rel::Filter(filter))),
            },
            Rel::Join(mut join) if join.filter.as_ref().is_some_and(is_true) => {
                join.filter = None;
                Ok(Transformed::yes(Rel::Join(join)))
            }
            Rel::Union(union) if union.inputs.iter().any(|input| is_empty(input)) => {
                let Union { inputs, columns } = union;
                let inputs: Vec<_> = inputs.into_iter().filter(|input| !is_empty(input)).collect();
                match inputs.len() {
                    0 => nothing(Rel::Union(Union { inputs, columns })),
                    1 => only(inputs, &columns).map(Transformed::yes),
                    _ => Ok(Transformed::yes(Rel::Union(Union { inputs, columns }))),
                }
            }
            Rel::Join(join) if pairs_nothing(&join) => match join.join_type {
                JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => nothing(Rel::Join(join)),
                JoinType::LeftAnti => Ok(Transformed::yes(Arc::unwrap_or_clone(join.left))),
                JoinType::RightAnti => Ok(Transformed::yes(Arc::unwrap_or_clone(join.right))),
                _ => Ok(Transformed::no(Rel::Join(join))),
            },
            node if gives_for_rows(&node) && node.inputs().into_iter().all(is_empty) => nothing(node),
            node => Ok(Transformed::no(node)),
        }
    });
    removed.map(|plan| plan.data)
}

/// Whether a node without input rows has no output rows. An aggregate without keys has one.
fn gives_for_rows(plan: &Rel) -> bool {
    use Rel::{Assign, Copies, Over, Project, Sort, Unnest};
    match plan {
        Rel::Aggregate(aggregate) => {
            let is_set = |key: &Expr| matches!(key, Expr::GroupingSet(_));
            !aggregate.group_expr.is_empty() && !aggregate.group_expr.iter().any(is_set)
        }
        plan => matches!(plan, Assign(_) | Copies(_) | Over(_) | Project(_) | Sort(_) | Unnest(_)),
    }
}

/// Whether no row of one side has a partner on the other.
fn pairs_nothing(join: &Join) -> bool {
    let literal = join.filter.as_ref().and_then(Expr::as_literal);
    let is_never_true = matches!(literal, Some(ScalarValue::Boolean(Some(false) | None)));
    is_never_true || is_empty(&join.left) || is_empty(&join.right)
}

fn is_true(expr: &Expr) -> bool {
    expr.as_literal() == Some(&ScalarValue::Boolean(Some(true)))
}

/// The only remaining input of a union, with the union's columns.
fn only(inputs: Vec<Arc<Rel>>, union: &Arc<Columns>) -> Result<Rel> {
    let Some(plan) = inputs.into_iter().next() else { return Ok(Rel::nothing(Arc::clone(union))) };
    let columns = plan.ids().into_iter().map(Expr::Column);
    project(plan, union.ids().into_iter().zip(columns))
}

fn is_empty(plan: &Rel) -> bool {
    matches!(plan, Rel::Values(values) if values.rows.is_empty())
}
