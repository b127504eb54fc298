//! The shell on a real terminal: a person pastes, types ahead, completes names, makes mistakes, watches
//! results, and leaves. And the shell without one.

use std::process::{Command, Output, Stdio};

use super::terminal::Terminal;

const EVENTS: &str = "CREATE TABLE events WITH ('connector' = 'ad_events', 'rows-per-second' = '1000');\n";
/// As a terminal sends what is pasted.
const PASTE: (&str, &str) = ("\x1b[200~", "\x1b[201~");

#[test]
fn every_pasted_statement_runs() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    let tables = (1..=8).map(|n| format!("CREATE TABLE pasted{n} WITH ('connector' = 'ad_campaigns');\n"));
    terminal.type_keys(&(tables.collect::<String>() + "SHOW TABLES;\nexit\n"));
    let seen = terminal.wait_for_end();
    for n in 1..=8 {
        assert!(seen.contains(&format!("pasted{n} (table)")), "pasted{n} is missing:\n{seen}");
    }
}

#[test]
fn tab_completes_names_and_a_bare_word_leaves() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    terminal.type_keys("CREATE TABLE campaigns_of_today WITH ('connector' = 'ad_campaigns');\n");
    terminal.wait_for("table campaigns_of_today created");
    terminal.type_keys("DESCRI\t campaigns_of\t;\n");
    terminal.wait_for("campaign_id");
    terminal.type_keys("quit\n");
    terminal.wait_for_end();
}

#[test]
fn a_row_that_is_wider_than_the_terminal_is_cut_and_may_be_shown_by_value() {
    let mut terminal = Terminal::open(50);
    terminal.wait_for("sql> ");
    terminal.type_keys(
        "CREATE TABLE events WITH ('connector' = 'ad_events', 'number-of-rows' = '2');\nSELECT * FROM events;\n",
    );
    terminal.wait_for("values were cut");
    terminal.type_keys("\\x\nSELECT * FROM events;\n");
    terminal.wait_for("event_time  1");
    terminal.type_keys("exit\n");
    terminal.wait_for_end();
}

#[test]
fn a_statement_set_that_is_explained_over_several_lines_runs_nothing() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    terminal.type_keys(EVENTS);
    terminal.type_keys("CREATE TABLE out1 (n STRING) WITH ('connector' = 'print');\n");
    terminal.pass("table out1 created");
    terminal.type_keys("EXPLAIN STATEMENT SET BEGIN\nINSERT INTO out1 SELECT ad_id FROM events;\n");
    terminal.type_keys("INSERT INTO out1 SELECT ad_type FROM events;\nEND;\nexit\n");
    let seen = terminal.wait_for_end();
    assert!(seen.contains("sink out1") && seen.contains("  -> "), "{seen}");
    assert!(!seen.contains("out1> ") && !seen.contains("written"), "an INSERT ran:\n{seen}");
}

#[test]
fn commands_after_a_forgotten_semicolon_are_explained_and_the_statement_goes_on() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    terminal.type_keys("SHOW FUNCTIONS LIKE 'upp%'\n");
    terminal.pass("  -> ");
    for word in ["quit", "?", ".tables"] {
        terminal.type_keys(&format!("{word}\n"));
        terminal.pass("end it with ';', or drop it with Ctrl-C");
    }
    // A command with `\` is one at any place. What the message says helps.
    terminal.type_keys("\\x\n");
    terminal.pass("each value has its own line");
    terminal.type_keys(";\n");
    terminal.pass("upper");
    terminal.pass("sql> ");
    terminal.type_keys("SELECT 1\n");
    terminal.pass("  -> ");
    terminal.type_keys("\x03");
    terminal.pass("sql> ");
    terminal.type_keys(".tables\n");
    terminal.pass("'.tables' is no command of this shell");
    terminal.type_keys("SELECT 1\n");
    terminal.pass("  -> ");
    terminal.type_keys("\\q\n");
    terminal.wait_for_end();
}

#[test]
fn statements_pasted_after_a_wrong_one_are_told_and_the_up_key_brings_them_back() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    let (begin, end) = PASTE;
    terminal.type_keys(&format!("{begin}SELEC 1;\n\\dt\nSHOW FUNCTIONS LIKE 'upp%';{end}\n"));
    terminal.pass("the 2 statements that follow did not run");
    terminal.pass("sql> ");
    terminal.type_keys("\x1b[A\n");
    terminal.pass("upper");
    terminal.pass("sql> ");
    terminal.type_keys("SELEC 1; SHOW FUNCTIONS LIKE 'low%';\n");
    terminal.pass("the statement that follows did not run");
    terminal.pass("sql> ");
    terminal.type_keys("\x1b[A\n");
    terminal.pass("lower");
    terminal.type_keys("exit\n");
    terminal.wait_for_end();
}

#[test]
fn tab_completes_by_place_and_a_second_tab_lists() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    terminal.type_keys("EXPL\t SEL\t 1;\n");
    terminal.pass("values");
    terminal.pass("sql> ");
    terminal.type_keys("CREATE TABLE t WITH ('conn\tad_ca\t);\n");
    terminal.pass("table t created");
    terminal.pass("sql> ");
    terminal.type_keys("SELECT AB\t");
    terminal.pass("ABS(");
    terminal.type_keys("\x03");
    terminal.pass("sql> ");
    terminal.type_keys("SELECT * FROM t WHERE ");
    terminal.type_keys("\t\t");
    terminal.pass("campaign_id");
    // The line comes again below the list.
    terminal.pass("sql> ");
    terminal.type_keys("\x03");
    terminal.pass("sql> ");
    terminal.type_keys("exit\n");
    terminal.wait_for_end();
}

