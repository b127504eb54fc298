//! The passes between the binder and lowering. Each runs once, in this order, and returns a plan with the
//! same rows. `EXPLAIN VERBOSE` shows the plan after each pass that changed it.
//!
//! `tests` compares the rows of random queries before and after each pass.

mod coerce;
mod connect;
mod empty;
mod filters;
mod fold;
mod grouping;
mod merge;
mod orders;
mod prune;

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::Expr;

use crate::approximate::{approximate_decimals, approximate_union};
use crate::compared_rows::compare_fields;
use crate::compared_times::read_texts;
use crate::exact::convert_constants;
use crate::intervals::without_days;
use crate::maps::compare_maps;
use crate::origin::{first_span, or_at};
use crate::rel::{Distinct, Rel, aggregate};
use crate::rewrite::{rewrite_expressions, rewrite_node, rewrite_nodes};
use crate::sql_function::expand_calls;
use crate::varying;
use crate::zones::zone_times;

pub(crate) struct Pass {
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) does: &'static str,
    /// The reason for its position.
    pub(crate) place: &'static str,
    run: fn(Rel, &Session) -> Result<Rel>,
}

/// The settings of the session that passes read.
pub(crate) struct Session<'a> {
    /// The time zone. `None`: UTC.
    pub(crate) zone: Option<&'a str>,
}

/// Passes that determine types.
pub(crate) const ANALYSIS: [Pass; 3] = [
    Pass {
        name: "compare",
        does: "rewrites comparisons of rows, maps, times and DECIMALs by the rules of SQL",
        place: "first, because type coercion hides the compared types",
        run: |plan, _| compare(plan),
    },
    Pass {
        name: "grouping",
        does: "computes GROUPING from the number of the grouping set",
        place: "before type coercion, because GROUPING has no argument types",
        run: |plan, _| grouping::grouping(plan),
    },
    Pass {
        name: "coerce",
        does: "gives the operands of each operator and function their types",
        place: "before all passes that need types",
        run: |plan, _| coerce::coerce(plan),
    },
];

/// Passes that run after [`ANALYSIS`].
pub(crate) const REWRITES: [Pass; 12] = [
    Pass {
        name: "expand",
        does: "replaces calls of declared functions by their bodies",
        place: "after the arguments have the types of the parameters, and before all passes that optimize the bodies",
        run: |plan, _| expand_calls(plan),
    },
    Pass {
        name: "settle",
        does: "adds the time zone to calls that depend on it, and converts constants exactly",
        place: "before DataFusion's functions compute constants",
        run: zones_and_constants,
    },
    Pass {
        name: "vary",
        does: "computes each volatile expression once",
        place: "before conditions move and expressions are copied",
        run: |plan, _| varying::check(plan).and_then(varying::isolate),
    },
    Pass {
        name: "orders",
        does: "removes ORDER BY where nothing keeps the order",
        place: "before conditions move",
        run: |plan, _| orders::without_inner_orders(plan),
    },
    Pass {
        name: "distinct",
        does: "groups by all columns for DISTINCT",
        place: "before conditions move, so that they move below one kind of grouping",
        run: |plan, _| distinct(plan),
    },
    Pass {
        name: "merge",
        does: "merges nested projections and nested unions",
        place: "before constants are computed, which nested projections hide",
        run: |plan, _| merge::merge(plan),
    },
    Pass {
        name: "fold",
        does: "computes constants and simplifies expressions",
        place: "before conditions move, because a simplified condition divides into more conditions",
        run: |plan, _| rewrite_expressions(plan, &[&fold::simplify]),
    },
    Pass {
        name: "connect",
        does: "orders the tables of inner joins so that each is compared with one before it",
        place: "before conditions move to the joins",
        run: |plan, _| connect::connect(plan),
    },
    Pass {
        name: "filters",
        does: "moves conditions towards the tables, and finds the keys of joins",
        place: "after all passes that create or divide conditions",
        run: |plan, _| filters::push_down(plan),
    },
    Pass {
        name: "fold again",
        does: "simplifies conditions whose columns were replaced by expressions",
        place: "after conditions have moved below projections",
        run: |plan, _| rewrite_expressions(plan, &[&fold::simplify]),
    },
    Pass {
        name: "empty",
        does: "removes conditions that are always true, operators without rows, and joins that pair nothing",
        place: "after conditions are simplified",
        run: |plan, _| empty::without_rows(plan),
    },
    Pass {
        name: "prune",
        does: "removes columns that nothing reads, and reads fields instead of rows",
        place: "last, when all reads are known",
        run: |plan, _| prune::prune(plan),
    },
];

/// Runs passes. `observe` receives the plan and the pass after each pass.
pub(crate) fn run(passes: &[Pass], plan: Rel, session: &Session, observe: &mut dyn FnMut(&Rel, &Pass)) -> Result<Rel> {
    passes.iter().try_fold(plan, |plan, pass| {
        let plan = (pass.run)(plan, session)?;
        observe(&plan, pass);
        Ok(plan)
    })
}

fn compare(plan: Rel) -> Result<Rel> {
    let compared = rewrite_nodes(plan, &|node| match node {
        Rel::Union(union) => approximate_union(union),
        node => rewrite_node(node, &[&compare_fields, &approximate_decimals, &compare_maps, &read_texts]),
    });
    compared.map(|plan| plan.data)
}

fn zones_and_constants(plan: Rel, session: &Session) -> Result<Rel> {
    rewrite_expressions(
        plan,
        &[&|expr, scope| zone_times(expr, scope, session.zone), &without_days, &convert_constants],
    )
}

fn distinct(plan: Rel) -> Result<Rel> {
    let grouped = plan.walk_up(&mut |node| match node {
        Rel::Distinct(Distinct { input }) if identity(&input).is_some() => {
            Ok(Transformed::yes(Arc::unwrap_or_clone(input)))
        }
        Rel::Distinct(Distinct { input }) => {
            let columns = distinct_columns(&input)?;
            aggregate(input, columns, Vec::new()).map(|plan| Transformed::yes(Rel::Aggregate(plan)))
        }
        node => Ok(Transformed::no(node)),
    });
    grouped.map(|plan| plan.data)
}

/// The columns of a plan, with the places of the expressions that they come from.
fn distinct_columns(plan: &Rel) -> Result<Vec<Expr>> {
    let columns = plan.ids().into_iter().map(Expr::Column);
    match plan {
        Rel::Project(project) => {
            columns.zip(&project.exprs).map(|(column, expr)| or_at(column, first_span(expr))).collect()
        }
        _ => Ok(columns.collect()),
    }
}

/// Columns that identify a row, such as the keys of GROUP BY.
fn identity(plan: &Rel) -> Option<Vec<usize>> {
    match plan {
        Rel::Aggregate(aggregate) => {
            let has_sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
            (!has_sets).then(|| (0..aggregate.group_expr.len()).collect())
        }
        Rel::Filter(_) | Rel::Sort(_) | Rel::Limit(_) => identity(plan.inputs().first()?),
        Rel::Project(projection) => {
            let columns = projection.input.ids();
            let kept = |key: usize| {
                let is_key = |expr: &Expr| expr.try_as_col() == columns.get(key);
                projection.exprs.iter().position(is_key)
            };
            identity(&projection.input)?.into_iter().map(kept).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
