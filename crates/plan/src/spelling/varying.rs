//! Volatile calls: clocks and random numbers.

use anabranch_model::{Error, Result};
use datafusion_sql::sqlparser::ast::{CastKind, DataType, Expr, TimezoneInfo};

use super::forms::call;

/// The plain call for a clock or a random number. The name is in capitals.
pub(super) fn replacement(name: &str, args: &[Expr]) -> Result<Option<Expr>> {
    let now = || call("current_row_timestamp", Vec::new());
    Ok(Some(match (name, args) {
        ("NOW" | "CURRENT_TIMESTAMP", []) => now(),
        ("LOCALTIMESTAMP", []) => cast(now(), DataType::Timestamp(Some(3), TimezoneInfo::None)),
        ("CURRENT_DATE", []) => cast(now(), DataType::Date),
        ("CURRENT_TIME" | "LOCALTIME", []) => cast(now(), DataType::Time(Some(0), TimezoneInfo::None)),
        ("UNIX_TIMESTAMP", []) => call("current_unix_timestamp", Vec::new()),
        ("RAND", []) => call("random", Vec::new()),
        ("RAND", [_]) | ("RAND_INTEGER", [_, _]) => {
            let error =
                Error::user(format!("{name} with a seed is not supported: each task would have the same numbers"));
            return Err(error.remedy("omit the seed"));
        }
        _ => return Ok(None),
    }))
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}
