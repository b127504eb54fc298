//! The rules of the optimizer: those of the library that change no answer, and ours in the places of others. `tests` compares the rows of
//! queries by chance before and after each of them.

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{NullEquality, Result};
use datafusion_expr::LogicalPlan;
use datafusion_optimizer::optimizer::ApplyOrder;
use datafusion_optimizer::{Optimizer, OptimizerConfig, OptimizerRule};

use crate::push_down::PushDown;
use crate::simplify::Simplify;
use crate::walk::Walk;

/// A rule of the optimizer.
pub(crate) type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Rules whose plans are worse here. A distinct count becomes a second aggregation; for windows it is better to keep
/// the distinct values as the state of one aggregation. A bound of the number of rows, pushed below a join or a union, would be a further
/// stage of one task.
const DROPPED: [&str; 2] = ["single_distinct_aggregation_to_group_by", "push_down_limit"];

/// The rules, in their order.
pub(crate) fn rules() -> Vec<Rule> {
    let of_library = Optimizer::new().rules.into_iter().filter(|rule| !DROPPED.contains(&rule.name()));
    let in_their_places = of_library.map(|rule| match rule.name() {
        "simplify_expressions" => Arc::new(Simplify) as Rule,
        "push_down_filter" => Arc::new(PushDown),
        "eliminate_cross_join" | "extract_equijoin_predicate" => Arc::new(OfOneEquality(rule)),
        _ => rule,
    });
    in_their_places.collect()
}

/// A rule that adds keys to joins, or moves them from one to another. Some keys take NULL for equal (`IS NOT DISTINCT FROM`) and others do not,
/// which the library does not distinguish.
#[derive(Debug)]
struct OfOneEquality(Rule);

impl OptimizerRule for OfOneEquality {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let takes_nulls = |node: &LogicalPlan| matches!(node, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty());
        // A rule with an order sees one node at a time; one without sees the whole plan.
        let leaves = match self.apply_order() {
            Some(_) => takes_nulls(&plan),
            None => plan.has(&|node| Ok(takes_nulls(node)))?,
        };
        if leaves { Ok(Transformed::no(plan)) } else { self.0.rewrite(plan, config) }
    }
}

#[cfg(test)]
mod tests;
