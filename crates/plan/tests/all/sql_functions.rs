//! Declared functions: what a session keeps of them, what a plan says of them, and their limits.

use std::fmt::Write;

use anabranch_dataflow::{ConnectorSpec, TableTraits};
use anabranch_model::Result;
use anabranch_plan::{
    Catalog, FunctionChanges, Outcome, PlanOptions, Planned, TableResolver, execute, plan_script, split_statements,
};
use arrow::datatypes::SchemaRef;

/// Every table can be read and written; `file` ends.
struct Anything;

impl TableResolver for Anything {
    fn describe(&self, spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        let bounded = spec.connector == "file";
        Ok(TableTraits {
            bounded,
            readable: true,
            writable: true,
            max_readers: None,
            schema: None,
            ..TableTraits::default()
        })
    }
}

const TABLES: &str =
    "CREATE TABLE t (n BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
CREATE TABLE r (n BIGINT) WITH ('connector' = 'stream');\n";

fn plan(text: &str) -> std::result::Result<Planned, String> {
    let options = PlanOptions { parallelism: Some(2), ..PlanOptions::default() };
    plan_script(&format!("{TABLES}{text}"), &mut Catalog::new(), &Anything, &options).map_err(|e| e.to_string())
}

fn run(text: &str, catalog: &mut Catalog) -> Vec<std::result::Result<String, String>> {
    let statements = split_statements(text).expect("statements");
    let one = |statement| match execute(statement, catalog, &Anything, &PlanOptions::default(), "result") {
        Ok(Outcome::Done(text) | Outcome::Report(text) | Outcome::Note(text)) => Ok(text),
        Ok(Outcome::Insert(plan) | Outcome::CreateAs { plan, .. }) => Ok(plan.to_string()),
        Ok(Outcome::Query(query)) => Ok(query.plan.to_string()),
        Err(error) => Err(error.to_string()),
    };
    statements.iter().map(one).collect()
}

#[test]
fn a_session_keeps_functions_until_they_are_dropped() {
    let mut catalog = Catalog::new();
    let replies = run(
        &format!(
            "{TABLES} CREATE FUNCTION Next(x BIGINT) RETURNS BIGINT RETURN x + 1001;
             SELECT next(n) FROM t;
             CREATE OR REPLACE FUNCTION next(x BIGINT) RETURNS BIGINT RETURN x + y;
             SELECT next(n) FROM t;
             CREATE OR REPLACE FUNCTION next(x BIGINT) RETURNS BIGINT RETURN x + 1002;
             CREATE FUNCTION IF NOT EXISTS next(x STRING) RETURNS STRING RETURN x;
             SELECT NEXT(n) FROM t;
             DROP FUNCTION next;
             SELECT next(n) FROM t;
             DROP FUNCTION IF EXISTS next"
        ),
        &mut catalog,
    );
    assert_eq!(replies[2], Ok("function Next created".into()));
    assert!(replies[3].as_ref().is_ok_and(|plan| plan.contains("1001")), "{:?}", replies[3]);
    assert!(replies[4].as_ref().is_err_and(|e| e.contains("'y' is not a parameter of function next")));
    assert_eq!(replies[5], replies[3], "a failed statement leaves the function as it was");
    assert_eq!(replies[7], Ok("function next exists".into()));
    assert!(replies[8].as_ref().is_ok_and(|plan| plan.contains("1002") && !plan.contains("1001")));
    assert_eq!(replies[9], Ok("function next dropped".into()));
    assert!(replies[10].as_ref().is_err_and(|e| e.contains("unknown function NEXT")), "{:?}", replies[10]);
    assert_eq!(replies[11], Ok("there is no function next".into()));
}

#[test]
fn functions_are_among_the_names_that_a_session_offers() {
    let mut catalog = Catalog::new();
    run("CREATE FUNCTION Zigzag(x BIGINT) RETURNS BIGINT RETURN x", &mut catalog);
    assert!(catalog.function_names().contains(&"zigzag".to_owned()));
    let reply = run("SHOW FUNCTIONS", &mut catalog).remove(0).expect("a list");
    assert!(reply.lines().any(|line| line == "zigzag") && reply.lines().any(|line| line == "upper"));
}

