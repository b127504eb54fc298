//! Leaves out what nothing reads: columns of tables, values of projections, aggregates, functions over rows.
//! A row of a table of which only fields are read becomes its fields at the table, so that nothing above it
//! moves the row.

mod uses;

use std::sync::Arc;

use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::{
    Aggregate, Expr, Extension, Filter, Join, LogicalPlan, Projection, SubqueryAlias, TableScan, Union, Window,
};

use self::uses::{Fields, Use, Uses};
use crate::projection::project;
use crate::rewrite::plain_column;
use crate::walk::{Walk, WalkPlan};

/// Prunes a plan, all of whose columns are wanted.
pub(super) fn prune(plan: LogicalPlan) -> Result<LogicalPlan> {
    let uses = Uses::all(plan.schema());
    Ok(pruned(plan, &uses)?.plan)
}

/// A plan without what is not read, and columns for fields of rows that it has not.
struct Pruned {
    plan: LogicalPlan,
    fields: Fields,
}

impl Pruned {
    fn whole(plan: LogicalPlan) -> Self {
        Pruned { plan, fields: Fields::default() }
    }
}

fn pruned(plan: LogicalPlan, uses: &Uses) -> Result<Pruned> {
    match plan {
        LogicalPlan::TableScan(scan) => scanned(scan, uses).and_then(|plan| with_fields(plan, uses)),
        LogicalPlan::Projection(projection) => projected(projection, uses),
        LogicalPlan::SubqueryAlias(alias) => renamed(alias, uses),
        LogicalPlan::Aggregate(aggregate) => aggregated(aggregate, uses).map(Pruned::whole),
        LogicalPlan::Window(window) => numbered(window, uses),
        LogicalPlan::Join(join) => joined(join, uses),
        LogicalPlan::Union(union) => united(union, uses).map(Pruned::whole),
        LogicalPlan::Extension(extension) => extended(extension, uses).map(Pruned::whole),
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let mut below = uses.clone();
            below.read(&predicate);
            let Pruned { plan, fields } = pruned(Arc::unwrap_or_clone(input), &below)?;
            let plan = LogicalPlan::Filter(Filter::new(fields.put_into(predicate)?, Arc::new(plan)));
            Ok(Pruned { plan, fields })
        }
        LogicalPlan::Sort(mut sort) => {
            let mut below = uses.clone();
            sort.expr.iter().for_each(|sort| below.read(&sort.expr));
            let Pruned { plan, fields } = pruned(Arc::unwrap_or_clone(sort.input), &below)?;
            for of in &mut sort.expr {
                of.expr = fields.put_into(std::mem::take(&mut of.expr))?;
            }
            sort.input = Arc::new(plan);
            Ok(Pruned { plan: LogicalPlan::Sort(sort), fields })
        }
        LogicalPlan::Limit(mut limit) => {
            let Pruned { plan, fields } = pruned(Arc::unwrap_or_clone(limit.input), uses)?;
            limit.input = Arc::new(plan);
            Ok(Pruned { plan: LogicalPlan::Limit(limit), fields })
        }
        plan => {
            let below = plan.walk_children(&mut |child| prune(child).map(Transformed::yes))?;
            Ok(Pruned::whole(below.data))
        }
    }
}

/// A table with the columns that are read.
fn scanned(mut scan: TableScan, uses: &Uses) -> Result<LogicalPlan> {
    let columns = scan.projected_schema.columns();
    let kept: Vec<usize> = (0..columns.len()).filter(|index| uses.wants(&columns[*index])).collect();
    if kept.len() < columns.len() {
        scan.projected_schema = Arc::new(selected(&scan.projected_schema, &kept)?);
        let declared = |index: usize| scan.projection.as_ref().map_or(index, |projection| projection[index]);
        scan.projection = Some(kept.into_iter().map(declared).collect());
    }
    Ok(LogicalPlan::TableScan(scan))
}

