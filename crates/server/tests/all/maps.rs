//! Maps that a query makes are written to files and read back; tables with maps are shown as they were
//! declared.

use std::path::Path;

use crate::support::run;
use anabranch_plan::split_statements;
use anabranch_server::{Engine, Reply, Session, Settings};

const COLUMNS: &str = "id BIGINT, numbers MAP<STRING, BIGINT>, nested MAP<STRING, MAP<STRING, INT>>, lists ARRAY<MAP<STRING, ARRAY<INT>>>";

fn table(name: &str, format: &str, more: &str, folder: &Path) -> String {
    let path = folder.join(format);
    format!(
        "CREATE TABLE {name} ({COLUMNS}{more}) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = '{format}');",
        path.display()
    )
}

#[test]
fn maps_of_a_query_are_written_and_read_back() {
    let folder = tempfile::tempdir().expect("folder");
    let json = table("lines", "json", "", folder.path());
    let parquet = table("files", "parquet", ", by_number MAP<INT, STRING>", folder.path());
    run(&format!(
        "{json} INSERT INTO lines
         SELECT id, STR_TO_NUMBERS, MAP['in', MAP['x', CAST(id AS INT)], 'none', CAST(NULL AS MAP<STRING, INT>)],
             ARRAY[MAP['a', ARRAY[1, NULL]], NULL]
         FROM (SELECT id, CAST(STR_TO_MAP(t) AS MAP<STRING, BIGINT>) AS STR_TO_NUMBERS FROM (VALUES (1, 'a=1,b=2'), (2, ''), (3, NULL)) AS v (id, t)) AS w;"
    ));
    run(&format!(
        "{json} {parquet} INSERT INTO files
         SELECT id, MAP_UNION(numbers, MAP['b', id]), nested, lists, MAP[7, CAST(id AS STRING)] FROM lines;"
    ));
    let rows = run(&format!(
        "{parquet} CREATE TABLE rows (id BIGINT, numbers MAP<STRING, BIGINT>, x INT, lists ARRAY<MAP<STRING, ARRAY<INT>>>, seven STRING, texts MAP<STRING, STRING>)
         WITH ('connector' = 'collect');
         INSERT INTO rows SELECT id, numbers, nested['in']['x'], lists, by_number[7], CAST(numbers AS MAP<STRING, STRING>) FROM files
         WHERE nested['none'] IS NULL AND CARDINALITY(nested) = 2;"
    ));
    assert_eq!(
        rows,
        [
            "1 | {b: 1, a: 1} | 1 | [{a: [1, ]}, ] | 1 | {b: 1, a: 1}",
            "2 | {b: 2} | 2 | [{a: [1, ]}, ] | 2 | {b: 2}",
            "3 |  | 3 | [{a: [1, ]}, ] | 3 | "
        ]
    );
}

#[test]
fn maps_of_constant_rows_have_one_type() {
    let rows = run("CREATE TABLE rows (id BIGINT, m MAP<STRING, DECIMAL(12, 1)>) WITH ('connector' = 'collect');
         INSERT INTO rows VALUES (1, MAP['a', 1]), (2, MAP['b', 2, 'b', 3]), (3, NULL);");
    assert_eq!(rows, ["1 | {a: 1.0}", "2 | {b: 3.0}", "3 | "]);
}

#[test]
fn a_table_with_maps_is_shown_as_it_was_declared() {
    let mut session = Session::new(Engine::default(), &Settings::default()).expect("a session");
    let mut execute = |sql: &str| {
        let statements = split_statements(sql).expect("statements");
        match session.execute(&statements[0]).expect("a reply") {
            Reply::Done(text) | Reply::Note(text) | Reply::Report(text) => text,
            Reply::Job(_) | Reply::Query(_) => panic!("{sql} runs"),
        }
    };
    let declared = "CREATE TABLE `t` (\n  `id` BIGINT,\n  `m` MAP<STRING, ARRAY<MAP<INT, DOUBLE>>>,\n  \
         `n` AS MAP ['id', id, 'two', 2],\n  `o` AS CAST(`m` AS MAP<STRING, ARRAY<MAP<INT, FLOAT>>>)\n) WITH (\n  'connector' = 'print'\n)";
    execute(declared);
    assert_eq!(execute("SHOW CREATE TABLE t"), declared);
    assert!(execute("DESCRIBE t").contains("MAP<STRING, ARRAY<MAP<INT, DOUBLE>>>"));
}
