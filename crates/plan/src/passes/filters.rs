//! Moves conditions towards the tables. DataFusion's rule for this changes results: it simplifies `k = 'q'
//! AND 'q' = k` to FALSE and `k >= 'p' AND 'p' < k` to the former. It also moves a condition without columns
//! below an aggregate without keys, which has a row for an empty input.
//!
//! A condition moves below a node only if it keeps or drops all output rows of an input row together:
//!
//! * a projection, unless the condition reads a volatile value or a field of a row (these are computed once);
//! * an aggregate or a window function, if the condition reads only keys, and at least one, and no
//!   floating-point key;
//! * an assignment of windows or an `UNNEST`, if the condition reads only columns of its input, and at least
//!   one (for sessions, only keys that are not floating-point);
//! * a union, or a sort without a limit;
//! * a join, to the side whose columns the condition reads, unless that side is padded with NULL. A condition
//!   of `ON` moves to a side that is not preserved, and becomes a key if it compares both sides.
//!
//! A condition on one column of an inner join's key also holds for the equal column, so that both sides are
//! filtered. An outer join becomes an inner one if a condition drops its padded rows.

mod joins;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, ExprSchema, Result};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Expr, ExpressionPlacement};

use crate::rel::{Aggregate, Columns, Filter, Over, Project, Rel, Union};
use crate::rewrite::with_values;
use crate::unnest::Unnest;
use crate::window_assign::WindowAssign;

pub(super) fn push_down(plan: Rel) -> Result<Rel> {
    let pushed = plan.walk_down(&mut |node| match node {
        Rel::Filter(filter) => below(filter),
        Rel::Join(join) => joins::push(join, Vec::new()),
        node => Ok(Transformed::no(node)),
    });
    pushed.map(|plan| plan.data)
}

/// The conditions that move below a node, and those that stay above.
type Divided = (Vec<Expr>, Vec<Expr>);

/// Moves the conditions of a filter below its input. The walk visits the new filters next.
fn below(filter: Filter) -> Result<Transformed<Rel>> {
    let conditions = split_conjunction_owned(filter.predicate);
    let unmoved = |conditions, input| Ok(Transformed::no(filtered(conditions, input)));
    match Arc::unwrap_or_clone(filter.input) {
        // A limit counts rows before the condition.
        input @ Rel::Limit(_) => unmoved(conditions, input),
        Rel::Filter(inner) => {
            let mut all = split_conjunction_owned(inner.predicate);
            let new: Vec<Expr> = conditions.into_iter().filter(|new| new.is_volatile() || !all.contains(new)).collect();
            all.extend(new);
            let both = filtered(all, Arc::unwrap_or_clone(inner.input));
            let Rel::Filter(both) = both else { return Ok(Transformed::yes(both)) };
            below(both).map(|plan| Transformed::yes(plan.data))
        }
        sort @ Rel::Sort(_) => divided(sort, (conditions, Vec::new())),
        Rel::Project(projection) => below_projection(conditions, projection),
        Rel::Union(union) => below_union(&conditions, union),
        Rel::Aggregate(aggregate) => below_aggregate(conditions, aggregate),
        Rel::Over(window) => below_window(conditions, window),
        Rel::Join(join) => joins::push(join, conditions),
        Rel::Assign(assign) => below_assign(conditions, assign),
        Rel::Unnest(unnest) => below_unnest(conditions, unnest),
        input => unmoved(conditions, input),
    }
}

/// Adds a filter, if there are conditions.
fn filtered(conditions: Vec<Expr>, input: Rel) -> Rel {
    match conjunction(conditions) {
        Some(predicate) => Rel::Filter(Filter { predicate, input: Arc::new(input) }),
        None => input,
    }
}

fn over(conditions: Vec<Expr>, input: Arc<Rel>) -> Arc<Rel> {
    if conditions.is_empty() { input } else { Arc::new(filtered(conditions, Arc::unwrap_or_clone(input))) }
}

/// Filters the input of a node by the conditions that move below it, and the node by the others.
fn divided(node: Rel, (mut pushed, kept): Divided) -> Result<Transformed<Rel>> {
    let moves = !pushed.is_empty();
    let node = node.walk_children(&mut |input| Ok(Transformed::yes(filtered(std::mem::take(&mut pushed), input))))?;
    Ok(Transformed::new_transformed(filtered(kept, node.data), moves))
}

