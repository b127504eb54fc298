//! CSV (RFC 4180): fields in the order of the declared columns, separated by a delimiter, quoted with `"`
//! where they contain delimiters, quotes or line ends.
//!
//! Text is not copied: fields become views into the bytes that were read, and other types are cast from those
//! views a column at a time. An unquoted field that equals `csv.null` (by default: is empty) is NULL; a
//! quoted one never is. An empty line is not a row, so a single nullable column can only be written if
//! `csv.null` is not empty. So every row can be read back as it was written, except for dates and times
//! outside of the years 0 to 9999.

mod decode;
mod encode;
mod numbers;
mod split;

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result};
use arrow::datatypes::{DataType, Field};

pub(crate) use decode::CsvDecoder;
pub(crate) use encode::CsvEncoder;
pub(crate) use split::{FieldRange, split_fields, unquote};

use crate::format::options::FormatOptions;

/// Options of CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// `csv.delimiter`: one ASCII character between fields; `\t` for a tab.
    pub delimiter: u8,
    /// `csv.header`: the first line of each file names its columns.
    pub header: bool,
    /// `csv.null`: the text for NULL.
    pub null: String,
    /// `csv.ignore-parse-errors`: a field that does not fit its column is NULL.
    pub ignores_errors: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions { delimiter: b',', header: false, null: String::new(), ignores_errors: false }
    }
}

impl CsvOptions {
    pub(crate) fn read(mut options: FormatOptions<'_, '_>) -> Result<Self> {
        let mut csv = CsvOptions::default();
        if let Some((name, text)) = options.string(&["delimiter", "field-delimiter"])? {
            csv.delimiter = match text.as_bytes() {
                b"\\t" => b'\t',
                [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => *byte,
                _ => {
                    return Err(Error::user(format!("option '{name}' is '{text}'"))
                        .remedy("give one ASCII character that is neither a quote nor a line end, or '\\t'"));
                }
            };
        }
        csv.header = options.boolean("header")?.unwrap_or(csv.header);
        if let Some((name, text)) = options.string(&["null", "null-literal"])? {
            if text.contains(['"', '\n', '\r']) || text.as_bytes().contains(&csv.delimiter) {
                return Err(Error::user(format!("option '{name}' is '{text}'"))
                    .remedy("give a text without quotes, line ends and the delimiter"));
            }
            csv.null = text.to_owned();
        }
        csv.ignores_errors = options.ignore_errors()?;
        options.only("allow-comments", "false", "remove the comments, or set 'on-malformed' = 'skip'")?;
        options.only("quote-character", "\"", "leave it out: fields are quoted with \"")?;
        options.only("disable-quote-character", "false", "leave it out: fields are quoted with \" where needed")?;
        options.only("escape-character", "", "leave it out: within quotes, a quote is written as \"\"")?;
        let plain = "leave it out: decimals are written with all digits";
        options.only("write-bigdecimal-in-scientific-notation", "false", plain)?;
        // No column is an array.
        options.ignore(&["array-element-delimiter"]);
        Ok(csv)
    }
}

/// Refuses types without a text form.
fn check(field: &Field) -> Result<()> {
    let data_type = field.data_type();
    let fits = match data_type {
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Date32
        | DataType::Timestamp(_, _)
        | DataType::Decimal128(_, _) => true,
        other => other.is_integer() || matches!(other, DataType::Float32 | DataType::Float64),
    };
    if fits {
        return Ok(());
    }
    Err(Error::user(format!("format 'csv' cannot hold {} in column '{}'", sql_name(data_type), field.name()))
        .remedy("use the format 'json', or declare the column as STRING"))
}

#[cfg(test)]
mod tests;
