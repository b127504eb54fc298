//! Rewriting the expressions of a whole logical plan, with the columns that each may use.

use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{Expr, LogicalPlan, Operator};

use crate::walk::{Walk, WalkPlan};

/// Rewrites every expression of the plan, operands first. `rewrite` receives the columns of the node's inputs. Results
/// keep their names; their types may change.
pub(crate) fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.walk_up(&mut |plan| rewrite_node(plan, &rewrite)).map(|plan| plan.data)
}

/// [`rewrite_expressions`], also of the plans of subqueries.
pub(crate) fn rewrite_expressions_everywhere(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    plan.walk_up(&mut |plan| rewrite_node(plan, &rewrite)).map(|plan| plan.data)
}

/// Rewrites the expressions of one node, whose inputs are as they are to be.
pub(crate) fn rewrite_node(
    plan: LogicalPlan,
    rewrite: &impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let schemas = plan.inputs().into_iter().map(|input| input.schema().as_ref().clone());
    let schema = schemas.reduce(|all, schema| all.join(&schema).unwrap_or(all)).unwrap_or_else(DFSchema::empty);
    let names = NamePreserver::new(&plan);
    let plan = plan.walk_expressions(&mut |expr| {
        let name = names.save(&expr);
        let rewritten = expr.walk_up(&mut |expr| rewrite(expr, &schema))?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    // What reads its columns may ask for their types.
    plan.map_data(LogicalPlan::recompute_schema)
}

/// Whether an operator compares values.
pub(crate) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
