//! Names of types that belong to the formats of what is stored: they depend on no library.

use std::borrow::Cow;
use std::fmt;

use arrow_schema::{DataType, FieldRef, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::fraction_digits;
use crate::list::List;

/// A type of SQL, or of the columns of state. Its serialized form is frozen, like that of a
/// [`PartKey`](crate::PartKey).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum TypeName {
    Null,
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float16,
    Float32,
    Float64,
    /// Precision and scale.
    Decimal(u8, i8),
    Text,
    Bytes,
    Date,
    /// Digits of a second.
    Time(u8),
    /// A local time, with so many digits of a second.
    LocalTimestamp(u8),
    /// An instant, with so many digits of a second, shown in a time zone.
    Instant(u8, String),
    Interval,
    /// Digits of a second.
    Duration(u8),
    Array(Box<TypeName>),
    /// Of keys and values.
    Map(Box<(TypeName, TypeName)>),
    Row(Vec<(String, TypeName)>),
    /// One of several types.
    Union(Vec<(String, TypeName)>),
}

fn digits(unit: &TimeUnit) -> u8 {
    fraction_digits(unit) as u8
}

impl From<&DataType> for TypeName {
    fn from(data_type: &DataType) -> TypeName {
        let inner = |field: &FieldRef| Box::new(TypeName::from(field.data_type()));
        let named = |field: &FieldRef| (field.name().clone(), TypeName::from(field.data_type()));
        match data_type {
            DataType::Null => TypeName::Null,
            DataType::Boolean => TypeName::Boolean,
            DataType::Int8 => TypeName::Int8,
            DataType::Int16 => TypeName::Int16,
            DataType::Int32 => TypeName::Int32,
            DataType::Int64 => TypeName::Int64,
            DataType::UInt8 => TypeName::Uint8,
            DataType::UInt16 => TypeName::Uint16,
            DataType::UInt32 => TypeName::Uint32,
            DataType::UInt64 => TypeName::Uint64,
            DataType::Float16 => TypeName::Float16,
            DataType::Float32 => TypeName::Float32,
            DataType::Float64 => TypeName::Float64,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => TypeName::Decimal(*precision, *scale),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => TypeName::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                TypeName::Bytes
            }
            DataType::Date32 | DataType::Date64 => TypeName::Date,
            DataType::Time32(unit) | DataType::Time64(unit) => TypeName::Time(digits(unit)),
            DataType::Timestamp(unit, None) => TypeName::LocalTimestamp(digits(unit)),
            DataType::Timestamp(unit, Some(zone)) => TypeName::Instant(digits(unit), zone.to_string()),
            DataType::Interval(_) => TypeName::Interval,
            DataType::Duration(unit) => TypeName::Duration(digits(unit)),
            DataType::List(item)
            | DataType::ListView(item)
            | DataType::LargeList(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _) => TypeName::Array(inner(item)),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(parts) if parts.len() == 2 => {
                    TypeName::Map(Box::new((*inner(&parts[0]), *inner(&parts[1]))))
                }
                entries => TypeName::Array(Box::new(entries.into())),
            },
            DataType::Struct(fields) => TypeName::Row(fields.iter().map(named).collect()),
            DataType::Union(fields, _) => TypeName::Union(fields.iter().map(|(_, field)| named(field)).collect()),
            DataType::Dictionary(_, values) => values.as_ref().into(),
            DataType::RunEndEncoded(_, values) => values.data_type().into(),
        }
    }
}

/// As users write it.
impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = |f: &mut fmt::Formatter<'_>, kind: &str, fields: &[(String, TypeName)]| {
            let fields = fields.iter().map(|(name, data_type)| format!("{} {data_type}", quoted(name)));
            write!(f, "{kind}<{}>", List(fields))
        };
        match self {
            TypeName::Null => f.write_str("NULL"),
            TypeName::Boolean => f.write_str("BOOLEAN"),
            TypeName::Int8 => f.write_str("TINYINT"),
            TypeName::Int16 => f.write_str("SMALLINT"),
            TypeName::Int32 => f.write_str("INT"),
            TypeName::Int64 => f.write_str("BIGINT"),
            TypeName::Uint8 => f.write_str("unsigned TINYINT"),
            TypeName::Uint16 => f.write_str("unsigned SMALLINT"),
            TypeName::Uint32 => f.write_str("unsigned INT"),
            TypeName::Uint64 => f.write_str("unsigned BIGINT"),
            TypeName::Float16 => f.write_str("half FLOAT"),
            TypeName::Float32 => f.write_str("FLOAT"),
            TypeName::Float64 => f.write_str("DOUBLE"),
            TypeName::Decimal(precision, scale) => write!(f, "DECIMAL({precision}, {scale})"),
            TypeName::Text => f.write_str("STRING"),
            TypeName::Bytes => f.write_str("BYTES"),
            TypeName::Date => f.write_str("DATE"),
            TypeName::Time(digits) => write!(f, "TIME({digits})"),
            TypeName::LocalTimestamp(digits) => write!(f, "TIMESTAMP({digits})"),
            TypeName::Instant(digits, _) => write!(f, "TIMESTAMP_LTZ({digits})"),
            TypeName::Interval | TypeName::Duration(_) => f.write_str("INTERVAL"),
            TypeName::Array(item) => write!(f, "ARRAY<{item}>"),
            TypeName::Map(parts) => write!(f, "MAP<{}, {}>", parts.0, parts.1),
            TypeName::Row(of) => fields(f, "ROW", of),
            TypeName::Union(of) => fields(f, "UNION", of),
        }
    }
}

/// A name, in quotes if it needs them.
fn quoted(name: &str) -> Cow<'_, str> {
    let is_plain =
        name.chars().all(|of| of.is_alphanumeric() || of == '_') && !name.starts_with(|of: char| of.is_numeric());
    if is_plain && !name.is_empty() { name.into() } else { format!("`{}`", name.replace('`', "``")).into() }
}
