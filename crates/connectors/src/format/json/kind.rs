//! How a column's values are read and written, by its Arrow type.

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result};
use arrow::datatypes::DataType;

use super::datetime::{Time, Timestamp};

/// The kind of a column's values.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueKind {
    Boolean,
    /// A signed integer, or an unsigned one of less than 64 bits.
    Integer {
        min: i64,
        max: i64,
    },
    Unsigned64,
    Float32,
    Float64,
    Decimal {
        precision: u8,
        scale: i8,
    },
    /// Strings as views.
    Text,
    /// Strings with offsets.
    OwnedText,
    /// Base64, as views.
    BinaryView,
    /// Base64, with offsets.
    Binary,
    Date,
    Time(Time),
    Timestamp(Timestamp),
    Struct,
    List,
    Map,
}

impl ValueKind {
    /// The kind of a type; an unsupported one is an error that names the column.
    pub(super) fn new(path: &str, data_type: &DataType) -> Result<Self> {
        fn integer<T: Into<i64>>(min: T, max: T) -> ValueKind {
            ValueKind::Integer { min: min.into(), max: max.into() }
        }
        Ok(match data_type {
            DataType::Boolean => ValueKind::Boolean,
            DataType::Int8 => integer(i8::MIN, i8::MAX),
            DataType::Int16 => integer(i16::MIN, i16::MAX),
            DataType::Int32 => integer(i32::MIN, i32::MAX),
            DataType::Int64 => integer(i64::MIN, i64::MAX),
            DataType::UInt8 => integer(0, u8::MAX),
            DataType::UInt16 => integer(0, u16::MAX),
            DataType::UInt32 => integer(0, u32::MAX),
            DataType::UInt64 => ValueKind::Unsigned64,
            DataType::Float32 => ValueKind::Float32,
            DataType::Float64 => ValueKind::Float64,
            DataType::Decimal128(precision, scale) => ValueKind::Decimal { precision: *precision, scale: *scale },
            DataType::Utf8View => ValueKind::Text,
            DataType::Utf8 => ValueKind::OwnedText,
            DataType::BinaryView => ValueKind::BinaryView,
            DataType::Binary => ValueKind::Binary,
            DataType::Date32 => ValueKind::Date,
            DataType::Time32(unit) | DataType::Time64(unit) => ValueKind::Time(Time::new(*unit)),
            DataType::Timestamp(unit, zone) => {
                ValueKind::Timestamp(Timestamp::new(*unit, zone.as_deref()).map_err(|error| error.at(place(path)))?)
            }
            DataType::Struct(_) => ValueKind::Struct,
            DataType::List(_) => ValueKind::List,
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(parts) if parts.len() == 2 && is_text(parts[0].data_type()) => ValueKind::Map,
                _ => {
                    let name = sql_name(data_type);
                    return Err(Error::user(format!("the JSON format has no {name}: the keys of objects are texts"))
                        .at(place(path))
                        .remedy("declare the keys as STRING"));
                }
            },
            other => {
                let name = sql_name(other);
                return Err(Error::user(format!("the JSON format has no type {name}")).at(place(path)).remedy(
                    "declare the column as STRING, BYTES, BOOLEAN, an integer, FLOAT, DOUBLE, DECIMAL, DATE, TIME, TIMESTAMP, \
                     ROW, ARRAY or MAP",
                ));
            }
        })
    }

    /// The type in the user's terms.
    pub(super) fn name(self) -> &'static str {
        match self {
            ValueKind::Boolean => "a boolean",
            ValueKind::Integer { .. } | ValueKind::Unsigned64 => "an integer",
            ValueKind::Float32 | ValueKind::Float64 => "a number",
            ValueKind::Decimal { .. } => "a decimal number",
            ValueKind::Text | ValueKind::OwnedText => "a string",
            ValueKind::BinaryView | ValueKind::Binary => "a string of base64",
            ValueKind::Date => "a date like \"2020-01-31\"",
            ValueKind::Time(_) => "a time like \"10:20:30\"",
            ValueKind::Timestamp(_) => "a timestamp or epoch milliseconds",
            ValueKind::Struct | ValueKind::Map => "an object",
            ValueKind::List => "an array",
        }
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::Utf8)
}

fn place(path: &str) -> String {
    format!("column '{path}'")
}