/// A changed body changes nothing but expressions: stages, names and types stay, so a job can be changed to
/// it.
#[test]
fn another_body_gives_the_same_plan_with_another_expression() {
    let script = |number: u32| {
        format!(
            "CREATE FUNCTION f(x BIGINT) RETURNS BIGINT RETURN x + {number};
             CREATE FUNCTION g(x BIGINT) RETURNS BIGINT RETURN f(x) % 10;
             CREATE VIEW v AS SELECT ts, f(n) FROM t;
             INSERT INTO r SELECT f(MAX(g(n))) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
             WHERE f(n) > 0 GROUP BY g(n), window_start, window_end;
             INSERT INTO r SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
             GROUP BY window_start, window_end, `f(n)`"
        )
    };
    let text = |number| serde_json::to_string(&plan(&script(number)).expect("planned").plan).expect("JSON");
    let (first, second) = (text(1001), text(2002));
    assert!(first.contains("1001") && second.contains("2002"));
    assert_eq!(first.replace("1001", "2002"), second);
}

#[test]
fn a_plan_names_the_functions_of_each_insert() {
    let planned = plan(
        "CREATE FUNCTION f(x BIGINT) RETURNS BIGINT RETURN x + 1;
         CREATE FUNCTION unused(x BIGINT) RETURNS BIGINT RETURN x;
         CREATE FUNCTION g(x BIGINT) RETURNS BIGINT RETURN f(x) * 2;
         CREATE VIEW v AS SELECT g(n) AS n FROM t;
         CREATE TABLE c (n BIGINT, m AS f(n)) WITH ('connector' = 'file');
         CREATE OR REPLACE FUNCTION f(x BIGINT) RETURNS BIGINT RETURN x + 3;
         INSERT INTO r SELECT n FROM t;
         INSERT INTO r SELECT n FROM v;
         INSERT INTO r SELECT f(m) FROM c;
         INSERT INTO r SELECT n FROM t WHERE n IN (SELECT unused(n) FROM c)",
    )
    .expect("planned");
    let names: Vec<Vec<(&str, bool)>> = planned
        .functions
        .iter()
        .map(|all| all.iter().map(|f| (f.name.as_str(), f.text.ends_with("RETURN x + 1"))).collect())
        .collect();
    let expected: Vec<Vec<(&str, bool)>> = vec![
        vec![],
        vec![("f", true), ("g", false)],
        vec![("f", true), ("f", false)],
        vec![("f", true), ("unused", false)],
    ];
    assert_eq!(names, expected);
    let text = &planned.functions[1].iter().next().expect("f").text;
    assert_eq!(text, "CREATE FUNCTION f(x BIGINT) RETURNS BIGINT RETURN x + 1");
}

#[test]
fn an_argument_that_differs_at_each_evaluation_is_named_once() {
    let functions = "CREATE FUNCTION once(x DOUBLE) RETURNS BIGINT RETURN CAST(x * 10 AS BIGINT);
         CREATE FUNCTION never(x DOUBLE) RETURNS BIGINT RETURN 1;
         CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN x + x;
         CREATE FUNCTION drawn() RETURNS DOUBLE RETURN RANDOM();\n";
    for query in ["once(RANDOM())", "never(RANDOM())", "twice(n)", "once(drawn())", "once(drawn()) + once(drawn())"] {
        plan(&format!("{functions} INSERT INTO r SELECT {query} FROM t")).unwrap_or_else(|e| panic!("{query}: {e}"));
    }
    for query in ["twice(once(RANDOM()))", "twice(once(drawn()))", "once(twice(n + CAST(RANDOM() AS BIGINT)))"] {
        let error = plan(&format!("{functions} INSERT INTO r SELECT {query} FROM t")).expect_err(query);
        assert!(error.starts_with("line 7, ") && error.contains("has another value at each evaluation"), "{error}");
    }
}

#[test]
fn functions_that_become_too_large_are_refused() {
    let mut doubling = "CREATE FUNCTION f0(x BIGINT) RETURNS BIGINT RETURN x + x;\n".to_owned();
    for i in 1..40 {
        let _ =
            writeln!(doubling, "CREATE FUNCTION f{i}(x BIGINT) RETURNS BIGINT RETURN f{}(x) + f{}(x);", i - 1, i - 1);
    }
    let error = plan(&doubling).expect_err("2^40 operands");
    assert!(error.starts_with("line ") && error.contains("become more than 50000 expressions"), "{error}");
    let nested = format!("{}n{}", "f0(".repeat(40), ")".repeat(40));
    let first = doubling.lines().next().expect("f0");
    let error = plan(&format!("{first} INSERT INTO r SELECT {nested} FROM t")).expect_err("2^40 operands");
    assert!(error.contains("become more than 50000 expressions"), "{error}");
    let sum = |of: &str, count: usize| (0..count).fold(of.to_owned(), |text, i| format!("{text} + {i}"));
    let deep = format!("CREATE FUNCTION deep(x BIGINT) RETURNS BIGINT RETURN {};", sum("x", 100));
    let error = plan(&format!("{deep} INSERT INTO r SELECT deep(deep(n)) FROM t")).expect_err("200 deep");
    assert!(error.contains("nested more than 150 deep, with the functions that it calls"), "{error}");
    plan(&format!("{deep} INSERT INTO r SELECT deep(n) FROM t")).expect("100 deep");
}

