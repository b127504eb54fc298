//! Arithmetic of exact numbers. Results are rounded half up; a result that has more digits than its type is
//! NULL, as in Flink.

use std::sync::Arc;

use anabranch_dataflow::{BinaryOp, as_decimal};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, i256};
use arrow::error::ArrowError;
use datafusion_common::{DataFusionError, Result, internal_err};

/// One operand: its values and scale.
struct Operand {
    array: Decimal128Array,
    precision: u8,
    scale: i32,
}

pub(super) fn arithmetic(op: BinaryOp, left: &ArrayRef, right: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(precision, scale) = *to else { return internal_err!("{to} is not a decimal type") };
    let (left, right) = (operand(left)?, operand(right)?);
    let limits = (precision, i32::from(scale));
    let values = match op {
        BinaryOp::Plus | BinaryOp::Minus => sum(&left, &right, op == BinaryOp::Minus, limits),
        BinaryOp::Multiply => product(&left, &right, limits),
        BinaryOp::Divide => quotient(&left, &right, limits)?,
        BinaryOp::Modulo => remainder(&left, &right, limits)?,
        other => return internal_err!("{other:?} is not arithmetic"),
    };
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

fn operand(array: &ArrayRef) -> Result<Operand> {
    let Some(data_type @ DataType::Decimal128(precision, scale)) = as_decimal(array.data_type()) else {
        return internal_err!("{} is not an exact number", array.data_type());
    };
    let array = arrow::compute::cast(array, &data_type)?.as_primitive::<Decimal128Type>().clone();
    Ok(Operand { array, precision, scale: i32::from(scale) })
}

/// Applies `value` to the rows where both have one.
fn each(left: &Operand, right: &Operand, value: impl Fn(i128, i128) -> Option<i128>) -> Decimal128Array {
    let nulls = NullBuffer::union(left.array.nulls(), right.array.nulls());
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let (a, b) = (left.array.values(), right.array.values());
    (0..a.len()).map(|row| if is_valid(row) { value(a[row], b[row]) } else { None }).collect()
}

fn sum(left: &Operand, right: &Operand, subtract: bool, (precision, scale): (u8, i32)) -> Decimal128Array {
    let common = left.scale.max(right.scale);
    let (up_left, up_right) = (power(common - left.scale), power(common - right.scale));
    let whole = i32::from(left.precision) - left.scale;
    let whole = whole.max(i32::from(right.precision) - right.scale);
    if whole + common < 38 {
        let (up_left, up_right) = (up_left.as_i128(), if subtract { -up_right.as_i128() } else { up_right.as_i128() });
        return each(left, right, |a, b| Some(a * up_left + b * up_right));
    }
    each(left, right, |a, b| {
        let (a, b) = (wide(a).wrapping_mul(up_left), wide(b).wrapping_mul(up_right));
        let sum = if subtract { a.wrapping_sub(b) } else { a.wrapping_add(b) };
        fit(rescale(sum, common, scale)?, precision)
    })
}

fn product(left: &Operand, right: &Operand, (precision, scale): (u8, i32)) -> Decimal128Array {
    if left.precision + right.precision < 38 {
        return each(left, right, |a, b| Some(a * b));
    }
    let exact = left.scale + right.scale;
    each(left, right, |a, b| fit(rescale(wide(a).wrapping_mul(wide(b)), exact, scale)?, precision))
}

fn quotient(left: &Operand, right: &Operand, (precision, scale): (u8, i32)) -> Result<Decimal128Array> {
    refuse_zero(left, right)?;
    // a/10^s1 / (b/10^s2) = a * 10^(s2 - s1) / b, with `scale` digits after the point.
    let shift = scale + right.scale - left.scale;
    Ok(each(left, right, |a, b| fit(divide(wide(a), wide(b), shift)?, precision)))
}

/// `a * 10^shift / b`, rounded half up, by long division. No intermediate value overflows if the result fits.
fn divide(a: i256, b: i256, shift: i32) -> Option<i256> {
    let negative = a.is_negative() != b.is_negative();
    let (a, mut b) = (a.wrapping_abs(), b.wrapping_abs());
    for _ in shift..0 {
        b = b.checked_mul(TEN)?;
    }
    let (mut quotient, mut rest) = (a.wrapping_div(b), a.wrapping_rem(b));
    let mut left = shift.max(0);
    while left > 0 {
        // As many digits at once as fit: the remainder has at most 39 digits of 76.
        let step = left.min(36);
        let next = rest.wrapping_mul(power(step));
        quotient = quotient.checked_mul(power(step))?.checked_add(next.wrapping_div(b))?;
        rest = next.wrapping_rem(b);
        left -= step;
    }
    if rest >= b.wrapping_sub(rest) {
        quotient = quotient.checked_add(i256::ONE)?;
    }
    Some(if negative { quotient.wrapping_neg() } else { quotient })
}

fn remainder(left: &Operand, right: &Operand, (precision, scale): (u8, i32)) -> Result<Decimal128Array> {
    refuse_zero(left, right)?;
    let common = left.scale.max(right.scale);
    let (up_left, up_right) = (power(common - left.scale), power(common - right.scale));
    Ok(each(left, right, |a, b| {
        let rest = wide(a).wrapping_mul(up_left).wrapping_rem(wide(b).wrapping_mul(up_right));
        fit(rescale(rest, common, scale)?, precision)
    }))
}

fn refuse_zero(left: &Operand, right: &Operand) -> Result<()> {
    let zero = left.array.iter().zip(&right.array).any(|(a, b)| a.is_some() && b == Some(0));
    if zero { Err(DataFusionError::from(ArrowError::DivideByZero)) } else { Ok(()) }
}

const TEN: i256 = i256::from_i128(10);

fn wide(value: i128) -> i256 {
    i256::from_i128(value)
}

/// 10 to the power of at most 76.
fn power(exponent: i32) -> i256 {
    TEN.wrapping_pow(exponent.unsigned_abs())
}

/// The number with another scale, rounded half up.
fn rescale(value: i256, from: i32, to: i32) -> Option<i256> {
    divide(value, i256::ONE, to - from)
}

fn fit(value: i256, precision: u8) -> Option<i128> {
    value.to_i128().filter(|value| value.unsigned_abs() < 10_u128.pow(u32::from(precision)))
}

/// `sum / count` with the scale `to` instead of `from`, rounded half up; `None` if it has more digits than a
/// DECIMAL.
pub(crate) fn mean(sum: i256, count: i64, from: i8, to: i8) -> Option<i128> {
    fit(divide(sum, wide(i128::from(count)), i32::from(to) - i32::from(from))?, anabranch_dataflow::DECIMAL_DIGITS_MAX)
}
