//! The first rows of a query. It runs in this process with one task for each stage, and stops by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anabranch_model::{Clock as _, Error, Result, SystemClock};
use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::answers::{Answered, Api, no_thread, refused};
use super::super::body::{Body, ClientLeft, Events, event};
use super::super::documents::ErrorDocument;
use super::super::live::of_events;
use super::{engine, is_declaration, taken};
use crate::report::position;
use crate::threads::spawn;
use crate::{Engine, Query, Session, Settings, split_statements};

/// Previews that run at the same time.
const PREVIEWS_MAX: usize = 4;
/// Most rows and seconds of a preview.
const ROWS_MAX: usize = 10_000;
const SECONDS_MAX: u64 = 60;
/// Rows of an event.
const EVENT_ROWS: usize = 200;
/// A comment is sent after this time without rows. A failed write shows that the client has left.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Longest text of a value, in characters.
const VALUE_MAX: usize = 1000;
/// How often a preview checks whether the client has left.
const LOOK: Duration = Duration::from_millis(100);

/// The previews that may still begin.
static FREE: Semaphore = Semaphore::const_new(PREVIEWS_MAX);

/// A query to preview.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct PreviewOrder {
    sql: String,
    /// At most so many, at most 10,000.
    #[serde(default = "rows")]
    rows: usize,
    /// At most for so long, at most 60.
    #[serde(default = "seconds")]
    seconds: u64,
}

fn rows() -> usize {
    100
}

fn seconds() -> u64 {
    10
}

/// Answers with the first rows of a query, as they come.
pub(in crate::http) fn preview(api: Arc<Api>, body: &Bytes) -> Answered {
    let order: PreviewOrder = taken(body, "{\"sql\": \"STATEMENTS\", \"rows\": 100, \"seconds\": 10}")?;
    let engine = engine(&api)?;
    let Ok(place) = FREE.try_acquire() else {
        let error = Error::outside(format!("{PREVIEWS_MAX} previews run already"));
        return Err(refused(StatusCode::SERVICE_UNAVAILABLE, &error.remedy("wait until one has ended")));
    };
    let (events, body) = Body::events();
    let run = move || {
        let _place = place;
        run(&api, engine, &order, &events);
    };
    spawn("preview", run).map_err(no_thread)?;
    Ok(of_events(body))
}

fn run(api: &Api, engine: Engine, order: &PreviewOrder, events: &Events) {
    let end = match begin(engine, &order.sql) {
        Ok(query) => shown(api, query, order, events),
        Err(error) => Ok(failed(&error, &order.sql, 0)),
    };
    if let Ok(end) = end {
        // The client may have left.
        let _ = events.send_blocking(event(None, "end", &end.to_string()));
    }
}

fn failed(error: &Error, sql: &str, rows: usize) -> Value {
    let (line, column) = position(&error.to_string()).unzip();
    let ErrorDocument { error, place, remedy } = ErrorDocument::without_secrets(error, sql);
    json!({ "reason": "error", "rows": rows, "error": error, "place": place, "remedy": remedy, "line": line, "column": column })
}

/// Starts the query that is the last statement.
fn begin(mut engine: Engine, sql: &str) -> Result<Query> {
    // All of it in this process.
    engine.set_workers(None);
    let settings = Settings { parallelism: Some(1), ..Settings::default() };
    let mut session = Session::new(engine.clone(), &settings)?;
    let mut statements = split_statements(sql)?;
    let nothing = || Error::user("there is no query to preview").remedy("end the text with a SELECT");
    let last = statements.pop().ok_or_else(nothing)?;
    for statement in statements.iter().filter(|statement| is_declaration(&statement.text)) {
        session.execute_or_plan(statement)?;
    }
    let is_query = ["SELECT", "WITH", "VALUES", "TABLE", "("]
        .iter()
        .any(|word| last.text.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word)));
    if !is_query {
        let error = Error::user("only a query has a preview").at(format!("line {}, column {}", last.line, last.column));
        return Err(error.remedy("end the text with a SELECT"));
    }
    let mut query = session.query_plan(&last)?.ok_or_else(nothing)?;
    for source in query.plan.stages.iter_mut().filter_map(|stage| stage.source.as_mut()) {
        without_group(&mut source.connector.options);
    }
    engine.query(query)
}

/// A preview commits no positions to the consumer group of a Kafka table: the group is that of jobs.
fn without_group(options: &mut BTreeMap<String, String>) {
    if options.remove("properties.group.id").is_none() {
        return;
    }
    let mode = options.entry("scan.startup.mode".to_owned()).or_insert_with(|| "group-offsets".to_owned());
    if mode == "group-offsets" {
        "earliest-offset".clone_into(mode);
    }
}

