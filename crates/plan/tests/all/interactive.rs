//! Statements one by one, as an interactive session gives them.

use anabranch_dataflow::{ConnectorSpec, OnMalformed, Port, TableTraits};
use anabranch_model::Result;
use anabranch_plan::{
    COLLECT, Catalog, Outcome, PlanOptions, QueryPlan, Step, TableResolver, execute, plan_script, plan_steps,
    split_statements,
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

fn run(text: &str, catalog: &mut Catalog) -> Vec<Result<Outcome>> {
    let statements = split_statements(text).expect("statements");
    let options = PlanOptions::default();
    statements.iter().map(|s| execute(s, catalog, &Anything, &options, "result")).collect()
}

fn last(text: &str) -> Result<Outcome> {
    run(text, &mut Catalog::new()).pop().expect("a statement")
}

const CLICKS: &str = "CREATE TABLE clicks (id BIGINT, page STRING) WITH ('connector' = 'file');\n";

#[test]
fn a_select_is_collected_with_its_names_and_its_limit() {
    let outcome = last(&format!("{CLICKS} SELECT c.*, id + 1 FROM clicks c LIMIT 10 OFFSET 2")).expect("query");
    let Outcome::Query(query) = outcome else { panic!("{outcome:?}") };
    let QueryPlan { plan, schema, skip, limit, .. } = *query;
    assert_eq!((skip, limit), (2, Some(10)));
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names.len(), 3);
    assert_eq!(names[..2], ["id", "page"]);
    let sink = plan.stages.last().and_then(|s| s.sink.as_ref()).expect("sink");
    assert_eq!((sink.table.as_str(), sink.connector.connector.as_str()), ("result", COLLECT));
    assert_eq!(sink.schema, schema);
}

#[test]
fn columns_of_the_same_name_are_told_apart() {
    let outcome = last(&format!("{CLICKS} SELECT id, id, a.page, b.page FROM clicks a JOIN clicks b USING (id)"));
    let Outcome::Query(query) = outcome.expect("query") else { panic!("not a query") };
    let names: Vec<&str> = query.schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["id", "id0", "page", "page0"]);
    let outcome = last(&format!("{CLICKS} SELECT DISTINCT (id), ((page)) FROM clicks"));
    let Outcome::Query(query) = outcome.expect("query") else { panic!("not a query") };
    assert!(["id", "page"].iter().all(|name| query.schema.column_with_name(name).is_some()), "{:?}", query.schema);
}

