//! Constants of expressions.

use std::fmt;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, IntervalMonthDayNanoArray, StringArray, UInt64Array, make_array, new_null_array,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::IntervalMonthDayNano;
use arrow_schema::{DataType, IntervalUnit};
use serde::{Deserialize, Serialize};

use crate::Expr;

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Literal {
    /// Its type.
    pub data_type: DataType,
    /// Its value. `None`: NULL.
    pub value: Option<Scalar>,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scalar {
    /// TRUE or FALSE.
    Boolean(bool),
    /// A whole number; a date, a time, an instant or a length of time, in the unit of the type.
    Integer(i64),
    /// A whole number of an unsigned type.
    Unsigned(u64),
    /// A number with a binary point.
    Float(Float),
    /// The digits of a DECIMAL.
    Decimal(Digits),
    /// A text. Of other types than those of texts, it is what the library reads as a value.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Months, days and a length of time, each of which may be negative.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanos: i64,
    },
}

/// A number of 64 bits with a binary point. Two are the same if their bits are. As JSON it is a text: JSON
/// knows neither NaN nor infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Float(u64);

/// A whole number of 128 bits. As JSON it is a text: JSON libraries read fewer bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digits(pub i128);

impl Float {
    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl From<f64> for Float {
    fn from(number: f64) -> Float {
        Float(number.to_bits())
    }
}

impl From<Float> for String {
    fn from(number: Float) -> String {
        format!("{:?}", number.get())
    }
}

impl TryFrom<String> for Float {
    type Error = std::num::ParseFloatError;

    fn try_from(text: String) -> std::result::Result<Float, Self::Error> {
        text.parse::<f64>().map(Float::from)
    }
}

impl From<Digits> for String {
    fn from(digits: Digits) -> String {
        digits.0.to_string()
    }
}

impl TryFrom<String> for Digits {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> std::result::Result<Digits, Self::Error> {
        text.parse().map(Digits)
    }
}

impl Expr {
    /// A constant BIGINT.
    #[must_use]
    pub fn number(number: i64) -> Expr {
        Expr::Literal(Literal { data_type: DataType::Int64, value: Some(Scalar::Integer(number)) })
    }

    /// A constant text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Expr {
        Expr::Literal(Literal { data_type: DataType::Utf8View, value: Some(Scalar::Text(text.into())) })
    }

    /// A constant truth value.
    #[must_use]
    pub fn truth(value: bool) -> Expr {
        Expr::Literal(Literal { data_type: DataType::Boolean, value: Some(Scalar::Boolean(value)) })
    }

    /// A constant length of time in milliseconds.
    #[must_use]
    pub fn interval_ms(ms: i64) -> Expr {
        let value = Scalar::Interval { months: 0, days: 0, nanos: ms.saturating_mul(1_000_000) };
        Expr::Literal(Literal { data_type: DataType::Interval(IntervalUnit::MonthDayNano), value: Some(value) })
    }
}

impl Literal {
    /// Its value, if that is a text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Some(Scalar::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Its value, if that is a number.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self.value.as_ref()? {
            Scalar::Integer(number) => Some(*number as f64),
            Scalar::Unsigned(number) => Some(*number as f64),
            Scalar::Float(number) => Some(number.get()),
            Scalar::Decimal(digits) => match self.data_type {
                DataType::Decimal128(_, scale) => Some(digits.0 as f64 / 10_f64.powi(i32::from(scale))),
                _ => None,
            },
            Scalar::Boolean(_) | Scalar::Text(_) | Scalar::Bytes(_) | Scalar::Interval { .. } => None,
        }
    }

    /// A column of one row with its value.
    pub fn to_array(&self) -> Result<ArrayRef> {
        let to = &self.data_type;
        let wrong = || Error::internal(format!("a constant of type {to} has the value {:?}", self.value));
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let of_type = |array: ArrayRef| cast_with_options(&array, to, &options).map_err(|_| wrong());
        let same_bits = |array: ArrayRef| {
            let data = array.to_data().into_builder().data_type(to.clone()).build().map_err(|_| wrong())?;
            Ok(make_array(data))
        };
        match &self.value {
            None => Ok(new_null_array(to, 1)),
            Some(Scalar::Boolean(value)) => of_type(Arc::new(BooleanArray::from(vec![*value]))),
            Some(Scalar::Integer(number)) => match to.primitive_width() {
                Some(8) => same_bits(Arc::new(Int64Array::from(vec![*number]))),
                Some(4) => same_bits(Arc::new(Int32Array::from(vec![i32::try_from(*number).map_err(|_| wrong())?]))),
                Some(2) => same_bits(Arc::new(Int16Array::from(vec![i16::try_from(*number).map_err(|_| wrong())?]))),
                Some(1) => same_bits(Arc::new(Int8Array::from(vec![i8::try_from(*number).map_err(|_| wrong())?]))),
                _ => Err(wrong()),
            },
            Some(Scalar::Unsigned(number)) => of_type(Arc::new(UInt64Array::from(vec![*number]))),
            Some(Scalar::Float(number)) => of_type(Arc::new(Float64Array::from(vec![number.get()]))),
            Some(Scalar::Decimal(digits)) => same_bits(Arc::new(Decimal128Array::from(vec![digits.0]))),
            Some(Scalar::Text(text)) => of_type(Arc::new(StringArray::from(vec![text.as_str()]))),
            Some(Scalar::Bytes(bytes)) => of_type(Arc::new(BinaryArray::from(vec![bytes.as_slice()]))),
            Some(Scalar::Interval { months, days, nanos }) => {
                let interval = IntervalMonthDayNano::new(*months, *days, *nanos);
                same_bits(Arc::new(IntervalMonthDayNanoArray::from(vec![interval])))
            }
        }
    }
}

