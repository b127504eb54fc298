//! Removes unread columns of tables, projections, aggregates and window functions. If only fields of a
//! table's ROW column are read, they become columns at the table, so that no operator passes on the row.

mod uses;

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::Expr;

use self::uses::{Fields, Use, Uses};
use crate::rel::{
    self, Aggregate, Filter, Get, Join, Output, Over, Project, Rel, Union, aggregate_as, joined_columns, project,
};

/// Prunes a plan. All of its columns are needed.
pub(super) fn prune(plan: Rel) -> Result<Rel> {
    let uses = Uses::all(plan.columns());
    Ok(pruned(plan, &uses)?.plan)
}

/// A plan without unread columns, and the columns of fields that replace rows.
struct Pruned {
    plan: Rel,
    fields: Fields,
}

impl Pruned {
    fn whole(plan: Rel) -> Self {
        Pruned { plan, fields: Fields::default() }
    }
}

fn pruned(plan: Rel, uses: &Uses) -> Result<Pruned> {
    match plan {
        Rel::Get(scan) => scanned(scan, uses).and_then(|plan| with_fields(plan, uses)),
        Rel::Project(projection) => projected(projection, uses),
        Rel::Aggregate(aggregate) => aggregated(aggregate, uses).map(Pruned::whole),
        Rel::Over(window) => numbered(window, uses),
        Rel::Join(join) => joined(join, uses),
        Rel::Union(union) => united(union, uses).map(Pruned::whole),
        Rel::Assign(_) | Rel::Unnest(_) | Rel::Temporal(_) | Rel::Copies(_) => extended(plan, uses).map(Pruned::whole),
        Rel::Filter(Filter { predicate, input }) => {
            let mut below = uses.clone();
            below.read(&predicate);
            let Pruned { plan, fields } = pruned(Arc::unwrap_or_clone(input), &below)?;
            let plan = Rel::Filter(Filter { predicate: fields.put_into(predicate)?, input: Arc::new(plan) });
            Ok(Pruned { plan, fields })
        }
        Rel::Sort(mut sort) => {
            let mut below = uses.clone();
            sort.keys.iter().for_each(|key| below.read(&key.expr));
            let Pruned { plan, fields } = pruned(Arc::unwrap_or_clone(sort.input), &below)?;
            for key in &mut sort.keys {
                key.expr = fields.put_into(std::mem::take(&mut key.expr))?;
            }
            sort.input = Arc::new(plan);
            Ok(Pruned { plan: Rel::Sort(sort), fields })
        }
        Rel::Limit(mut limit) => {
            let Pruned { plan, fields } = pruned(Arc::unwrap_or_clone(limit.input), uses)?;
            limit.input = Arc::new(plan);
            Ok(Pruned { plan: Rel::Limit(limit), fields })
        }
        plan => {
            let below = plan.walk_children(&mut |child| prune(child).map(Transformed::yes))?;
            Ok(Pruned::whole(below.data))
        }
    }
}

/// A scan of the columns that are read.
fn scanned(mut scan: Get, uses: &Uses) -> Result<Rel> {
    let columns = scan.columns.ids();
    let kept: Vec<usize> = (0..columns.len()).filter(|index| uses.wants(&columns[*index])).collect();
    if kept.len() < columns.len() {
        scan.columns = scan.columns.selected(&kept);
        let declared = |index: usize| scan.projection.as_ref().map_or(index, |projection| projection[index]);
        scan.projection = Some(kept.into_iter().map(declared).collect());
    }
    Ok(Rel::Get(scan))
}

/// Replaces each ROW column of which only fields are read by columns for these fields.
fn with_fields(plan: Rel, uses: &Uses) -> Result<Pruned> {
    let schema = Arc::clone(plan.shared_columns());
    let (mut outputs, mut fields) = (Vec::new(), Fields::default());
    for column in schema.ids() {
        let accesses = match uses.get(&column) {
            Some(Use::Fields(accesses)) => accesses.as_slice(),
            _ => &[],
        };
        if accesses.is_empty() {
            outputs.push(rel::kept(column));
            continue;
        }
        for access in accesses {
            let field = uses::field_column(access, &column);
            outputs.push((field.clone(), access.clone()));
            fields.insert(access.clone(), field);
        }
    }
    if fields.is_empty() {
        return Ok(Pruned::whole(plan));
    }
    let plan = plan.project(outputs)?;
    Ok(Pruned { plan, fields })
}

fn projected(projection: Project, uses: &Uses) -> Result<Pruned> {
    let columns = projection.columns.ids();
    let mut below = Uses::default();
    let kept: Vec<(&Column, &Expr, &Use)> = columns
        .iter()
        .zip(&projection.exprs)
        .filter_map(|(column, expr)| uses.get(column).map(|of| (column, expr, of)))
        .collect();
    for (column, expr, of) in &kept {
        match (of, expr.try_as_col()) {
            (Use::Fields(accesses), Some(source)) => {
                accesses.iter().try_for_each(|access| below.read_field(access, column, source))?;
            }
            _ => below.read(expr),
        }
    }
    let input = pruned(projection.input.as_ref().clone(), &below)?;
    let (mut outputs, mut fields) = (Vec::with_capacity(kept.len()), Fields::default());
    for (column, expr, of) in &kept {
        let found = match (of, expr.try_as_col()) {
            (Use::Fields(accesses), Some(source)) => input.fields.for_row(accesses, column, source)?,
            _ => None,
        };
        match found {
            Some(found) => {
                for (access, source) in found.into_pairs() {
                    if !outputs.iter().any(|(id, _)| *id == source) {
                        outputs.push(rel::kept(source.clone()));
                    }
                    fields.insert(access, source);
                }
            }
            None => outputs.push(((*column).clone(), input.fields.put_into((*expr).clone())?)),
        }
    }
    let projection = Project { input: Arc::new(input.plan), ..projection };
    let plan = match outputs.len() == columns.len() && fields.is_empty() {
        true => {
            let exprs = outputs.into_iter().map(|(_, expr)| expr).collect();
            Rel::Project(Project { exprs, ..projection })
        }
        false => projection.with_outputs(outputs)?,
    };
    Ok(Pruned { plan, fields })
}

