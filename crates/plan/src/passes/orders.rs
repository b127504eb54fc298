//! `ORDER BY` within a query, which has no effect where something reads the rows that keeps no order.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::{LogicalPlan, Sort};

use crate::walk::Walk;

/// Removes orders without effect. Those of the rows of the whole plan stay.
pub(crate) fn without_inner_orders(plan: LogicalPlan) -> Result<LogicalPlan> {
    let keeps_order = matches!(
        plan,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) | LogicalPlan::Limit(_)
    );
    let mut removed = |node: LogicalPlan| match node {
        LogicalPlan::Sort(Sort { input, fetch: None, .. }) => Ok(Transformed::yes(Arc::unwrap_or_clone(input))),
        node => Ok(Transformed::no(node)),
    };
    let mut within = |child: LogicalPlan| match keeps_order {
        true => without_inner_orders(child).map(Transformed::yes),
        false => child.walk_up(&mut removed),
    };
    Ok(plan.walk_children(&mut within)?.data)
}
