//! Moves conditions out of what sees several rows at a time: aggregates, calls over windows of rows, unions.
//!
//! A condition `outer = inner` holds for all rows with one value of `inner`. With `inner` as a further key, a
//! row around has all rows of a group or none.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result};
use datafusion_expr::{Expr, ExprSchemable, Operator};

use super::domain::Rows;
use super::exprs::{Key, below_names, named, projected, uses};
use super::lift::{Lifted, Meanings};
use super::{Around, Interest};
use crate::rel::{Aggregate, Over, Rel, Union};
use crate::walk::Walk;

impl Around<'_> {
    pub(super) fn lift_aggregate(&self, aggregate: &Aggregate) -> Result<Option<Lifted>> {
        let lifted = self.lift_groups(aggregate)?;
        if lifted.is_some() || !aggregate.group_expr.is_empty() {
            return Ok(lifted);
        }
        // The row without rows is added where all rows around are, so the domain is read once.
        let Some(defaults) = without_rows(aggregate)? else { return Ok(None) };
        let Rows { plan, domain } = self.grouped(aggregate)?;
        let conditions = self.same_values(&domain)?;
        Ok(Some(Lifted { plan, conditions, deferred: Vec::new(), empty: Some(defaults) }))
    }

    fn lift_groups(&self, aggregate: &Aggregate) -> Result<Option<Lifted>> {
        let Some(below) = self.lift(&aggregate.input, of_input(aggregate))? else { return Ok(None) };
        let exprs: Vec<&Expr> = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).collect();
        let is_set = |expr: &&Expr| matches!(expr, Expr::GroupingSet(_));
        if below.empty.is_some() || exprs.iter().any(is_set) || exprs.iter().any(|expr| uses(expr, &below.deferred)) {
            return Ok(None);
        }
        for expr in exprs {
            if self.is_read_by(expr)? {
                return Ok(None);
            }
        }
        let Some((keys, mut conditions)) = self.keys(&below.conditions, below.plan.columns())? else { return Ok(None) };
        let columns = aggregate.columns.ids();
        let mut group = aggregate.group_expr.clone();
        let mut names: Vec<Column> = columns.iter().take(group.len()).cloned().collect();
        let empty = match group.is_empty() {
            true => match without_rows(aggregate)? {
                Some(defaults) => Some(defaults),
                None => return Ok(None),
            },
            false => None,
        };
        for key in keys {
            let there = group.iter().zip(&names).find(|(expr, _)| *below_names(expr) == key.inner);
            let name = match (there, &key.inner) {
                (Some((_, name)), _) => name.clone(),
                (None, Expr::Column(column)) => self.column_beside(column, &columns),
                (None, _) => self.key_column(),
            };
            conditions.push(key.of(&name));
            if !names.contains(&name) {
                group.push(named(key.inner, &name));
                names.push(name);
            }
        }
        let plan = below.plan.aggregate(group, aggregate.aggr_expr.clone())?;
        Ok(Some(Lifted { plan, conditions, deferred: Vec::new(), empty }))
    }

    pub(super) fn lift_window(&self, window: &Over) -> Result<Option<Lifted>> {
        if self.is_read_by_any(&window.window_expr)? {
            return Ok(None);
        }
        let Some(below) = self.lift(&window.input, Interest::Rows)? else { return Ok(None) };
        if below.empty.is_some() || window.window_expr.iter().any(|expr| uses(expr, &below.deferred)) {
            return Ok(None);
        }
        let own = window.input.ids();
        let added = window.columns.ids().split_off(own.len());
        let (mut below, _) = self.apart(below, &added, &own)?;
        let Some((keys, _)) = self.keys(&below.conditions, below.plan.columns())? else { return Ok(None) };
        let keys: Vec<Expr> = keys.into_iter().map(|key| key.inner).collect();
        below.plan = partitioned(window, window.window_expr.clone(), below.plan, &keys)?;
        Ok(Some(below))
    }

    pub(super) fn lift_union(&self, union: &Union, interest: Interest) -> Result<Option<Lifted>> {
        let mut parts: Vec<(Lifted, Vec<Key>)> = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let Some(part) = self.lift(input, interest)? else { return Ok(None) };
            if part.empty.is_some() || !part.deferred.is_empty() {
                return Ok(None);
            }
            match self.keys(&part.conditions, part.plan.columns())? {
                Some((keys, of_outer)) if of_outer.is_empty() => parts.push((part, keys)),
                _ => return Ok(None),
            }
        }
        let of_part = |(part, keys): &(Lifted, Vec<Key>)| {
            let shape = |key: &Key| Ok((key.outer.clone(), key.op, key.inner.get_type(part.plan.columns())?));
            keys.iter().map(shape).collect::<Result<Vec<(Expr, Operator, DataType)>>>()
        };
        let shapes = parts.iter().map(of_part).collect::<Result<Vec<_>>>()?;
        if shapes.windows(2).any(|pair| pair[0] != pair[1]) {
            return Ok(None);
        }
        let mut names: Vec<Column> = Vec::new();
        let mut conditions = Vec::new();
        for key in parts.first().iter().flat_map(|(_, keys)| keys) {
            let name = self.key_column();
            conditions.push(key.of(&name));
            names.push(name);
        }
        let mut inputs = Vec::with_capacity(parts.len());
        for ((part, keys), input) in parts.into_iter().zip(&union.inputs) {
            let mut exprs: Vec<Expr> = input.ids().into_iter().map(Expr::Column).collect();
            exprs.extend(keys.into_iter().zip(&names).map(|(key, name)| named(key.inner, name)));
            inputs.push(projected(part.plan, exprs)?);
        }
        let columns = union.columns.ids().into_iter().chain(names).collect();
        let mut lifted = Lifted::of(united(inputs, columns)?);
        lifted.conditions = conditions;
        Ok(Some(lifted))
    }
}

