//! Names that a declared function cannot have, besides those of built-in functions, because SQL gives them a
//! meaning.

use crate::spelling::is_refused;
use crate::window_table::WindowFunction;

/// Calls known to the grammar or to `spelling`, besides those of windows.
const RESERVED: [&str; 68] = [
    "ALL",
    "AND",
    "ANY",
    "ARRAY",
    "BETWEEN",
    "CASE",
    "CAST",
    "CEIL",
    "CEILING",
    "COLLECT",
    "CONVERT",
    "CUBE",
    "CUME_DIST",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "DATE",
    "DATE_TRUNC",
    "DENSE_RANK",
    "DESCRIPTOR",
    "DISTINCT",
    "EXISTS",
    "EXTRACT",
    "FLOOR",
    "GROUPING",
    "GROUPING_ID",
    "IF",
    "IFNULL",
    "IN",
    "INTERVAL",
    "IS",
    "JSON_EXISTS",
    "JSON_QUERY",
    "JSON_VALUE",
    "LAG",
    "LEAD",
    "LIKE",
    "LISTAGG",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "MAP",
    "MATCH_RECOGNIZE",
    "MOD",
    "NOT",
    "NOW",
    "NTILE",
    "NULL",
    "OR",
    "OVERLAY",
    "PERCENT_RANK",
    "POSITION",
    "RAND",
    "RANK",
    "ROLLUP",
    "ROW",
    "ROW_NUMBER",
    "SAFE_CAST",
    "SELECT",
    "SOME",
    "STRUCT",
    "SUBSTRING",
    "TABLE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPADD",
    "TIMESTAMPDIFF",
    "TRIM",
    "TRY_CAST",
];

/// Whether SQL gives the name a meaning, ignoring case.
pub(crate) fn is_reserved(name: &str) -> bool {
    let name = name.to_uppercase();
    let is_of_windows = WindowFunction::named(&name).is_some() || WindowFunction::of_auxiliary(&name).is_some();
    RESERVED.contains(&name.as_str()) || is_of_windows || is_refused(&name)
}
