//! Grep as a user writes it.

use std::sync::Arc;

use anabranch_connectors::MemorySource;
use anabranch_connectors::format::Format;
use anabranch_model::Result;
use arrow::array::AsArray;
use arrow::datatypes::DataType;

use super::{Query, Table, column};
use crate::answer::Answer;
use crate::contestant::{Contestant, RunResult, program};
use crate::workload::{LogLines, PATTERN};

/// Lines that match. The readers of each run divide the text into records, as the other programs do.
pub(crate) fn grep(log: &Arc<LogLines>, parallelism: u32) -> Result<Contestant> {
    let query = Query::new(&sql(), tables(log, parallelism), parallelism, &[])?;
    let tables = tables(log, parallelism);
    Ok(program(format!("engine: SQL, parallelism {parallelism}"), move || {
        let (read, rows) = query.run(tables.clone())?;
        let mut answer = Answer::default();
        for batch in &rows {
            let lines = column(batch, 0, &DataType::Utf8View)?;
            // A record in memory keeps its newline.
            lines.as_string_view().iter().flatten().for_each(|line| answer.add_line(line.trim_end().as_bytes()));
        }
        Ok(RunResult { events: read, result_hash: Some(answer.hash()) })
    }))
}

pub(super) fn sql() -> String {
    format!(
        "CREATE TABLE events (line STRING) WITH ('connector' = 'bench_lines');
         CREATE TABLE results (line STRING) WITH ('connector' = 'bench_results');
         INSERT INTO results SELECT line FROM events WHERE line ~ '{PATTERN}';"
    )
}

fn tables(log: &LogLines, partitions: u32) -> Vec<Table> {
    let source = MemorySource::text(log.text.pieces(partitions as usize), Format::Raw(Default::default()))
        .partitions(partitions);
    vec![("bench_lines", Arc::new(source))]
}
