//! Arrays that a query makes are written to files and read back in each format.

use std::path::Path;
use std::sync::Arc;

use anabranch_connectors::MemorySink;
use anabranch_server::{Engine, Settings};
use arrow::util::display::array_value_to_string;

/// Runs a script; the rows of its tables of the connector `collect`, sorted.
fn run(sql: &str) -> Vec<String> {
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

fn table(name: &str, format: &str, folder: &Path) -> String {
    format!(
        "CREATE TABLE {name} (id BIGINT, numbers ARRAY<BIGINT>, texts ARRAY<STRING>, nested ARRAY<ARRAY<BIGINT>>)
         WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = '{format}');",
        folder.join(format).display()
    )
}

#[test]
fn arrays_of_a_query_are_written_and_read_back() {
    let folder = tempfile::tempdir().expect("folder");
    let (json, parquet) = (table("lines", "json", folder.path()), table("files", "parquet", folder.path()));
    run(&format!(
        "{json} INSERT INTO lines
         SELECT id, ARRAY[id, NULL, 7], SPLIT(t, ','), ARRAY[ARRAY[id], ARRAY_REMOVE(ARRAY[id], id), NULL]
         FROM (VALUES (1, 'a,b'), (2, ''), (3, NULL)) AS v (id, t);"
    ));
    run(&format!("{json} {parquet} INSERT INTO files SELECT id, ARRAY_REVERSE(numbers), texts, nested FROM lines;"));
    let rows = run(&format!(
        "{parquet} CREATE TABLE rows (id BIGINT, numbers ARRAY<BIGINT>, second STRING, nested ARRAY<ARRAY<BIGINT>>, n INT)
         WITH ('connector' = 'collect');
         INSERT INTO rows SELECT id, numbers, texts[2], nested, CARDINALITY(texts) FROM files
         WHERE ARRAY_CONTAINS(numbers, 7) AND CARDINALITY(nested) = 3;"
    ));
    assert_eq!(
        rows,
        ["1 | [7, , 1] | b | [[1], [], ] | 2", "2 | [7, , 2] |  | [[2], [], ] | 0", "3 | [7, , 3] |  | [[3], [], ] | "]
    );
}
