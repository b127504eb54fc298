//! Moves conditions out of nodes that combine several rows: aggregates, window functions, unions.
//!
//! A condition `outer = inner` holds for all rows with one value of `inner`. With `inner` as an additional
//! key, each group matches an outer row as a whole or not at all.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr::{Expr, ExprSchemable, Operator};

use super::domain::DomainRows;
use super::exprs::{Key, uses};
use super::lift::{KEY, Lifted, Substitutions, column_of};
use super::{DependentJoin, Interest};
use crate::rel::{Aggregate, Over, Rel, Union, aggregate_as, computed, fresh, kept, union_as};

impl DependentJoin<'_> {
    pub(super) fn lift_aggregate(&self, aggregate: &Aggregate) -> Result<Option<Lifted>> {
        let lifted = self.lift_groups(aggregate)?;
        if lifted.is_some() || !aggregate.group_expr.is_empty() {
            return Ok(lifted);
        }
        // The join adds the row of an empty group, because it has all outer rows. So the domain is read once.
        let Some(defaults) = values_without_rows(aggregate)? else { return Ok(None) };
        let DomainRows { plan, domain } = self.grouped(aggregate)?;
        let conditions = self.same_values(&domain)?;
        Ok(Some(Lifted { plan, conditions, deferred: Vec::new(), empty: Some(defaults) }))
    }

    fn lift_groups(&self, aggregate: &Aggregate) -> Result<Option<Lifted>> {
        let Some(below) = self.lift(&aggregate.input, interest_in_input(aggregate))? else { return Ok(None) };
        let exprs: Vec<&Expr> = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).collect();
        let is_set = |expr: &&Expr| matches!(expr, Expr::GroupingSet(_));
        if below.empty.is_some() || exprs.iter().any(is_set) || exprs.iter().any(|expr| uses(expr, &below.deferred)) {
            return Ok(None);
        }
        for expr in exprs {
            if self.reads_outer(expr)? {
                return Ok(None);
            }
        }
        let Some((keys, mut conditions)) = self.keys(&below.conditions, below.plan.columns())? else { return Ok(None) };
        let mut group = aggregate.group_expr.clone();
        let mut ids = aggregate.columns.ids();
        let of_calls = ids.split_off(group.len());
        let empty = match group.is_empty() {
            true => match values_without_rows(aggregate)? {
                Some(defaults) => Some(defaults),
                None => return Ok(None),
            },
            false => None,
        };
        for key in keys {
            let same = group.iter().zip(&ids).find(|(expr, _)| **expr == key.inner).map(|(_, column)| column.clone());
            let column = same.unwrap_or_else(|| column_of(&key.inner));
            conditions.push(key.condition(&column));
            if !ids.contains(&column) {
                group.push(key.inner);
                ids.push(column);
            }
        }
        ids.extend(of_calls);
        let plan = aggregate_as(Arc::new(below.plan), group, aggregate.aggr_expr.clone(), ids)?;
        Ok(Some(Lifted { plan: Rel::Aggregate(plan), conditions, deferred: Vec::new(), empty }))
    }

    pub(super) fn lift_window(&self, window: &Over) -> Result<Option<Lifted>> {
        if self.reads_outer_any(&window.window_expr)? {
            return Ok(None);
        }
        let Some(mut below) = self.lift(&window.input, Interest::Rows)? else { return Ok(None) };
        if below.empty.is_some() || window.window_expr.iter().any(|expr| uses(expr, &below.deferred)) {
            return Ok(None);
        }
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
        let mut columns = union.columns.ids();
        let mut conditions = Vec::new();
        for key in parts.first().iter().flat_map(|(_, keys)| keys) {
            let column = fresh(KEY);
            conditions.push(key.condition(&column));
            columns.push(column);
        }
        let mut inputs = Vec::with_capacity(parts.len());
        for ((part, keys), input) in parts.into_iter().zip(&union.inputs) {
            let keys = keys.into_iter().map(|key| computed(KEY, key.inner));
            inputs.push(Arc::new(part.plan.project(input.ids().into_iter().map(kept).chain(keys))?));
        }
        let mut lifted = Lifted::new(union_as(inputs, columns)?);
        lifted.conditions = conditions;
        Ok(Some(lifted))
    }
}

/// The interest of an aggregate in its input.
pub(super) fn interest_in_input(aggregate: &Aggregate) -> Interest {
    if aggregate.aggr_expr.is_empty() { Interest::Values } else { Interest::Rows }
}

/// The values of an aggregate without keys over an empty input. `None`: one of them is unknown.
pub(super) fn values_without_rows(aggregate: &Aggregate) -> Result<Option<Substitutions>> {
    let mut defaults = Vec::with_capacity(aggregate.aggr_expr.len());
    for (call, col) in aggregate.aggr_expr.iter().zip(aggregate.columns.iter()) {
        let Expr::AggregateFunction(call) = call else { return Ok(None) };
        let default = call.func.default_value(col.field.data_type())?;
        defaults.push((col.id.clone(), Expr::Literal(default, None)));
    }
    Ok(Some(defaults))
}

/// The window functions with the keys as additional partition keys. Their columns stay the same.
pub(super) fn partitioned(window: &Over, calls: Vec<Expr>, input: Rel, keys: &[Expr]) -> Result<Rel> {
    let columns = window.columns.ids().into_iter().skip(window.input.width());
    let partition = |mut call: Expr| {
        if let Expr::WindowFunction(call) = &mut call {
            let present = &mut call.params.partition_by;
            let missing: Vec<Expr> = keys.iter().filter(|key| !present.contains(key)).cloned().collect();
            present.extend(missing);
        }
        call
    };
    input.over(columns.zip(calls.into_iter().map(partition)))
}
