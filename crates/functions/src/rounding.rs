//! Rounding, signs and absolute values, of every type of number.
//!
//! A floating-point number is rounded as its shortest decimal form: 2.675 to 2.68, though its exact value is
//! a little less.

use std::fmt::{Display, LowerExp, Write};
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::{try_unary, unary};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type,
};
use arrow::error::ArrowError;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ReturnFieldArgs;

use crate::arguments::{Arguments, primitives, try_primitives};
use crate::definition::{Definition, Kind, Returns, failure, function};

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("abs", &[&[Kind::Number]], Returns::First, abs),
    function("sign", &[&[Kind::Number]], Returns::First, sign).also(&["signum"]),
    function("floor", &[&[Kind::Number]], Returns::Of(to_whole), |a| whole(a, f64::floor, i128::div_euclid))
        .never_fails(),
    function("ceil", &[&[Kind::Number]], Returns::Of(to_whole), |a| whole(a, f64::ceil, |v, u| -(-v).div_euclid(u)))
        .never_fails()
        .also(&["ceiling"]),
    function("round", PLACES, Returns::Of(to_places), |a| places(a, Mode::HalfUp)),
    function("truncate", PLACES, Returns::Of(to_places), |a| places(a, Mode::Down)).also(&["trunc"]),
];

const PLACES: &[&[Kind]] = &[&[Kind::Number], &[Kind::Number, Kind::Integer]];

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    HalfUp,
    Down,
}

fn of_type<T: ArrowPrimitiveType>(arguments: &Arguments) -> PrimitiveArray<T> {
    arguments.array(0).as_primitive::<T>().clone()
}

/// Sets the type of the argument, with a decimal's precision and scale.
fn typed<T: ArrowPrimitiveType>(values: PrimitiveArray<T>, arguments: &Arguments) -> Result<ArrayRef> {
    Ok(Arc::new(values.with_data_type(arguments.returns.clone())))
}

fn unsupported(name: &str, data_type: &DataType) -> datafusion_common::DataFusionError {
    failure(format!("{name} does not take {data_type}; cast it to DOUBLE or BIGINT"))
}

fn abs(arguments: &Arguments) -> Result<ArrayRef> {
    macro_rules! whole {
        ($t:ty) => {
            typed(
                try_unary::<_, _, $t>(&of_type::<$t>(arguments), |value| {
                    value
                        .checked_abs()
                        .ok_or_else(|| ArrowError::ArithmeticOverflow(format!("the absolute value of {value}")))
                })?,
                arguments,
            )
        };
    }
    match arguments.array(0).data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::Decimal128(..) => whole!(Decimal128Type),
        DataType::Float32 => typed(unary::<_, _, Float32Type>(&of_type::<Float32Type>(arguments), f32::abs), arguments),
        DataType::Float64 => typed(unary::<_, _, Float64Type>(&of_type::<Float64Type>(arguments), f64::abs), arguments),
        other => Err(unsupported("ABS", other)),
    }
}

fn sign(arguments: &Arguments) -> Result<ArrayRef> {
    macro_rules! whole {
        ($t:ty) => {
            typed(unary::<_, _, $t>(&of_type::<$t>(arguments), |value| value.signum()), arguments)
        };
    }
    macro_rules! float {
        ($t:ty) => {
            typed(unary::<_, _, $t>(&of_type::<$t>(arguments), |x| if x == 0.0 { x } else { x.signum() }), arguments)
        };
    }
    match arguments.array(0).data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::Float32 => float!(Float32Type),
        DataType::Float64 => float!(Float64Type),
        DataType::Decimal128(precision, scale) => {
            let one = power_of_ten(i64::from(*scale)).unwrap_or(1);
            let values = of_type::<Decimal128Type>(arguments);
            if i64::from(*precision) == i64::from(*scale) && values.iter().flatten().any(|value| value != 0) {
                return Err(failure(format!(
                    "SIGN: 1 does not fit into DECIMAL({precision}, {scale}); cast to a DECIMAL with more digits"
                )));
            }
            typed(unary::<_, _, Decimal128Type>(&values, |value| value.signum() * one), arguments)
        }
        other => Err(unsupported("SIGN", other)),
    }
}

