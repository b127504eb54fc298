//! The places in the text that operators come from, and that they are no part of a plan's identity.

use std::fs;
use std::path::Path;

use anabranch_dataflow::{Place, Plan, StageOrigin};
use anabranch_plan::{Catalog, PlanOptions, TextPart, TextParts, plan_script};

use crate::connectors::Connectors;

const TABLES: &str =
    "CREATE TABLE t (k BIGINT, s STRING, price BIGINT, ts TIMESTAMP(3), up AS UPPER(s), WATERMARK FOR ts AS ts)
WITH ('connector' = 'stream'); -- häufig, 𝄞
CREATE TABLE u (k BIGINT, name STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE x (k BIGINT) WITH ('connector' = 'stream');
CREATE TABLE r (a BIGINT, b BIGINT) WITH ('connector' = 'print');
CREATE TABLE texts (a STRING) WITH ('connector' = 'print');
";

fn plan(text: &str, parallelism: u32) -> Option<Plan> {
    let options = PlanOptions { parallelism: Some(parallelism), ..PlanOptions::default() };
    plan_script(text, &mut Catalog::new(), &Connectors, &options).unwrap_or_else(|error| panic!("{error}: {text}")).plan
}

fn cut(text: &str, TextPart { from, to }: TextPart) -> &str {
    let byte = |place: Place| {
        let line: usize = text.split_inclusive('\n').take(place.line as usize - 1).map(str::len).sum();
        line + text[line..].chars().take(place.column as usize - 1).map(char::len_utf8).sum::<usize>()
    };
    &text[byte(from)..byte(to)]
}

/// The parts of a text that the operators come from whose descriptions begin so. `source` and `sink` are
/// those of tables.
fn parts_of(text: &str, begin: &str) -> Vec<String> {
    let plan = plan(text, 1).expect("a job");
    let parts = TextParts::of(text);
    let mut found = Vec::new();
    for stage in &plan.stages {
        let StageOrigin { source, operators, sink } = &stage.origin;
        assert_eq!(operators.len(), stage.operators.len(), "{}", stage.name);
        let of_operators = stage.operators.iter().zip(operators);
        let of_operators = of_operators.filter(|(operator, _)| operator.to_string().starts_with(begin));
        let of_source = stage.source.iter().map(|_| source).filter(|_| begin == "source");
        let of_sink = stage.sink.iter().map(|_| sink).filter(|_| begin == "sink");
        for places in of_source.chain(of_operators.map(|(_, places)| places)).chain(of_sink) {
            found.extend(parts.around(places).into_iter().map(|part| cut(text, part).to_owned()));
        }
    }
    found
}

fn check(query: &str, expected: &[(&str, &[&str])]) {
    let text = format!("{TABLES}{query}");
    for (begin, parts) in expected {
        assert_eq!(parts_of(&text, begin), *parts, "{begin} of {query}:\n{}", plan(&text, 1).expect("a job"));
    }
}

#[test]
fn filters_and_projections_come_from_what_they_compute() {
    check(
        "INSERT INTO r SELECT k + 1, price FROM t AS e WHERE 5 < price AND s <> 'ä';",
        &[("source", &["t AS e"]), ("filter", &["5 < price AND s <> 'ä'"]), ("project", &["k + 1"]), ("sink", &["r"])],
    );
    check("INSERT INTO texts SELECT up FROM t;", &[("project", &["up AS UPPER(s)"])]);
    check(
        "INSERT INTO r SELECT a + 1, a FROM (SELECT k * 2 AS a FROM t) WHERE a > 1;",
        &[("filter", &["a > 1"]), ("source", &["t"])],
    );
}

#[test]
fn aggregates_come_from_their_keys_and_from_where_their_results_are_named() {
    check(
        "INSERT INTO r SELECT k, COUNT(*) FROM t GROUP BY k HAVING COUNT(*) > 3;",
        &[("updating aggregate", &["COUNT(*)", "k", "COUNT(*) > 3"]), ("filter", &["COUNT(*) > 3"])],
    );
    check(
        "INSERT INTO r (a) SELECT COUNT(*) AS n FROM t;",
        &[("updating aggregate", &["COUNT(*) AS n"]), ("source", &["t"])],
    );
    check("INSERT INTO r SELECT DISTINCT k, price FROM t;", &[("updating aggregate", &["k, price"])]);
    let tumble = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))";
    check(
        &format!("INSERT INTO r SELECT k, SUM(price) FROM {tumble} GROUP BY k, window_start, window_end;"),
        &[("Complete aggregate", &["SUM(price)", tumble, "k, window_start, window_end"]), ("source", &[tumble])],
    );
    check(
        "INSERT INTO r SELECT k, MAX(price) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), k;",
        &[("Complete aggregate", &["MAX(price)", "TUMBLE(ts, INTERVAL '1' MINUTE), k"])],
    );
}

