//! JSON: one object per record.
//!
//! Every record is decoded first, and in most queries that is the most expensive step. Three readers share
//! the work:
//! * By layout (`layout`, `fast`): the events of one stream often look alike, because programs write them.
//!   The decoder learns the layout of the records, verifies with a few wide comparisons that the next record
//!   has it too, and reads only the values.
//! * The scanner (`scan`, `keys`) reads records that do not look alike, key by key, also with wide
//!   comparisons.
//! * The general parser (`parser`, `value`) reads the records that the others do not recognize. It alone
//!   decides which records are malformed.
//!
//! Long strings are not copied: views point into the input.
//!
//! Limits: numbers have the precision of the columns' types; a record is UTF-8 without byte order mark;
//! objects and arrays nest at most 128 deep.

mod base64;
mod column;
mod datetime;
mod decoder;
mod encoder;
mod fast;
mod fault;
mod keys;
mod kind;
mod layout;
mod number;
mod parser;
mod scan;
mod text;
mod token;
mod trace;
mod value;

#[cfg(test)]
mod tests;

use anabranch_model::Result;
pub use datetime::TimestampFormat;
pub(in crate::format) use datetime::per_second;

use super::options::FormatOptions;
pub use decoder::JsonDecoder;
pub use encoder::JsonEncoder;
pub(crate) use encoder::write_signed;
pub(in crate::format) use number::{Fixed, eight_digits};

/// Options of the JSON format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonOptions {
    /// The text form of timestamps.
    pub timestamp_format: TimestampFormat,
    /// `json.ignore-parse-errors`: a value that does not fit its column is NULL.
    pub ignores_errors: bool,
}

impl JsonOptions {
    pub(crate) fn read(mut options: FormatOptions<'_, '_>) -> Result<Self> {
        let names = ["timestamp-format", "timestamp-format.standard"];
        let timestamp_format = options.choice(&names, &TimestampFormat::WORDS)?.unwrap_or_default();
        options.only("fail-on-missing-field", "false", "declare the columns that must be there NOT NULL")?;
        // How records are parsed is not visible.
        options.ignore(&["decode.json-parser.enabled"]);
        options.json()?;
        Ok(JsonOptions { timestamp_format, ignores_errors: options.ignore_errors()? })
    }
}