/// `FLOOR` and `CEIL` of a decimal keep its precision and drop its scale.
fn to_whole(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(match args.arg_fields[0].data_type() {
        DataType::Decimal128(precision, _) => DataType::Decimal128(*precision, 0),
        other => other.clone(),
    })
}

fn whole(arguments: &Arguments, of_float: fn(f64) -> f64, of_ratio: fn(i128, i128) -> i128) -> Result<ArrayRef> {
    match arguments.array(0).data_type() {
        DataType::Float64 => typed(unary::<_, _, Float64Type>(&of_type::<Float64Type>(arguments), of_float), arguments),
        #[expect(clippy::cast_possible_truncation, reason = "a whole number next to one of 32 bits has 32 bits")]
        DataType::Float32 => {
            let of_float = |x: f32| of_float(f64::from(x)) as f32;
            typed(unary::<_, _, Float32Type>(&of_type::<Float32Type>(arguments), of_float), arguments)
        }
        DataType::Decimal128(_, scale) => {
            let unit = power_of_ten(i64::from(*scale)).unwrap_or(1);
            let values = of_type::<Decimal128Type>(arguments);
            typed(unary::<_, _, Decimal128Type>(&values, |value| of_ratio(value, unit)), arguments)
        }
        _ => Ok(Arc::clone(arguments.array(0))),
    }
}

/// The type of a decimal with the given number of places; if the number differs by row, the type is
/// unchanged.
fn to_places(args: &ReturnFieldArgs) -> Result<DataType> {
    let places = match args.scalar_arguments.get(1) {
        None => Some(0),
        Some(Some(ScalarValue::Int64(places))) => *places,
        Some(_) => None,
    };
    let given = args.arg_fields[0].data_type();
    let (DataType::Decimal128(precision, scale), Some(places)) = (given, places) else { return Ok(given.clone()) };
    let whole_digits = i64::from(*precision) - i64::from(*scale);
    if places >= i64::from(*scale) {
        return Ok(given.clone());
    }
    let places = places.max(0);
    let precision = (1 + whole_digits + places).clamp(1, i64::from(DECIMAL128_MAX_PRECISION));
    Ok(DataType::Decimal128(u8::try_from(precision).unwrap_or(38), i8::try_from(places).unwrap_or(0)))
}

fn places(arguments: &Arguments, mode: Mode) -> Result<ArrayRef> {
    let places = arguments.integer_or(1, 0);
    macro_rules! each {
        ($t:ty, $round:expr) => {{
            let values = arguments.primitive::<$t>(0);
            let rounded = try_primitives::<$t>(arguments.rows, |row| {
                let (Some(value), Some(places)) = (values.get(row), places.get(row)) else { return Ok(None) };
                $round(value, places).map(Some)
            })?;
            typed(rounded.as_primitive::<$t>().clone(), arguments)
        }};
    }
    macro_rules! whole {
        ($t:ty) => {
            each!($t, |value: <$t as ArrowPrimitiveType>::Native, places: i64| {
                let rounded = round_ratio(i128::from(value), places.saturating_neg(), mode);
                rounded.try_into().map_err(|_| overflow(&value.to_string()))
            })
        };
    }
    match arguments.array(0).data_type() {
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::Float32 => each!(Float32Type, |value, places| Ok(round_float(value, places, mode))),
        DataType::Float64 => each!(Float64Type, |value, places| Ok(round_float(value, places, mode))),
        DataType::Decimal128(_, scale) => {
            let given = i64::from(*scale);
            let DataType::Decimal128(precision, scale) = arguments.returns else {
                return Err(unsupported("ROUND", arguments.returns));
            };
            let unit = power_of_ten(given - i64::from(*scale)).unwrap_or(1);
            // A number that has one digit more than before may not fit: it is NULL, as in arithmetic.
            let limit = power_of_ten(i64::from(*precision)).unwrap_or(i128::MAX);
            let values = arguments.primitive::<Decimal128Type>(0);
            let rounded = primitives::<Decimal128Type>(arguments.rows, |row| {
                let (value, places) = (values.get(row)?, places.get(row)?);
                let rounded = round_ratio(value, given.saturating_sub(places), mode) / unit;
                (-limit < rounded && rounded < limit).then_some(rounded)
            })?;
            typed(rounded.as_primitive::<Decimal128Type>().clone(), arguments)
        }
        other => Err(unsupported("ROUND", other)),
    }
}