#[test]
fn joins_come_from_their_conditions() {
    let bounds = "t.ts BETWEEN u.ts - INTERVAL '1' HOUR AND u.ts";
    check(
        &format!("INSERT INTO r SELECT t.k, u.k FROM t JOIN u ON t.k = u.k AND {bounds} WHERE u.name = 'x';"),
        &[("join", &[&format!("t.k = u.k AND {bounds}")]), ("filter", &["u.name = 'x'"]), ("source", &["t", "u"])],
    );
    check(
        "INSERT INTO r SELECT t.k, u.k FROM t, u WHERE t.k = u.k AND t.price > 1;",
        &[("join", &["t.k = u.k"]), ("filter", &["t.price > 1"])],
    );
    check("INSERT INTO r SELECT k, price FROM t JOIN u USING (k);", &[("join", &["(k)"])]);
    check(
        "INSERT INTO r SELECT t.k, u.k FROM t JOIN u ON t.k = u.k JOIN x ON t.k = x.k;",
        &[("join of 3 inputs", &["t.k = u.k", "t.k = x.k"])],
    );
    let subquery = "k IN (SELECT k FROM u WHERE name = 'y')";
    check(&format!("INSERT INTO r SELECT k, price FROM t WHERE {subquery} AND price > 2;"), &[("join", &[subquery])]);
}

#[test]
fn functions_over_rows_come_from_their_calls() {
    let sum = "SUM(price) OVER (PARTITION BY k ORDER BY ts)";
    check(&format!("INSERT INTO r SELECT k, {sum} FROM t;"), &[("over", &[sum])]);
    let number = "ROW_NUMBER() OVER (PARTITION BY k ORDER BY price DESC) AS n";
    check(
        &format!("INSERT INTO r SELECT k, n FROM (SELECT k, {number} FROM t) WHERE n <= 3;"),
        &[("first 3 by", &[number, "n <= 3"])],
    );
    check("INSERT INTO r SELECT k, price FROM t ORDER BY price DESC LIMIT 3;", &[("first 3 by", &["price DESC"])]);
}

#[test]
fn what_a_view_computes_comes_from_the_view() {
    let view = "CREATE VIEW v AS SELECT k, price * 2 AS twice FROM t WHERE price > 1;";
    check(
        &format!("{view}\nINSERT INTO r SELECT k, twice FROM v WHERE twice < 10;"),
        &[
            ("source", &["t"]),
            ("filter", &["price > 1", "twice < 10"]),
            ("project", &["price * 2 AS twice"]),
            ("sink", &["r"]),
        ],
    );
}

#[test]
fn branches_and_statements_are_apart() {
    check(
        "INSERT INTO r SELECT k, price + 1 FROM t UNION ALL SELECT k, 0 - k FROM u;",
        &[("project", &["price + 1", "0 - k"]), ("source", &["t", "u"])],
    );
    check(
        "INSERT INTO r SELECT k, price FROM t WHERE price > 1;
INSERT INTO texts SELECT s FROM t AS e WHERE price < 9;",
        &[("source", &["t", "t AS e"]), ("filter", &["price > 1", "price < 9"]), ("sink", &["r", "texts"])],
    );
}

/// Of a job that goes on with another plan, too.
#[test]
fn an_operator_keeps_its_places_when_stages_are_divided() {
    let text = format!(
        "{TABLES}INSERT INTO r SELECT t.k, u.k FROM t JOIN u ON t.k = u.k JOIN x ON t.k = x.k;
INSERT INTO r SELECT k, price FROM t WHERE price > 1;"
    );
    let plan = plan(&text, 2).expect("a job");
    let joins = plan.stages.iter().filter(|stage| stage.multi_join().is_some()).map(|stage| stage.id).collect();
    let shared = plan.shared_sources().map(|stage| stage.id).collect();
    for divided in [plan.with_joins_of_two(&joins), plan.with_own_sources(&shared), plan.with_equal_stages_once()] {
        assert_eq!(divided.text.0.as_deref(), Some(text.as_str()));
        for stage in &divided.stages {
            let StageOrigin { source, operators, .. } = &stage.origin;
            assert_eq!(operators.len(), stage.operators.len(), "{}", stage.name);
            assert!(stage.source.is_none() || !source.is_empty(), "{}", stage.name);
            let joins =
                stage.operators.iter().zip(operators).filter(|(operator, _)| operator.to_string().starts_with("join"));
            joins.for_each(|(operator, places)| assert!(!places.is_empty(), "{operator}"));
        }
    }
}

#[test]
fn where_a_plan_is_written_is_no_part_of_it() {
    let folder = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("tests/plans");
    let mut plans = 0;
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("readable");
        let Some(one) = plan(&text, 4) else { continue };
        let moved = |line: &str| match line.contains("--") {
            true => line.to_owned(),
            false => line.replace("SELECT ", "SELECT\n     ").replace(" FROM ", "\n\n FROM "),
        };
        let other: Vec<String> = text.lines().map(moved).collect();
        let other = plan(&format!("\n -- moved\n{}", other.join("\n")), 4).expect("the same job");
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "{}", path.display());
        assert_eq!(one, other, "{}", path.display());
        let json = serde_json::to_string(&one).expect("to JSON");
        assert_eq!(json, serde_json::to_string(&other).expect("to JSON"), "{}", path.display());
        for stage in &one.stages {
            assert_eq!(stage.origin.operators.len(), stage.operators.len(), "{}: {}", path.display(), stage.name);
        }
        plans += 1;
    }
    assert!(plans > 50, "{plans} plans");
}