/// Sends rows until there are enough of them, the time is over, or the client has left.
fn shown(api: &Api, query: Query, order: &PreviewOrder, events: &Events) -> Result<Value, ClientLeft> {
    let Query { job, schema, rows, skip, limit, updating, .. } = query;
    let columns = schema.fields().len() - usize::from(updating);
    let column = |field: &arrow::datatypes::FieldRef| {
        let kind = anabranch_dataflow::sql_name(field.data_type());
        json!({ "name": field.name(), "type": kind, "numeric": field.data_type().is_numeric() })
    };
    let names: Vec<Value> = schema.fields().iter().take(columns).map(column).collect();
    let most = order.rows.clamp(1, ROWS_MAX).min(limit.unwrap_or(usize::MAX));
    let clock = SystemClock::new();
    let end = clock.now().plus(Duration::from_secs(order.seconds.clamp(1, SECONDS_MAX)));
    let (mut sent, mut skipped, mut heard) = (0, 0, clock.now());
    let outcome = (|| {
        events.send_blocking(event(None, "columns", &Value::Array(names).to_string()))?;
        loop {
            let reason = match rows.recv_timeout(LOOK) {
                Ok(batch) => {
                    let from = (skip - skipped).min(batch.num_rows());
                    skipped += from;
                    let count = (batch.num_rows() - from).min(most - sent);
                    for begin in (0..count).step_by(EVENT_ROWS) {
                        let rows = batch.slice(from + begin, EVENT_ROWS.min(count - begin));
                        match texts(&rows, columns, updating) {
                            Ok(texts) => events.send_blocking(event(None, "rows", &texts.to_string()))?,
                            Err(error) => return Ok(failed(&error, &order.sql, sent)),
                        }
                        (sent, heard) = (sent + rows.num_rows(), clock.now());
                    }
                    (sent >= most).then_some("rows")
                }
                Err(RecvTimeoutError::Timeout) if events.has_left() => return Err(ClientLeft),
                Err(RecvTimeoutError::Timeout) => {
                    if clock.now().after(heard) >= SILENCE_MAX {
                        events.send_blocking(":\n\n")?;
                        heard = clock.now();
                    }
                    None
                }
                Err(RecvTimeoutError::Disconnected) => Some("done"),
            };
            let is_over = end.after(clock.now()).is_zero() || api.is_closing.is_set();
            if let Some(reason) = reason.or(is_over.then_some("time")) {
                let text = job.why().text;
                let why = Some(text).filter(|text| sent == 0 && !text.is_empty());
                return Ok(json!({ "reason": reason, "rows": sent, "why": why }));
            }
        }
    })();
    // A job waits for the reader of its rows. A query that has given all its rows ends by itself.
    drop(rows);
    if !outcome.as_ref().is_ok_and(|end: &Value| end["reason"] == "done") {
        job.cancel();
    }
    match (job.wait(), outcome) {
        (Err(error), Ok(end)) if end["reason"] == "done" => Ok(failed(&error, &order.sql, sent)),
        (_, outcome) => outcome,
    }
}

/// Rows as texts, each with its weight.
fn texts(batch: &RecordBatch, columns: usize, updating: bool) -> Result<Value> {
    let options = FormatOptions::new();
    let formatters = batch.columns().iter().take(columns).map(|column| Ok(ArrayFormatter::try_new(column, &options)?));
    let formatters = formatters.collect::<Result<Vec<_>>>()?;
    let weights = updating.then(|| batch.column(columns).as_primitive::<Int64Type>());
    let mut rows = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let value = |(column, formatter): (usize, &ArrayFormatter<'_>)| {
            let array = batch.column(column);
            if array.is_null(row) || matches!(array.data_type(), DataType::Null) {
                return Value::Null;
            }
            let text = formatter.value(row).to_string();
            match text.char_indices().nth(VALUE_MAX) {
                Some((end, _)) => Value::String(format!("{}…", &text[..end])),
                None => Value::String(text),
            }
        };
        let values: Vec<Value> = formatters.iter().enumerate().map(value).collect();
        rows.push(json!({ "weight": weights.map_or(1, |weights| weights.value(row)), "values": values }));
    }
    Ok(Value::Array(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_topic_is_left_alone() {
        let of = |options: &[(&str, &str)]| {
            let mut options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            without_group(&mut options);
            options.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(
            of(&[("properties.group.id", "g"), ("topic", "t")]),
            ["scan.startup.mode=earliest-offset", "topic=t"]
        );
        let latest = [("properties.group.id", "g"), ("scan.startup.mode", "latest-offset")];
        assert_eq!(of(&latest), ["scan.startup.mode=latest-offset"]);
        assert_eq!(of(&[("topic", "t")]), ["topic=t"]);
    }
}
