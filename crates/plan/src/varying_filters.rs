//! Conditions that have another value each time are asked of the rows that they are about.
//!
//! The optimizer asks a condition that reads only keys of an aggregate, or no column, of the rows before the aggregate, and so with joins:
//! `WHERE RANDOM() < 0.5` over counts would count half of the rows. Such a condition becomes a column, which the filter reads.

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

/// The column with the value of such conditions. The name of a column of a query does not begin like this.
const PASSES: &str = "$passes";

/// Lets filters keep their place.
pub(crate) fn settle(plan: LogicalPlan) -> Result<LogicalPlan> {
    let settled = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) if filter.predicate.is_volatile() && !is_of_one_table(&filter.input) => {
            let (varying, others): (Vec<Expr>, Vec<Expr>) =
                split_conjunction_owned(filter.predicate).into_iter().partition(Expr::is_volatile);
            let columns: Vec<Expr> = filter.input.schema().columns().into_iter().map(Expr::Column).collect();
            let passes = conjunction(varying).map(|varying| varying.alias(PASSES));
            let settled = LogicalPlanBuilder::from(filter.input)
                .project(columns.iter().cloned().chain(passes))?
                .filter(others.into_iter().fold(Expr::Column(Column::from_name(PASSES)), Expr::and))?
                .project(columns)?;
            Ok(Transformed::yes(settled.build()?))
        }
        node => Ok(Transformed::no(node)),
    });
    settled.map(|settled| settled.data)
}

/// Whether rows are those of one table, each on its own: then it makes no difference where a filter is.
fn is_of_one_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) => {
            plan.inputs().into_iter().all(is_of_one_table)
        }
        _ => false,
    }
}
