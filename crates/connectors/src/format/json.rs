//! JSON: one object per record.
//!
//! Every record is decoded first of all, and with most queries that is the most expensive step. Three readers share the
//! work:
//! * By layout (`layout`, `fast`): the events of one stream often look alike, because programs write them. The decoder
//!   learns the layout of the records, verifies by a few wide comparisons that the next record has it too, and looks
//!   only at the values.
//! * The scanner (`scan`, `keys`) reads records that do not look alike, key by key, by wide comparisons too.
//! * The general parser (`parser`, `value`) reads what the others do not recognize, and is the only one to judge what is
//!   malformed.
//!
//! Long strings are not copied: views point into the input.
//!
//! Limits: numbers are those of the columns' types, not of arbitrary precision; a record is UTF-8 without byte order mark;
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

pub use datetime::TimestampFormat;
pub use decoder::JsonDecoder;
pub use encoder::JsonEncoder;
pub(in crate::format) use number::Fixed;

/// Options of the JSON format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonOptions {
    /// How timestamps are written as text.
    pub timestamp_format: TimestampFormat,
}