/// For people.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => f.write_str("NULL"),
            Some(Scalar::Text(text)) if self.data_type.is_string() => write!(f, "'{text}'"),
            Some(Scalar::Text(text)) => f.write_str(text),
            Some(Scalar::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => f.write_str(text),
                Err(_) => {
                    f.write_str("x'")?;
                    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                    f.write_str("'")
                }
            },
            Some(Scalar::Interval { months, days, nanos }) => {
                write_interval(f, IntervalMonthDayNano::new(*months, *days, *nanos))
            }
            Some(value) => {
                let text = self.to_array().ok().and_then(|array| cast(&array, &DataType::Utf8).ok());
                match text.as_ref().map(|text| text.as_string::<i32>()).filter(|text| text.is_valid(0)) {
                    Some(text) => f.write_str(text.value(0)),
                    None => write!(f, "{value:?}"),
                }
            }
        }
    }
}

/// `14 mons -3 days 1.5 secs`, without what is zero.
fn write_interval(f: &mut fmt::Formatter<'_>, interval: IntervalMonthDayNano) -> fmt::Result {
    let IntervalMonthDayNano { months, days, nanoseconds: nanos } = interval;
    let mut parts = Vec::new();
    parts.extend((months != 0).then(|| format!("{months} mons")));
    parts.extend((days != 0).then(|| format!("{days} days")));
    if nanos != 0 || parts.is_empty() {
        let (sign, of) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
        let seconds = format!("{}.{:09}", of / 1_000_000_000, of % 1_000_000_000);
        parts.push(format!("{sign}{} secs", seconds.trim_end_matches('0').trim_end_matches('.')));
    }
    f.write_str(&parts.join(" "))
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    fn check(data_type: DataType, value: Scalar, shown: &str, json: &str) {
        let literal = Literal { data_type, value: Some(value) };
        assert_eq!(literal.to_string(), shown);
        assert_eq!(serde_json::to_string(&literal.value).expect("JSON"), json);
        assert_eq!(serde_json::from_str::<Option<Scalar>>(json).expect("a value"), literal.value);
        let array = literal.to_array().expect("a column");
        assert_eq!((array.data_type(), array.len(), array.null_count()), (&literal.data_type, 1, 0));
    }

    #[test]
    fn constants_are_shown_and_sent_and_read_back() {
        let interval = |months, days, nanos| Scalar::Interval { months, days, nanos };
        let of_interval = DataType::Interval(IntervalUnit::MonthDayNano);
        check(DataType::Boolean, Scalar::Boolean(true), "true", r#"{"boolean":true}"#);
        check(DataType::Int8, Scalar::Integer(-8), "-8", r#"{"integer":-8}"#);
        check(
            DataType::UInt64,
            Scalar::Unsigned(u64::MAX),
            "18446744073709551615",
            r#"{"unsigned":18446744073709551615}"#,
        );
        check(DataType::Float64, Scalar::Float(f64::INFINITY.into()), "inf", r#"{"float":"inf"}"#);
        check(DataType::Float32, Scalar::Float(0.5.into()), "0.5", r#"{"float":"0.5"}"#);
        check(DataType::Decimal128(10, 2), Scalar::Decimal(Digits(-12_345)), "-123.45", r#"{"decimal":"-12345"}"#);
        check(DataType::Utf8View, Scalar::Text("it's".into()), "'it's'", r#"{"text":"it's"}"#);
        check(DataType::BinaryView, Scalar::Bytes(vec![255, 1]), "x'ff01'", r#"{"bytes":[255,1]}"#);
        check(DataType::Date32, Scalar::Integer(-1), "1969-12-31", r#"{"integer":-1}"#);
        let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
        check(timestamp, Scalar::Integer(1_700_000_000_123), "2023-11-14T22:13:20.123", r#"{"integer":1700000000123}"#);
        let json = r#"{"interval":{"months":14,"days":-3,"nanos":1500000001}}"#;
        check(of_interval.clone(), interval(14, -3, 1_500_000_001), "14 mons -3 days 1.500000001 secs", json);
        let json = r#"{"interval":{"months":0,"days":0,"nanos":-250000000}}"#;
        check(of_interval.clone(), interval(0, 0, -250_000_000), "-0.25 secs", json);
        let json = r#"{"interval":{"months":0,"days":0,"nanos":0}}"#;
        check(of_interval, interval(0, 0, 0), "0 secs", json);
        let nan = || Scalar::Float(f64::NAN.into());
        assert_eq!(nan(), nan(), "a plan is equal to itself");
    }

    #[test]
    fn a_value_that_its_type_does_not_have_is_an_error() {
        for (data_type, value) in [
            (DataType::Int8, Scalar::Integer(1000)),
            (DataType::Utf8View, Scalar::Integer(1)),
            (DataType::Int64, Scalar::Text("x".into())),
        ] {
            let literal = Literal { data_type, value: Some(value) };
            assert!(literal.to_array().is_err(), "{literal:?}");
        }
    }
}
