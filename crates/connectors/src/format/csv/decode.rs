//! Records to columns: fields become text columns first, which are then cast as a whole.

use std::sync::Arc;

use anabranch_model::Result;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, StringViewBuilder};
use arrow::compute::{CastOptions, FilterBuilder, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};

use super::{CsvOptions, FieldRange, check, split_fields, unquote};
use crate::format::{Decode, Decoded, batch, projected, sql_type};

/// Decodes lines of delimited fields.
pub(crate) struct CsvDecoder {
    options: CsvOptions,
    declared_columns: usize,
    projection: Vec<usize>,
    schema: SchemaRef,
    fields: Vec<FieldRange>,
    unquoted: Vec<u8>,
}

impl CsvDecoder {
    pub(crate) fn new(declared: &SchemaRef, projection: &[usize], options: &CsvOptions) -> Result<Self> {
        declared.fields().iter().try_for_each(|field| check(field))?;
        Ok(CsvDecoder {
            options: options.clone(),
            declared_columns: declared.fields().len(),
            projection: projection.to_vec(),
            schema: projected(declared, projection)?,
            fields: Vec::new(),
            unquoted: Vec::new(),
        })
    }

    /// Splits one record and appends its projected fields; an error leaves `texts` without the row.
    fn record(&mut self, record: &[u8], base: usize, texts: &mut [StringViewBuilder]) -> Result<(), String> {
        split_fields(record, self.options.delimiter, &mut self.fields)?;
        if self.fields.len() != self.declared_columns {
            return Err(format!("the record has {} fields, {} are declared", self.fields.len(), self.declared_columns));
        }
        for (column, index) in self.projection.iter().enumerate() {
            let field = self.fields[*index];
            if std::str::from_utf8(&record[field.start..field.end]).is_err() {
                return Err(format!("column '{}': not valid UTF-8", self.schema.field(column).name()));
            }
        }
        for (text, index) in texts.iter_mut().zip(&self.projection) {
            let field = self.fields[*index];
            let value = &record[field.start..field.end];
            if !field.quoted && value == self.options.null.as_bytes() {
                text.append_null();
            } else if field.escaped {
                unquote(value, &mut self.unquoted);
                text.append_value(String::from_utf8_lossy(&self.unquoted));
            } else {
                let at = base + field.start;
                // SAFETY: the range lies within the records' values, which are block 0, and was checked to be UTF-8.
                unsafe { text.append_view_unchecked(0, at as u32, value.len() as u32) };
            }
        }
        Ok(())
    }
}

impl Decode for CsvDecoder {
    fn decode(&mut self, records: &BinaryArray) -> Result<Decoded> {
        let mut texts: Vec<_> =
            self.projection.iter().map(|_| StringViewBuilder::with_capacity(records.len())).collect();
        for text in &mut texts {
            text.append_block(records.values().clone());
        }
        // Of each row that could be split: its index among the records.
        let mut rows = Vec::with_capacity(records.len());
        let mut malformed = Vec::new();
        for index in 0..records.len() {
            let base = records.value_offsets()[index] as usize;
            let outcome = match records.is_null(index) {
                true => Err("the record is null".to_owned()),
                false => self.record(records.value(index), base, &mut texts),
            };
            match outcome {
                Ok(()) => rows.push(index),
                Err(error) => malformed.push((index, error)),
            }
        }
        let mut keep = vec![true; rows.len()];
        let mut columns = Vec::with_capacity(texts.len());
        for (text, field) in texts.iter_mut().zip(self.schema.fields()) {
            let (column, wrong) = convert(&(Arc::new(text.finish()) as ArrayRef), field)?;
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

/// Casts a column of text, and tells which rows have no such value. In those rows the column may hold a NULL that
/// its field excludes: they are filtered out before a batch is made.
fn convert(text: &ArrayRef, field: &FieldRef) -> Result<(ArrayRef, Vec<(usize, String)>)> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let column = match field.data_type() {
        DataType::Utf8View => text.clone(),
        data_type => cast_with_options(text, data_type, &options)?,
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
                let (value, name) = (text.value(row), field.name());
                wrong.push((row, format!("column '{name}': '{value}' is not a {}", sql_type(field.data_type()))));
            } else if !field.is_nullable() {
                wrong.push((row, format!("column '{}' is NULL, which its declaration excludes", field.name())));
            }
        }
    }
    Ok((column, wrong))
}
