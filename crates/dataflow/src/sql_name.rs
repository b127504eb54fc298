//! The names of types in SQL.

use std::borrow::Cow;

use arrow::datatypes::{DataType, FieldRef, TimeUnit};

/// Digits of a second.
pub fn fraction_digits(unit: &TimeUnit) -> u64 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// A type as users write it, for messages.
pub fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "STRING".into(),
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal128(p, s) => format!("DECIMAL({p}, {s})"),
        DataType::Date32 => "DATE".into(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("TIME({})", fraction_digits(unit)),
        DataType::Timestamp(unit, None) => format!("TIMESTAMP({})", fraction_digits(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("TIMESTAMP_LTZ({})", fraction_digits(unit)),
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => "BYTES".into(),
        DataType::List(item) => format!("ARRAY<{}>", sql_name(item.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => {
                let parts: Vec<_> = fields.iter().map(|part| sql_name(part.data_type())).collect();
                format!("MAP<{}>", parts.join(", "))
            }
            other => format!("MAP<{other}>"),
        },
        DataType::Struct(fields) => {
            let field = |field: &FieldRef| format!("{} {}", quoted(field.name()), sql_name(field.data_type()));
            let fields: Vec<_> = fields.iter().map(field).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// A name, in quotes if it needs them.
fn quoted(name: &str) -> Cow<'_, str> {
    let is_plain =
        name.chars().all(|of| of.is_alphanumeric() || of == '_') && !name.starts_with(|of: char| of.is_numeric());
    if is_plain && !name.is_empty() { name.into() } else { format!("`{}`", name.replace('`', "``")).into() }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn types_have_the_names_that_users_write() {
        let field = |name: &str, data_type: DataType| Field::new(name, data_type, true);
        let row = DataType::Struct(vec![field("x", DataType::Int32), field("y", DataType::LargeUtf8)].into());
        let entry = DataType::Struct(vec![field("key", DataType::Utf8View), field("value", DataType::Int64)].into());
        let map = DataType::Map(field("entries", entry).into(), false);
        for (data_type, name) in [
            (DataType::Time32(TimeUnit::Second), "TIME(0)"),
            (DataType::Time64(TimeUnit::Nanosecond), "TIME(9)"),
            (DataType::Timestamp(TimeUnit::Millisecond, None), "TIMESTAMP(3)"),
            (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "TIMESTAMP_LTZ(6)"),
            (DataType::Decimal128(10, 2), "DECIMAL(10, 2)"),
            (DataType::List(field("item", row).into()), "ARRAY<ROW<x INT, y STRING>>"),
            (map, "MAP<STRING, BIGINT>"),
        ] {
            assert_eq!(sql_name(&data_type), name);
        }
    }
}
