//! The text that identifies a query.

use anabranch_model::Result;
use datafusion_common::tree_node::TreeNodeRecursion;

use crate::place::planning_error;
use crate::rel::Rel;

/// A text that differs for different queries. The text of a plan has only the first rows of VALUES; this one
/// has all.
pub(super) fn query_text(plan: &Rel) -> Result<String> {
    // The number of rows of VALUES that the text of a plan has.
    const NAMED: usize = 5;
    let mut text = plan.to_string();
    plan.see(&mut |node| {
        if let Rel::Values(values) = node {
            for row in values.rows.iter().skip(NAMED) {
                let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
                text.push_str(&format!("\n({})", cells.join(", ")));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(planning_error)?;
    Ok(text)
}
