//! The records of the shapes, in a topic of a broker.

use std::sync::Arc;

use anabranch_connectors::MemorySource;
use anabranch_connectors::format::Format;
use anabranch_connectors::format::json::JsonOptions;
use anabranch_model::Result;

use super::shapes::{SQL, answer};
use super::{Query, Table, resident};
use crate::contestant::{Contestant, RunResult, program};
use crate::workload::Lines;

const MEMORY: &str = "'connector' = 'bench_events'";

const DROPPED: &str = "
CREATE TABLE events (
  id BIGINT, user_id STRING, page STRING, kind STRING, price DOUBLE, `time` BIGINT, session STRING
) WITH ('connector' = 'bench_events');
CREATE TABLE dropped (id BIGINT, page STRING, kind STRING, price DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO dropped SELECT id, page, kind, price FROM events;";

/// A topic with the records of a workload.
pub(crate) struct Topic {
    servers: String,
    name: String,
}

impl Topic {
    /// Writes records into a new topic.
    pub(crate) fn fill(servers: &str, name: &str, partitions: u32, lines: &Lines) -> Result<Topic> {
        let topic = Topic { servers: servers.to_owned(), name: name.to_owned() };
        let sql = format!(
            "CREATE TABLE lines (line STRING) WITH ('connector' = 'bench_lines');
             CREATE TABLE topic (line STRING) WITH ({}, 'format' = 'raw', 'sink.topic.partitions' = '{partitions}');
             INSERT INTO topic SELECT line FROM lines;",
            topic.options()
        );
        let source = MemorySource::text(lines.pieces(1), Format::Raw(Default::default()));
        let tables: Vec<Table> = vec![("bench_lines", Arc::new(source))];
        Query::new(&sql, tables.clone(), 1, &[])?.run(tables)?;
        Ok(topic)
    }

    fn options(&self) -> String {
        format!("'connector' = 'kafka', 'topic' = '{}', 'properties.bootstrap.servers' = '{}'", self.name, self.servers)
    }

    /// A query of this module over the topic instead of memory.
    fn sql(&self, sql: &str) -> String {
        let options = format!("{}, 'format' = 'json', 'scan.bounded.mode' = 'latest-offset'", self.options());
        sql.replace(MEMORY, &options)
    }

    /// Reads the fields of all records and drops them.
    pub(crate) fn dropped(&self) -> Result<Contestant> {
        dropped("engine: Kafka to blackhole", &self.sql(DROPPED), Vec::new())
    }

    /// Counts and largest values per page, kind and window.
    pub(crate) fn windowed(&self) -> Result<Contestant> {
        let query = Query::new(&self.sql(SQL), Vec::new(), 1, &[])?;
        Ok(program("engine: Kafka, windowed aggregate", move || answer(&query, Vec::new())))
    }

    /// Resident memory that the windowed aggregate needs while it reads a backlog with all defaults.
    pub(crate) fn memory(&self, parallelism: u32) -> Result<u64> {
        resident::growth(&Query::new(&self.sql(SQL), Vec::new(), parallelism, &[])?, Vec::new())
    }
}

/// The same as [`Topic::dropped`], from memory.
pub(crate) fn dropped_from_memory(lines: &Lines) -> Result<Contestant> {
    let source = MemorySource::text(lines.pieces(1), Format::Json(JsonOptions::default()));
    dropped("engine: memory to blackhole", DROPPED, vec![("bench_events", Arc::new(source))])
}

fn dropped(name: &str, sql: &str, tables: Vec<Table>) -> Result<Contestant> {
    let query = Query::new(sql, tables.clone(), 1, &[])?;
    Ok(program(name, move || Ok(RunResult { events: query.run(tables.clone())?.0, result_hash: None })))
}
