//! Decodes records to columns. Numbers are read from the bytes of their fields. Other fields first become
//! views into the records, which are then converted a column at a time.
//!
//! Errors that do not depend on types (quotes, the number of fields, bytes that are not UTF-8) are found in
//! the whole record, including fields that no column of the query reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use anabranch_dataflow::sql_name;
use anabranch_model::Result;
use arrow::array::{Array, ArrayRef, BinaryArray, BooleanArray, NullBufferBuilder, StringViewArray, make_view};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::{CastOptions, FilterBuilder, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};

use super::numbers::{Finished, Numbers};
use super::split::Marks;
use super::{CsvOptions, FieldRange, check, unquote};
use crate::format::view::{EXTRA, view_within};
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

/// A column under construction.
enum ColumnBuilder {
    Texts { views: Vec<u128>, nulls: NullBufferBuilder },
    Numbers(Numbers),
}

/// The projected columns, and the shared buffer of their texts for fields that contained doubled quotes.
struct Building {
    columns: Vec<ColumnBuilder>,
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
        if found != declared && !self.options.ignores_errors {
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
        for (column, index) in building.columns.iter_mut().zip(&self.projection) {
            let Some(field) = self.fields.get(*index) else {
                // Such a record is malformed, unless errors are ignored.
                column.push_null();
                continue;
            };
            if !field.quoted && field.end - field.start == null.len() && bytes[field.start..field.end] == *null {
                column.push_null();
                continue;
            }
            if let ColumnBuilder::Numbers(numbers) = column
                && numbers.push(bytes, field.start, field.end)
            {
                continue;
            }
            column.push_text(if field.escaped {
                unquote(&bytes[field.start..field.end], &mut self.unquoted);
                let offset = building.extra.len();
                building.extra.extend_from_slice(&self.unquoted);
                make_view(&self.unquoted, EXTRA, offset as u32)
            } else {
                view_within(bytes, field.start, field.end)
            });
        }
    }

    /// Reads all records. Returns the indexes of the well-formed ones.
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

impl ColumnBuilder {
    fn new(data_type: &DataType, rows: usize) -> ColumnBuilder {
        match Numbers::new(data_type, rows) {
            Some(numbers) => ColumnBuilder::Numbers(numbers),
            None => ColumnBuilder::Texts { views: Vec::with_capacity(rows), nulls: NullBufferBuilder::new(rows) },
        }
    }

    fn push_null(&mut self) {
        match self {
            ColumnBuilder::Texts { views, nulls } => {
                views.push(0);
                nulls.append_null();
            }
            ColumnBuilder::Numbers(numbers) => numbers.push_null(),
        }
    }

    #[inline(always)]
    fn push_text(&mut self, view: u128) {
        match self {
            ColumnBuilder::Texts { views, nulls } => {
                views.push(view);
                nulls.append_non_null();
            }
            ColumnBuilder::Numbers(numbers) => numbers.push_other(view),
        }
    }

    /// The finished column. `buffers` are those of its views.
    fn finish(self, data_type: &DataType, buffers: &Arc<[Buffer]>) -> Result<Finished> {
        let array = |views: Vec<u128>, nulls| {
            // SAFETY: each view was made from a field of a record, all of whose fields were found to be
            // UTF-8: from its range in the input, or from the text in the extra buffer with its quotes
            // undoubled. Views of NULL are empty.
            unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), Arc::clone(buffers), nulls) }
        };
        match self {
            ColumnBuilder::Numbers(numbers) => numbers.finish(|views| array(views, None)),
            ColumnBuilder::Texts { views, mut nulls } => convert(array(views, nulls.finish()), data_type),
        }
    }
}

impl Decode for CsvDecoder {
    fn decode(&mut self, records: &BinaryArray) -> Result<Decoded> {
        let fields = self.schema.fields();
        let columns = fields.iter().map(|field| ColumnBuilder::new(field.data_type(), records.len())).collect();
        let mut building = Building { columns, extra: Vec::new() };
        let mut malformed = Vec::new();
        // For each row that could be split: its index among the records.
        let rows = self.read(records, &mut building, &mut malformed);
        let mut keep = vec![true; rows.len()];
        let mut columns = Vec::with_capacity(self.projection.len());
        let extra = (!building.extra.is_empty()).then(|| Buffer::from_vec(building.extra));
        let buffers: Arc<[Buffer]> = std::iter::once(records.values().clone()).chain(extra).collect();
        for (column, field) in building.columns.into_iter().zip(self.schema.fields()) {
            let Finished { column, mut wrong } = column.finish(field.data_type(), &buffers)?;
            if self.options.ignores_errors && field.is_nullable() {
                // The wrong values are NULL already.
                wrong.clear();
            }
            for (row, error) in errors(&column, wrong, field) {
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

/// Converts a column of text.
fn convert(text: StringViewArray, data_type: &DataType) -> Result<Finished> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    if data_type == &DataType::Utf8View {
        return Ok(Finished { column: Arc::new(text), wrong: Vec::new() });
    }
    let column = cast_with_options(&text, data_type, &options)?;
    let mut wrong = Vec::new();
    if column.null_count() > text.null_count() {
        let rows = (0..text.len()).filter(|row| column.is_null(*row) && text.is_valid(*row));
        wrong.extend(rows.map(|row| (row, text.value(row).to_owned())));
    }
    Ok(Finished { column, wrong })
}

/// The rows without a valid value, and the reasons. In those rows the column may contain a NULL that its
/// field excludes: they are filtered out before a batch is made.
fn errors(column: &ArrayRef, wrong: Vec<(usize, String)>, field: &FieldRef) -> Vec<(usize, String)> {
    let name = field.name();
    let mut errors = Vec::new();
    if !field.is_nullable() && column.null_count() > wrong.len() {
        let wrong: BTreeSet<usize> = wrong.iter().map(|(row, _)| *row).collect();
        let rows = (0..column.len()).filter(|row| column.is_null(*row) && !wrong.contains(row));
        errors.extend(rows.map(|row| (row, format!("column '{name}' is NULL, which its declaration excludes"))));
    }
    let type_name = sql_name(field.data_type());
    errors.extend(wrong.into_iter().map(|(row, text)| {
        let text = shown(&text);
        (row, format!("column '{name}': '{text}' is not a {type_name}"))
    }));
    errors
}

/// A value for a message, shortened.
fn shown(value: &str) -> String {
    const LONGEST: usize = 64;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", printable(&value[..end])),
        None => printable(value),
    }
}
