//! Formats: raw records to columns and back, an array at a time.

use std::sync::Arc;

use anabranch_dataflow::SourceSpec;
use anabranch_model::{Error, Result};
use arrow::array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, SchemaRef};

use crate::Options;

pub mod csv;
pub(crate) mod debezium;
pub mod json;
mod lanes;
pub(crate) mod options;
pub mod raw;
mod view;

use csv::{CsvDecoder, CsvEncoder, CsvOptions};
use json::{JsonDecoder, JsonEncoder, JsonOptions};
use options::FormatOptions;
use raw::{LineEnd, RawDecoder, RawEncoder, RawOptions};

/// Decodes raw records into the columns that the query needs.
pub trait Decode: Send {
    /// Decodes one record per element of `records`. A null element is malformed, and so is a blank one,
    /// unless the format is raw. A record may end in white space, as lines of a file do. Rows that cannot be
    /// decoded are omitted from the batch and reported. The batch may share the memory of `records`.
    fn decode(&mut self, records: &BinaryArray) -> Result<Decoded>;
}

/// Outcome of [`Decode::decode`].
#[derive(Debug)]
pub struct Decoded {
    /// Rows that could be decoded, in order.
    pub batch: RecordBatch,
    /// Records that could not be decoded: index in the input, and the error.
    pub malformed: Vec<(usize, String)>,
}

/// Encodes rows into raw records.
pub trait Encode: Send {
    /// One record per row, without a line end.
    fn encode(&mut self, batch: &RecordBatch) -> Result<BinaryArray>;
}

/// A format of raw records with its options.
#[derive(Clone, Debug)]
pub enum Format {
    /// One JSON object per record.
    Json(JsonOptions),
    /// One line of delimited fields per record, in the order of the declared columns.
    Csv(CsvOptions),
    /// The whole record is the table's only column.
    Raw(RawOptions),
}

impl Format {
    /// The formats' names in options.
    pub const NAMES: [&'static str; 3] = ["json", "csv", "raw"];

    /// Reads the format in the option `name` (`format`, `value.format`), and the format's options.
    pub fn optional(options: &mut Options<'_>, name: &'static str) -> Result<Option<Format>> {
        let Some(word) = options.string(name) else { return Ok(None) };
        Self::by_word(word, options, name).map(Some)
    }

    /// Like [`Format::optional`] for tables that need a format.
    pub fn required(options: &mut Options<'_>, name: &'static str) -> Result<Format> {
        let word = options.required(name)?;
        Self::by_word(word, options, name)
    }

    fn by_word(word: &str, options: &mut Options<'_>, name: &'static str) -> Result<Format> {
        match word {
            "json" => JsonOptions::read(FormatOptions::new(options, word, name)).map(Format::Json),
            "csv" => CsvOptions::read(FormatOptions::new(options, word, name)).map(Format::Csv),
            "raw" => RawOptions::read(FormatOptions::new(options, word, name)).map(Format::Raw),
            other => Err(Error::user(format!("unknown format '{other}' in option '{name}'"))
                .remedy(format!("use one of: {}", Self::NAMES.join(", ")))),
        }
    }

    /// A decoder of records without a line end, such as the messages of a log.
    pub fn decoder(&self, declared: &SchemaRef, projection: &[usize]) -> Result<Box<dyn Decode>> {
        self.decoder_with(declared, projection, LineEnd::Keep)
    }

    /// A decoder of records that are lines of a file with their line ends.
    pub fn line_decoder(&self, declared: &SchemaRef, projection: &[usize]) -> Result<Box<dyn Decode>> {
        self.decoder_with(declared, projection, LineEnd::Strip)
    }

    fn decoder_with(&self, declared: &SchemaRef, projection: &[usize], end: LineEnd) -> Result<Box<dyn Decode>> {
        Ok(match self {
            Format::Json(options) => Box::new(JsonDecoder::new(projected(declared, projection)?, options)?),
            Format::Csv(options) => Box::new(CsvDecoder::new(declared, projection, options)?),
            Format::Raw(options) => Box::new(RawDecoder::new(declared, projection, end, *options)?),
        })
    }

    /// Whether a record whose only column is NULL differs from every other record.
    pub(crate) fn writes_null(&self) -> bool {
        match self {
            Format::Json(_) => true,
            Format::Csv(_) | Format::Raw(_) => false,
        }
    }

    /// An encoder of rows with these columns.
    pub fn encoder(&self, schema: &SchemaRef) -> Result<Box<dyn Encode>> {
        Ok(match self {
            Format::Json(options) => {
                Box::new(JsonEncoder::new(schema)?.with_timestamp_format(options.timestamp_format))
            }
            Format::Csv(options) => Box::new(CsvEncoder::new(schema, options)?),
            Format::Raw(options) => Box::new(RawEncoder::new(schema, *options)?),
        })
    }
}

/// The columns `projection` of `declared`.
pub(crate) fn projected(declared: &SchemaRef, projection: &[usize]) -> Result<SchemaRef> {
    Ok(declared.project(projection).map_err(|e| Error::internal(format!("projection of a table: {e}")))?.into())
}

/// The columns that a source's query needs.
pub(crate) fn source_schema(spec: &SourceSpec) -> Result<SchemaRef> {
    projected(&spec.declared, &spec.projection)
}

/// A batch with these columns, possibly none: a query that only counts rows needs no column.
pub(crate) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|e| Error::internal(format!("a batch of a connector: {e}")))
}

/// Text from data, for a message: characters that would affect a terminal are escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        // Control characters, line separators, and those that change the direction of text.
        let hidden = character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if hidden {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// The type `MAP<STRING, ...>` whose values are nullable and of this type.
pub(crate) fn map_of_texts(value: DataType) -> DataType {
    let (key, value) = (Field::new("key", DataType::Utf8View, false), Field::new("value", value, true));
    let entries = Field::new("entries", DataType::Struct(vec![key, value].into()), false);
    DataType::Map(Arc::new(entries), false)
}

/// Whether this is one of the types that hold text.
pub(crate) fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Schema, TimeUnit};

    use super::*;

    #[test]
    fn messages_cannot_control_a_terminal() {
        assert_eq!(printable("a \u{1b}[31m\n\u{202e}\u{9b}ü'"), "a \\u{1b}[31m\\n\\u{202e}\\u{9b}ü'");
    }

    #[test]
    fn messages_name_the_types_of_sql() {
        let time = DataType::Time64(TimeUnit::Nanosecond);
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("at", time, true)]));
        let error = Format::Csv(CsvOptions::default()).encoder(&schema).err().unwrap().to_string();
        assert!(error.contains("cannot hold TIME(9) in column 'at'"), "{error}");
    }
}
