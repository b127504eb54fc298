//! Types of exact numbers in arithmetic and in aggregates. The rules are Flink's; planner and operators share
//! them.

use arrow_schema::DataType;

use crate::BinaryOp;

/// Most digits of a DECIMAL.
pub const DECIMAL_DIGITS_MAX: u8 = 38;
/// Digits after the point that a result keeps, if it has them, when the digits before the point need the
/// space.
const SCALE_KEPT: i32 = 6;

/// Digits and scale of a whole or decimal number.
fn digits(data_type: &DataType) -> Option<(i32, i32)> {
    Some(match data_type {
        DataType::Int8 => (3, 0),
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::Decimal128(precision, scale) => (i32::from(*precision), i32::from(*scale)),
        _ => return None,
    })
}

/// The DECIMAL that holds every value of a whole number's type; decimals stay as they are.
#[must_use]
pub fn as_decimal(data_type: &DataType) -> Option<DataType> {
    digits(data_type).map(|(precision, scale)| decimal(precision, scale))
}

/// Type of `left op right` if one of them is DECIMAL and both are exact.
#[must_use]
pub fn decimal_result(op: BinaryOp, left: &DataType, right: &DataType) -> Option<DataType> {
    let is_decimal = |data_type: &DataType| matches!(data_type, DataType::Decimal128(..));
    if !is_decimal(left) && !is_decimal(right) {
        return None;
    }
    let ((p1, s1), (p2, s2)) = (digits(left)?, digits(right)?);
    let (precision, scale) = match op {
        BinaryOp::Plus | BinaryOp::Minus => {
            let scale = s1.max(s2);
            ((p1 - s1).max(p2 - s2) + scale + 1, scale)
        }
        BinaryOp::Multiply => (p1 + p2 + 1, s1 + s2),
        BinaryOp::Divide => {
            let scale = SCALE_KEPT.max(s1 + p2 + 1);
            (p1 - s1 + s2 + scale, scale)
        }
        BinaryOp::Modulo => {
            let scale = s1.max(s2);
            ((p1 - s1).min(p2 - s2) + scale, scale)
        }
        _ => return None,
    };
    Some(decimal(precision, scale))
}

/// A DECIMAL of this many digits; if these are too many, digits after the point are dropped.
fn decimal(precision: i32, scale: i32) -> DataType {
    let most = i32::from(DECIMAL_DIGITS_MAX);
    let (precision, scale) = if precision <= most {
        (precision, scale)
    } else {
        (most, (most - (precision - scale)).max(scale.min(SCALE_KEPT)))
    };
    DataType::Decimal128(u8::try_from(precision).unwrap_or(DECIMAL_DIGITS_MAX), i8::try_from(scale).unwrap_or(0))
}

/// The result type of `SUM` and `AVG` of an exact number, and the columns of a partial result: the sum so
/// far, which cannot overflow, and for `AVG` the number of values. `None`: the aggregate is not exact.
#[must_use]
pub fn exact_aggregate(function: &str, argument: &DataType) -> Option<(DataType, Vec<DataType>)> {
    match (function, argument) {
        ("sum", DataType::Int64) => Some((DataType::Int64, vec![DataType::Decimal128(DECIMAL_DIGITS_MAX, 0)])),
        ("avg", DataType::Int64) => {
            Some((DataType::Int64, vec![DataType::Decimal128(DECIMAL_DIGITS_MAX, 0), DataType::Int64]))
        }
        ("sum", DataType::Decimal128(_, scale)) => {
            Some((DataType::Decimal128(DECIMAL_DIGITS_MAX, *scale), vec![DataType::Decimal256(76, *scale)]))
        }
        ("avg", DataType::Decimal128(_, scale)) => {
            let result = DataType::Decimal128(DECIMAL_DIGITS_MAX, 6.max(*scale));
            Some((result, vec![DataType::Decimal256(76, *scale), DataType::Int64]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_flinks_digits() {
        let decimal = DataType::Decimal128;
        for (op, left, right, expected) in [
            (BinaryOp::Plus, decimal(10, 2), decimal(5, 4), decimal(13, 4)),
            (BinaryOp::Multiply, decimal(10, 2), DataType::Int32, decimal(21, 2)),
            (BinaryOp::Divide, decimal(10, 2), decimal(10, 2), decimal(23, 13)),
            (BinaryOp::Divide, decimal(38, 10), decimal(38, 10), decimal(38, 6)),
            (BinaryOp::Modulo, decimal(10, 2), decimal(5, 3), decimal(5, 3)),
            (BinaryOp::Multiply, decimal(38, 18), decimal(38, 18), decimal(38, 6)),
        ] {
            assert_eq!(decimal_result(op, &left, &right), Some(expected), "{left} {op:?} {right}");
        }
        assert_eq!(decimal_result(BinaryOp::Plus, &DataType::Int64, &DataType::Int32), None);
        assert_eq!(decimal_result(BinaryOp::Plus, &decimal(3, 1), &DataType::Float64), None);
    }
}
