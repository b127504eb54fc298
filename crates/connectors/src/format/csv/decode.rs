//! Decodes records to columns: fields first become views into the records, which are then converted a column at a time.
//!
//! Errors that do not depend on types (quotes, the number of fields, bytes that are not UTF-8) are found in the whole
//! record, including fields that no column of the query reads.

use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::Result;
use arrow::array::NullBufferBuilder;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, StringViewArray};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::{CastOptions, FilterBuilder, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};

use super::numbers::numbers;
use super::split::Marks;
use super::{CsvOptions, FieldRange, check, unquote};
use crate::format::view::{EXTRA, view, view_within};
use crate::format::{Decode, Decoded, batch, printable, projected};

/// Decodes lines of delimited fields.
pub(crate) struct CsvDecoder {
    options: CsvOptions,
    declared: SchemaRef,
    projection: Vec<usize>,
    schema: SchemaRef,
    marks: Marks,
    fields: Vec<FieldRange>,
    unquoted: Vec<u8>,
}

/// A column of text under construction.
struct Texts {
    views: Vec<u128>,
    nulls: NullBufferBuilder,
}

/// The texts of the projected columns, and their shared buffer for fields that contained doubled quotes.
struct Building {
    columns: Vec<Texts>,
    extra: Vec<u8>,
}

impl CsvDecoder {
    pub(crate) fn new(declared: &SchemaRef, projection: &[usize], options: &CsvOptions) -> Result<Self> {
        declared.fields().iter().try_for_each(|field| check(field))?;
        Ok(CsvDecoder {
            options: options.clone(),
            declared: declared.clone(),
            projection: projection.to_vec(),
            schema: projected(declared, projection)?,
            marks: Marks::default(),
            fields: Vec::new(),
            unquoted: Vec::new(),
        })
    }

    /// Splits the record `bytes[start..end]`, or returns the error.
    #[inline(always)]
    fn split(&mut self, bytes: &[u8], start: usize, end: usize, is_utf8: bool) -> Result<(), String> {
        self.marks.split(bytes, start, end, &mut self.fields)?;
        let (found, declared) = (self.fields.len(), self.declared.fields().len());
        if found != declared {
            return Err(format!("the record has {found} fields, {declared} are declared"));
        }
        if is_utf8 { Ok(()) } else { self.check_utf8(bytes) }
    }

    #[cold]
    fn check_utf8(&self, bytes: &[u8]) -> Result<(), String> {
        for (field, declared) in self.fields.iter().zip(self.declared.fields()) {
            if std::str::from_utf8(&bytes[field.start..field.end]).is_err() {
                return Err(format!("column '{}': not valid UTF-8", declared.name()));
            }
        }
        Ok(())
    }

    /// Appends the projected fields of the record that was split.
    #[inline(always)]
    fn append(&mut self, bytes: &[u8], building: &mut Building) {
        let null = self.options.null.as_bytes();
        for (texts, index) in building.columns.iter_mut().zip(&self.projection) {
            let field = self.fields[*index];
            if !field.quoted && field.end - field.start == null.len() && bytes[field.start..field.end] == *null {
                texts.views.push(0);
                texts.nulls.append_null();
                continue;
            }
            texts.views.push(if field.escaped {
                unquote(&bytes[field.start..field.end], &mut self.unquoted);
                let offset = building.extra.len();
                building.extra.extend_from_slice(&self.unquoted);
                view(&self.unquoted, EXTRA, offset as u32)
            } else {
                view_within(bytes, field.start, field.end)
            });
            texts.nulls.append_non_null();
        }
    }

    /// Reads all records; returns the indexes of those that could be read.
    fn read(
        &mut self,
        records: &BinaryArray,
        building: &mut Building,
        malformed: &mut Vec<(usize, String)>,
    ) -> Vec<usize> {
        let bytes = records.values().as_slice();
        let offsets = records.value_offsets();
        let (first, last) = (offsets[0] as usize, offsets[records.len()] as usize);
        self.marks.find(&bytes[..last], first, self.options.delimiter);
        let text = std::str::from_utf8(&bytes[first..last]).ok();
        let mut rows = Vec::with_capacity(records.len());
        for index in 0..records.len() {
            let (start, end) = (offsets[index] as usize, offsets[index + 1] as usize);
            if records.is_null(index) {
                malformed.push((index, "the record is null".to_owned()));
                continue;
            }
            // The whole text may be valid although a boundary between records divides a character.
            let is_utf8 =
                text.is_some_and(|text| text.is_char_boundary(start - first) && text.is_char_boundary(end - first));
            match self.split(bytes, start, end, is_utf8) {
                Ok(()) => {
                    self.append(bytes, building);
                    rows.push(index);
                }
                Err(error) => malformed.push((index, error)),
            }
        }
        rows
    }
}

