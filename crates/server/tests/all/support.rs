//! What several tests of the engine need.

use std::sync::Arc;

use anabranch_connectors::MemorySink;
use anabranch_server::{Engine, Settings};
use arrow::util::display::array_value_to_string;

/// Runs a script; the rows of its tables of the connector `collect`, sorted.
pub(crate) fn run(sql: &str) -> Vec<String> {
    let mut engine = Engine::default();
    let (sink, batches) = MemorySink::collected();
    engine.register("collect", Arc::new(sink));
    let settings = Settings { parallelism: Some(1), ..Settings::default() };
    engine.run(sql, &settings).expect("it starts").wait().expect("it ends");
    let mut rows = Vec::new();
    for batch in batches.lock().expect("no panic").iter() {
        let cell = |column, row| array_value_to_string(column, row).expect("shown");
        let line = |row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" | ");
        rows.extend((0..batch.num_rows()).map(line));
    }
    rows.sort();
    rows
}
