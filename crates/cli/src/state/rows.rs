//! An operator's state as a table.
//!
//! Rows are shown as they are stored. There may be several of one pane and key, from snapshots that contain only changes:
//! together they are its state. Only each aggregate function could merge them, so they are not merged here.

use std::io::Write;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use anabranch_server::rows_of_groups;
use anabranch_state::{Manifest, Others, Store, decode_rows};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::overview::watermark_ms;
use crate::arguments::Format;
use crate::records::Records;
use crate::table::{Layout, Table};
use crate::terminal;

/// Characters of a list that a table shows.
const LONG_MAX: usize = 40;

/// Which rows.
pub(super) struct Wanted<'a> {
    pub(super) operator: u32,
    /// Columns and their values, as they are shown.
    pub(super) keys: &'a [(String, String)],
    pub(super) limit: usize,
}

/// Rows that were found.
#[derive(Debug)]
pub(super) struct Found {
    schema: Option<SchemaRef>,
    batches: Vec<RecordBatch>,
    /// There are more rows than requested.
    more: bool,
    /// A task has more than one file, so a key may have several rows.
    in_pieces: bool,
    watermark_ms: Option<i64>,
}

impl Found {
    /// Explanations for reading them.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.more {
            notes.push("there are more rows (--limit)".to_owned());
        }
        if self.in_pieces {
            notes.push("rows of the same pane and keys belong together: changes are stored as they come".to_owned());
        }
        if let Some(ms) = self.watermark_ms {
            notes.push(format!("event time had reached {ms} ms: windows that end before have been emitted"));
        }
        notes
    }
}

/// Reads the rows from the files of a checkpoint.
pub(super) fn read(store: &Store, manifest: &Manifest, wanted: &Wanted<'_>) -> Result<Found> {
    let operators = manifest.tasks.iter().flat_map(|task| &task.operators);
    let operators: Vec<_> = operators.filter(|operator| operator.number == wanted.operator).collect();
    let mut found = Found {
        schema: None,
        batches: Vec::new(),
        more: false,
        in_pieces: operators.iter().any(|operator| operator.files.len() > 1),
        watermark_ms: watermark_ms(manifest, wanted.operator),
    };
    let mut left = wanted.limit;
    for file in operators.iter().flat_map(|operator| &operator.files) {
        for batch in decode_rows(store.get_blob(&file.blob)?)? {
            let batch = match (file.others, file.key_groups, manifest.key_groups) {
                (Some(Others { first_key, keys }), Some(own), Some(groups)) => {
                    rows_of_groups(&batch, first_key..first_key + keys, own, groups)?
                }
                _ => batch,
            };
            found.schema.get_or_insert_with(|| batch.schema());
            let rows = filtered(&batch, wanted.keys)?;
            if rows.num_rows() > left {
                found.batches.push(rows.slice(0, left));
                found.more = true;
                return Ok(found);
            }
            left -= rows.num_rows();
            found.batches.push(rows);
        }
    }
    Ok(found)
}

fn filtered(batch: &RecordBatch, keys: &[(String, String)]) -> Result<RecordBatch> {
    let mut rows = batch.clone();
    for (name, value) in keys {
        let column = rows.column_by_name(name).ok_or_else(|| {
            let schema = batch.schema();
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Error::user(format!("the state has no column '{name}'")).remedy(format!("columns: {}", names.join(", ")))
        })?;
        let matches: BooleanArray = {
            let shown = formatter(column.as_ref())?;
            (0..rows.num_rows()).map(|row| Some(shown.value(row).to_string() == *value)).collect()
        };
        rows = filter_record_batch(&rows, &matches)?;
    }
    Ok(rows)
}

fn formatter(column: &dyn Array) -> Result<ArrayFormatter<'_>> {
    const OPTIONS: FormatOptions<'static> = FormatOptions::new().with_null("NULL");
    Ok(ArrayFormatter::try_new(column, &OPTIONS)?)
}

/// Writes the rows.
pub(super) fn write(found: &Found, format: Format, out: &mut dyn Write) -> Result<()> {
    let Some(schema) = &found.schema else { return Ok(()) };
    match format {
        Format::Table => {
            let mut table = Table::new(
                &clipped(&RecordBatch::new_empty(SchemaRef::clone(schema)))?.schema(),
                Layout::Lines,
                terminal::width(),
            );
            let batches = found.batches.iter().filter(|batch| batch.num_rows() > 0);
            batches.map(clipped).try_for_each(|batch| table.write(&batch?, out))
        }
        Format::Json | Format::Csv => {
            let mut records = Records::new(schema, format);
            found.batches.iter().try_for_each(|batch| records.write(batch, out))?;
            records.finish(out)
        }
    }
}

/// Shortens long values, such as lists of distinct values, to the beginning of their text.
fn clipped(batch: &RecordBatch) -> Result<RecordBatch> {
    let clip = |(field, column): (&FieldRef, &ArrayRef)| -> Result<(String, ArrayRef)> {
        if !field.data_type().is_nested() {
            return Ok((field.name().clone(), Arc::clone(column)));
        }
        let shown = formatter(column.as_ref())?;
        let texts = (0..column.len()).map(|row| {
            let text = shown.value(row).to_string();
            match text.char_indices().nth(LONG_MAX) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        });
        Ok((field.name().clone(), Arc::new(texts.map(Some).collect::<StringArray>())))
    };
    let columns: Vec<_> = batch.schema_ref().fields().iter().zip(batch.columns()).map(clip).collect::<Result<_>>()?;
    Ok(RecordBatch::try_from_iter(columns)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::Float64Array;

    use super::*;

    fn found() -> Found {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("key", Arc::new(StringArray::from(vec![Some("a,\"b\""), None, Some("")]))),
            ("sum", Arc::new(Float64Array::from(vec![1.5, f64::NAN, 2.0]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("batch");
        Found { schema: Some(batch.schema()), batches: vec![batch], more: false, in_pieces: false, watermark_ms: None }
    }

    #[test]
    fn rows_are_written_in_each_format() {
        let written = |format| {
            let mut out = Vec::new();
            write(&found(), format, &mut out).expect("written");
            String::from_utf8(out).expect("text")
        };
        assert!(written(Format::Csv).starts_with("key,sum\n\"a,\"\"b"), "{}", written(Format::Csv));
        assert!(written(Format::Json).starts_with("{\"key\":\"a,"), "{}", written(Format::Json));
        assert!(written(Format::Table).starts_with(" key    sum\n"), "{}", written(Format::Table));
    }

    #[test]
    fn rows_are_found_by_what_their_columns_show() {
        let batch = &found().batches[0];
        let keys = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        assert_eq!(filtered(batch, &keys("sum", "2.0")).expect("filtered").num_rows(), 1);
        assert_eq!(filtered(batch, &keys("key", "NULL")).expect("filtered").num_rows(), 1);
        assert_eq!(filtered(batch, &keys("key", "x")).expect("filtered").num_rows(), 0);
        let error = filtered(batch, &keys("kei", "x")).expect_err("unknown").to_string();
        assert!(error.contains("no column 'kei'") && error.contains("columns: key, sum"), "{error}");
    }
}
