//! The names of types in SQL.

use arrow::datatypes::{DataType, TimeUnit};

use crate::TypeName;

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
    TypeName::from(data_type).to_string()
}

/// A text of the library with types as users write them.
#[must_use]
pub fn sql_names(text: &str) -> String {
    let mut names = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        if let Some((name, length)) = Some(rest).filter(|_| !in_word).and_then(nested_name) {
            names.push_str(&name);
            rest = &rest[length..];
            continue;
        }
        let found = if in_word { None } else { LIBRARY_NAMES.iter().find(|(name, _)| is_type(rest, name)) };
        if let Some((name, sql)) = found {
            names.push_str(sql);
            rest = &rest[name.len()..];
            in_word = !name.ends_with(')');
            continue;
        }
        names.push(first);
        in_word = first.is_alphanumeric() || first == '_';
        rest = &rest[first.len_utf8()..];
    }
    names
}

/// The name of the type of several values that a text begins with, and how long the library's is.
fn nested_name(text: &str) -> Option<(String, usize)> {
    let begins = |(library, sql): &(&str, &'static str)| Some((text.strip_prefix(library)?.strip_prefix('(')?, *sql));
    let (rest, sql) = NESTED.iter().find_map(begins)?;
    let mut depth = 1;
    let (end, _) = rest.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    })?;
    let name = if sql == "ARRAY" { format!("ARRAY<{}>", sql_names(&rest[..end])) } else { sql.to_owned() };
    Some((name, text.len() - rest.len() + end + 1))
}

/// Types of several values, as the library and as users write them.
const NESTED: [(&str, &str); 3] = [("List", "ARRAY"), ("Map", "MAP"), ("Struct", "ROW")];

/// Whether a text begins with the whole name of a type.
fn is_type(text: &str, name: &str) -> bool {
    let after = text.strip_prefix(name).map(|rest| rest.chars().next());
    after.is_some_and(|next| name.ends_with(')') || !next.is_some_and(|c| c.is_alphanumeric() || c == '_'))
}

/// Types as the library and as users write them.
const LIBRARY_NAMES: &[(&str, &str)] = &[
    ("Utf8View", "STRING"),
    ("LargeUtf8", "STRING"),
    ("Utf8", "STRING"),
    ("BinaryView", "BYTES"),
    ("Binary", "BYTES"),
    ("LargeBinary", "BYTES"),
    ("Boolean", "BOOLEAN"),
    ("UInt64", "unsigned BIGINT"),
    ("UInt32", "unsigned INT"),
    ("Int64", "BIGINT"),
    ("Int32", "INT"),
    ("Int16", "SMALLINT"),
    ("Int8", "TINYINT"),
    ("Float64", "DOUBLE"),
    ("Float32", "FLOAT"),
    ("Decimal128", "DECIMAL"),
    ("Timestamp(s, \"UTC\")", "TIMESTAMP_LTZ(0)"),
    ("Timestamp(ms, \"UTC\")", "TIMESTAMP_LTZ(3)"),
    ("Timestamp(µs, \"UTC\")", "TIMESTAMP_LTZ(6)"),
    ("Timestamp(ns, \"UTC\")", "TIMESTAMP_LTZ(9)"),
    ("Timestamp(s)", "TIMESTAMP(0)"),
    ("Timestamp(ms)", "TIMESTAMP(3)"),
    ("Timestamp(µs)", "TIMESTAMP(6)"),
    ("Timestamp(ns)", "TIMESTAMP(9)"),
    ("Time32(s)", "TIME(0)"),
    ("Time32(ms)", "TIME(3)"),
    ("Time64(µs)", "TIME(6)"),
    ("Time64(ns)", "TIME(9)"),
    ("Interval(MonthDayNano)", "INTERVAL"),
    ("Interval(YearMonth)", "INTERVAL"),
    ("Interval(DayTime)", "INTERVAL"),
    ("Date32", "DATE"),
];

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

    #[test]
    fn types_of_the_library_get_the_names_of_users() {
        for (text, shown) in [
            ("Int64 + Timestamp(ms, \"UTC\")", "BIGINT + TIMESTAMP_LTZ(3)"),
            ("List(Utf8View), Decimal128(10, 2)", "ARRAY<STRING>, DECIMAL(10, 2)"),
            (
                "CAST from Map(\"entries\": non-null Struct(\"key\": Utf8View)) to List(List(Int32))",
                "CAST from MAP to ARRAY<ARRAY<INT>>",
            ),
            ("MyList(Int64)", "MyList(BIGINT)"),
            ("MyInt64, Int64x, UInt64", "MyInt64, Int64x, unsigned BIGINT"),
            ("Time32(s) * Interval(MonthDayNano)", "TIME(0) * INTERVAL"),
        ] {
            assert_eq!(sql_names(text), shown);
        }
    }
}
