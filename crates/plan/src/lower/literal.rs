//! Converts constants.

use anabranch_dataflow::{Digits, Expr, Literal, Scalar, sql_name};
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion_common::ScalarValue;

/// The expression for a value: a literal, or a constructor of an array, a map or a row.
pub(super) fn constant(value: &ScalarValue) -> Result<Expr> {
    if value.is_null() {
        return literal(value).map(Expr::Literal);
    }
    let at = |array: &ArrayRef, index: usize| {
        let value = ScalarValue::try_from_array(array, index).map_err(|e| Error::internal(e.to_string()))?;
        constant(&value)
    };
    let (function, args): (_, Result<Vec<Expr>>) = match value {
        ScalarValue::List(list) => {
            let elements = list.value(0);
            ("make_array", (0..elements.len()).map(|index| at(&elements, index)).collect())
        }
        ScalarValue::Map(map) => {
            let entries = map.value(0);
            let columns = entries.columns();
            let parts = (0..entries.len()).flat_map(|index| columns.iter().map(move |column| at(column, index)));
            ("make_map", parts.collect())
        }
        ScalarValue::Struct(row) => {
            let fields = row.fields().iter().zip(row.columns());
            ("named_struct", fields.flat_map(|(field, column)| [Ok(Expr::text(field.name())), at(column, 0)]).collect())
        }
        _ => return of_one_value(value),
    };
    Ok(Expr::Call { function: function.into(), args: args?, returns: value.data_type(), fails: false, varies: false })
}

fn of_one_value(value: &ScalarValue) -> Result<Expr> {
    let to = value.data_type();
    if !matches!(to, DataType::Duration(_)) {
        return literal(value).map(Expr::Literal);
    }
    // The text of a duration has its unit, so the number is cast.
    let number = value.cast_to(&DataType::Int64).map_err(|e| Error::internal(e.to_string()))?;
    Ok(Expr::Cast { expr: Box::new(Expr::Literal(literal(&number)?)), to, safe: false })
}

pub(super) fn literal(value: &ScalarValue) -> Result<Literal> {
    // Intervals are widened to one unit.
    let data_type = match value.data_type() {
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        other => other,
    };
    let value = if value.is_null() { None } else { Some(scalar(value)?) };
    Ok(Literal { data_type, value })
}

fn scalar(value: &ScalarValue) -> Result<Scalar> {
    use ScalarValue::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal128, FixedSizeBinary, Float16, Float32, Float64, Int8,
        Int16, Int32, Int64, IntervalDayTime, IntervalMonthDayNano, IntervalYearMonth, LargeBinary, LargeUtf8,
        Time32Millisecond, Time32Second, Time64Microsecond, Time64Nanosecond, TimestampMicrosecond,
        TimestampMillisecond, TimestampNanosecond, TimestampSecond, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let interval = |months, days, nanos| Scalar::Interval { months, days, nanos };
    Ok(match value {
        Boolean(Some(value)) => Scalar::Boolean(*value),
        Int8(Some(number)) => Scalar::Integer((*number).into()),
        Int16(Some(number)) => Scalar::Integer((*number).into()),
        Int32(Some(number)) | Date32(Some(number)) | Time32Second(Some(number)) | Time32Millisecond(Some(number)) => {
            Scalar::Integer((*number).into())
        }
        Int64(Some(number))
        | Date64(Some(number))
        | Time64Microsecond(Some(number))
        | Time64Nanosecond(Some(number))
        | TimestampSecond(Some(number), _)
        | TimestampMillisecond(Some(number), _)
        | TimestampMicrosecond(Some(number), _)
        | TimestampNanosecond(Some(number), _) => Scalar::Integer(*number),
        UInt8(Some(number)) => Scalar::Unsigned((*number).into()),
        UInt16(Some(number)) => Scalar::Unsigned((*number).into()),
        UInt32(Some(number)) => Scalar::Unsigned((*number).into()),
        UInt64(Some(number)) => Scalar::Unsigned(*number),
        Float16(Some(number)) => Scalar::Float(number.to_f64().into()),
        Float32(Some(number)) => Scalar::Float(f64::from(*number).into()),
        Float64(Some(number)) => Scalar::Float((*number).into()),
        Decimal128(Some(digits), _, _) => Scalar::Decimal(Digits(*digits)),
        Utf8(Some(text)) | LargeUtf8(Some(text)) | Utf8View(Some(text)) => Scalar::Text(text.clone()),
        Binary(Some(bytes)) | LargeBinary(Some(bytes)) | BinaryView(Some(bytes)) | FixedSizeBinary(_, Some(bytes)) => {
            Scalar::Bytes(bytes.clone())
        }
        IntervalMonthDayNano(Some(i)) => interval(i.months, i.days, i.nanoseconds),
        IntervalDayTime(Some(i)) => interval(0, i.days, i64::from(i.milliseconds) * 1_000_000),
        IntervalYearMonth(Some(months)) => interval(*months, 0, 0),
        other => Scalar::Text(text_of(other)?),
    })
}