/// Replaces columns of a condition by expressions.
pub(super) fn replaced(condition: Expr, columns: &BTreeMap<Column, Expr>) -> Result<Expr> {
    with_values(condition, &|column| columns.get(column).cloned())
}

fn all_replaced(conditions: Vec<Expr>, columns: &BTreeMap<Column, Expr>) -> Result<Vec<Expr>> {
    conditions.into_iter().map(|condition| replaced(condition, columns)).collect()
}

fn below_projection(conditions: Vec<Expr>, projection: Project) -> Result<Transformed<Rel>> {
    let exprs = projection.exprs.iter().cloned();
    let columns: BTreeMap<Column, Expr> = projection.columns.ids().into_iter().zip(exprs).collect();
    let stays = |value: &Expr| value.is_volatile() || value.placement() == ExpressionPlacement::MoveTowardsLeafNodes;
    let (pushed, kept): Divided = conditions.into_iter().partition(|condition| {
        !condition.column_refs().into_iter().any(|column| columns.get(column).is_none_or(stays))
    });
    divided(Rel::Project(projection), (all_replaced(pushed, &columns)?, kept))
}

/// Divides conditions at a node. Conditions that read only columns that `keeps` accepts move below it.
fn past(conditions: Vec<Expr>, keeps: impl Fn(&Column) -> bool) -> Divided {
    conditions.into_iter().partition(|condition| {
        let read = condition.column_refs();
        !read.is_empty() && read.into_iter().all(&keeps)
    })
}

fn below_union(conditions: &[Expr], union: Union) -> Result<Transformed<Rel>> {
    let inputs = union.inputs.iter().map(|input| {
        let names = union.columns.ids().into_iter();
        let columns = names.zip(input.ids().into_iter().map(Expr::Column)).collect();
        Ok(over(all_replaced(conditions.to_vec(), &columns)?, Arc::clone(input)))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(Rel::Union(Union { inputs, columns: union.columns })))
}

/// Whether equal values of a column are identical. 0.0 and -0.0 are equal but not identical, and a condition
/// can distinguish them.
fn is_exact(schema: &Columns, column: &Column) -> bool {
    schema.field_from_column(column).is_ok_and(|field| !field.data_type().is_floating())
}

fn below_aggregate(conditions: Vec<Expr>, aggregate: Aggregate) -> Result<Transformed<Rel>> {
    let is_key = |expr: &Expr| !matches!(expr, Expr::GroupingSet(_));
    // A key of grouping sets is NULL in some rows.
    let keys = match aggregate.group_expr.iter().all(is_key) {
        true => aggregate.group_expr.clone(),
        false => Vec::new(),
    };
    let columns: BTreeMap<Column, Expr> = aggregate.columns.ids().into_iter().zip(keys).collect();
    let (pushed, kept) = past(conditions, |column| {
        is_exact(&aggregate.columns, column) && columns.get(column).is_some_and(|key| !key.is_volatile())
    });
    divided(Rel::Aggregate(aggregate), (all_replaced(pushed, &columns)?, kept))
}

/// A window function reads only rows of its partition, so whole partitions are kept or dropped.
fn below_window(conditions: Vec<Expr>, window: Over) -> Result<Transformed<Rel>> {
    let keys_of = |call: &Expr| match call {
        Expr::WindowFunction(call) => {
            let keys = call.params.partition_by.iter().filter_map(|key| key.try_as_col().cloned());
            keys.collect::<BTreeSet<Column>>()
        }
        _ => BTreeSet::new(),
    };
    let keys = window.window_expr.iter().map(keys_of).reduce(|all, keys| &all & &keys).unwrap_or_default();
    let parts = past(conditions, |column| is_exact(window.input.columns(), column) && keys.contains(column));
    divided(Rel::Over(window), parts)
}

fn below_assign(conditions: Vec<Expr>, assign: WindowAssign) -> Result<Transformed<Rel>> {
    let parts = past(conditions, |column| assign.lets_pass(column));
    divided(Rel::Assign(assign), parts)
}

/// All output rows of an input row have that row's columns.
fn below_unnest(conditions: Vec<Expr>, unnest: Unnest) -> Result<Transformed<Rel>> {
    let parts = past(conditions, |column| unnest.input.columns().has(column));
    divided(Rel::Unnest(unnest), parts)
}
