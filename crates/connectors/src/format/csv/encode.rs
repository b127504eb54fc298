//! Encodes columns to records.

use std::fmt::Write;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, StringViewArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use memchr::{memchr, memchr3};

use super::{CsvOptions, check};
use crate::format::Encode;
use crate::format::json::per_second;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The text form of times in SQL, with every digit of the unit.
fn text_format(data_type: &DataType) -> FormatOptions<'static> {
    let time = match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => "%Y-%m-%d %H:%M:%S",
        DataType::Timestamp(TimeUnit::Microsecond, _) => "%Y-%m-%d %H:%M:%S%.6f",
        DataType::Timestamp(TimeUnit::Nanosecond, _) => "%Y-%m-%d %H:%M:%S%.9f",
        _ => "%Y-%m-%d %H:%M:%S%.3f",
    };
    // A value without a text form is an error; the error's text must not become a value.
    FormatOptions::new()
        .with_display_error(false)
        // The text for NULL within arrays, maps and rows.
        .with_null("NULL")
        .with_timestamp_format(Some(time))
}

/// Instants as times of UTC without a zone, which are written with a `Z`; other columns as they are.
fn in_utc(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Timestamp(unit, Some(_)) => Ok(cast(column, &DataType::Timestamp(*unit, None))?),
        _ => Ok(Arc::clone(column)),
    }
}

/// Encodes rows as lines of delimited fields.
pub(crate) struct CsvEncoder {
    options: CsvOptions,
    /// A record consists of one field, which must not be empty.
    alone: bool,
    text: String,
}

impl CsvEncoder {
    /// An encoder whose records can be read back.
    pub(crate) fn new(schema: &SchemaRef, options: &CsvOptions) -> Result<Self> {
        schema.fields().iter().try_for_each(|field| check(field))?;
        if let [field] = schema.fields().as_ref()
            && field.is_nullable()
            && options.null.is_empty()
        {
            let name = field.name();
            return Err(Error::user(format!(
                "NULL in '{name}', the only column, would be a blank line, which is not a row"
            ))
            .remedy("set 'csv.null' to a text for NULL, for example 'NULL', or declare the column NOT NULL"));
        }
        Ok(CsvEncoder { alone: schema.fields().len() == 1, ..Self::for_people(options) })
    }

    /// An encoder that also writes nested columns, in a form for reading only.
    pub(crate) fn for_people(options: &CsvOptions) -> Self {
        CsvEncoder { options: options.clone(), alone: false, text: String::new() }
    }

    /// The line that names the columns.
    pub(crate) fn header(&self, schema: &SchemaRef) -> Vec<u8> {
        let mut line = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            if index > 0 {
                line.push(self.options.delimiter);
            }
            self.write_text(field.name().as_bytes(), &mut line);
        }
        line
    }

    /// Writes text, in quotes if a reader could misread it without them. That is text with a delimiter, a
    /// quote or a line end, the text for NULL, text that begins with a byte order mark, and text that would
    /// leave the line blank.
    fn write_text(&self, text: &[u8], line: &mut Vec<u8>) {
        let special = memchr3(self.options.delimiter, b'"', b'\n', text).is_some() || memchr(b'\r', text).is_some();
        let unclear = text.starts_with(BYTE_ORDER_MARK) || (self.alone && text.is_empty());
        if !special && !unclear && text != self.options.null.as_bytes() {
            line.extend_from_slice(text);
            return;
        }
        line.push(b'"');
        let mut rest = text;
        while let Some(at) = memchr(b'"', rest) {
            line.extend_from_slice(&rest[..=at]);
            line.push(b'"');
            rest = &rest[at + 1..];
        }
        line.extend_from_slice(rest);
        line.push(b'"');
    }
}