fn overflow(value: &str) -> datafusion_common::DataFusionError {
    failure(format!("the number {value} rounded does not fit into its type; cast it to a wider type"))
}

/// Replaces the last `digits` digits of a whole number with zeros, rounding by `mode`.
fn round_ratio(value: i128, digits: i64, mode: Mode) -> i128 {
    if digits <= 0 {
        return value;
    }
    let Some(unit) = power_of_ten(digits) else { return 0 };
    let rest = value % unit;
    let away = mode == Mode::HalfUp && rest.unsigned_abs() >= unit.unsigned_abs() / 2;
    value - rest + if away { unit * value.signum() } else { 0 }
}

fn power_of_ten(exponent: i64) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(exponent).ok()?)
}

/// Space for a sign, 17 digits, a point and an exponent.
struct Digits {
    bytes: [u8; 48],
    len: usize,
}

impl Write for Digits {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl Digits {
    fn new() -> Self {
        Digits { bytes: [0; 48], len: 0 }
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

/// A number with at most `places` decimal places, rounded by the digits of its shortest decimal form.
fn round_float<F: Copy + Default + LowerExp + Display + FromStr>(value: F, places: i64, mode: Mode) -> F {
    let mut written = Digits::new();
    if write!(written, "{value:e}").is_err() {
        return value;
    }
    // Infinities and NaN have no exponent.
    let Some((mantissa, exponent)) = written.text().split_once('e') else { return value };
    let Ok(exponent) = exponent.parse::<i64>() else { return value };
    let mut digits = [0_u8; 32];
    let mut count = 0;
    for digit in mantissa.bytes().filter(u8::is_ascii_digit) {
        digits[count] = digit - b'0';
        count += 1;
    }
    // `digits` are the digits of 0.DIGITS * 10^(exponent + 1).
    let kept = places.saturating_add(exponent + 1);
    let Ok(kept) = usize::try_from(kept) else { return F::default() };
    if kept >= count {
        return value;
    }
    let mut number = 0_u64;
    for digit in &digits[..kept] {
        number = number * 10 + u64::from(*digit);
    }
    if mode == Mode::HalfUp && digits[kept] >= 5 {
        number += 1;
    }
    if number == 0 {
        return F::default();
    }
    let sign = if mantissa.starts_with('-') { "-" } else { "" };
    let mut rounded = Digits::new();
    match write!(rounded, "{sign}{number}e{}", -places) {
        Ok(()) => rounded.text().parse().unwrap_or(value),
        Err(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_rounded_by_their_shortest_digits() {
        for (value, places, half_up, down) in [
            (2.675, 2, 2.68, 2.67),
            (-2.5, 0, -3.0, -2.0),
            (0.5, 0, 1.0, 0.0),
            (0.05, 0, 0.0, 0.0),
            (999.96, 1, 1000.0, 999.9),
            (1234.5, -2, 1200.0, 1200.0),
            (66.0, -2, 100.0, 0.0),
            (1e300, 3, 1e300, 1e300),
            (5e-324, 400, 5e-324, 5e-324),
        ] {
            assert_eq!(round_float::<f64>(value, places, Mode::HalfUp), half_up, "{value} {places}");
            assert_eq!(round_float::<f64>(value, places, Mode::Down), down, "{value} {places}");
        }
    }
}