/// A text that DataFusion parses to the same value.
fn text_of(value: &ScalarValue) -> Result<String> {
    let unusable = || Error::user(format!("a constant of type {} is not supported here", sql_name(&value.data_type())));
    let array = value.to_array().map_err(|e| Error::internal(e.to_string()))?;
    let text = cast(&array, &DataType::Utf8).map_err(|_| unusable())?;
    let text = text.as_string::<i32>();
    if text.is_null(0) { Err(unusable()) } else { Ok(text.value(0).to_owned()) }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{IntervalDayTime, IntervalMonthDayNano};

    use super::*;

    fn check(value: &ScalarValue) {
        let literal = literal(value).expect("literal");
        let back = ScalarValue::try_from_array(&literal.to_array().expect("a column"), 0).expect("scalar");
        let expected = value.cast_to(&literal.data_type).unwrap_or_else(|_| value.clone());
        assert_eq!(back, expected, "{literal:?}");
    }

    #[test]
    fn every_type_of_literal_is_read_back() {
        let values = [
            ScalarValue::Boolean(Some(true)),
            ScalarValue::Int8(Some(-8)),
            ScalarValue::Int16(Some(-16)),
            ScalarValue::Int32(Some(-32)),
            ScalarValue::Int64(Some(i64::MIN)),
            ScalarValue::UInt64(Some(u64::MAX)),
            ScalarValue::Float32(Some(0.1)),
            ScalarValue::Float64(Some(1e300)),
            ScalarValue::Float64(Some(0.1)),
            ScalarValue::Decimal128(Some(-12345), 10, 2),
            ScalarValue::Utf8(Some("a 'quoted' \n ä".into())),
            ScalarValue::Utf8View(Some(String::new())),
            ScalarValue::Binary(Some(b"bytes".to_vec())),
            ScalarValue::Date32(Some(-1)),
            ScalarValue::Date64(Some(86_400_000 * 3)),
            ScalarValue::Time32Second(Some(3661)),
            ScalarValue::Time32Millisecond(Some(3_661_001)),
            ScalarValue::Time64Microsecond(Some(3_661_000_001)),
            ScalarValue::Time64Nanosecond(Some(3_661_000_000_001)),
            ScalarValue::TimestampSecond(Some(1_700_000_000), None),
            ScalarValue::TimestampMillisecond(Some(1_700_000_000_123), Some("UTC".into())),
            ScalarValue::TimestampMicrosecond(Some(-1), None),
            ScalarValue::TimestampNanosecond(Some(1_700_000_000_123_456_789), Some("UTC".into())),
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(14, -3, 1_500_000_001))),
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 0, -250_000_000))),
            // Years of more than four digits.
            ScalarValue::TimestampMillisecond(Some(253_402_300_800_000), None),
            ScalarValue::TimestampSecond(Some(-99_999_999_999), Some("UTC".into())),
            ScalarValue::Date32(Some(2_932_897)),
            ScalarValue::Float64(Some(f64::NEG_INFINITY)),
            ScalarValue::Binary(Some(vec![0, 0xff])),
            ScalarValue::Int64(None),
            ScalarValue::Utf8View(None),
        ];
        for value in &values {
            check(value);
        }
    }

    #[test]
    fn narrower_intervals_are_widened() {
        let day_time = ScalarValue::IntervalDayTime(Some(IntervalDayTime::new(1, 1500)));
        let widened = literal(&day_time).expect("literal");
        assert_eq!(widened.value, Some(Scalar::Interval { months: 0, days: 1, nanos: 1_500_000_000 }));
    }
}
