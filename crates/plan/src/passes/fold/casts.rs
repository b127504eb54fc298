//! Removes casts in comparisons with constants: `CAST(i AS BIGINT) = 5` is `i = 5`, because the cast maps INT
//! to BIGINT one to one. A lossy cast stays.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::{BinaryExpr, Expr};

use super::InputColumns;

/// Removes a cast in a comparison with a constant on the right.
pub(super) fn compared(binary: BinaryExpr, scope: &InputColumns) -> Result<Transformed<Expr>> {
    let from = uncast(&binary.left, scope)?;
    let value = from.and_then(|from| in_type(binary.right.as_literal()?, &from));
    let Some(value) = value else { return Ok(Transformed::no(Expr::BinaryExpr(binary))) };
    let right = Box::new(Expr::Literal(value, None));
    Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: operand(*binary.left), op: binary.op, right })))
}

/// Removes a cast in a comparison with a list of constants.
pub(super) fn listed(list: InList, scope: &InputColumns) -> Result<Transformed<Expr>> {
    let Some(from) = uncast(&list.expr, scope)? else { return Ok(Transformed::no(Expr::InList(list))) };
    let value = |item: &Expr| in_type(item.as_literal()?, &from).map(|value| Expr::Literal(value, None));
    let values: Option<Vec<Expr>> = list.list.iter().map(value).collect();
    let Some(values) = values else { return Ok(Transformed::no(Expr::InList(list))) };
    Ok(Transformed::yes(Expr::InList(InList { expr: operand(*list.expr), list: values, negated: list.negated })))
}

fn operand(expr: Expr) -> Box<Expr> {
    match expr {
        Expr::Cast(cast) => cast.expr,
        expr => Box::new(expr),
    }
}

/// The type of a cast's operand. `None`: it is no cast, or it may change the order of values or make
/// two values equal.
fn uncast(expr: &Expr, scope: &InputColumns) -> Result<Option<DataType>> {
    let Expr::Cast(cast) = expr else { return Ok(None) };
    let from = scope.type_of(&cast.expr)?;
    Ok(is_lossless(&from, cast.field.data_type()).then_some(from))
}

fn is_lossless(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (from, to) if from.is_signed_integer() && to.is_signed_integer() => {
            from.primitive_width() <= to.primitive_width()
        }
        (from, DataType::Decimal128(digits, scale)) if from.is_signed_integer() => {
            digits_of(from).is_some_and(|own| i16::from(*digits) - i16::from(*scale) >= own)
        }
        (DataType::Decimal128(digits, scale), DataType::Decimal128(to_digits, to_scale)) => {
            let whole = |digits: &u8, scale: &i8| i16::from(*digits) - i16::from(*scale);
            scale <= to_scale && whole(digits, scale) <= whole(to_digits, to_scale)
        }
        (DataType::Timestamp(unit, zone), DataType::Timestamp(to, other)) => {
            zone == other && fineness(*unit) <= fineness(*to)
        }
        _ => false,
    }
}

/// The decimal digits of an integer type.
fn digits_of(integer: &DataType) -> Option<i16> {
    Some(match integer {
        DataType::Int8 => 3,
        DataType::Int16 => 5,
        DataType::Int32 => 10,
        DataType::Int64 => 19,
        _ => return None,
    })
}

fn fineness(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

/// A constant in another type. `None`: that type does not have the value.
fn in_type(value: &ScalarValue, to: &DataType) -> Option<ScalarValue> {
    let there = value.cast_to(to).ok()?;
    let back = there.cast_to(&value.data_type()).ok()?;
    (back == *value && there.is_null() == value.is_null()).then_some(there)
}
