//! Which functions may fail because of a row's values. An expression with such a function is evaluated only for the rows
//! that other conditions leave, which costs a copy of them.

use arrow::datatypes::DataType;

use crate::arguments::{GROWTH, LONG_CONSTANT};

/// Functions that give a value or NULL for all arguments.
const CERTAIN: [&str; 124] = [
    "$key",
    "acos",
    "array_append",
    "array_concat",
    "array_contains",
    "array_distinct",
    "array_except",
    "array_intersect",
    "array_max",
    "array_min",
    "array_position",
    "array_prepend",
    "array_remove",
    "array_reverse",
    "array_slice",
    "array_sort",
    "array_union",
    "ascii",
    "asin",
    "atan",
    "atan2",
    "bin",
    "btrim",
    "cardinality",
    "ceil",
    "char_length",
    "chr",
    "concat",
    "contains",
    "cos",
    "cosh",
    "cot",
    "current_row_timestamp",
    "current_unix_timestamp",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "degrees",
    "e",
    "elt",
    "ends_with",
    "endswith",
    "exp",
    "extract_century",
    "extract_decade",
    "extract_epoch",
    "extract_isodow",
    "extract_isoyear",
    "extract_microsecond",
    "extract_millennium",
    "extract_millisecond",
    "extract_nanosecond",
    "floor",
    "get_field",
    "greatest",
    "hex",
    "hour",
    "initcap",
    "is_alpha",
    "is_decimal",
    "is_digit",
    "is_json",
    "isnan",
    "item",
    "json_quote",
    "json_unquote",
    "least",
    "left",
    "levenshtein",
    "ln",
    "locate",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "make_array",
    "map_entries",
    "map_equal",
    "map_keys",
    "map_union",
    "map_values",
    "md5",
    "minute",
    "month",
    "named_struct",
    "nullif",
    "octet_length",
    "overlay",
    "parse_url",
    "pi",
    "power",
    "quarter",
    "radians",
    "reverse",
    "right",
    "rtrim",
    "second",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sin",
    "sinh",
    "split",
    "split_index",
    "sqrt",
    "starts_with",
    "startswith",
    "strpos",
    "substr",
    "tan",
    "tanh",
    "timestamp_of_seconds",
    "to_base64",
    "to_timestamp_ltz",
    "translate",
    "unhex",
    "upper",
    "url_decode",
    "url_encode",
    "week",
    "year",
];

/// Whether a row's values may make a call fail. `constants` are the texts of those arguments that are constant texts.
#[must_use]
pub fn may_fail(function: &str, constants: &[Option<&str>], returns: &DataType) -> bool {
    let is_constant = |index: usize| constants.get(index).is_some_and(Option::is_some);
    let stops = |index: usize| constants.get(index).is_some_and(|word| word.is_none_or(|word| word.contains("ERROR")));
    // Such a text is short enough to stand for each character, or each element, of another argument.
    let is_short =
        |index: usize| constants.get(index).is_none_or(|text| text.is_some_and(|text| text.len() < GROWTH / 2));
    let is_long = |text: &&str| text.len() > LONG_CONSTANT;
    if returns.is_string() && constants.iter().flatten().any(is_long) {
        return true;
    }
    match function {
        "replace" => !is_short(2),
        "array_join" => !is_short(1) || !is_short(2),
        "concat_ws" => !is_short(0),
        "regexp_replace" => !is_constant(1) || !is_short(2),
        // A wrong pattern fails for each row, whatever its values are.
        "regexp" | "regexp_count" | "regexp_extract" | "regexp_extract_all" | "regexp_instr" | "regexp_substr"
        | "date_format" => !is_constant(1),
        // The planner writes no other zones than there are.
        "time_in_zone" | "instant_in_zone" => !is_constant(1),
        // Without patterns, a comma and an equals sign separate the parts.
        "str_to_map" => constants.len() > 1 && !(is_constant(1) && is_constant(2)),
        // A key must not be NULL.
        "make_map" => !constants.iter().step_by(2).all(Option::is_some),
        "date_part" => !is_constant(0),
        "json_value" => !returns.is_string() || constants.get(4).is_some_and(|word| *word != Some("")),
        "json_exists" => stops(2),
        "json_query" => stops(3) || stops(4),
        other => CERTAIN.binary_search(&other).is_err(),
    }
}

#[cfg(test)]
mod tests;
