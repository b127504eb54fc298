//! Leaves out what nothing reads: columns of tables, values of projections, aggregates, functions over rows.
//! A row of a table of which only fields are read becomes its fields at the table, so that nothing above it
//! moves the row.

mod uses;

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::Expr;
use datafusion_expr::expr_rewriter::NamePreserver;

use self::uses::{Fields, Use, Uses};
use crate::rel::{Aggregate, Filter, Get, Join, Over, Project, Rel, Rename, Union, joined_columns, project};
use crate::rewrite::plain_column;
use crate::walk::Walk;

/// Prunes a plan, all of whose columns are wanted.
pub(super) fn prune(plan: Rel) -> Result<Rel> {
    let uses = Uses::all(plan.columns());
    Ok(pruned(plan, &uses)?.plan)
}

/// A plan without what is not read, and columns for fields of rows that it has not.
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
        Rel::Rename(alias) => renamed(alias, uses),
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
            for of in &mut sort.keys {
                of.expr = fields.put_into(std::mem::take(&mut of.expr))?;
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

/// A table with the columns that are read.
fn scanned(mut scan: Get, uses: &Uses) -> Result<Rel> {
    let columns = scan.columns.ids();
    let kept: Vec<usize> = (0..columns.len()).filter(|index| uses.wants(&columns[*index])).collect();
    if kept.len() < columns.len() {
        scan.columns = scan.columns.selected(&kept)?;
        let declared = |index: usize| scan.projection.as_ref().map_or(index, |projection| projection[index]);
        scan.projection = Some(kept.into_iter().map(declared).collect());
    }
    Ok(Rel::Get(scan))
}

/// Makes columns of the fields that are read of a row, where nothing else of it is.
fn with_fields(plan: Rel, uses: &Uses) -> Result<Pruned> {
    let schema = Arc::clone(plan.shared_columns());
    let (mut exprs, mut fields) = (Vec::new(), Fields::default());
    for column in schema.ids() {
        let accesses = match uses.of(&column) {
            Some(Use::Fields(accesses)) => accesses.as_slice(),
            _ => &[],
        };
        if accesses.is_empty() {
            exprs.push(Expr::Column(column));
            continue;
        }
        for access in accesses {
            let name = uses::field_column(access, &column, &|name| {
                schema.has(name) || fields.columns().any(|other| other == *name)
            });
            exprs.push(access.clone().alias_qualified(name.relation.clone(), name.name.as_str()));
            fields.insert(access.clone(), name);
        }
    }
    if fields.is_empty() {
        return Ok(Pruned::whole(plan));
    }
    let plan = project(plan, exprs)?;
    Ok(Pruned { plan, fields })
}

fn projected(projection: Project, uses: &Uses) -> Result<Pruned> {
    let columns = projection.columns.ids();
    let mut below = Uses::default();
    let kept: Vec<(&Column, &Expr, &Use)> = columns
        .iter()
        .zip(&projection.exprs)
        .filter_map(|(column, expr)| uses.of(column).map(|of| (column, expr, of)))
        .collect();
    for (column, expr, of) in &kept {
        match (of, plain_column(expr)) {
            (Use::Fields(accesses), Some(source)) => {
                accesses.iter().try_for_each(|access| below.read_field(access, column, source))?;
            }
            _ => below.read(expr),
        }
    }
    let input = pruned(projection.input.as_ref().clone(), &below)?;
    let names = NamePreserver::new_for_projection();
    let (mut exprs, mut fields) = (Vec::with_capacity(kept.len()), Fields::default());
    for (column, expr, of) in &kept {
        let found = match (of, plain_column(expr)) {
            (Use::Fields(accesses), Some(source)) => input.fields.of(accesses, column, source)?,
            _ => None,
        };
        match found {
            Some(found) => {
                for (access, source) in found.into_pairs() {
                    let name = uses::field_column(&access, column, &|name| {
                        columns.contains(name) || fields.columns().any(|other| other == *name)
                    });
                    let value = Expr::Column(source);
                    exprs.push(value.alias_qualified(name.relation.clone(), name.name.as_str()));
                    fields.insert(access, name);
                }
            }
            None => {
                let name = names.save(expr);
                exprs.push(name.restore(input.fields.put_into((*expr).clone())?));
            }
        }
    }
    let is_same = exprs.len() == projection.exprs.len() && fields.is_empty();
    let input_plan = Arc::new(input.plan);
    let plan = match is_same {
        true => Rel::Project(Project { exprs, input: input_plan, columns: projection.columns }),
        false => project(input_plan, exprs)?,
    };
    Ok(Pruned { plan, fields })
}

fn renamed(alias: Rename, uses: &Uses) -> Result<Pruned> {
    let Rename { input, name, columns } = alias;
    let pairs: Vec<(Column, Column)> = columns.ids().into_iter().zip(input.ids()).collect();
    let mut below = Uses::default();
    for (column, source) in &pairs {
        match uses.of(column) {
            None => {}
            Some(Use::Whole) => below.read_whole(source),
            Some(Use::Fields(accesses)) => {
                accesses.iter().try_for_each(|access| below.read_field(access, column, source))?;
            }
        }
    }
    let input = pruned(Arc::unwrap_or_clone(input), &below)?;
    let sources = input.plan.ids();
    let renamed = input.plan.rename(name)?;
    let names = renamed.ids();
    let mut fields = Fields::default();
    for (column, source) in &pairs {
        let Some(Use::Fields(accesses)) = uses.of(column) else { continue };
        if let Some(found) = input.fields.of(accesses, column, source)? {
            let name_of = |column: &Column| {
                let place = sources.iter().position(|source| source == column);
                place.and_then(|place| names.get(place)).cloned().unwrap_or_else(|| column.clone())
            };
            fields.extend(found.renamed(name_of));
        }
    }
    Ok(Pruned { plan: renamed, fields })
}

fn aggregated(aggregate: Aggregate, uses: &Uses) -> Result<Rel> {
    let columns = aggregate.columns.ids();
    let keys = columns.len() - aggregate.aggr_expr.len();
    let names = NamePreserver::new_for_projection();
    let Aggregate { input, group_expr, aggr_expr, columns: all } = aggregate;
    let count = aggr_expr.len();
    // Without keys, a call says that there is one row.
    let is_kept = |place: usize| uses.wants(&columns[keys + place]) || keys == 0 && place == 0;
    let wanted = aggr_expr.into_iter().enumerate().filter(|(place, _)| is_kept(*place));
    let calls: Vec<Expr> = wanted.map(|(_, call)| call).collect();
    let mut below = Uses::default();
    group_expr.iter().chain(&calls).for_each(|expr| below.read(expr));
    let input = pruned(Arc::unwrap_or_clone(input), &below)?;
    let put = |expr: Expr| {
        let name = names.save(&expr);
        Ok(name.restore(input.fields.put_into(expr)?))
    };
    let is_whole = calls.len() == count;
    let (group_expr, calls) = match input.fields.is_empty() {
        true => (group_expr, calls),
        false => {
            let put_into_key = |key: Expr| match key {
                Expr::GroupingSet(_) => {
                    key.walk_children(&mut |key| put(key).map(Transformed::yes)).map(|key| key.data)
                }
                key => put(key),
            };
            let keys = group_expr.into_iter().map(put_into_key).collect::<Result<_>>()?;
            (keys, calls.into_iter().map(put).collect::<Result<_>>()?)
        }
    };
    let input = Arc::new(input.plan);
    let aggregate = match is_whole {
        true => Aggregate { group_expr, aggr_expr: calls, input, columns: all },
        false => crate::rel::aggregate(input, group_expr, calls)?,
    };
    Ok(Rel::Aggregate(aggregate))
}

/// Functions over rows. They keep the columns of their input.
fn numbered(window: Over, uses: &Uses) -> Result<Pruned> {
    let columns = window.columns.ids();
    let inputs = columns.len() - window.window_expr.len();
    let wanted = window.window_expr.into_iter().zip(&columns[inputs..]).filter(|(_, column)| uses.wants(column));
    let calls: Vec<Expr> = wanted.map(|(call, _)| call).collect();
    let mut below = uses.clone();
    calls.iter().for_each(|call| below.read(call));
    let input = pruned(Arc::unwrap_or_clone(window.input), &below)?;
    if calls.is_empty() {
        return Ok(input);
    }
    let names = NamePreserver::new_for_projection();
    let put = |call: Expr| {
        let name = names.save(&call);
        Ok(name.restore(input.fields.put_into(call)?))
    };
    let calls = match input.fields.is_empty() {
        true => calls,
        false => calls.into_iter().map(put).collect::<Result<_>>()?,
    };
    Ok(Pruned { plan: input.plan.over(calls)?, fields: input.fields })
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
        let exprs: Vec<Expr> = kept.iter().map(|index| Expr::Column(input.columns().id(*index))).collect();
        prune(project(input, exprs)?).map(Arc::new)
    });
    let inputs = inputs.collect::<Result<_>>()?;
    Ok(Rel::Union(Union { inputs, columns: union.columns.selected(&kept)? }))
}

/// A node whose rows have the columns of its inputs, and others that it adds.
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
