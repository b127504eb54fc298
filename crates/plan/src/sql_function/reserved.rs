//! Names that a declared function cannot have, because SQL gives them a meaning.

use anabranch_functions::describe;

use crate::spelling::is_refused;
use crate::window_table::WindowFunction;

/// Words of the grammar, and names of functions that are not supported. [`is_reserved`] adds the documented
/// functions, the window functions, and the calls that `spelling` refuses.
const RESERVED: [&str; 34] = [
    "ALL",
    "AND",
    "ANY",
    "BETWEEN",
    "CASE",
    "COLLECT",
    "CONVERT",
    "CUBE",
    "CUME_DIST",
    "DATE",
    "DENSE_RANK",
    "DESCRIPTOR",
    "DISTINCT",
    "EXISTS",
    "IN",
    "INTERVAL",
    "IS",
    "LEAD",
    "LIKE",
    "MATCH_RECOGNIZE",
    "NOT",
    "NTILE",
    "NULL",
    "OR",
    "PERCENT_RANK",
    "RANK",
    "ROLLUP",
    "SAFE_CAST",
    "SELECT",
    "SOME",
    "STRUCT",
    "TABLE",
    "TIME",
    "TIMESTAMP",
];

/// Whether SQL gives the name a meaning, ignoring case.
pub(crate) fn is_reserved(name: &str) -> bool {
    let name = name.to_uppercase();
    let is_of_windows = WindowFunction::named(&name).is_some() || WindowFunction::of_auxiliary(&name).is_some();
    describe(&name).is_some() || RESERVED.contains(&name.as_str()) || is_of_windows || is_refused(&name)
}