#[test]
fn statements_change_the_catalog_and_say_so() {
    let mut catalog = Catalog::new();
    let outcomes = run(
        &format!(
            "{CLICKS} CREATE VIEW v (n) AS SELECT id FROM clicks; SHOW TABLES; DESCRIBE v; DROP TABLE clicks; SET 'parallelism' = '2'"
        ),
        &mut catalog,
    );
    let texts: Vec<String> = outcomes
        .into_iter()
        .map(|o| match o.expect("outcome") {
            Outcome::Done(text) | Outcome::Report(text) => text,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        texts,
        [
            "table clicks created",
            "view v created",
            "clicks (table)\nv (view)",
            "n  BIGINT",
            "table clicks dropped",
            "parallelism = 2"
        ]
    );
    assert_eq!(catalog.names().collect::<Vec<_>>(), [("v".to_owned(), "view")]);
}

#[test]
fn an_insert_is_a_job_of_its_own() {
    let outcome = last(&format!("{CLICKS} INSERT INTO clicks SELECT id * 2, page FROM clicks")).expect("insert");
    let Outcome::Insert(plan) = outcome else { panic!("{outcome:?}") };
    assert_eq!(plan.stages.len(), 1);
}

#[test]
fn errors_of_later_statements_name_the_line_of_the_text() {
    let mut catalog = Catalog::new();
    let outcomes = run(&format!("{CLICKS}\nSELECT\n  idd FROM clicks;\nSELECT id FROM nowhere"), &mut catalog);
    let errors: Vec<String> = outcomes.into_iter().filter_map(|o| o.err()).map(|e| e.to_string()).collect();
    assert!(errors[0].starts_with("line 4, column 3: there is no column 'idd'"), "{errors:?}");
    assert!(errors[1].starts_with("line 5, column 16: "), "{errors:?}");
}

#[test]
fn a_failed_statement_leaves_the_catalog_as_it_was() {
    let mut catalog = Catalog::new();
    let outcomes = run(&format!("{CLICKS} CREATE TABLE clicks (x INT) WITH ('connector' = 'file')"), &mut catalog);
    assert!(outcomes[1].is_err());
    let outcome = run("SELECT page FROM clicks", &mut catalog).pop().expect("one").expect("query");
    assert!(matches!(outcome, Outcome::Query(_)));
}

#[test]
fn options_of_the_caller_win_over_with_before_anything_is_planned() {
    let sql = "CREATE TABLE t (id BIGINT) WITH ('connector' = 'stream', 'on-malformed' = 'fail');
        CREATE TABLE u (id BIGINT) WITH ('connector' = 'stream');
        INSERT INTO u SELECT t.id FROM t JOIN u ON t.id = u.id";
    let plan_with = |overrides: &[(&str, &str, &str)]| {
        let mut options = PlanOptions { default_parallelism: 4, ..PlanOptions::default() };
        for (table, name, value) in overrides {
            let of_table = options.table_options.entry((*table).to_owned()).or_default();
            of_table.insert((*name).to_owned(), (*value).to_owned());
        }
        plan_script(sql, &mut Catalog::new(), &Anything, &options)
    };
    // A join of two streams becomes one of a stream and a file.
    let is_side =
        |plan: anabranch_plan::Planned| plan.plan.is_some_and(|plan| plan.exchanges.iter().any(|e| e.port.is_side()));
    assert!(!is_side(plan_with(&[]).expect("planned")));
    let overrides =
        [("u", "connector", "file"), ("t", "scan.parallelism", "2"), ("t", "on-malformed", "skip"), ("t", "x", "1")];
    assert!(is_side(plan_with(&overrides).expect("planned")));
    let plan = plan_with(&overrides).expect("planned").plan.expect("a job");
    let stage = plan.stages.iter().find(|s| s.source.as_ref().is_some_and(|s| s.table == "t")).expect("reads t");
    let source = stage.source.as_ref().expect("a source");
    assert_eq!((stage.parallelism, &source.on_malformed), (2, &OnMalformed::Skip));
    assert_eq!(source.connector.options.get("x").map(String::as_str), Some("1"));
    let error = plan_with(&[("u", "connector", "file"), ("w", "x", "1")]).expect_err("no such table").to_string();
    assert!(
        error.contains("table 'w', which the script does not declare") && error.contains("its tables are: t, u"),
        "{error}"
    );
}

#[test]
fn a_table_is_shown_as_the_statement_that_declares_it() {
    let sql =
        "CREATE TABLE o (id BIGINT NOT NULL, r ROW<x INT>, `a b` STRING, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3),
        WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'file', 'path' = 'it''s', 'properties.sasl.password' = 'hunter2');";
    let Outcome::Report(shown) = last(&format!("{sql} SHOW CREATE TABLE o")).expect("shown") else {
        panic!("no report")
    };
    assert!(shown.contains("`a b` STRING,") && shown.contains("'path' = 'it''s'"), "{shown}");
    assert!(shown.contains("'properties.sasl.password' = '***'") && !shown.contains("hunter2"), "{shown}");
    let again = last(&format!("{shown}; SHOW CREATE TABLE o")).expect("it can be read again");
    assert!(matches!(again, Outcome::Report(text) if text == shown));
}

