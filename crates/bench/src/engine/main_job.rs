//! The main job as a user writes it, over JSON records and over columns.

use std::sync::Arc;

use anabranch_connectors::MemorySource;
use anabranch_connectors::format::Format;
use anabranch_connectors::format::json::JsonOptions;
use anabranch_model::Result;
use arrow::array::{AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use super::{Query, Table, column, resident};
use crate::answer::Answer;
use crate::contestant::{Contestant, RunResult, program};
use crate::workload::AdEvents;

pub(super) const SQL: &str = "
CREATE TABLE events (
  user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, event_time BIGINT,
  ip_address STRING, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'bench_events');
CREATE TABLE ads (ad_id STRING, campaign_id STRING) WITH ('connector' = 'bench_ads');
CREATE TABLE results (campaign_id STRING, window_start TIMESTAMP_LTZ(3), views BIGINT)
  WITH ('connector' = 'bench_results');
INSERT INTO results
SELECT a.campaign_id, window_start, COUNT(*) AS views
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) e JOIN ads a ON e.ad_id = a.ad_id
WHERE e.event_type = 'view'
GROUP BY a.campaign_id, window_start, window_end;";

/// Over JSON. The readers of each run divide the text into records, as the other programs do.
pub(crate) fn main_job(events: &Arc<AdEvents>, parallelism: u32) -> Result<Contestant> {
    let tables = json_tables(events, parallelism)?;
    let query = Query::new(SQL, tables.clone(), parallelism, &[])?;
    Ok(program(name("JSON", parallelism), move || result(query.run(tables.clone())?)))
}

/// Over columns.
pub(crate) fn typed(events: &Arc<AdEvents>, parallelism: u32) -> Result<Contestant> {
    let sql = SQL.replace("user_id STRING, page_id STRING, ", "").replace("ad_type STRING, ", "");
    let sql = sql.replace("ip_address STRING, ", "");
    let tables = vec![
        ("bench_events", Arc::new(MemorySource::batches(events.typed.clone()).partitions(parallelism)) as _),
        ads(events)?,
    ];
    let query = Query::new(&sql, tables.clone(), parallelism, &[])?;
    Ok(program(name("columns", parallelism), move || result(query.run(tables.clone())?)))
}

/// Resident memory for the main job, in addition to its input, in bytes.
pub(crate) fn memory(events: &Arc<AdEvents>, parallelism: u32) -> Result<u64> {
    let query = Query::new(SQL, json_tables(events, parallelism)?, parallelism, &[])?;
    resident::growth(&query, json_tables(events, parallelism)?)
}

fn name(what: &str, parallelism: u32) -> String {
    format!("engine: {what}, parallelism {parallelism}")
}

fn json_tables(events: &AdEvents, partitions: u32) -> Result<Vec<Table>> {
    let pieces = events.json.pieces(partitions as usize);
    let source = MemorySource::text(pieces, Format::Json(JsonOptions::default())).partitions(partitions);
    Ok(vec![("bench_events", Arc::new(source)), ads(events)?])
}

fn ads(events: &AdEvents) -> Result<Table> {
    let text = |name| Field::new(name, DataType::Utf8View, false);
    let ids = StringViewArray::from_iter_values(events.ads.iter().map(|ad| ad.id.as_str()));
    let campaigns = events.ads.iter().map(|ad| events.campaigns[ad.campaign as usize].as_str());
    let campaigns = StringViewArray::from_iter_values(campaigns);
    let schema = Arc::new(Schema::new(vec![text("ad_id"), text("campaign_id")]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(ids), Arc::new(campaigns)])?;
    Ok(("bench_ads", Arc::new(MemorySource::batches(vec![batch]))))
}

fn result((read, rows): (u64, Vec<RecordBatch>)) -> Result<RunResult> {
    let mut answer = Answer::default();
    for batch in &rows {
        let campaigns = column(batch, 0, &DataType::Utf8View)?;
        let (starts, views) = (column(batch, 1, &DataType::Int64)?, column(batch, 2, &DataType::Int64)?);
        let (campaigns, starts, views) =
            (campaigns.as_string_view(), starts.as_primitive::<Int64Type>(), views.as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            answer.add_views(campaigns.value(row), starts.value(row), views.value(row).cast_unsigned());
        }
    }
    Ok(RunResult { events: read, result_hash: Some(answer.hash()) })
}
