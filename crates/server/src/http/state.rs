//! The state of a job, from its newest checkpoint: the job is not disturbed.

use std::sync::Arc;

use anabranch_dataflow::KeptPart;
use anabranch_model::{Error, ErrorKind, OperatorKind, Result};
use anabranch_state::{Contents, Manifest, Store};
use arrow::array::Array as _;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::answers::{Answered, Api, REQUEST, failed, json, on_thread, refused};
use super::query::Parameters;
use crate::{StateRows, read_state, watermark_ms};

/// Rows of an operator that are given.
const ROWS_MAX: usize = 200;
/// Longest text of a value, in characters.
const VALUE_MAX: usize = 1000;
/// Attempts, when the job has removed the checkpoint that was being read.
const ATTEMPTS: usize = 5;

/// The state of the newest checkpoint.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "State")]
pub(super) struct StateDocument {
    place: String,
    epoch: u64,
    completed_at_ms: i64,
    operators: Vec<OperatorState>,
    /// Of the operator that was asked for.
    rows: Option<RowsDocument>,
}

/// The state of an operator.
#[derive(Debug, Serialize, JsonSchema)]
struct OperatorState {
    operator: u32,
    description: String,
    rows: u64,
    bytes: u64,
    files: usize,
    /// Event time that all of its tasks have reached.
    watermark_ms: Option<i64>,
}

/// Rows of an operator's state, at most 200, as texts of at most 1,000 characters.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StateRows")]
struct RowsDocument {
    operator: u32,
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
    /// Explanations for reading them.
    notes: Vec<String>,
}

/// Answers with the state of a job: `operator` asks for rows of one, `column` and `key` for those of a key.
pub(super) async fn state(api: Arc<Api>, name: String, parameters: Parameters) -> Answered {
    let store = api.job(&name)?.store().ok_or_else(|| {
        let error = Error::user("the job keeps no checkpoints, so its state cannot be read");
        let remedy = "set a directory for them: SET 'checkpoint-directory' = '...'";
        refused(StatusCode::CONFLICT, &error.remedy(remedy))
    })?;
    let operator = parameters.number("operator")?;
    let keys: Vec<(String, String)> = match (parameters.text("column"), parameters.text("key")) {
        (Some(column), Some(key)) => vec![(column.to_owned(), key.to_owned())],
        _ => Vec::new(),
    };
    on_thread("state", REQUEST, move || {
        let Ok(_alone) = api.reading.try_lock() else {
            let error = Error::outside("the state of another job, or of this one, is being read");
            return Err(refused(StatusCode::SERVICE_UNAVAILABLE, &error.remedy("ask again in a second")));
        };
        let mut read = document(&store, operator, &keys);
        for _ in 1..ATTEMPTS {
            // The job may have removed the checkpoint meanwhile.
            if !read.as_ref().is_err_and(|error| error.kind() != ErrorKind::User) {
                break;
            }
            read = document(&store, operator, &keys);
        }
        read.map(|document| json(StatusCode::OK, &document)).map_err(|error| failed(&error))
    })
    .await?
}

fn document(store: &Store, operator: Option<u32>, keys: &[(String, String)]) -> Result<StateDocument> {
    let contents = Contents::read(store)?;
    if contents.checkpoints.is_empty() && contents.damaged.is_empty() {
        return Err(Error::user("the job has no checkpoint yet").remedy("wait until the first one is complete"));
    }
    let newest = contents.newest()?;
    let manifest = &newest.manifest;
    let rows = operator.map(|operator| rows(store, manifest, operator, keys)).transpose()?;
    Ok(StateDocument {
        place: store.place().to_owned(),
        epoch: manifest.epoch.0,
        completed_at_ms: newest.written_ms,
        operators: manifest.parts.iter().filter_map(|part| of_operator(manifest, part)).collect(),
        rows,
    })
}

fn of_operator(manifest: &Manifest, part: &KeptPart) -> Option<OperatorState> {
    let operator = Some(part.id.number).filter(|_| part.id.kind == OperatorKind::State)?;
    let files = || manifest.state_files(|number| number == operator);
    Some(OperatorState {
        operator,
        description: part.key.to_string(),
        rows: files().map(|file| file.rows).sum(),
        bytes: files().map(|file| file.blob.bytes).sum(),
        files: files().count(),
        watermark_ms: watermark_ms(manifest, operator),
    })
}

fn rows(store: &Store, manifest: &Manifest, operator: u32, keys: &[(String, String)]) -> Result<RowsDocument> {
    let found = read_state(store, manifest, &StateRows { operator, keys, limit: ROWS_MAX })?;
    let columns = found.schema.iter().flat_map(|schema| schema.fields()).map(|field| field.name().clone()).collect();
    let (options, mut rows) = (FormatOptions::new(), Vec::new());
    for batch in &found.batches {
        let formatters = batch.columns().iter().map(|column| Ok(ArrayFormatter::try_new(column, &options)?));
        let formatters = formatters.collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let value = |(column, formatter): (usize, &ArrayFormatter<'_>)| {
                let is_null = batch.column(column).is_null(row);
                (!is_null).then(|| formatter.value(row).to_string().chars().take(VALUE_MAX).collect())
            };
            rows.push(formatters.iter().enumerate().map(value).collect());
        }
    }
    Ok(RowsDocument { operator, columns, rows, notes: found.notes() })
}
