//! `GROUPING(a, b)`: a bit for each argument, which is 1 in rows of a grouping set without this key. The
//! aggregation numbers the grouping sets. This number has such a bit for each key, and the lowest bit is that
//! of the last key. The call selects the bits of its arguments.

use std::collections::BTreeMap;

use anabranch_model::Error;
use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Expr, bitwise_and, bitwise_or, bitwise_shift_left, bitwise_shift_right, cast, lit};

use crate::origin::first_span;
use crate::place::{at_span, through};
use crate::rel::{Aggregate, Col, Output, Rel, aggregate_as, kept, without_numbers};

pub(super) fn grouping(plan: Rel) -> Result<Rel> {
    let computed = plan.walk_up(&mut |node| match node {
        Rel::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(|call| call_of(call).is_some()) => {
            resolved(aggregate).map(Transformed::yes)
        }
        node => Ok(Transformed::no(node)),
    });
    computed.map(|plan| plan.data)
}

fn call_of(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::AggregateFunction(call) if call.func.name() == "grouping" => Some(call),
        _ => None,
    }
}

fn resolved(of: Aggregate) -> Result<Rel> {
    let mut ids = of.columns.ids();
    let keys: Vec<Expr> = grouping_set_to_exprlist(&of.group_expr)?.into_iter().cloned().collect();
    let of_calls = ids.split_off(ids.len() - of.aggr_expr.len());
    // The number follows the keys if there are grouping sets.
    let number = of.columns.iter().take(ids.len()).nth(keys.len());
    let mut outputs: Vec<Output> = ids[..keys.len()].iter().cloned().map(kept).collect();
    let mut calls = Vec::new();
    for (expr, id) in of.aggr_expr.into_iter().zip(of_calls) {
        match call_of(&expr) {
            Some(call) => outputs.push((id, value(call, &keys, number)?)),
            None => {
                outputs.push(kept(id.clone()));
                ids.push(id);
                calls.push(expr);
            }
        }
    }
    Rel::Aggregate(aggregate_as(of.input, of.group_expr, calls, ids)?).project(outputs)
}

/// The value of a call. `number` is `None` without grouping sets: then each row has all keys.
fn value(call: &AggregateFunction, keys: &[Expr], number: Option<&Col>) -> Result<Expr> {
    let args = &call.params.args;
    let place = |arg: &Expr| keys.iter().rev().position(|key| key == arg);
    let places = args.iter().map(|arg| place(arg).ok_or_else(|| no_key(arg))).collect::<Result<Vec<_>>>()?;
    let Some(number) = number else { return Ok(lit(0_i32)) };
    let constant = |value: usize| {
        let value = ScalarValue::UInt64(Some(value as u64)).cast_to(number.field.data_type())?;
        Ok::<_, datafusion_common::DataFusionError>(Expr::Literal(value, None))
    };
    // Bits that move by the same distance are moved together.
    let mut masks: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (to, from) in places.into_iter().rev().enumerate() {
        *masks.entry((to.saturating_sub(from), from.saturating_sub(to))).or_default() |= 1 << from;
    }
    let bits = masks.into_iter().map(|(moved, mask)| {
        let bits = bitwise_and(number.expr(), constant(mask)?);
        Ok(match moved {
            (0, 0) => bits,
            (0, right) => bitwise_shift_right(bits, constant(right)?),
            (left, _) => bitwise_shift_left(bits, constant(left)?),
        })
    });
    let bits = bits.collect::<Result<Vec<_>>>()?.into_iter().reduce(bitwise_or);
    Ok(cast(bits.unwrap_or(constant(0)?), DataType::Int32))
}

fn no_key(arg: &Expr) -> datafusion_common::DataFusionError {
    let error =
        Error::user(format!("GROUPING takes keys of GROUP BY, and {} is none", without_numbers(&arg.to_string())));
    through(at_span(error.remedy("name a column of the grouping sets"), first_span(arg)))
}