/// What of the rows of its input matters to an aggregate.
pub(super) fn of_input(aggregate: &Aggregate) -> Interest {
    if aggregate.aggr_expr.is_empty() { Interest::Values } else { Interest::Rows }
}

/// The values of an aggregate without keys where there are no rows. `None`: one of them is not known.
pub(super) fn without_rows(aggregate: &Aggregate) -> Result<Option<Meanings>> {
    let mut defaults = Vec::with_capacity(aggregate.aggr_expr.len());
    for (call, (relation, field)) in aggregate.aggr_expr.iter().zip(aggregate.columns.iter()) {
        let Expr::AggregateFunction(call) = below_names(call) else { return Ok(None) };
        let default = call.func.default_value(field.data_type())?;
        defaults.push((Column::new(relation.cloned(), field.name()), Expr::Literal(default, None)));
    }
    Ok(Some(defaults))
}

/// The calls over windows of rows, of which each is of one value of the keys. Their columns keep their names.
pub(super) fn partitioned(window: &Over, calls: Vec<Expr>, input: Rel, keys: &[Expr]) -> Result<Rel> {
    let columns = window.columns.ids().into_iter().skip(window.input.width());
    let partition = |call: Expr, column: Column| {
        let changed = call.walk_up(&mut |expr| match expr {
            Expr::WindowFunction(mut call) => {
                let present = &mut call.params.partition_by;
                let missing: Vec<Expr> = keys.iter().filter(|key| !present.contains(key)).cloned().collect();
                present.extend(missing);
                Ok(Transformed::yes(Expr::WindowFunction(call)))
            }
            expr => Ok(Transformed::no(expr)),
        })?;
        Ok(named(changed.data, &column))
    };
    let calls = calls.into_iter().zip(columns).map(|(call, column)| partition(call, column));
    let calls = calls.collect::<Result<Vec<_>>>()?;
    input.over(calls)
}

/// The rows of several plans as these columns, which theirs are in order.
pub(super) fn united(inputs: Vec<Rel>, columns: Vec<Column>) -> Result<Rel> {
    let union = Rel::union(inputs.into_iter().map(Arc::new).collect())?;
    let own = union.ids().into_iter().zip(columns);
    union.project(own.map(|(own, column)| named(Expr::Column(own), &column)).collect::<Vec<_>>())
}
