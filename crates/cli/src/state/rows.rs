//! An operator's state as a table.

use std::io::Write;
use std::sync::Arc;

use anabranch_model::Result;
use anabranch_server::FoundRows;
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::arguments::Format;
use crate::records::Records;
use crate::table::{Layout, Table};
use crate::terminal;

/// Number of characters of a list that a table shows.
const LONG_MAX: usize = 40;

pub(super) fn write(found: &FoundRows, format: Format, out: &mut dyn Write) -> Result<()> {
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
    let options = FormatOptions::new().with_null("NULL");
    let clip = |(field, column): (&FieldRef, &ArrayRef)| -> Result<(String, ArrayRef)> {
        if !field.data_type().is_nested() {
            return Ok((field.name().clone(), Arc::clone(column)));
        }
        let shown = ArrayFormatter::try_new(column.as_ref(), &options)?;
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

    fn found() -> FoundRows {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("key", Arc::new(StringArray::from(vec![Some("a,\"b\""), None, Some("")]))),
            ("sum", Arc::new(Float64Array::from(vec![1.5, f64::NAN, 2.0]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("batch");
        let mut found = FoundRows::default();
        (found.schema, found.batches) = (Some(batch.schema()), vec![batch]);
        found
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
}
