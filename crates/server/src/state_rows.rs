//! An operator's state as rows, from the files of a checkpoint.
//!
//! Rows are given as they are stored. There may be several of one pane and key, from snapshots that contain
//! only changes: together they are its state. Only each aggregate function could merge them, so they are not
//! merged here.

use anabranch_dataflow::instant_text;
use anabranch_model::{Error, Result};
use anabranch_state::{Manifest, Others, Store, decode_rows};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::rows_of_groups;

/// Which rows of state.
pub struct StateRows<'a> {
    /// Number of the operator.
    pub operator: u32,
    /// Columns and their values, as they are shown.
    pub keys: &'a [(String, String)],
    /// Rows at most.
    pub limit: usize,
}

/// Rows that were found.
#[derive(Debug, Default)]
pub struct FoundRows {
    /// Their columns; `None` if there is no file.
    pub schema: Option<SchemaRef>,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// There are more rows than requested.
    more: bool,
    /// A task has more than one file, so a key may have several rows.
    in_pieces: bool,
    watermark_ms: Option<i64>,
}

impl FoundRows {
    /// Explanations for reading them.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.more {
            notes.push("there are more rows (--limit)".to_owned());
        }
        if self.in_pieces {
            notes.push("rows of the same pane and keys belong together: changes are stored as they come".to_owned());
        }
        if let Some(ms) = self.watermark_ms {
            let reached = instant_text(ms);
            notes.push(format!("event time had reached {reached}: windows that end before have been emitted"));
        }
        notes
    }
}

/// Reads the rows from the files of a checkpoint.
pub fn read_state(store: &Store, manifest: &Manifest, wanted: &StateRows<'_>) -> Result<FoundRows> {
    let operators = manifest.tasks.iter().flat_map(|task| &task.operators);
    let operators: Vec<_> = operators.filter(|operator| operator.number == wanted.operator).collect();
    let mut found = FoundRows {
        in_pieces: operators.iter().any(|operator| operator.files.len() > 1),
        watermark_ms: watermark_ms(manifest, wanted.operator),
        ..FoundRows::default()
    };
    let mut left = wanted.limit;
    for file in operators.iter().flat_map(|operator| &operator.files) {
        for batch in decode_rows(store.get_blob(&file.blob)?)? {
            let batch = match file.others {
                Some(Others { first_key, keys }) => {
                    rows_of_groups(&batch, first_key..first_key + keys, file.key_groups, manifest.key_groups)?
                }
                None => batch,
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
    let (mut rows, options) = (batch.clone(), FormatOptions::new().with_null("NULL"));
    for (name, value) in keys {
        let column = rows.column_by_name(name).ok_or_else(|| {
            let schema = batch.schema();
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Error::user(format!("the state has no column '{name}'")).remedy(format!("columns: {}", names.join(", ")))
        })?;
        let matches: BooleanArray = {
            let shown = ArrayFormatter::try_new(column.as_ref(), &options)?;
            (0..rows.num_rows()).map(|row| Some(shown.value(row).to_string() == *value)).collect()
        };
        rows = filter_record_batch(&rows, &matches)?;
    }
    Ok(rows)
}

/// Event time that all tasks of an operator have reached, if any has.
#[must_use]
pub fn watermark_ms(manifest: &Manifest, number: u32) -> Option<i64> {
    let operators = manifest.tasks.iter().flat_map(|task| &task.operators).filter(|op| op.number == number);
    operators.map(|operator| operator.watermark_ms).min().filter(|ms| *ms != i64::MIN && *ms != i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, StringArray};

    use super::*;

    #[test]
    fn rows_are_found_by_what_their_columns_show() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("key", Arc::new(StringArray::from(vec![Some("a,\"b\""), None, Some("")]))),
            ("sum", Arc::new(Float64Array::from(vec![1.5, f64::NAN, 2.0]))),
        ];
        let batch = &RecordBatch::try_from_iter(columns).expect("batch");
        let keys = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        assert_eq!(filtered(batch, &keys("sum", "2.0")).expect("filtered").num_rows(), 1);
        assert_eq!(filtered(batch, &keys("key", "NULL")).expect("filtered").num_rows(), 1);
        assert_eq!(filtered(batch, &keys("key", "x")).expect("filtered").num_rows(), 0);
        let error = filtered(batch, &keys("kei", "x")).expect_err("unknown").to_string();
        assert!(error.contains("no column 'kei'") && error.contains("columns: key, sum"), "{error}");
    }
}