/// A column as it is written.
enum CsvColumn<'a> {
    Texts(&'a StringViewArray),
    Times(Times<'a>),
    Others(ArrayFormatter<'a>),
}

/// Writes a column of times. Successive times are often within the same second, so the text of the last
/// second is kept.
struct Times<'a> {
    values: ScalarBuffer<i64>,
    per_second: i64,
    /// Digits of the fraction.
    digits: usize,
    is_instant: bool,
    second: Option<i64>,
    text: String,
    others: ArrayFormatter<'a>,
}

impl<'a> CsvColumn<'a> {
    fn new(column: &'a ArrayRef, is_instant: bool, format: &'a FormatOptions<'_>) -> Result<CsvColumn<'a>> {
        let others = ArrayFormatter::try_new(column, format)?;
        Ok(match column.data_type() {
            DataType::Utf8View => CsvColumn::Texts(column.as_string_view()),
            DataType::Timestamp(unit, None) => {
                let values = cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().values().clone();
                let per_second = per_second(*unit);
                let (digits, text) = (per_second.ilog10() as usize, String::new());
                CsvColumn::Times(Times { values, per_second, digits, is_instant, second: None, text, others })
            }
            _ => CsvColumn::Others(others),
        })
    }
}

impl Times<'_> {
    fn write(&mut self, row: usize, text: &mut String) -> std::result::Result<(), ArrowError> {
        self.write_time(row, text)?;
        if self.is_instant {
            text.push('Z');
        }
        Ok(())
    }

    fn write_time(&mut self, row: usize, text: &mut String) -> std::result::Result<(), ArrowError> {
        let (second, fraction) =
            (self.values[row].div_euclid(self.per_second), self.values[row].rem_euclid(self.per_second));
        if self.second == Some(second) {
            text.push_str(&self.text);
            if self.digits > 0 {
                let digits = self.digits;
                // Writing to a string cannot fail.
                let _ = write!(text, ".{fraction:0digits$}");
            }
            return Ok(());
        }
        self.others.value(row).write(text)?;
        let whole = text.len() - if self.digits == 0 { 0 } else { self.digits + 1 };
        (self.second, self.text) = (Some(second), text[..whole].to_owned());
        Ok(())
    }
}

impl Encode for CsvEncoder {
    fn encode(&mut self, batch: &RecordBatch) -> Result<BinaryArray> {
        let is_instant = |column: &ArrayRef| matches!(column.data_type(), DataType::Timestamp(_, Some(_)));
        let columns = batch.columns().iter().map(|column| Ok((in_utc(column)?, is_instant(column))));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let formats: Vec<_> = columns.iter().map(|(column, _)| text_format(column.data_type())).collect();
        let columns = columns.iter().zip(&formats);
        let columns =
            columns.map(|((column, is_instant), format)| Ok((CsvColumn::new(column, *is_instant, format)?, column)));
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        let mut values = Vec::with_capacity(batch.num_rows() * (1 + batch.num_columns() * 12));
        let mut offsets = Vec::with_capacity(batch.num_rows() + 1);
        offsets.push(0_i32);
        for row in 0..batch.num_rows() {
            for (index, (form, column)) in columns.iter_mut().enumerate() {
                if index > 0 {
                    values.push(self.options.delimiter);
                }
                if column.is_null(row) {
                    values.extend_from_slice(self.options.null.as_bytes());
                    continue;
                }
                self.text.clear();
                let written = match form {
                    CsvColumn::Texts(texts) => {
                        self.write_text(texts.value(row).as_bytes(), &mut values);
                        continue;
                    }
                    CsvColumn::Times(times) => times.write(row, &mut self.text),
                    CsvColumn::Others(others) => others.value(row).write(&mut self.text),
                };
                written.map_err(|error| {
                    let name = batch.schema_ref().field(index).name();
                    Error::user(format!("a value of column '{name}' cannot be written as text: {error}"))
                        .remedy("exclude such rows, for example times beyond the year 9999")
                })?;
                self.write_text(self.text.as_bytes(), &mut values);
            }
            offsets.push(offset(values.len())?);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(BinaryArray::new(offsets, Buffer::from_vec(values), None))
    }
}

fn offset(length: usize) -> Result<i32> {
    i32::try_from(length).map_err(|_| {
        Error::user("the rows of one batch take more than 2 GiB as text").remedy("set a smaller 'batch-rows'")
    })
}
