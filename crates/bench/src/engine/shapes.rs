//! Records of many shapes as a user reads them.

use std::sync::Arc;

use anabranch_connectors::MemorySource;
use anabranch_connectors::format::Format;
use anabranch_connectors::format::csv::CsvOptions;
use anabranch_connectors::format::json::JsonOptions;
use anabranch_model::Result;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type};

use super::{Query, Table, column};
use crate::answer::{Aggregates, Answer};
use crate::contestant::{Contestant, RunResult, program};
use crate::workload::{Lines, Shape};

pub(super) const SQL: &str = "
CREATE TABLE events (
  id BIGINT, user_id STRING, page STRING, kind STRING, price DOUBLE, `time` BIGINT, session STRING,
  ts AS TO_TIMESTAMP_LTZ(`time`, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'bench_events');
CREATE TABLE results (
  page STRING, kind STRING, window_start TIMESTAMP_LTZ(3), events BIGINT, id_max BIGINT, price_max DOUBLE
) WITH ('connector' = 'bench_results');
INSERT INTO results
SELECT page, kind, window_start, COUNT(*), MAX(id), MAX(price)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY page, kind, window_start, window_end;";

/// Counts and largest values per page, kind and window. The readers of each run divide the text into records,
/// as the other programs do.
pub(crate) fn shapes(shape: Shape, lines: &Lines) -> Result<Contestant> {
    let format = match shape.is_csv() {
        true => Format::Csv(CsvOptions::default()),
        false => Format::Json(JsonOptions::default()),
    };
    let source = MemorySource::text(lines.pieces(1), format);
    let tables: Vec<Table> = vec![("bench_events", Arc::new(source))];
    let query = Query::new(SQL, tables.clone(), 1, &[])?;
    Ok(program("engine: SQL, parallelism 1", move || answer(&query, tables.clone())))
}

/// Runs the query, and reads its answer.
pub(super) fn answer(query: &Query, tables: Vec<Table>) -> Result<RunResult> {
    let (read, rows) = query.run(tables)?;
    let mut answer = Answer::default();
    for batch in &rows {
        let texts = [column(batch, 0, &DataType::Utf8View)?, column(batch, 1, &DataType::Utf8View)?];
        let [pages, kinds] = [texts[0].as_string_view(), texts[1].as_string_view()];
        let numbers = [2, 3, 4].map(|index| column(batch, index, &DataType::Int64));
        let [starts, counts, ids] = numbers;
        let (starts, counts, ids) = (starts?, counts?, ids?);
        let prices = column(batch, 5, &DataType::Float64)?;
        let [starts, counts, ids] = [&starts, &counts, &ids].map(|array| array.as_primitive::<Int64Type>());
        let prices = prices.as_primitive::<Float64Type>();
        for row in 0..batch.num_rows() {
            let price_max = prices.is_valid(row).then(|| prices.value(row));
            let aggregates = Aggregates { count: counts.value(row).cast_unsigned(), id_max: ids.value(row), price_max };
            answer.add_group(pages.value(row), kinds.value(row), starts.value(row), aggregates);
        }
    }
    Ok(RunResult { events: read, result_hash: Some(answer.hash()) })
}
