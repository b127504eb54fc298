//! Moves conditions towards the tables. The library's rule of this kind changes answers: of `k = 'q' AND 'q'
//! = k` it makes FALSE, of `k >= 'p' AND 'p' < k` the former, and it asks a condition without columns of the
//! rows before an aggregate, which has a row for none.
//!
//! A condition moves below a node only where each row that the node gives for a row is kept or dropped with it:
//!
//! * a projection, unless it computes a value that varies or a field of a row (those are computed once);
//! * an aggregate or numbering of rows by keys, if it reads keys only, and one at least; not if the key is a floating-point number;
//! * a union, a sort without a bound;
//! * a join, on the side whose columns it reads, unless that side is padded with NULL. A condition of `ON`
//!   moves to a side that is not kept whole, and becomes a key if it compares both sides.
//!
//! Of columns that an inner join takes for equal, a condition of one holds for the other, so that both sides
//! are filtered. A join whose padded rows a condition drops does not pad them.

mod joins;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, ExprSchema, Result};
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{
    Aggregate, Expr, ExpressionPlacement, Extension, Filter, LogicalPlan, Projection, SubqueryAlias, Union, Unnest,
    Window,
};

use crate::rewrite::with_values;
use crate::walk::Walk;

/// Moves all conditions of a plan.
pub(super) fn push_down(plan: LogicalPlan) -> Result<LogicalPlan> {
    let pushed = plan.walk_down(&mut |node| match node {
        LogicalPlan::Filter(filter) => below(filter),
        LogicalPlan::Join(join) => joins::push(join, Vec::new()),
        node => Ok(Transformed::no(node)),
    });
    pushed.map(|plan| plan.data)
}

/// Conditions that move below a node, and those that stay above.
type Divided = (Vec<Expr>, Vec<Expr>);

/// Moves the conditions of a filter below its input. The filters that this makes are visited next.
fn below(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let bounded = filter.input.fetch()?.is_some() || filter.input.skip()?.is_some();
    let conditions = split_conjunction_owned(filter.predicate);
    let unmoved = |conditions, input| Ok(Transformed::no(filtered(conditions, input)));
    match Arc::unwrap_or_clone(filter.input) {
        // A bound counts the rows before the condition is asked.
        input if bounded => unmoved(conditions, input),
        LogicalPlan::Filter(inner) => {
            let mut all = split_conjunction_owned(inner.predicate);
            let new: Vec<Expr> = conditions.into_iter().filter(|new| new.is_volatile() || !all.contains(new)).collect();
            all.extend(new);
            let both = filtered(all, Arc::unwrap_or_clone(inner.input));
            let LogicalPlan::Filter(both) = both else { return Ok(Transformed::yes(both)) };
            below(both).map(|plan| Transformed::yes(plan.data))
        }
        LogicalPlan::Sort(mut sort) => {
            sort.input = over(conditions, sort.input);
            Ok(Transformed::yes(LogicalPlan::Sort(sort)))
        }
        LogicalPlan::SubqueryAlias(alias) => below_alias(conditions, alias),
        LogicalPlan::Projection(projection) => below_projection(conditions, projection),
        LogicalPlan::Unnest(unnest) => below_unnest(conditions, unnest),
        LogicalPlan::Union(union) => below_union(&conditions, union),
        LogicalPlan::Aggregate(aggregate) => below_aggregate(conditions, aggregate),
        LogicalPlan::Window(window) => Ok(below_window(conditions, window)),
        LogicalPlan::Join(join) => joins::push(join, conditions),
        LogicalPlan::Extension(extension) => below_extension(conditions, extension),
        input => unmoved(conditions, input),
    }
}

/// A plan with conditions above it, if there are any.
fn filtered(conditions: Vec<Expr>, input: LogicalPlan) -> LogicalPlan {
    match conjunction(conditions) {
        Some(predicate) => LogicalPlan::Filter(Filter::new(predicate, Arc::new(input))),
        None => input,
    }
}

fn over(conditions: Vec<Expr>, input: Arc<LogicalPlan>) -> Arc<LogicalPlan> {
    if conditions.is_empty() { input } else { Arc::new(filtered(conditions, Arc::unwrap_or_clone(input))) }
}

/// A condition over other expressions in the places of columns.
pub(super) fn replaced(condition: Expr, columns: &BTreeMap<Column, Expr>) -> Result<Expr> {
    with_values(condition, &|column| columns.get(column).cloned())
}

fn all_replaced(conditions: Vec<Expr>, columns: &BTreeMap<Column, Expr>) -> Result<Vec<Expr>> {
    conditions.into_iter().map(|condition| replaced(condition, columns)).collect()
}

fn below_alias(conditions: Vec<Expr>, mut alias: SubqueryAlias) -> Result<Transformed<LogicalPlan>> {
    let names = alias.schema.columns().into_iter();
    let columns = names.zip(alias.input.schema().columns().into_iter().map(Expr::Column)).collect();
    alias.input = over(all_replaced(conditions, &columns)?, alias.input);
    Ok(Transformed::yes(LogicalPlan::SubqueryAlias(alias)))
}