impl Building {
    fn new(columns: usize, rows: usize) -> Self {
        let texts = || Texts { views: Vec::with_capacity(rows), nulls: NullBufferBuilder::new(rows) };
        Building { columns: (0..columns).map(|_| texts()).collect(), extra: Vec::new() }
    }

    fn finish(self, input: &Buffer) -> impl Iterator<Item = StringViewArray> {
        let buffers: Arc<[Buffer]> = match self.extra.is_empty() {
            true => Arc::new([input.clone()]),
            false => Arc::new([input.clone(), Buffer::from_vec(self.extra)]),
        };
        self.columns.into_iter().map(move |mut texts| {
            let views = ScalarBuffer::from(texts.views);
            // SAFETY: each view was made from a field of a record, all of whose fields were found to be UTF-8: from its
            // range in the input, or from the text in the extra buffer with its quotes undoubled. Views of NULL are
            // empty.
            unsafe { StringViewArray::new_unchecked(views, Arc::clone(&buffers), texts.nulls.finish()) }
        })
    }
}

impl Decode for CsvDecoder {
    fn decode(&mut self, records: &BinaryArray) -> Result<Decoded> {
        let mut building = Building::new(self.projection.len(), records.len());
        let mut malformed = Vec::new();
        // For each row that could be split: its index among the records.
        let rows = self.read(records, &mut building, &mut malformed);
        let mut keep = vec![true; rows.len()];
        let mut columns = Vec::with_capacity(self.projection.len());
        for (text, field) in building.finish(records.values()).zip(self.schema.fields()) {
            let (column, wrong) = convert(text, field)?;
            for (row, error) in wrong {
                if std::mem::replace(&mut keep[row], false) {
                    malformed.push((rows[row], error));
                }
            }
            columns.push(column);
        }
        let mut rows_kept = rows.len();
        if keep.contains(&false) {
            malformed.sort_by_key(|(index, _)| *index);
            let filter = FilterBuilder::new(&BooleanArray::from(keep)).optimize().build();
            rows_kept = filter.count();
            columns = columns.iter().map(|c| filter.filter(c)).collect::<Result<_, _>>()?;
        }
        Ok(Decoded { batch: batch(&self.schema, columns, rows_kept)?, malformed })
    }
}

/// Converts a column of text, and returns which rows have no valid value. In those rows the column may contain a NULL
/// that its field excludes: they are filtered out before a batch is made.
fn convert(text: StringViewArray, field: &FieldRef) -> Result<(ArrayRef, Vec<(usize, String)>)> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let text: ArrayRef = Arc::new(text);
    let column = match (field.data_type(), numbers(text.as_string_view(), field.data_type())) {
        (_, Some(numbers)) => numbers,
        (DataType::Utf8View, _) => text.clone(),
        (data_type, _) => cast_with_options(&text, data_type, &options)?,
    };
    let mut wrong = Vec::new();
    let unexpected = match field.is_nullable() {
        true => column.null_count() > text.null_count(),
        false => column.null_count() > 0,
    };
    if unexpected {
        let text = text.as_string_view();
        for row in (0..column.len()).filter(|row| column.is_null(*row)) {
            if text.is_valid(row) {
                let (value, name) = (shown(text.value(row)), field.name());
                wrong.push((row, format!("column '{name}': '{value}' is not a {}", sql_name(field.data_type()))));
            } else if !field.is_nullable() {
                wrong.push((row, format!("column '{}' is NULL, which its declaration excludes", field.name())));
            }
        }
    }
    Ok((column, wrong))
}

/// A value for a message, shortened.
fn shown(value: &str) -> String {
    const LONGEST: usize = 64;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", printable(&value[..end])),
        None => printable(value),
    }
}
