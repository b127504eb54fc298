//! `GROUPING(a, b)`: a bit for each key, which is 1 in the rows of a grouping set without that key. The aggregation
//! gives a number with such a bit for each of its keys, the last key's the lowest.

use anabranch_model::Error;
use arrow::datatypes::DataType;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, Result, ScalarValue};
use datafusion_expr::expr::AggregateFunction;
use datafusion_expr::utils::grouping_set_to_exprlist;
use datafusion_expr::{Expr, bitwise_and, bitwise_or, bitwise_shift_left, bitwise_shift_right, cast, lit};

use crate::origin::first_span;
use crate::place::{at_span, through};
use crate::rel::{Aggregate, GROUPING_ID, Rel, aggregate, project};

/// Computes all calls of a plan.
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
        Expr::Alias(alias) => call_of(&alias.expr),
        _ => None,
    }
}

fn resolved(of: Aggregate) -> Result<Rel> {
    let ids = of.columns.ids();
    let keys: Vec<Expr> = grouping_set_to_exprlist(&of.group_expr)?.into_iter().cloned().collect();
    let of_calls = ids.len() - of.aggr_expr.len();
    let mut exprs: Vec<Expr> = ids[..keys.len()].iter().cloned().map(Expr::Column).collect();
    let mut calls = Vec::new();
    let number = of.columns.fields().iter().find(|field| field.name() == GROUPING_ID);
    let number_type = number.map(|field| field.data_type().clone());
    for (expr, id) in of.aggr_expr.iter().zip(&ids[of_calls..]) {
        match call_of(expr) {
            Some(call) => {
                exprs.push(value(call, &keys, number_type.as_ref())?.alias_qualified(id.relation.clone(), &id.name));
            }
            None => {
                exprs.push(Expr::Column(id.clone()));
                calls.push(expr.clone());
            }
        }
    }
    project(Rel::Aggregate(aggregate(of.input, of.group_expr, calls)?), exprs)
}

/// The value of a call. Without grouping sets, `number` is `None` and each row has all keys.
fn value(call: &AggregateFunction, keys: &[Expr], number: Option<&DataType>) -> Result<Expr> {
    let args = &call.params.args;
    let place = |arg: &Expr| keys.iter().rev().position(|key| key == arg);
    let places = args.iter().map(|arg| place(arg).ok_or_else(|| no_key(arg))).collect::<Result<Vec<_>>>()?;
    let Some(number) = number else { return Ok(lit(0_i32)) };
    let constant = |value: usize| {
        let value = ScalarValue::UInt64(Some(value as u64)).cast_to(number)?;
        Ok::<_, datafusion_common::DataFusionError>(Expr::Literal(value, None))
    };
    let id = || Expr::Column(Column::from_name(GROUPING_ID));
    let bits = places.iter().rev().enumerate().map(|(to, from)| {
        let bit = bitwise_and(id(), constant(1 << from)?);
        Ok(match from.cmp(&to) {
            std::cmp::Ordering::Less => bitwise_shift_left(bit, constant(to - from)?),
            std::cmp::Ordering::Greater => bitwise_shift_right(bit, constant(from - to)?),
            std::cmp::Ordering::Equal => bit,
        })
    });
    let bits = bits.collect::<Result<Vec<_>>>()?.into_iter().reduce(bitwise_or);
    Ok(cast(bits.unwrap_or(constant(0)?), DataType::Int32))
}

fn no_key(arg: &Expr) -> datafusion_common::DataFusionError {
    let error = Error::user(format!("GROUPING takes keys of GROUP BY, and {arg} is none"));
    through(at_span(error.remedy("name a column of the grouping sets"), first_span(arg)))
}