fn below_projection(conditions: Vec<Expr>, mut projection: Projection) -> Result<Transformed<LogicalPlan>> {
    let computed = projection.expr.iter().map(|expr| expr.clone().unalias_nested().data);
    let columns: BTreeMap<Column, Expr> = projection.schema.columns().into_iter().zip(computed).collect();
    let stays = |value: &Expr| value.is_volatile() || value.placement() == ExpressionPlacement::MoveTowardsLeafNodes;
    let (pushed, kept): Divided = conditions.into_iter().partition(|condition| {
        !condition.column_refs().into_iter().any(|column| columns.get(column).is_none_or(stays))
    });
    let moved = !pushed.is_empty();
    projection.input = over(all_replaced(pushed, &columns)?, projection.input);
    Ok(Transformed::new_transformed(filtered(kept, LogicalPlan::Projection(projection)), moved))
}

/// Moves conditions below a node that keeps these columns of its input.
fn past(conditions: Vec<Expr>, keeps: impl Fn(&Column) -> bool) -> Divided {
    conditions.into_iter().partition(|condition| {
        let read = condition.column_refs();
        !read.is_empty() && read.into_iter().all(&keeps)
    })
}

fn below_unnest(conditions: Vec<Expr>, mut unnest: Unnest) -> Result<Transformed<LogicalPlan>> {
    let input = unnest.input.schema();
    let lists = unnest.list_type_columns.iter().map(|(_, list)| list.output_column.clone());
    let rows = unnest.struct_type_columns.iter().map(|place| Column::from(input.qualified_field(*place)));
    let made: BTreeSet<Column> = lists.chain(rows).collect();
    let (pushed, kept) = past(conditions, |column| !made.contains(column) && input.has_column(column));
    let moved = !pushed.is_empty();
    unnest.input = over(pushed, unnest.input);
    Ok(Transformed::new_transformed(filtered(kept, LogicalPlan::Unnest(unnest)), moved))
}

fn below_union(conditions: &[Expr], union: Union) -> Result<Transformed<LogicalPlan>> {
    let inputs = union.inputs.iter().map(|input| {
        let names = union.schema.columns().into_iter();
        let columns = names.zip(input.schema().columns().into_iter().map(Expr::Column)).collect();
        Ok(over(all_replaced(conditions.to_vec(), &columns)?, Arc::clone(input)))
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema: union.schema })))
}

/// Whether equal values of a column are the same: 0.0 and -0.0 are equal, but a condition tells them apart.
fn is_exact(schema: &DFSchema, column: &Column) -> bool {
    schema.field_from_column(column).is_ok_and(|field| !field.data_type().is_floating())
}

fn below_aggregate(conditions: Vec<Expr>, mut aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let is_key = |expr: &Expr| !matches!(expr, Expr::GroupingSet(_));
    // The keys of grouping sets are NULL in some of the rows.
    let keys = match aggregate.group_expr.iter().all(is_key) {
        true => aggregate.group_expr.iter().map(|key| key.clone().unalias_nested().data).collect(),
        false => Vec::new(),
    };
    let columns: BTreeMap<Column, Expr> = aggregate.schema.columns().into_iter().zip(keys).collect();
    let (pushed, kept) = past(conditions, |column| {
        is_exact(&aggregate.schema, column) && columns.get(column).is_some_and(|key| !key.is_volatile())
    });
    let moved = !pushed.is_empty();
    aggregate.input = over(all_replaced(pushed, &columns)?, aggregate.input);
    Ok(Transformed::new_transformed(filtered(kept, LogicalPlan::Aggregate(aggregate)), moved))
}

/// Each function over rows keeps to the rows of its partition: whole partitions are kept or dropped.
fn below_window(conditions: Vec<Expr>, mut window: Window) -> Transformed<LogicalPlan> {
    let keys_of = |call: &Expr| match call.clone().unalias() {
        Expr::WindowFunction(call) => {
            let keys = call.params.partition_by.iter().filter_map(|key| key.try_as_col().cloned());
            keys.collect::<BTreeSet<Column>>()
        }
        _ => BTreeSet::new(),
    };
    let keys = window.window_expr.iter().map(keys_of).reduce(|all, keys| &all & &keys).unwrap_or_default();
    let (pushed, kept) = past(conditions, |column| is_exact(window.input.schema(), column) && keys.contains(column));
    let moved = !pushed.is_empty();
    window.input = over(pushed, window.input);
    Transformed::new_transformed(filtered(kept, LogicalPlan::Window(window)), moved)
}

fn below_extension(conditions: Vec<Expr>, extension: Extension) -> Result<Transformed<LogicalPlan>> {
    let prevented = extension.node.prevent_predicate_push_down_columns();
    let plan = LogicalPlan::Extension(extension);
    if plan.inputs().is_empty() {
        return Ok(Transformed::no(filtered(conditions, plan)));
    }
    let (pushed, kept) = past(conditions, |column| !prevented.contains(&column.name));
    if pushed.is_empty() {
        return Ok(Transformed::no(filtered(kept, plan)));
    }
    let inputs = plan.inputs().into_iter().map(|input| filtered(pushed.clone(), input.clone())).collect();
    let plan = plan.with_new_exprs(plan.expressions(), inputs)?;
    Ok(Transformed::yes(filtered(kept, plan)))
}