#[test]
fn a_result_that_changes_is_a_table_and_on_request_a_log() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    terminal.type_keys(EVENTS);
    terminal.pass("table events created");
    let query = "SELECT event_type, COUNT(*) AS n FROM events GROUP BY event_type;\n";
    terminal.type_keys(query);
    terminal.pass("q or Ctrl-C: stop");
    terminal.pass("changes");
    terminal.type_keys("q");
    terminal.pass(" event_type ");
    terminal.pass("3 rows in");
    // The log.
    terminal.pass("sql> ");
    terminal.type_keys("\\log\n");
    terminal.pass("a log of their changes");
    terminal.type_keys(query);
    terminal.pass(" op  event_type");
    terminal.pass(" -   ");
    terminal.type_keys("\x03");
    terminal.pass("rows in");
    terminal.type_keys("SET 'sql-client.execution.result-mode' = 'table';\n");
    terminal.pass("a table that changes");
    terminal.type_keys("exit\n");
    terminal.wait_for_end();
}

#[test]
fn the_shell_says_why_no_rows_come() {
    let mut terminal = Terminal::open(80);
    terminal.wait_for("sql> ");
    terminal.type_keys(
        "CREATE TABLE timed (ad_id STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts) \
         WITH ('connector' = 'ad_events', 'format' = 'json', 'rows-per-second' = '1000');\n",
    );
    terminal.pass("table timed created");
    terminal.type_keys(
        "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' DAY)) \
         GROUP BY window_start, window_end;\n",
    );
    terminal.pass("no results yet: event time has reached");
    terminal.type_keys("\x03");
    terminal.pass("0 rows in");
    terminal.pass("event time has reached");
    terminal.type_keys("exit\n");
    terminal.wait_for_end();
}

fn sql(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.arg("sql").args(arguments).stdin(Stdio::null()).output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn statements_of_the_command_line_and_of_a_file_run_without_a_conversation() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("two.sql");
    std::fs::write(&file, "CREATE TABLE a WITH ('connector' = 'ad_campaigns');\n\\d a\nSHOW TABLES").expect("written");
    let output = sql(&[file.to_str().expect("path")]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let said = text(&output.stdout);
    assert!(said.contains("campaign_id") && said.ends_with("a (table)\n"), "{said}");
    let output = sql(&["-c", "CREATE VIEW v AS SELECT 1 AS one", "-c", "\\dt; ", "-c", "SELECT one FROM v"]);
    let said = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(said.contains("v (view)") && said.contains(" one\n ───\n   1\n1 row in"), "{said}");
    let wrong = sql(&["-c", "SELECT 1;\nSELEC 2; SELECT 3"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("line 2, column 1"), "{}", text(&wrong.stderr));
    assert!(text(&sql(&["none.sql"]).stderr).contains("none.sql"));
}

#[test]
fn rows_are_csv_or_json_for_programs() {
    let select =
        "CREATE VIEW v AS SELECT * FROM (VALUES (1, 'a,b'), (2, CAST(NULL AS STRING))) AS t (n, s); SELECT * FROM v";
    let output = sql(&["--format", "csv", "-c", select]);
    assert_eq!(text(&output.stdout), "n,s\n1,\"a,b\"\n2,\n", "{}", text(&output.stderr));
    let output = sql(&["--format", "json", "-c", select]);
    assert_eq!(text(&output.stdout), "{\"n\":1,\"s\":\"a,b\"}\n{\"n\":2,\"s\":null}\n", "{}", text(&output.stderr));
    let output = sql(&["-c", &format!("\\format json\n{select}")]);
    assert!(text(&output.stdout).ends_with("{\"n\":2,\"s\":null}\n"), "{}", text(&output.stdout));
}

#[test]
fn connectors_are_shown_and_the_help_names_no_default_coordinator() {
    let said = text(&sql(&["-c", "SHOW CONNECTORS"]).stdout);
    assert!(
        said.contains("kafka         a topic of Kafka; needs 'topic', 'properties.bootstrap.servers', 'format'"),
        "{said}"
    );
    let help = text(&sql(&["--help"]).stdout);
    assert!(help.contains("--coordinator") && !help.contains("127.0.0.1:8790"), "{help}");
    let of_jobs = Command::new(env!("CARGO_BIN_EXE_anabranch")).args(["jobs", "--help"]).output().expect("runs");
    assert!(text(&of_jobs.stdout).contains("127.0.0.1:8790"));
}

#[test]
fn a_run_on_a_terminal_leaves_all_that_print_tables_have_got() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("run.sql");
    let script = "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', \
                  'fields.n.start' = '1000', 'fields.n.end' = '1099', 'rows-per-second' = 'unlimited');\n\
                  CREATE TABLE out_lines (n BIGINT) WITH ('connector' = 'print');\n\
                  INSERT INTO out_lines SELECT n FROM numbers;\n";
    std::fs::write(&file, script).expect("written");
    let terminal = Terminal::of(&["run", file.to_str().expect("path")], 80, 24);
    let seen = terminal.wait_for_end();
    for n in [1000, 1050, 1099] {
        assert!(seen.contains(&format!("out_lines> {n}")), "{n} is gone:\n{seen}");
    }
}
