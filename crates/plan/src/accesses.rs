//! Accesses to fields of rows, which the library's optimizer moves towards the tables, so that sources read only the fields that are needed.
//!
//! Its rules take columns with the same name for the same columns. `SELECT UPPER(a) AS a, r.f` would lose the call, and `SELECT b AS a, a AS b,
//! r.f` would have two columns `a`. So such a projection becomes two, of which the first gives other names, and the second the user's; the last
//! rule of each pass makes them one again. In a union they take the columns of one side for others of the other, and a row with two names they
//! read twice under one name, so nothing is moved there.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion_common::alias::AliasGenerator;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, ExprSchema, Result};
use datafusion_expr::{Expr, ExpressionPlacement, LogicalPlan, Projection};
use datafusion_optimizer::{OptimizerConfig, OptimizerRule};

use crate::rules::Rule;
use crate::walk::Walk;

/// The rules that move accesses.
const MOVING: [&str; 2] = ["extract_leaf_expressions", "push_down_leaf_projections"];
/// How the names begin that the library gives to accesses.
const EXTRACTED: &str = "__datafusion_extracted";
/// How the names begin that are given here.
const APART: &str = "$apart";

/// The rules for a plan: those that move accesses too, where that is safe.
pub(crate) fn rules(plan: &LogicalPlan, mut rules: Vec<Rule>) -> Result<Vec<Rule>> {
    if !has(plan, has_access)? {
        return Ok(rules);
    }
    if has(plan, |node| matches!(node, LogicalPlan::Union(_)) || names_twice(node))? {
        rules.retain(|rule| !MOVING.contains(&rule.name()));
        return Ok(rules);
    }
    let place = rules.iter().position(|rule| MOVING.contains(&rule.name())).unwrap_or(rules.len());
    rules.insert(place, Arc::new(NamesApart::default()));
    Ok(rules)
}

/// See the module.
#[derive(Debug, Default)]
struct NamesApart {
    names: AliasGenerator,
}

impl OptimizerRule for NamesApart {
    fn name(&self) -> &str {
        "names_apart"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.walk_up(&mut |node| match node {
            LogicalPlan::Projection(projection) => apart(projection, &self.names),
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Whether a node of the plan, or of its subqueries, is like that.
fn has(plan: &LogicalPlan, is: impl Fn(&LogicalPlan) -> bool) -> Result<bool> {
    let mut found = false;
    plan.see(&mut |node| {
        found |= is(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a projection gives a row two names. The library would read the row twice under one of them.
fn names_twice(node: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = node else { return false };
    let mut rows = BTreeSet::new();
    let values = expr.iter().map(|expr| expr.clone().unalias_nested().data);
    let is_row = |column: &Column| {
        let field = input.schema().field_from_column(column);
        field.is_ok_and(|field| field.data_type().is_nested())
    };
    let mut named = values.filter_map(|value| value.try_as_col().cloned().filter(is_row));
    named.any(|row| !rows.insert(row))
}

/// Whether the library moves an access of this node.
fn has_access(node: &LogicalPlan) -> bool {
    let is_moved = |expr: &Expr| Ok(expr.placement() == ExpressionPlacement::MoveTowardsLeafNodes || is_access(expr));
    node.expressions().iter().any(|expr| expr.has(&is_moved).unwrap_or(true))
}

fn is_access(expr: &Expr) -> bool {
    matches!(expr, Expr::Alias(alias) if alias.name.starts_with(EXTRACTED))
}

/// Divides a projection that computes columns with names of its input.
fn apart(projection: Projection, names: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let input = projection.input.schema();
    let (mut given, mut kept, mut divides) = (Vec::new(), Vec::new(), false);
    for (expr, (qualifier, field)) in projection.expr.iter().zip(projection.schema.iter()) {
        let is_new = !matches!(expr, Expr::Column(_)) && !is_access(expr);
        if is_new && input.has_column_with_unqualified_name(field.name()) {
            divides = true;
            let name = names.next(APART);
            given.push(expr.clone().unalias().alias(&name));
            let column = Expr::Column(Column::new_unqualified(name));
            kept.push(column.alias_qualified(qualifier.cloned(), field.name()));
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
