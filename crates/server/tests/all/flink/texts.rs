//! Values and types as the texts that `Texts.java` writes, and when two of them are equal.

use std::collections::BTreeMap;
use std::fmt::Write;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::array_value_to_string;

/// A value in the notation of `Record.java`.
pub(crate) fn text(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".into();
    }
    match array.data_type() {
        DataType::Utf8View => quoted(array.as_string_view().value(row)),
        DataType::Utf8 => quoted(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => quoted(array.as_string::<i64>().value(row)),
        DataType::Binary => {
            let hex: String = array.as_binary::<i32>().value(row).iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{hex}'")
        }
        DataType::List(_) => {
            let elements = array.as_list::<i32>().value(row);
            let elements: Vec<String> = (0..elements.len()).map(|index| text(&elements, index)).collect();
            format!("[{}]", elements.join(", "))
        }
        // As Java's maps have them: each key once.
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let part = |index: usize, place: usize| text(entries.column(index), place);
            let entries: BTreeMap<String, String> = (0..entries.len()).map(|e| (part(0, e), part(1, e))).collect();
            let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        DataType::Struct(_) => {
            let fields: Vec<String> = array.as_struct().columns().iter().map(|field| plain_text(field, row)).collect();
            format!("+I[{}]", fields.join(", "))
        }
        DataType::Timestamp(..) => {
            let shown = array_value_to_string(array, row).unwrap_or_else(|e| e.to_string());
            let shown = shown.trim_end_matches('Z').replace('T', " ");
            let (seconds, fraction) = shown.split_once('.').unwrap_or((&shown, ""));
            format!("{seconds}.{fraction:0<9}")
        }
        _ => array_value_to_string(array, row).unwrap_or_else(|e| e.to_string()),
    }
}

/// A field of a row, as Java's `toString` has it.
fn plain_text(array: &ArrayRef, row: usize) -> String {
    match array.data_type() {
        _ if array.is_null(row) => "null".into(),
        DataType::Utf8View => array.as_string_view().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        _ => text(array, row),
    }
}

fn quoted(value: &str) -> String {
    let mut text = "'".to_owned();
    for c in value.chars() {
        match c {
            '\\' | '\'' => text.extend(['\\', c]),
            c if c < ' ' || c == '\u{7f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text + "'"
}

/// The name of a type.
pub(crate) fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING".into(),
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Date32 => "DATE".into(),
        DataType::Timestamp(unit, zone) => {
            let precision = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            format!("TIMESTAMP{}({precision})", if zone.is_some() { "_LTZ" } else { "" })
        }
        DataType::Binary => "BYTES".into(),
        DataType::List(element) => format!("ARRAY<{}>", sql_type(element.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) => {
                format!("MAP<{}, {}>", sql_type(parts[0].data_type()), sql_type(parts[1].data_type()))
            }
            other => other.to_string(),
        },
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("`{}` {}", field.name(), sql_type(field.data_type()))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Flink's name of a type, without lengths of strings and NOT NULL, which our types do not have.
pub(crate) fn without_lengths(data_type: &str) -> String {
    let mut plain = data_type.replace(" NOT NULL", "");
    for name in ["VARCHAR(", "CHAR("] {
        while let Some(start) = plain.find(name) {
            let end = plain[start..].find(')').map_or(plain.len(), |end| start + end + 1);
            plain.replace_range(start..end, "STRING");
        }
    }
    plain
}

/// Floating point numbers may differ in their last digits: the libraries of Java and Rust round differently.
pub(crate) fn equal(flink: &str, ours: &str, data_type: &str) -> bool {
    if flink.starts_with('!') || ours.starts_with('!') {
        return flink.starts_with('!') && ours.starts_with('!');
    }
    if let Some(element) = data_type.strip_prefix("ARRAY<").and_then(|rest| rest.strip_suffix('>'))
        && matches!(element, "DOUBLE" | "FLOAT")
    {
        let (flink, ours) = (elements(flink), elements(ours));
        return flink.len() == ours.len() && flink.iter().zip(ours).all(|(flink, ours)| equal(flink, ours, element));
    }
    if !matches!(data_type, "DOUBLE" | "FLOAT") {
        return flink == ours;
    }
    let number = |text: &str| text.replace("Infinity", "inf").parse::<f64>();
    match (number(flink), number(ours)) {
        (Ok(flink), Ok(ours)) => {
            let tolerance = if data_type == "FLOAT" { 1e-6 } else { 4.0 * f64::EPSILON };
            flink == ours || (flink.is_nan() && ours.is_nan()) || (flink - ours).abs() <= tolerance * flink.abs()
        }
        _ => flink == ours,
    }
}

/// The elements of an array of numbers.
fn elements(array: &str) -> Vec<&str> {
    array.trim_start_matches('[').trim_end_matches(']').split(", ").collect()
}
