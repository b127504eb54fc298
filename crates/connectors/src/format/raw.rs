//! Raw: the whole record is the table's only column. Text columns point into the bytes that were read.
//! Numbers are bytes as Java's serializers write them.

mod fixed;

use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, RecordBatch, make_view};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};

use self::fixed::Fixed;
use super::options::FormatOptions;
use super::{Decode, Decoded, Encode, batch, projected};

/// Options of raw records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawOptions {
    /// Numbers begin with their least byte.
    little_endian: bool,
}

impl RawOptions {
    pub(super) fn read(mut options: FormatOptions<'_, '_>) -> Result<RawOptions> {
        options.only("charset", "UTF-8", "leave it out: text is UTF-8; for other bytes declare the column as BYTES")?;
        let little_endian = options.choice(&["endianness"], &[("big-endian", false), ("little-endian", true)])?;
        Ok(RawOptions { little_endian: little_endian.unwrap_or(false) })
    }
}

/// Whether a record includes its line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// Records are messages: every byte counts.
    Keep,
    /// Records are lines of a file.
    Strip,
}

/// Decodes records that are single values.
pub(crate) struct RawDecoder {
    schema: SchemaRef,
    line_end: LineEnd,
    /// How the column's values are written if they have a fixed length.
    fixed: Option<Fixed>,
}

impl RawDecoder {
    pub(crate) fn new(
        declared: &SchemaRef,
        projection: &[usize],
        line_end: LineEnd,
        options: RawOptions,
    ) -> Result<Self> {
        let fixed = check(declared, options)?;
        if fixed.is_some() && line_end == LineEnd::Strip {
            // A byte of a number may be a line end.
            return Err(Error::user(format!(
                "format 'raw' has lines of text in files, not {} as in column '{}'",
                sql_name(declared.field(0).data_type()),
                declared.field(0).name()
            ))
            .remedy("declare the column as STRING and CAST it in the query, or use the format 'csv'"));
        }
        Ok(RawDecoder { schema: projected(declared, projection)?, line_end, fixed })
    }

    fn value_end(&self, bytes: &[u8], start: usize, end: usize) -> usize {
        if self.line_end == LineEnd::Keep {
            return end;
        }
        match &bytes[start..end] {
            [.., b'\r', b'\n'] => end - 2,
            [.., b'\n'] => end - 1,
            _ => end,
        }
    }
}

impl Decode for RawDecoder {
    fn decode(&mut self, records: &BinaryArray) -> Result<Decoded> {
        if let Some(fixed) = &self.fixed {
            let (values, malformed) = fixed.decode(records)?;
            let rows = values.len();
            let columns = self.schema.fields().iter().map(|_| Arc::clone(&values)).collect();
            return Ok(Decoded { batch: batch(&self.schema, columns, rows)?, malformed });
        }
        let buffer = records.values();
        let bytes = buffer.as_slice();
        let offsets = records.value_offsets();
        let first = offsets.first().map_or(0, |o| *o as usize);
        let last = offsets.last().map_or(0, |o| *o as usize);
        let is_text = self.schema.fields().first().is_some_and(|f| super::is_string(f.data_type()));
        let text = if is_text { std::str::from_utf8(&bytes[first..last]).ok() } else { None };
        let mut views = Vec::with_capacity(records.len());
        let mut malformed = Vec::new();
        for (index, pair) in offsets.windows(2).enumerate() {
            let start = pair[0] as usize;
            let end = self.value_end(bytes, start, pair[1] as usize);
            let value = &bytes[start..end];
            if records.is_null(index) {
                malformed.push((index, "the record is null".to_owned()));
                continue;
            }
            // The whole text may be valid although a boundary between records divides a character.
            let valid = match text {
                _ if !is_text => true,
                Some(text) => text.is_char_boundary(start - first) && text.is_char_boundary(end - first),
                None => std::str::from_utf8(value).is_ok(),
            };
            if !valid {
                malformed.push((index, "the record is not valid UTF-8".to_owned()));
                continue;
            }
            views.push(make_view(value, 0, pair[0] as u32));
        }
        let rows = views.len();
        let mut columns: Vec<ArrayRef> = Vec::new();
        if let Some(field) = self.schema.fields().first() {
            // SAFETY: each view was made from a range of `buffer`, which becomes buffer 0.
            let array =
                unsafe { BinaryViewArray::new_unchecked(ScalarBuffer::from(views), vec![buffer.clone()], None) };
            columns.push(if is_text {
                // SAFETY: every value was checked to be UTF-8 above.
                as_type(Arc::new(unsafe { array.to_string_view_unchecked() }), field.data_type())?
            } else {
                as_type(Arc::new(array), field.data_type())?
            });
        }
        Ok(Decoded { batch: batch(&self.schema, columns, rows)?, malformed })
    }
}

/// Encodes rows of one column.
pub(crate) struct RawEncoder {
    with_nulls: bool,
    fixed: Option<Fixed>,
}

impl RawEncoder {
    pub(crate) fn new(schema: &SchemaRef, options: RawOptions) -> Result<Self> {
        Ok(RawEncoder { with_nulls: false, fixed: check(schema, options)? })
    }

