//! Replaces calls of declared functions by their bodies.
//!
//! An argument replaces its parameter. So it is evaluated only where the body needs it, and the optimizer
//! computes it once if the body reads it several times. A volatile argument, such as `RANDOM()`, may be read
//! only once.

use std::collections::BTreeSet;

use anabranch_model::Error;
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_expr::Expr;

use super::{CalledFunction, SqlFunction};
use crate::place::through;
use crate::rel::{Rel, name_of};
use crate::rewrite::change_expressions;
use crate::walk::Walk;

/// The number of expressions that the calls of one statement may expand to.
const NODES_MAX: usize = 50_000;
/// The nesting of expressions after expansion.
const DEPTH_MAX: usize = 150;

/// The declared functions that a plan calls before expansion.
pub(crate) fn called_functions(plan: &Rel) -> Result<BTreeSet<CalledFunction>> {
    let mut found = BTreeSet::new();
    plan.see(&mut |node| {
        for expr in node.expressions() {
            expr.see(&mut |expr| {
                if let Expr::ScalarFunction(call) = expr
                    && let Some(function) = SqlFunction::from_udf(&call.func)
                {
                    found.insert(function.itself.clone());
                    found.extend(function.calls.iter().cloned());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Replaces every call. The arguments already have the types of the parameters.
pub(crate) fn expand_calls(plan: Rel) -> Result<Rel> {
    if called_functions(&plan)?.is_empty() {
        return Ok(plan);
    }
    let mut nodes_left = NODES_MAX;
    let expanded = plan.walk_up(&mut |plan| {
        let plan = change_expressions(plan, &mut |expr| {
            let expanded = expr.walk_up(&mut |expr| expand(expr, &mut nodes_left))?;
            if expanded.transformed && depth(&expanded.data) > DEPTH_MAX {
                let error =
                    format!("an expression is nested more than {DEPTH_MAX} deep, with the functions that it calls");
                return Err(through(Error::user(error).remedy("divide it among several views")));
            }
            Ok(expanded)
        })?;
        plan.map_data(Rel::with_types)
    });
    expanded.map(|expanded| expanded.data)
}

fn expand(expr: Expr, nodes_left: &mut usize) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
    let Some(function) = SqlFunction::from_udf(&call.func) else { return Ok(Transformed::no(expr)) };
    let mut nodes = function.nodes;
    for (parameter, argument) in function.parameters.iter().zip(&call.args) {
        if parameter.uses > 1 && argument.is_volatile() {
            let (name, function, uses) = (&parameter.name, &function.itself.name, parameter.uses);
            let error = Error::user(format!(
                "the argument '{name}' of {function} has another value at each evaluation, and the function uses it {uses} times"
            ));
            return Err(through(
                error.remedy(format!("give {function} the column of a query that computes the value")),
            ));
        }
        nodes = nodes.saturating_add(parameter.uses.saturating_mul(count_nodes(argument)));
    }
    let Some(rest) = nodes_left.checked_sub(nodes) else {
        let error = Error::user(format!("the functions of one statement become more than {NODES_MAX} expressions"));
        return Err(through(error.remedy("use each parameter less often, or compute its value in a view")));
    };
    *nodes_left = rest;
    // Operands first, because columns of an argument are not parameters.
    let body = function.body.clone().walk_up(&mut |expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        let arguments = function.parameters.iter().zip(&call.args);
        let argument = arguments.into_iter().find(|(parameter, _)| parameter.name == name_of(column));
        Ok(argument.map_or_else(|| Transformed::no(expr.clone()), |(_, argument)| Transformed::yes(argument.clone())))
    })?;
    Ok(Transformed::yes(body.data))
}

/// The number of expressions in an expression, including itself.
pub(super) fn count_nodes(expr: &Expr) -> usize {
    count(expr, |_| true)
}

/// The number of references to a column.
pub(super) fn count_columns(expr: &Expr, name: &str) -> usize {
    count(expr, |expr| matches!(expr, Expr::Column(column) if name_of(column) == name))
}

fn count(expr: &Expr, counts: impl Fn(&Expr) -> bool) -> usize {
    let mut found = 0;
    let _ = expr.see(&mut |expr| {
        found += usize::from(counts(expr));
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

fn depth(expr: &Expr) -> usize {
    let mut below = 0;
    let _ = expr.see_children(&mut |child| {
        below = below.max(depth(child));
        Ok(TreeNodeRecursion::Continue)
    });
    below + 1
}
