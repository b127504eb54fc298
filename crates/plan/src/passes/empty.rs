//! Conditions that always hold, and parts of a plan without rows.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, DFSchemaRef, JoinType, Result, ScalarValue};
use datafusion_expr::{EmptyRelation, Expr, LogicalPlan, Union};

use crate::projection::project;
use crate::walk::Walk;

/// Removes both.
pub(super) fn without_rows(plan: LogicalPlan) -> Result<LogicalPlan> {
    let removed = plan.walk_up(&mut |node| {
        let nothing = |node: LogicalPlan| Ok(Transformed::yes(nothing(Arc::clone(node.schema()))));
        match node {
            LogicalPlan::Filter(filter) => match filter.predicate.as_literal() {
                Some(ScalarValue::Boolean(Some(true))) => Ok(Transformed::yes(Arc::unwrap_or_clone(filter.input))),
                Some(ScalarValue::Boolean(_)) => nothing(LogicalPlan::Filter(filter)),
                _ if is_empty(&filter.input) => nothing(LogicalPlan::Filter(filter)),
                _ => Ok(Transformed::no(LogicalPlan::Filter(filter))),
            },
            LogicalPlan::Join(mut join) if join.filter.as_ref().is_some_and(is_true) => {
                join.filter = None;
                Ok(Transformed::yes(LogicalPlan::Join(join)))
            }
            LogicalPlan::Union(union) if union.inputs.iter().any(|input| is_empty(input)) => {
                let Union { inputs, schema } = union;
                let inputs: Vec<_> = inputs.into_iter().filter(|input| !is_empty(input)).collect();
                match inputs.len() {
                    0 => nothing(LogicalPlan::Union(Union { inputs, schema })),
                    1 => named(inputs, &schema).map(Transformed::yes),
                    _ => Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema }))),
                }
            }
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
                match is_empty(&join.left) || is_empty(&join.right) {
                    true => nothing(LogicalPlan::Join(join)),
                    false => Ok(Transformed::no(LogicalPlan::Join(join))),
                }
            }
            node if gives_for_rows(&node) && node.inputs().into_iter().all(is_empty) => nothing(node),
            node => Ok(Transformed::no(node)),
        }
    });
    removed.map(|plan| plan.data)
}

/// Whether a node has rows only for rows of its input. An aggregate without keys has one for none.
fn gives_for_rows(plan: &LogicalPlan) -> bool {
    use LogicalPlan::{Projection, Sort, SubqueryAlias, Window};
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let is_set = |key: &Expr| matches!(key, Expr::GroupingSet(_));
            !aggregate.group_expr.is_empty() && !aggregate.group_expr.iter().any(is_set)
        }
        // One input: windows, elements of arrays, copies of rows.
        LogicalPlan::Extension(extension) => extension.node.inputs().len() == 1,
        plan => matches!(plan, Projection(_) | Sort(_) | SubqueryAlias(_) | Window(_)),
    }
}

fn is_true(expr: &Expr) -> bool {
    expr.as_literal() == Some(&ScalarValue::Boolean(Some(true)))
}

/// The only input that is left of a union, with the columns of the union.
fn named(inputs: Vec<Arc<LogicalPlan>>, schema: &DFSchema) -> Result<LogicalPlan> {
    let plan = inputs.into_iter().next().unwrap_or_default();
    let columns = schema.iter().zip(plan.schema().columns());
    let columns = columns
        .map(|((qualifier, field), column)| Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()));
    project(plan, columns.collect())
}

fn is_empty(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, .. }))
}

fn nothing(schema: DFSchemaRef) -> LogicalPlan {
    LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })
}