/// Makes columns of the fields that are read of a row, where nothing else of it is.
fn with_fields(plan: LogicalPlan, uses: &Uses) -> Result<Pruned> {
    let schema = Arc::clone(plan.schema());
    let (mut exprs, mut fields) = (Vec::new(), Fields::default());
    for column in schema.columns() {
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
                schema.has_column(name) || fields.columns().any(|other| other == *name)
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

/// A schema with some of its fields.
fn selected(schema: &DFSchema, kept: &[usize]) -> Result<DFSchema> {
    let field = |index: &usize| {
        let (qualifier, field) = schema.qualified_field(*index);
        (qualifier.cloned(), Arc::clone(field))
    };
    DFSchema::new_with_metadata(kept.iter().map(field).collect(), schema.metadata().clone())
}

fn projected(projection: Projection, uses: &Uses) -> Result<Pruned> {
    let columns = projection.schema.columns();
    let mut below = Uses::default();
    let kept: Vec<(&Column, &Expr, &Use)> = columns
        .iter()
        .zip(&projection.expr)
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
    let is_same = exprs.len() == projection.expr.len() && fields.is_empty();
    let input_plan = Arc::new(input.plan);
    let plan = match is_same {
        true => Projection::try_new_with_schema(exprs, input_plan, projection.schema).map(LogicalPlan::Projection)?,
        false => project(input_plan, exprs)?,
    };
    Ok(Pruned { plan, fields })
}

fn renamed(alias: SubqueryAlias, uses: &Uses) -> Result<Pruned> {
    let SubqueryAlias { input, alias, schema, .. } = alias;
    let pairs: Vec<(Column, Column)> = schema.columns().into_iter().zip(input.schema().columns()).collect();
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
    let sources = input.plan.schema().columns();
    let renamed = SubqueryAlias::try_new(Arc::new(input.plan), alias)?;
    let names = renamed.schema.columns();
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
    Ok(Pruned { plan: LogicalPlan::SubqueryAlias(renamed), fields })
}

fn aggregated(aggregate: Aggregate, uses: &Uses) -> Result<LogicalPlan> {
    let columns = aggregate.schema.columns();
    let keys = columns.len() - aggregate.aggr_expr.len();
    let names = NamePreserver::new_for_projection();
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
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
        true => Aggregate::try_new_with_schema(input, group_expr, calls, schema)?,
        false => Aggregate::try_new(input, group_expr, calls)?,
    };
    Ok(LogicalPlan::Aggregate(aggregate))
}

/// Functions over rows. They keep the columns of their input.
fn numbered(window: Window, uses: &Uses) -> Result<Pruned> {
    let columns = window.schema.columns();
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
    let window = Window::try_new(calls, Arc::new(input.plan))?;
    Ok(Pruned { plan: LogicalPlan::Window(window), fields: input.fields })
}

fn joined(join: Join, uses: &Uses) -> Result<Pruned> {
    let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    let mut all = uses.clone();
    on.iter().flat_map(|(left, right)| [left, right]).chain(&filter).for_each(|expr| all.read(expr));
    let mut fields = Fields::default();
    let mut side = |input: Arc<LogicalPlan>| {
        let uses = all.within(input.schema());
        let input = pruned(Arc::unwrap_or_clone(input), &uses)?;
        fields.extend(input.fields);
        Ok::<_, datafusion_common::DataFusionError>(Arc::new(input.plan))
    };
    let (left, right) = (side(left)?, side(right)?);
    let on = on.into_iter().map(|(left, right)| Ok((fields.put_into(left)?, fields.put_into(right)?)));
    let on = on.collect::<Result<Vec<_>>>()?;
    let filter = filter.map(|filter| fields.put_into(filter)).transpose()?;
    let join = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
    Ok(Pruned { plan: LogicalPlan::Join(join), fields })
}

fn united(union: Union, uses: &Uses) -> Result<LogicalPlan> {
    let columns = union.schema.columns();
    let kept: Vec<usize> = (0..columns.len()).filter(|index| uses.wants(&columns[*index])).collect();
    if kept.len() == columns.len() {
        let inputs = union.inputs.into_iter().map(|input| prune(Arc::unwrap_or_clone(input)).map(Arc::new));
        return Ok(LogicalPlan::Union(Union { inputs: inputs.collect::<Result<_>>()?, schema: union.schema }));
    }
    let inputs = union.inputs.into_iter().map(|input| {
        let exprs = kept.iter().map(|index| Expr::from(input.schema().qualified_field(*index))).collect();
        prune(project(input, exprs)?).map(Arc::new)
    });
    let inputs = inputs.collect::<Result<_>>()?;
    Ok(LogicalPlan::Union(Union { inputs, schema: Arc::new(selected(&union.schema, &kept)?) }))
}

/// A node of ours, which says what it reads of its inputs.
fn extended(extension: Extension, uses: &Uses) -> Result<LogicalPlan> {
    let columns = extension.node.schema().columns();
    let wanted: Vec<usize> = (0..columns.len()).filter(|index| uses.wants(&columns[*index])).collect();
    let necessary = extension.node.necessary_children_exprs(&wanted);
    let plan = LogicalPlan::Extension(extension);
    let mut read = Uses::default();
    plan.see_expressions(&mut |expr| {
        expr.column_refs().into_iter().for_each(|column| read.read_whole(column));
        Ok(datafusion_common::tree_node::TreeNodeRecursion::Continue)
    })?;
    let inputs = plan.inputs().into_iter().enumerate().map(|(place, input)| {
        let Some(necessary) = necessary.as_ref().and_then(|of| of.get(place)) else { return prune(input.clone()) };
        let columns = input.schema().columns();
        let mut uses = read.within(input.schema());
        necessary.iter().filter_map(|index| columns.get(*index)).for_each(|column| uses.read_whole(column));
        Ok(pruned(input.clone(), &uses)?.plan)
    });
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    plan.with_new_exprs(plan.expressions(), inputs)
}
