//! Expressions that have another value each time, such as `RAND()` and `NOW()`: each is evaluated where it is written, and once for a row.
//!
//! The optimizer does not know that of all expressions. It asks a condition that reads only keys of an aggregate, or no column, of the rows
//! before the aggregate, and so with joins: `WHERE RAND() < 0.5` over counts would count half of the rows. Such a condition becomes a
//! column, which the filter reads. Where an expression would be copied, it is refused: a column of a query is computed once.

use anabranch_model::Error;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, JoinType, Result};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use crate::place::through;
use crate::{current_watermark, processing_time};

/// The column with the value of such conditions. The name of a column of a query does not begin like this.
const PASSES: &str = "$passes";

/// Whether an expression may have another value each time. What a source gives its rows stays the same.
pub(crate) fn varies(expr: &Expr) -> bool {
    let found = expr.exists(|expr| {
        let of_source = processing_time::is_call(expr) || current_watermark::is_call(expr);
        let function = matches!(expr, Expr::ScalarFunction(_)) && expr.is_volatile_node();
        Ok(function && !of_source)
    });
    found.unwrap_or(true)
}

/// Lets such expressions keep their place.
pub(crate) fn settle(plan: LogicalPlan) -> Result<LogicalPlan> {
    let settled = plan.transform_up_with_subqueries(|node| {
        check_copied(&node)?;
        match node {
            LogicalPlan::Filter(filter) if varies(&filter.predicate) && !is_of_one_table(&filter.input) => {
                let input = LogicalPlanBuilder::from(filter.input);
                Ok(Transformed::yes(filtered(input, filter.predicate)?))
            }
            LogicalPlan::Join(mut join) if join.filter.as_ref().is_some_and(varies) => {
                let filter = join.filter.take().filter(|_| join.join_type == JoinType::Inner);
                let filter = filter.ok_or_else(|| {
                    let error = Error::user("the condition of this join has another value each time");
                    through(error.remedy("give the rows of one side the value first: SELECT *, RAND() AS r FROM t"))
                })?;
                Ok(Transformed::yes(filtered(LogicalPlanBuilder::from(LogicalPlan::Join(join)), filter)?))
            }
            node => Ok(Transformed::no(node)),
        }
    });
    settled.map(|settled| settled.data)
}

/// The rows that pass a condition, which is a column of them.
fn filtered(input: LogicalPlanBuilder, predicate: Expr) -> Result<LogicalPlan> {
    let (varying, others): (Vec<Expr>, Vec<Expr>) = split_conjunction_owned(predicate).into_iter().partition(varies);
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let passes = conjunction(varying).map(|varying| varying.alias(PASSES));
    input
        .project(columns.iter().cloned().chain(passes))?
        .filter(others.into_iter().fold(Expr::Column(Column::from_name(PASSES)), Expr::and))?
        .project(columns)?
        .build()
}

/// Whether rows are those of one table, each on its own: then it makes no difference where a filter is.
fn is_of_one_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        // Equal conditions over each other would become one.
        LogicalPlan::Filter(filter) if varies(&filter.predicate) => false,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) => {
            plan.inputs().into_iter().all(is_of_one_table)
        }
        _ => false,
    }
}

/// Refuses expressions that would be evaluated more than once for a row, or for a row and its group.
fn check_copied(node: &LogicalPlan) -> Result<()> {
    let refused = |what: &str| {
        let error =
            Error::user(format!("{what} has another value at each evaluation, and is evaluated more than once"));
        through(error.remedy("give the rows the value first: SELECT *, RAND() AS r FROM t"))
    };
    if let LogicalPlan::Aggregate(aggregate) = node
        && aggregate.group_expr.iter().any(varies)
    {
        return Err(refused("a key of GROUP BY"));
    }
    let is_copied = |name: &str| ["coalesce", "nullif", "nvl", "nvl2"].contains(&name);
    for expr in node.expressions() {
        expr.apply(|expr| match expr {
            Expr::Case(case) if case.expr.as_deref().is_some_and(varies) => Err(refused("the operand of CASE")),
            Expr::Between(between) if varies(&between.expr) => Err(refused("the operand of BETWEEN")),
            Expr::ScalarFunction(call) if is_copied(call.func.name()) && call.args.iter().any(varies) => {
                Err(refused(&format!("an argument of {}", call.func.name().to_uppercase())))
            }
            Expr::AggregateFunction(call)
                if ["first_value", "last_value"].contains(&call.func.name()) && call.params.args.iter().any(varies) =>
            {
                Err(refused(&format!("the argument of {}", call.func.name().to_uppercase())))
            }
            _ => Ok(TreeNodeRecursion::Continue),
        })?;
    }
    Ok(())
}
