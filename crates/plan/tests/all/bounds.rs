//! Statements that are too large: each is planned or refused with its place, and none exhausts a stack.

use std::fmt::Write;

use anabranch_dataflow::{ConnectorSpec, TableTraits};
use anabranch_model::Result;
use anabranch_plan::{Catalog, PlanOptions, TableResolver, plan_script};
use arrow::datatypes::SchemaRef;

struct Anything;

impl TableResolver for Anything {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        Ok(TableTraits {
            bounded: true,
            readable: true,
            writable: true,
            max_readers: None,
            schema: None,
            ..TableTraits::default()
        })
    }
}

/// Plans a query over `t (n BIGINT, s STRING, place ROW<x INT, far ROW<y INT>>)` and gives the text of the
/// plan, or the error.
fn plan(query: &str) -> std::result::Result<String, String> {
    let sql = format!(
        "CREATE TABLE t (n BIGINT, s STRING, ts TIMESTAMP(3), place ROW<x INT, far ROW<y INT>>, WATERMARK FOR ts AS ts) \
         WITH ('connector' = 'any');\nCREATE TABLE r (v STRING) WITH ('connector' = 'any');\n{query};"
    );
    let planned = plan_script(&sql, &mut Catalog::new(), &Anything, &PlanOptions::default());
    planned.map(|planned| planned.plan.expect("a job").to_string()).map_err(|error| error.to_string())
}

fn chain(count: usize, operator: &str, operand: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, index| {
        let _ = write!(text, "{}{}", if index == 0 { "" } else { operator }, operand(index));
        text
    })
}

#[test]
fn long_chains_are_planned() {
    let differs = |index| format!("n <> {index}");
    for condition in [chain(800, " AND ", differs), chain(800, " OR ", |index| format!("n = {index} OR s = '{index}'"))]
    {
        plan(&format!("INSERT INTO r SELECT s FROM t WHERE {condition}")).expect("planned");
    }
    plan(&format!("INSERT INTO r SELECT {} FROM t", chain(500, " || ", |index| format!("s || '{index}'"))))
        .expect("planned");
}

#[test]
fn endless_chains_are_refused_with_their_place() {
    let one = |_| "n".to_string();
    for (query, expected) in [
        (chain(100_000, " AND ", |_| "n = 1".into()), "more than 4000 operands of AND, OR or ||"),
        (chain(100_000, " || ", one), "more than 4000 operands"),
        (chain(100_000, " + ", one), "an expression of more than 600 words and signs"),
        (chain(250, " + ", one), "an expression is nested more than 150 deep"),
        (format!("n{}", " IS NULL".repeat(100_000)), "an expression of more than 600 words and signs"),
        (format!("{}n{}", "(".repeat(10_000), ")".repeat(10_000)), "nested too deeply"),
        (format!("{} n", "NOT ".repeat(10_000)), "more than 600 words and signs"),
    ] {
        let error = plan(&format!("INSERT INTO r SELECT s FROM t WHERE {query}")).expect_err(expected);
        assert!(error.starts_with("line ") && error.contains(expected), "{error:.300}");
    }
    let error = plan(&format!("INSERT INTO r {}", chain(1000, " UNION ALL ", |_| "SELECT s FROM t".into())));
    assert!(error.expect_err("too many").contains("more than 200 set operations"));
}

#[test]
fn a_row_is_in_a_bounded_number_of_windows() {
    let query =
        "INSERT INTO r SELECT s FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.001' SECOND, INTERVAL '100' DAY))";
    let error = plan(query).expect_err("billions of windows");
    assert!(error.contains("a row is in 8640000000 windows"), "{error}");
}

#[test]
fn fields_of_rows_are_called_by_their_last_name() {
    let fields = "SELECT place.x, t.place.far.y, t.n FROM t";
    plan(&format!("INSERT INTO r SELECT CAST(x + y + n AS STRING) FROM ({fields}) WHERE y > 1")).expect("planned");
}

#[test]
fn timestamps_have_the_digits_that_they_are_declared_with() {
    for precision in [4, 12] {
        let error = plan(&format!("INSERT INTO r SELECT CAST(CAST(s AS TIMESTAMP({precision})) AS STRING) FROM t"));
        let error = error.expect_err("no such type");
        assert!(
            error.contains(&format!("a timestamp with {precision} digits of a second is not supported")),
            "{error}"
        );
    }
}

#[test]
fn tables_and_queries_of_too_many_columns_are_refused_with_their_place() {
    let error = plan(&format!("INSERT INTO r SELECT {} FROM t", chain(10_001, ", ", |i| format!("n + {i}"))));
    let error = error.expect_err("too many");
    assert!(error.starts_with("line 3, ") && error.contains("more than 10000 columns in one SELECT"), "{error:.300}");
    let columns = chain(10_001, ", ", |i| format!("c{i} BIGINT"));
    let error = plan(&format!("CREATE TABLE wide ({columns}) WITH ('connector' = 'any')")).expect_err("too many");
    assert!(error.starts_with("line 3, ") && error.contains("the table has more than 10000 columns"), "{error:.300}");
}

#[test]
fn what_is_missing_at_the_end_of_a_text_has_its_place() {
    for (query, column) in [("INSERT INTO r SELECT s FROM", 28), ("INSERT INTO r SELECT", 21), ("INSERT INTO", 12)] {
        let error = plan(query).expect_err("something is missing");
        assert!(error.starts_with(&format!("line 3, column {column}: ")), "{query}: {error}");
    }
}

/// The parser tries several meanings of a word or a parenthesis, one after the other, and so twice as many
/// with each level.
#[test]
fn an_error_within_many_levels_is_found_soon() {
    let nests = [
        ("NOT (", ")"),
        ("CAST(", " AS INT)"),
        ("CEIL(", ")"),
        ("EXTRACT(DAY FROM ", ")"),
        ("SUBSTRING(", " FROM 1)"),
        ("CASE WHEN ", " THEN 1 END"),
        ("INTERVAL ", " DAY"),
        ("POSITION('a' IN ", ")"),
        ("OVERLAY('a' PLACING ", " FROM 1)"),
        ("1 IN ((SELECT ", "))"),
    ];
    for (before, after) in nests {
        let nested = format!("{}1 1{}", before.repeat(40), after.repeat(40));
        let error = plan(&format!("INSERT INTO r SELECT {nested} FROM t")).expect_err("no expression");
        assert!(error.starts_with("line 3, column "), "{error:.300}");
    }
    let from = format!("{}t{}", "((SELECT * FROM ".repeat(40), ") AS a JOIN t AS b ON TRUE)".repeat(40));
    let error = plan(&format!("INSERT INTO r SELECT s FROM {from}")).expect_err("nested too deeply");
    assert!(error.starts_with("line 3, column "), "{error:.300}");
}