fn report(text: &str, catalog: &mut Catalog) -> String {
    match run(text, catalog).pop().expect("a statement").expect("a report") {
        Outcome::Report(report) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_table_like_another_is_shown_with_what_it_has_of_it() {
    let sql = "CREATE TABLE a (id BIGINT, v INT, w AS v + 1, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'file', 'path' = 'a', 'token' = 'hunter2');
        CREATE TABLE b (x STRING, w AS v + 2) WITH ('path' = 'b')
        LIKE a (INCLUDING ALL EXCLUDING CONSTRAINTS OVERWRITING GENERATED OVERWRITING OPTIONS);";
    let shown = report(&format!("{sql} SHOW CREATE TABLE b;"), &mut Catalog::new());
    let expected = "CREATE TABLE `b` (\n  `id` BIGINT,\n  `v` INT,\n  `w` AS v + 2,\n  `ts` TIMESTAMP(3),\n  `x` STRING,\n  \
                    WATERMARK FOR `ts` AS ts\n) WITH (\n  'connector' = 'file',\n  'path' = 'b',\n  'token' = '***'\n)";
    assert_eq!(shown, expected);
}

#[test]
fn a_table_of_a_query_is_a_declaration_and_a_job() {
    let mut catalog = Catalog::new();
    let sql = format!(
        "{CLICKS} CREATE TABLE counts (twice AS n * 2, page VARCHAR(10), more INT, PRIMARY KEY (page) NOT ENFORCED)
         WITH ('connector' = 'file', 'password' = 'hunter2') AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;"
    );
    let outcome = run(&sql, &mut catalog).pop().expect("a statement").expect("a job");
    let Outcome::CreateAs { plan, declaration } = outcome else { panic!("{outcome:?}") };
    let sink = plan.stages.iter().find_map(|stage| stage.sink.as_ref()).expect("a sink");
    let names: Vec<&str> = sink.schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["more", "page", "n"], "columns that the query does not have come first");
    assert!(declaration.contains("hunter2"), "the coordinator's jobs need it");
    let shown = report("SHOW CREATE TABLE counts", &mut catalog);
    let again = declaration.replace("hunter2", "***").replace("OR REPLACE ", "");
    assert!(!shown.contains("hunter2") && again == shown, "{declaration}");
    let mut again = Catalog::new();
    run(&format!("{CLICKS} {declaration};"), &mut again).into_iter().for_each(|outcome| _ = outcome.expect("declared"));
    assert_eq!(report("DESCRIBE counts", &mut again), report("DESCRIBE counts", &mut catalog));
    let exists = run("CREATE TABLE IF NOT EXISTS counts WITH ('connector' = 'file') AS SELECT 1 AS x", &mut catalog);
    assert!(matches!(&exists[0], Ok(Outcome::Done(text)) if text == "table counts exists"), "{exists:?}");
}

/// The rows are those of the table that is replaced.
#[test]
fn a_table_may_be_replaced_by_what_it_has() {
    let mut catalog = Catalog::new();
    let sql =
        "CREATE TABLE t (a INT, `b c` ROW<`x y` INT, `order` STRING>) WITH ('connector' = 'file', 'path' = 'old');
        CREATE OR REPLACE TABLE t WITH ('connector' = 'file', 'path' = 'new') AS SELECT a + 1 AS next, `b c` FROM t;";
    let outcome = run(sql, &mut catalog).pop().expect("a statement").expect("a job");
    let Outcome::CreateAs { plan, declaration } = outcome else { panic!("{outcome:?}") };
    let source = plan.stages.iter().find_map(|stage| stage.source.as_ref()).expect("a source");
    let sink = plan.stages.iter().find_map(|stage| stage.sink.as_ref()).expect("a sink");
    let path = |of: &ConnectorSpec| of.options.get("path").cloned().expect("a path");
    assert_eq!((path(&source.connector).as_str(), path(&sink.connector).as_str()), ("old", "new"));
    let again = run(&format!("{declaration}; {declaration}; DESCRIBE t"), &mut catalog);
    assert!(again.iter().all(Result::is_ok), "{declaration}: {again:?}");
}

#[test]
fn a_table_of_a_query_that_cannot_run_is_not_declared() {
    let mut catalog = Catalog::new();
    let stream = "CREATE TABLE s (id BIGINT) WITH ('connector' = 'stream');";
    let updated = "AS SELECT id, COUNT(*) AS n FROM s GROUP BY id";
    let sql = format!("{stream} CREATE TABLE counts WITH ('connector' = 'stream') {updated};");
    let error = run(&sql, &mut catalog).pop().expect("a statement").expect_err("results are updated").to_string();
    assert!(error.contains("updated"), "{error}");
    assert_eq!(catalog.names().collect::<Vec<_>>(), [("s".to_owned(), "table")]);
    let sql = format!("CREATE OR REPLACE TABLE s WITH ('connector' = 'stream') {updated};");
    run(&sql, &mut catalog).pop().expect("a statement").expect_err("results are updated");
    assert!(report("DESCRIBE s", &mut catalog).starts_with("id  BIGINT\n"), "the former table is there");
}

#[test]
fn a_script_may_declare_a_table_of_a_query_and_read_it() {
    let sql = format!(
        "{CLICKS} CREATE TABLE ids WITH ('connector' = 'file') AS SELECT id FROM clicks;
         CREATE TABLE more WITH ('connector' = 'file') AS SELECT id + 1 AS next FROM ids;"
    );
    let planned = plan_script(&sql, &mut Catalog::new(), &Anything, &PlanOptions::default()).expect("planned");
    let sinks = planned.plan.expect("a job").stages.iter().filter(|stage| stage.sink.is_some()).count();
    assert_eq!(sinks, 2);
}

#[test]
fn options_are_reset_to_what_they_were_before_the_first_statement() {
    let mut catalog = Catalog::new();
    catalog.set("parallelism", "3", 128).expect("an option");
    catalog.fix("batch-rows", "7", 128).expect("an option");
    let mut values = |sql: &str| {
        let shown = report(&format!("{sql} SET;"), &mut catalog);
        let of = |name: &str| {
            let line = shown.lines().find(|line| line.starts_with(&format!("{name} = "))).expect("an option");
            line.split_once(" = ").expect("a value").1.to_owned()
        };
        [of("parallelism"), of("epoch-interval"), of("batch-rows"), of("table.exec.state.ttl")]
    };
    let first = values("");
    let set = "SET 'parallelism' = '5'; SET 'epoch-interval' = '7 ms'; SET 'batch-rows' = '9'; SET 'table.exec.state.ttl' = '1 h';";
    let all = values(set);
    assert_eq!((&all[..3], first[0].as_str()), (&["5".to_owned(), "7 ms".to_owned(), "7".to_owned()][..], "3"));
    let after = values("RESET 'parallelism.default'; RESET table.exec.state.ttl;");
    assert_eq!(after, [first[0].clone(), all[1].clone(), all[2].clone(), first[3].clone()]);
    assert_eq!(values("SET 'parallelism' = '2'; RESET;"), first);
    let set = "SET 'coordination-percent-max' = '90'; SET 'coordination-percent-min' = '80'; SET 'batch-rows' = '5';";
    let outcomes = run(&format!("{set} RESET 'coordination-percent-max'"), &mut catalog);
    assert!(outcomes.last().expect("one").is_err(), "it would be below the least");
    let shown = report("SET", &mut catalog);
    assert!(
        shown.contains("coordination-percent-max = 90") && shown.contains("coordination-percent-min = 80"),
        "{shown}"
    );
    run("SET 'coordination-percent-min' = '1'; RESET 'coordination-percent-max'", &mut catalog)
        .into_iter()
        .for_each(|outcome| _ = outcome.expect("the former least does not matter"));
    run("RESET 'execution.checkpointing.mode'", &mut catalog)
        .into_iter()
        .for_each(|outcome| _ = outcome.expect("known"));
    let error = last("RESET 'paralelism'").expect_err("unknown").to_string();
    assert!(error.contains("did you mean 'parallelism'"), "{error}");
}

#[test]
fn queries_that_differ_in_any_row_of_values_have_different_words() {
    let words = |last_row: u32| {
        let rows: Vec<String> = (0..9).map(|row| format!("({row}, 'a')")).collect();
        let sql = format!("{CLICKS} INSERT INTO clicks VALUES {}, ({last_row}, 'b')", rows.join(", "));
        let outcome = last(&sql).expect("insert");
        let Outcome::Insert(plan) = outcome else { panic!("{outcome:?}") };
        plan.stages.iter().filter_map(|stage| stage.query.clone()).collect::<Vec<_>>()
    };
    assert_eq!(words(1), words(1));
    assert_ne!(words(1), words(2));
}

/// The static side of a join is read again at every start: it would report its malformed records again.
#[test]
fn malformed_records_of_a_table_are_reported_by_a_reader_that_is_not_the_static_side_of_a_join() {
    let sql = "CREATE TABLE s (id BIGINT) WITH ('connector' = 'stream');
        CREATE TABLE names (id BIGINT, name STRING) WITH ('connector' = 'file', 'on-malformed' = 'skip');
        CREATE TABLE out1 (id BIGINT, name STRING) WITH ('connector' = 'stream');
        CREATE TABLE out2 (id BIGINT, name STRING) WITH ('connector' = 'stream');
        INSERT INTO out1 SELECT s.id, names.name FROM s JOIN names ON s.id = names.id;
        INSERT INTO out2 SELECT id, name FROM names;";
    let plan = plan_script(sql, &mut Catalog::new(), &Anything, &PlanOptions::default()).expect("planned");
    let plan = plan.plan.expect("a job");
    let readers = plan.stages.iter().filter(|stage| stage.source.as_ref().is_some_and(|s| s.table == "names"));
    let fates: Vec<_> = readers
        .map(|stage| {
            let is_static = plan.outputs(stage.id).any(|exchange| exchange.port != Port::Main);
            (is_static, stage.source.as_ref().expect("a source").on_malformed.clone())
        })
        .collect();
    assert_eq!(fates, [(true, OnMalformed::Leave), (false, OnMalformed::Skip)]);
}

/// The first changes are not the first rows.
#[test]
fn a_limit_of_results_that_are_updated_is_refused() {
    let sql = |limit: &str| {
        format!(
            "CREATE TABLE s (id BIGINT) WITH ('connector' = 'stream'); SELECT id, COUNT(*) FROM s GROUP BY id{limit};"
        )
    };
    assert!(matches!(last(&sql("")).expect("planned"), Outcome::Query(_)));
    let error = last(&sql(" LIMIT 3")).expect_err("refused").to_string();
    assert!(error.contains("LIMIT and OFFSET of results that are updated"), "{error}");
}

#[test]
fn what_there_is_is_shown_as_flink_asks_for_it() {
    let declared =
        format!("{CLICKS} CREATE VIEW v (n) AS SELECT id FROM clicks WHERE id > 1; CREATE VIEW w AS SELECT 1 AS a;");
    let shown = |sql: &str| report(&format!("{declared} {sql}"), &mut Catalog::new());
    for (sql, expected) in [
        ("SHOW TABLES", "clicks (table)\nv (view)\nw (view)"),
        ("SHOW TABLES LIKE 'c%'", "clicks (table)"),
        ("SHOW VIEWS", "v (view)\nw (view)"),
        ("SHOW VIEWS NOT ILIKE 'V'", "w (view)"),
        ("SHOW CATALOGS", "default_catalog"),
        ("SHOW CURRENT DATABASE", "default_database"),
        ("SHOW COLUMNS FROM w", "a  BIGINT NOT NULL"),
        ("DESCRIBE EXTENDED w", "a  BIGINT NOT NULL"),
        ("SHOW CREATE VIEW v", "CREATE VIEW v (n) AS SELECT id FROM clicks WHERE id > 1"),
    ] {
        assert_eq!(shown(sql), expected, "{sql}");
    }
    let again = format!("{CLICKS} {}; SHOW CREATE VIEW v", shown("SHOW CREATE VIEW v"));
    assert_eq!(report(&again, &mut Catalog::new()), shown("SHOW CREATE VIEW v"));
    assert!(shown("EXPLAIN CHANGELOG_MODE, ESTIMATED_COST SELECT a FROM w").starts_with("Logical plan"));
}

#[test]
fn tables_of_databases_are_shown_where_they_are() {
    let declared = format!(
        "{CLICKS} CREATE DATABASE shop; CREATE VIEW shop.v AS SELECT id FROM clicks; CREATE CATALOG c WITH ('type' = 'generic_in_memory');"
    );
    let shown = |sql: &str| report(&format!("{declared} {sql}"), &mut Catalog::new());
    for (sql, expected) in [
        ("SHOW TABLES", "clicks (table)"),
        ("SHOW TABLES FROM shop LIKE '%v%'", "v (view)"),
        ("USE shop; SHOW TABLES", "v (view)"),
        ("USE shop; SHOW VIEWS IN default_database", ""),
        ("USE shop; SHOW TABLES IN default_catalog.default_database", "clicks (table)"),
        ("SHOW DATABASES", "default_database\nshop"),
        ("SHOW CATALOGS", "c\ndefault_catalog"),
        ("USE shop; SHOW CURRENT DATABASE", "shop"),
        ("USE CATALOG c; SHOW CURRENT DATABASE", "default"),
        ("USE CATALOG c; SHOW DATABASES", "default"),
        ("USE CATALOG c; USE CATALOG default_catalog; SHOW CURRENT DATABASE", "default_database"),
        ("USE shop; USE CATALOG default_catalog; SHOW CURRENT DATABASE", "shop"),
        ("USE shop; DROP DATABASE shop CASCADE; SHOW CURRENT DATABASE", "none"),
        ("USE CATALOG c; DESCRIBE default_catalog.shop.v", "id  BIGINT"),
        ("USE shop; DROP VIEW v; SHOW TABLES", ""),
        ("CREATE DATABASE `my.db`; CREATE VIEW `my.db`.`x.y` AS SELECT 1 AS a; SHOW TABLES FROM `my.db`", "x.y (view)"),
        ("USE shop; CREATE VIEW `x.y` AS SELECT 1 AS a; SHOW TABLES", "v (view)\nx.y (view)"),
        (
            "CREATE DATABASE c; CREATE VIEW c.`default`.v AS SELECT 1 AS a; DROP DATABASE c; SHOW TABLES FROM c.`default`",
            "v (view)",
        ),
    ] {
        assert_eq!(shown(sql), expected, "{sql}");
    }
    let mut options = PlanOptions::default();
    options.table_options.entry("shop".into()).or_default().insert("t.topic".into(), "y".into());
    let sql = "CREATE DATABASE shop; CREATE TABLE shop.t (a INT) WITH ('connector' = 'kafka', 'topic' = 'x'); CREATE TABLE out (a INT) WITH ('connector' = 'print');
        INSERT INTO out SELECT a FROM shop.t";
    let planned = plan_script(sql, &mut Catalog::new(), &Anything, &options).expect("planned");
    let plan = planned.plan.expect("a job");
    let topics: Vec<&str> = plan
        .stages
        .iter()
        .filter_map(|stage| stage.source.as_ref())
        .map(|source| source.connector.options["topic"].as_str())
        .collect();
    assert_eq!(topics, ["y"]);
    options.table_options.entry("shop".into()).or_default().insert("u.topic".into(), "y".into());
    let refused = plan_script(sql, &mut Catalog::new(), &Anything, &options).expect_err("refused").to_string();
    assert!(refused.contains("table 'shop', which the script does not declare"), "{refused}");
}

/// What the steps of a file are.
fn steps(sql: &str) -> Result<Vec<String>> {
    let planned = plan_steps(&format!("{CLICKS}{sql}"), &mut Catalog::new(), &Anything, &PlanOptions::default())?;
    Ok(planned
        .steps
        .iter()
        .map(|step| match step {
            Step::Report(text) => text.clone(),
            Step::Job(job) => format!("{} inserts", job.functions.len()),
            Step::Query(query) => format!("query of line {}", query.place.0),
        })
        .collect())
}

#[test]
fn a_file_is_carried_out_in_the_order_of_its_statements() {
    const INSERT: &str = "INSERT INTO clicks SELECT id, page FROM clicks;\n";
    let sql =
        format!("{INSERT}SHOW VIEWS;\n{INSERT}SELECT id FROM clicks;\nSELECT page FROM clicks LIMIT 1;\n{INSERT}");
    let expected = ["", "2 inserts", "query of line 5", "query of line 6", "1 inserts"];
    assert_eq!(steps(&sql).expect("steps"), expected);
    assert_eq!(steps("SELECT id FROM clicks").expect("steps"), ["query of line 2"]);
    let error = steps(&format!("SELECT id FROM clicks;\n{INSERT}SELECT idd FROM clicks;")).expect_err("no column");
    assert!(error.to_string().starts_with("line 4, column 8: there is no column 'idd'"), "nothing runs: {error}");
}

#[test]
fn a_query_takes_no_checkpoints() {
    let sql = format!(
        "{CLICKS}SET 'checkpoint-directory' = '/tmp/x';\nINSERT INTO clicks SELECT id, page FROM clicks; SELECT id FROM clicks"
    );
    let planned = plan_steps(&sql, &mut Catalog::new(), &Anything, &PlanOptions::default()).expect("planned");
    let takes: Vec<bool> = planned
        .steps
        .iter()
        .map(|step| match step {
            Step::Job(job) => job.plan.options.checkpoints.is_some(),
            Step::Query(query) => query.query.plan.options.checkpoints.is_some(),
            Step::Report(text) => panic!("{text}"),
        })
        .collect();
    assert_eq!(takes, [true, false]);
}

/// The remedy of the notice is followed too.
#[test]
fn an_interval_of_checkpoints_without_a_directory_has_a_notice() {
    let interval = "SET 'execution.checkpointing.interval' = '10 s';\n";
    let job = format!(
        "{interval}{CLICKS} CREATE TABLE out (id BIGINT) WITH ('connector' = 'x');\nINSERT INTO out SELECT id FROM clicks;"
    );
    let notes =
        |text: &str| plan_script(text, &mut Catalog::new(), &Anything, &PlanOptions::default()).expect("a job").notes;
    assert!(notes(&job).iter().any(|note| note.contains("SET 'checkpoint-directory' = '/path'")), "{:?}", notes(&job));
    assert_eq!(notes(&format!("SET 'checkpoint-directory' = '/path';\n{job}")), Vec::<String>::new());
    assert_eq!(notes(&format!("{job}\nSET 'checkpoint-directory' = '/path';")).len(), 0);

    let note = last(interval).expect("set");
    assert!(matches!(&note, Outcome::Note(note) if note.contains("needs a directory")), "{note:?}");
    let set = last(&format!("SET 'checkpoint-directory' = '/path';\n{interval}")).expect("set");
    assert!(matches!(set, Outcome::Done(_)), "{set:?}");
}
