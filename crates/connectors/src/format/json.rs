//! JSON: one object per record.
//!
//! Decoding is the first thing that happens to every record, and with most queries the most expensive one. A general JSON
//! parser looks at every byte and decides what it is; but the events of one stream look alike, and their writers are
//! programs. So the decoder learns the layout of the records, verifies with a few wide comparisons that the next
//! record has it too, and looks only at the values (`layout`, `fast`). Everything else, and every judgement of what is
//! malformed, is left to a general parser (`parser`, `value`). Long strings are not copied: views point into the input.
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

/// Options of the JSON format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonOptions {
    /// How timestamps are written as text.
    pub timestamp_format: TimestampFormat,
}
