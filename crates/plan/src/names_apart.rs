//! Names of computed columns that differ from those of the columns that they are computed from, while the library moves accesses to fields of
//! rows towards the tables.
//!
//! Its rules take columns with the same name for the same columns: `SELECT UPPER(a) AS a, r.f` would lose the call, and `SELECT b AS a, a AS b,
//! r.f` would have two columns `a`. So such a projection becomes two, of which the first gives other names, and the second the user's. The
//! last rule of each pass makes them one again.

use std::sync::Arc;

use datafusion_common::alias::AliasGenerator;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{Column, Result};
use datafusion_expr::{Expr, ExpressionPlacement, LogicalPlan, Projection};
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

/// The rule before which this one belongs.
pub(crate) const BEFORE: &str = "extract_leaf_expressions";
/// How the names begin that the library gives to accesses.
const EXTRACTED: &str = "__datafusion_extracted";
/// How the names begin that are given here.
const APART: &str = "$apart";

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct NamesApart {
    names: AliasGenerator,
}

impl OptimizerRule for NamesApart {
    fn name(&self) -> &str {
        "names_apart"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !moves_accesses(&plan)? {
            return Ok(Transformed::no(plan));
        }
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Projection(projection) => apart(projection, &self.names),
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Whether the library moves accesses of this plan.
fn moves_accesses(plan: &LogicalPlan) -> Result<bool> {
    let is_moved = |expr: &Expr| Ok(expr.placement() == ExpressionPlacement::MoveTowardsLeafNodes || is_access(expr));
    let mut moves = false;
    plan.apply_with_subqueries(|node| {
        moves |= node.expressions().iter().any(|expr| expr.exists(is_moved).unwrap_or(true));
        Ok(if moves { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(moves)
}

fn is_access(expr: &Expr) -> bool {
    matches!(expr, Expr::Alias(alias) if alias.name.starts_with(EXTRACTED))
}

/// Divides a projection that computes columns with names of its input.
fn apart(projection: Projection, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let input = projection.input.schema();
    let (mut given, mut kept, mut divides) = (Vec::new(), Vec::new(), false);
    for (expr, (qualifier, field)) in projection.expr.iter().zip(projection.schema.iter()) {
        let collides = !matches!(expr, Expr::Column(_))
            && !is_access(expr)
            && input.has_column_with_unqualified_name(field.name());
        if collides {
            divides = true;
            let name = names.next(APART);
            given.push(expr.clone().unalias().alias(&name));
            kept.push(Expr::Column(Column::new_unqualified(name)).alias_qualified(qualifier.cloned(), field.name()));
        } else {
            given.push(expr.clone());
            kept.push(Expr::from((qualifier, field)));
        }
    }
    if !divides {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let given = LogicalPlan::Projection(Projection::try_new(given, projection.input)?);
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(kept, Arc::new(given))?)))
}
