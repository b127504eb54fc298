//! Which functions may fail because of a row's values. An expression with such a function is evaluated only for the rows
//! that other conditions leave, which costs a copy of them.

use arrow::datatypes::DataType;

/// Functions that give a value or NULL for all arguments.
const CERTAIN: [&str; 119] = [
    "acos",
    "array_append",
    "array_concat",
    "array_contains",
    "array_distinct",
    "array_except",
    "array_intersect",
    "array_join",
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
    "coalesce",
    "concat",
    "concat_ws",
    "contains",
    "cos",
    "cosh",
    "cot",
    "date_part",
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
    "is_json",
    "isnan",
    "item",
    "json_quote",
    "json_string",
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
    "md5",
    "minute",
    "month",
    "named_struct",
    "nullif",
    "nvl",
    "octet_length",
    "overlay",
    "parse_url",
    "pi",
    "power",
    "quarter",
    "radians",
    "replace",
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
    match function {
        // A wrong pattern fails for each row, whatever its values are.
        "regexp" | "regexp_count" | "regexp_extract" | "regexp_replace" | "date_format" => !is_constant(1),
        "json_value" => !returns.is_string() || constants.get(4).is_some_and(|word| *word != Some("")),
        "json_exists" => stops(2),
        "json_query" => stops(3) || stops(4),
        other => CERTAIN.binary_search(&other).is_err(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions of this crate that some values make fail.
    const UNCERTAIN: [&str; 30] = [
        "abs",
        "as_char",
        "ceil_to",
        "convert_tz",
        "date_format",
        "element",
        "floor_to",
        "from_base64",
        "from_unixtime",
        "instr",
        "json_exists",
        "json_query",
        "json_value",
        "lpad",
        "regexp",
        "regexp_count",
        "regexp_extract",
        "regexp_replace",
        "repeat",
        "round",
        "rpad",
        "sha2",
        "sign",
        "timestamp_add",
        "timestamp_add_time",
        "timestamp_diff",
        "to_date",
        "to_timestamp",
        "truncate",
        "unix_timestamp",
    ];

    #[test]
    fn each_function_is_known_to_fail_or_not() {
        assert!(CERTAIN.is_sorted());
        let own = crate::FAMILIES.into_iter().flatten().map(|definition| definition.name);
        let unknown: Vec<&str> = own.filter(|name| CERTAIN.contains(name) == UNCERTAIN.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn clauses_decide_whether_json_functions_fail() {
        let text = DataType::Utf8View;
        let path = [None, Some("$.a")];
        assert!(!may_fail("json_value", &path, &text) && !may_fail("json_query", &path, &text));
        let value = [None, Some("$.a"), None, None, Some("")];
        assert!(!may_fail("json_value", &value, &text) && may_fail("json_value", &value, &DataType::Int32));
        assert!(may_fail("json_value", &[None, Some("$.a"), None, None, Some("EMPTY")], &text));
        assert!(may_fail("json_exists", &[None, Some("$.a"), Some("ERROR")], &DataType::Boolean));
        assert!(
            may_fail("regexp", &[None, None], &DataType::Boolean) && !may_fail("regexp", &path, &DataType::Boolean)
        );
    }
}
