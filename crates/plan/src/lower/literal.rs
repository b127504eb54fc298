//! Converts constants to text that Arrow casts back to the same value.

use anabranch_dataflow::{Expr, Literal, sql_name};
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion_common::ScalarValue;

/// The expression for a value: a literal, or an array, a map or a row of such expressions.
pub(super) fn constant(value: &ScalarValue) -> Result<Expr> {
    if value.is_null() {
        return literal(value).map(Expr::Literal);
    }
    let of = |array: &ArrayRef, index: usize| {
        let value = ScalarValue::try_from_array(array, index).map_err(|e| Error::internal(e.to_string()))?;
        constant(&value)
    };
    let (function, args): (_, Result<Vec<Expr>>) = match value {
        ScalarValue::List(list) => {
            let elements = list.value(0);
            ("make_array", (0..elements.len()).map(|index| of(&elements, index)).collect())
        }
        ScalarValue::Map(map) => {
            let entries = map.value(0);
            let columns = entries.columns();
            let parts = (0..entries.len()).flat_map(|index| columns.iter().map(move |column| of(column, index)));
            ("make_map", parts.collect())
        }
        ScalarValue::Struct(row) => {
            let text =
                |name: &str| Expr::Literal(Literal { data_type: DataType::Utf8View, text: Some(name.to_owned()) });
            let fields = row.fields().iter().zip(row.columns());
            ("named_struct", fields.flat_map(|(field, column)| [Ok(text(field.name())), of(column, 0)]).collect())
        }
        _ => return of_one_value(value),
    };
    Ok(Expr::Call { function: function.into(), args: args?, returns: value.data_type(), fails: false, varies: false })
}

/// Arrow reads no length of time from a text: it is a number of its unit. Bytes need not be a text: they are written as digits.
fn of_one_value(value: &ScalarValue) -> Result<Expr> {
    let to = value.data_type();
    if let Some(bytes) = bytes_of(value).filter(|bytes| std::str::from_utf8(bytes).is_err()) {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let digits = Expr::Literal(Literal { data_type: DataType::Utf8View, text: Some(digits) });
        return Ok(Expr::Call {
            function: "unhex".into(),
            args: vec![digits],
            returns: to,
            fails: false,
            varies: false,
        });
    }
    if !matches!(to, DataType::Duration(_)) {
        return literal(value).map(Expr::Literal);
    }
    let number = value.cast_to(&DataType::Int64).map_err(|e| Error::internal(e.to_string()))?;
    Ok(Expr::Cast { expr: Box::new(Expr::Literal(literal(&number)?)), to, safe: false })
}

fn bytes_of(value: &ScalarValue) -> Option<&[u8]> {
    use ScalarValue::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    match value {
        Binary(bytes) | LargeBinary(bytes) | BinaryView(bytes) | FixedSizeBinary(_, bytes) => bytes.as_deref(),
        _ => None,
    }
}

/// The literal for a value.
pub(super) fn literal(value: &ScalarValue) -> Result<Literal> {
    let data_type = value.data_type();
    if value.is_null() {
        return Ok(Literal { data_type, text: None });
    }
    let text = match value {
        ScalarValue::IntervalMonthDayNano(Some(i)) => interval_text(i.months, i.days, i.nanoseconds),
        // Arrow cannot parse other intervals that it writes: convert them to the widest unit.
        ScalarValue::IntervalDayTime(Some(i)) => interval_text(0, i.days, i64::from(i.milliseconds) * 1_000_000),
        ScalarValue::IntervalYearMonth(Some(months)) => interval_text(*months, 0, 0),
        _ => text_of(value)?,
    };
    let data_type = match data_type {
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        other => other,
    };
    Ok(Literal { data_type, text: Some(text) })
}

fn text_of(value: &ScalarValue) -> Result<String> {
    let unusable = || Error::user(format!("a constant of type {} is not supported here", sql_name(&value.data_type())));
    let array = value.to_array().map_err(|e| Error::internal(e.to_string()))?;
    let text = cast(&array, &DataType::Utf8).map_err(|_| unusable())?;
    let text = text.as_string::<i32>();
    if text.is_null(0) {
        return Err(unusable());
    }
    let text = text.value(0).to_string();
    let number = match value.data_type() {
        // Arrow writes times of other years with a sign, and does not read them.
        _ if text.starts_with(|c: char| c.is_ascii_digit()) => return Ok(text),
        DataType::Timestamp(..) => DataType::Int64,
        DataType::Date32 => DataType::Int32,
        _ => return Ok(text),
    };
    value.cast_to(&number).map(|number| number.to_string()).map_err(|e| Error::internal(e.to_string()))
}

fn interval_text(months: i32, days: i32, nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let nanos = nanoseconds.unsigned_abs();
    format!("{months} mons {days} days {sign}{}.{:09} secs", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;
    use arrow::datatypes::{IntervalDayTime, IntervalMonthDayNano};

    use super::*;

    fn check(value: &ScalarValue) {
        let literal = literal(value).expect("literal");
        let text = StringArray::from(vec![literal.text.clone()]);
        let back = cast(&text, &literal.data_type).unwrap_or_else(|e| panic!("{literal:?}: {e}"));
        let back = ScalarValue::try_from_array(&back, 0).expect("scalar");
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
        assert_eq!(widened.text.as_deref(), Some("0 mons 1 days 1.500000000 secs"));
        check(&ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(0, 1, 1_500_000_000))));
    }

    #[test]
    fn times_beyond_four_digits_of_a_year_are_numbers() {
        for (value, number) in [
            (ScalarValue::TimestampMillisecond(Some(253_402_300_800_000), None), "253402300800000"),
            (ScalarValue::TimestampSecond(Some(-99_999_999_999), Some("UTC".into())), "-99999999999"),
            (ScalarValue::Date32(Some(2_932_897)), "2932897"),
        ] {
            assert_eq!(literal(&value).expect("literal").text.as_deref(), Some(number));
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_digits() {
        assert!(literal(&ScalarValue::Binary(Some(vec![0xff]))).is_err());
        let expr = constant(&ScalarValue::Binary(Some(vec![0, 0xff]))).expect("a constant");
        let Expr::Call { function, args, .. } = expr else { panic!("{expr:?}") };
        let text = Some("00ff".to_owned());
        assert_eq!((&*function, args), ("unhex", vec![Expr::Literal(Literal { data_type: DataType::Utf8View, text })]));
    }
}
