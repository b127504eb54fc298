//! Removes `ORDER BY` in subqueries where the reader keeps no order.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;

use crate::rel::{Rel, Sort};

/// Removes these orders. The order of the whole query stays.
pub(crate) fn without_inner_orders(plan: Rel) -> Result<Rel> {
    let keeps_order = matches!(plan, Rel::Project(_) | Rel::Filter(_) | Rel::Limit(_));
    let mut removed = |node: Rel| match node {
        Rel::Sort(Sort { input, .. }) => Ok(Transformed::yes(Arc::unwrap_or_clone(input))),
        node => Ok(Transformed::no(node)),
    };
    let mut within = |child: Rel| match keeps_order {
        true => without_inner_orders(child).map(Transformed::yes),
        false => child.walk_up(&mut removed),
    };
    Ok(plan.walk_children(&mut within)?.data)
}
