//! Arrays that a query makes are written to files and read back in each format.

use std::path::Path;

use crate::support::run;

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