    /// An encoder for records that may be absent: if the column is NULL, there is no record.
    pub(crate) fn with_nulls(schema: &SchemaRef, options: RawOptions) -> Result<Self> {
        Ok(RawEncoder { with_nulls: true, fixed: check(schema, options)? })
    }
}

impl Encode for RawEncoder {
    fn encode(&mut self, batch: &RecordBatch) -> Result<BinaryArray> {
        let column = batch.column(0);
        if !self.with_nulls && column.null_count() > 0 {
            return Err(Error::user(format!(
                "column '{}' is NULL, which the format 'raw' cannot write",
                batch.schema_ref().field(0).name()
            ))
            .remedy("replace it with COALESCE, or use the format 'json'"));
        }
        match &self.fixed {
            Some(fixed) => fixed.encode(column),
            None => Ok(cast(column, &DataType::Binary)?.as_binary::<i32>().clone()),
        }
    }
}

fn as_type(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == data_type { Ok(array) } else { Ok(cast(&array, data_type)?) }
}

/// How the values of the only column are written, if they have a fixed length.
fn check(schema: &SchemaRef, options: RawOptions) -> Result<Option<Fixed>> {
    let [field] = schema.fields().as_ref() else {
        return Err(Error::user(format!("format 'raw' is for one column, the table has {}", schema.fields().len()))
            .remedy("declare a single column of type STRING or BYTES, or use the format 'json' or 'csv'"));
    };
    match field.data_type() {
        DataType::Utf8 | DataType::Utf8View | DataType::Binary | DataType::BinaryView => Ok(None),
        other => match Fixed::for_type(other, options.little_endian) {
            Some(fixed) => Ok(Some(fixed)),
            None => {
                Err(Error::user(format!("format 'raw' cannot hold {} in column '{}'", sql_name(other), field.name()))
                    .remedy("declare the column as STRING or BYTES and CAST it in the query"))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn schema(data_type: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("line", data_type, true)]))
    }

    #[test]
    fn lines_become_text_without_their_ends() {
        let records =
            BinaryArray::from_vec(vec![b"short\n", b"", b"a line that is longer than a view\r\n", "ü".as_bytes()]);
        let mut decoder =
            RawDecoder::new(&schema(DataType::Utf8View), &[0], LineEnd::Strip, RawOptions::default()).unwrap();
        let decoded = decoder.decode(&records.slice(0, 4)).unwrap();
        let lines: Vec<_> = decoded.batch.column(0).as_string_view().iter().flatten().collect();
        assert_eq!(lines, ["short", "", "a line that is longer than a view", "ü"]);
        let decoded = decoder.decode(&records.slice(2, 1)).unwrap();
        assert_eq!(decoded.batch.column(0).as_string_view().value(0), "a line that is longer than a view");
    }

    #[test]
    fn messages_keep_every_byte() {
        let records = BinaryArray::from_vec(vec![b"a\n", b"\xff\n"]);
        let mut decoder =
            RawDecoder::new(&schema(DataType::Binary), &[0], LineEnd::Keep, RawOptions::default()).unwrap();
        let decoded = decoder.decode(&records).unwrap();
        let values: Vec<_> = decoded.batch.column(0).as_binary::<i32>().iter().flatten().collect();
        assert_eq!(values, [b"a\n", b"\xff\n"]);
    }

    #[test]
    fn a_character_cut_in_two_by_records_is_malformed_in_both() {
        let records = BinaryArray::from_vec(vec![b"ok", b"\xc3", b"\xbc", b"ok"]);
        let mut decoder =
            RawDecoder::new(&schema(DataType::Utf8View), &[0], LineEnd::Keep, RawOptions::default()).unwrap();
        let decoded = decoder.decode(&records).unwrap();
        assert_eq!(decoded.batch.num_rows(), 2);
        assert_eq!(decoded.malformed.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn rows_are_counted_without_columns() {
        let records = BinaryArray::from_vec(vec![b"a", b"b"]);
        let mut decoder =
            RawDecoder::new(&schema(DataType::Utf8View), &[], LineEnd::Keep, RawOptions::default()).unwrap();
        assert_eq!(decoder.decode(&records).unwrap().batch.num_rows(), 2);
    }

    #[test]
    fn encodes_what_it_decodes() {
        let schema = schema(DataType::Utf8View);
        let column: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "a line that is longer than a view"]));
        let batch = batch(&schema, vec![column], 2).unwrap();
        let records = RawEncoder::new(&schema, RawOptions::default()).unwrap().encode(&batch).unwrap();
        let decoded =
            RawDecoder::new(&schema, &[0], LineEnd::Keep, RawOptions::default()).unwrap().decode(&records).unwrap();
        assert_eq!(decoded.batch, batch);
    }

    #[test]
    fn other_tables_are_refused() {
        let time = schema(DataType::Date32);
        let error = RawEncoder::new(&time, RawOptions::default()).err().unwrap().to_string();
        assert!(error.contains("cannot hold DATE in column 'line'"), "{error}");
        let numbers = schema(DataType::Int64);
        let error = RawDecoder::new(&numbers, &[0], LineEnd::Strip, RawOptions::default()).err().unwrap().to_string();
        assert!(error.contains("lines of text in files, not BIGINT as in column 'line'"), "{error}");
    }
}