fn aggregated(aggregate: Aggregate, uses: &Uses) -> Result<Rel> {
    let Aggregate { input, group_expr, aggr_expr, columns } = aggregate;
    let mut ids = columns.ids();
    let of_calls = ids.split_off(ids.len() - aggr_expr.len());
    let count = of_calls.len();
    // Without keys, a call is needed for the number of rows.
    let is_kept = |place: usize, id: &Column| uses.wants(id) || ids.is_empty() && place == 0;
    let wanted = of_calls.into_iter().zip(aggr_expr).enumerate().filter(|(place, (id, _))| is_kept(*place, id));
    let (of_calls, calls): (Vec<Column>, Vec<Expr>) = wanted.map(|(_, call)| call).unzip();
    let mut below = Uses::default();
    group_expr.iter().chain(&calls).for_each(|expr| below.read(expr));
    let Pruned { plan, fields } = pruned(Arc::unwrap_or_clone(input), &below)?;
    let put = |exprs: Vec<Expr>| exprs.into_iter().map(|expr| fields.put_into(expr)).collect::<Result<Vec<_>>>();
    let (group_expr, aggr_expr, input) = (put(group_expr)?, put(calls)?, Arc::new(plan));
    if of_calls.len() == count {
        return Ok(Rel::Aggregate(Aggregate { group_expr, aggr_expr, input, columns }));
    }
    ids.extend(of_calls);
    aggregate_as(input, group_expr, aggr_expr, ids).map(Rel::Aggregate)
}

/// Window functions. They pass the input's columns on.
fn numbered(window: Over, uses: &Uses) -> Result<Pruned> {
    let added = window.columns.ids().into_iter().skip(window.input.width());
    let calls: Vec<Output> = added.zip(window.window_expr).filter(|(id, _)| uses.wants(id)).collect();
    let mut below = uses.clone();
    calls.iter().for_each(|(_, call)| below.read(call));
    let Pruned { plan, fields } = pruned(Arc::unwrap_or_clone(window.input), &below)?;
    if calls.is_empty() {
        return Ok(Pruned { plan, fields });
    }
    let calls = calls.into_iter().map(|(id, call)| Ok((id, fields.put_into(call)?))).collect::<Result<Vec<_>>>()?;
    Ok(Pruned { plan: plan.over(calls)?, fields })
}

fn joined(join: Join, uses: &Uses) -> Result<Pruned> {
    let Join { left, right, on, filter, join_type, null_equality, .. } = join;
    let mut all = uses.clone();
    on.iter().flat_map(|(left, right)| [left, right]).chain(&filter).for_each(|expr| all.read(expr));
    let mut fields = Fields::default();
    let mut side = |input: Arc<Rel>| {
        let uses = all.within(input.columns());
        let input = pruned(Arc::unwrap_or_clone(input), &uses)?;
        fields.extend(input.fields);
        Ok::<_, datafusion_common::DataFusionError>(Arc::new(input.plan))
    };
    let (left, right) = (side(left)?, side(right)?);
    let on = on.into_iter().map(|(left, right)| Ok((fields.put_into(left)?, fields.put_into(right)?)));
    let on = on.collect::<Result<Vec<_>>>()?;
    let filter = filter.map(|filter| fields.put_into(filter)).transpose()?;
    let columns = joined_columns(left.columns(), right.columns(), join_type)?;
    let join = Join { left, right, on, filter, join_type, null_equality, columns };
    Ok(Pruned { plan: Rel::Join(join), fields })
}

fn united(union: Union, uses: &Uses) -> Result<Rel> {
    let columns = union.columns.ids();
    let kept: Vec<usize> = (0..columns.len()).filter(|index| uses.wants(&columns[*index])).collect();
    if kept.len() == columns.len() {
        let inputs = union.inputs.into_iter().map(|input| prune(Arc::unwrap_or_clone(input)).map(Arc::new));
        return Ok(Rel::Union(Union { inputs: inputs.collect::<Result<_>>()?, columns: union.columns }));
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let columns: Vec<Output> = kept.iter().map(|index| rel::kept(input.columns().id(*index))).collect();
        prune(project(input, columns)?).map(Arc::new)
    });
    let inputs = inputs.collect::<Result<_>>()?;
    Ok(Rel::Union(Union { inputs, columns: union.columns.selected(&kept) }))
}

/// Nodes that pass on the columns of their inputs and add others.
fn extended(node: Rel, uses: &Uses) -> Result<Rel> {
    let mut read = Uses::default();
    node.ids().iter().filter(|column| uses.wants(column)).for_each(|column| read.read_whole(column));
    node.expressions().into_iter().flat_map(Expr::column_refs).for_each(|column| read.read_whole(column));
    if let Rel::Copies(copies) = &node {
        read.read_whole(&copies.input.columns().id(copies.number()));
    }
    let below = node.walk_children(&mut |input| {
        let uses = read.within(input.columns());
        pruned(input, &uses).map(|input| Transformed::yes(input.plan))
    })?;
    below.data.with_types()
}