#[test]
fn names_of_sql_are_taken() {
    let others = ["hop", "make_array", "string_agg", "distinct", "Rank", "row_number"];
    let documented = anabranch_functions::catalog().iter().flat_map(|of| of.names());
    for name in documented.filter(|name| !name.contains(' ')).chain(others) {
        let error = plan(&format!("CREATE FUNCTION `{name}`(x BIGINT) RETURNS BIGINT RETURN x")).expect_err(name);
        assert!(error.starts_with("line 3, column 17: ") && error.contains("is a built-in function"), "{error}");
        let error = plan(&format!("DROP FUNCTION `{name}`")).expect_err(name);
        assert!(error.contains("is a built-in function"), "{error}");
    }
}

fn changes(text: &str) -> FunctionChanges {
    FunctionChanges::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_changed_function_stands_where_the_former_one_stood() {
    let script = "-- ä; first
CREATE FUNCTION IF NOT EXISTS Net(x BIGINT) RETURNS BIGINT
  RETURN x + 1; CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN net(x) + net(x) /* ; */;
INSERT INTO r SELECT twice(n) FROM t; -- net(x)";
    let new = changes(
        "-- of today
CREATE OR REPLACE TEMPORARY FUNCTION half(x BIGINT) RETURNS BIGINT RETURN x / 2;
CREATE OR REPLACE FUNCTION net(y BIGINT) RETURNS BIGINT RETURN half(y) + 1000; -- the end
CREATE OR REPLACE FUNCTION later(x BIGINT) RETURNS BIGINT RETURN x",
    );
    let changed = new.applied_to(script).expect("a script");
    let expected = "-- ä; first
CREATE OR REPLACE TEMPORARY FUNCTION half(x BIGINT) RETURNS BIGINT RETURN x / 2;
CREATE OR REPLACE FUNCTION net(y BIGINT) RETURNS BIGINT RETURN half(y) + 1000; CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN net(x) + net(x) /* ; */;
INSERT INTO r SELECT twice(n) FROM t; -- net(x)";
    assert_eq!(changed, expected);
    let planned = plan(&changed).expect("a plan");
    assert_eq!(new.used_by(&planned), ["half", "net"]);
    assert!(planned.logical.to_string().contains("1000"), "{}", planned.logical);
    assert_eq!(new.used_by(&plan(script).expect("a plan")), ["net"]);
    let unused =
        plan("CREATE FUNCTION net(x BIGINT) RETURNS BIGINT RETURN x; INSERT INTO r SELECT n FROM t").expect("one");
    assert!(new.used_by(&unused).is_empty());
    let both = changes(
        "CREATE OR REPLACE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN 2 * net(x);
        CREATE OR REPLACE FUNCTION net(x BIGINT) RETURNS BIGINT RETURN x;",
    );
    let changed = both.applied_to(script).expect("a script");
    assert!(changed.find("FUNCTION net") < changed.find("2 * net"), "in the order of the script: {changed}");
    let dropped = changes("DROP FUNCTION IF EXISTS NET");
    assert_eq!((dropped.used_by(&planned), dropped.dropped().collect::<Vec<_>>()), (vec!["NET"], vec!["NET"]));
}

#[test]
fn a_change_of_functions_that_is_none_is_refused() {
    let f = "CREATE OR REPLACE FUNCTION f(x BIGINT) RETURNS BIGINT RETURN x;";
    for (text, why) in [
        (" ", "there is no statement that changes a function"),
        (
            "CREATE FUNCTION f(x BIGINT) RETURNS BIGINT RETURN x",
            "line 1, column 1: a function of running jobs is replaced",
        ),
        (&format!("{f}\nINSERT INTO r SELECT 1")[..], "line 2, column 1: only functions can be changed"),
        (&format!("{f}\nDROP TABLE r"), "line 2, column 1: only functions can be changed"),
        (&format!("{f}\nDROP FUNCTION F"), "line 2, column 15: function F is named twice"),
        ("CREATE OR REPLACE FUNCTION f(x BIGINT) RETURNS BIGINT 7", "line 1, column 55: syntax error"),
    ] {
        let error = FunctionChanges::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(why), "{text}: {error}");
    }
    let script = format!("{f}\nINSERT INTO r SELECT f(n) FROM t;\n{f}");
    let error = changes(f).applied_to(&script).expect_err("two declarations").to_string();
    assert!(error.starts_with("line 3, column 1: the statements declare function f more than once"), "{error}");
}
