//! `anabranch run` over files of several statements, and the demonstration.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const NUMBERS: &str = "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = 'unlimited', \
    'partitions' = '1', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '3');\n";
const ENDLESS: &str = "CREATE TABLE events WITH ('connector' = 'ad_events', 'rows-per-second' = '1000');\n";

fn anabranch(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A file of statements in a folder.
fn file(folder: &Path, sql: &str) -> String {
    let path = folder.join("statements.sql");
    std::fs::File::create(&path).and_then(|mut file| file.write_all(sql.as_bytes())).expect("written");
    path.to_str().expect("text").to_owned()
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

fn run(sql: &str, arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("folder");
    run_in(folder.path(), sql, arguments)
}

fn run_in(folder: &Path, sql: &str, arguments: &[&str]) -> Ran {
    let file = file(folder, sql);
    anabranch(&[&["run", &file, "--parallelism", "1"], arguments].concat()).output().expect("runs").into()
}

#[test]
fn a_select_shows_its_rows() {
    let sql = format!(
        "{NUMBERS}SELECT n, n * 2 AS twice FROM numbers;\nSHOW TABLES;\nSELECT COUNT(*) AS all_of_them FROM numbers"
    );
    let ran = run(&sql, &[]);
    let expected = " n  twice\n ─  ─────\n 1      2\n 2      4\n 3      6\nnumbers (table)\n all_of_them\n ───────────\n           3\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expected), "{}", ran.stderr);
    assert!(ran.stderr.contains("3 rows in ") && ran.stderr.contains("1 row in "), "{}", ran.stderr);
    assert_eq!(run(&sql, &["--quiet"]).stderr, "");
}

#[test]
fn programs_read_rows_as_csv_or_json() {
    let sql = format!("{NUMBERS}SELECT n, CASE WHEN n = 2 THEN 'a,b' END AS s FROM numbers;");
    let ran = run(&sql, &["--format", "csv"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "n,s\n1,\n2,\"a,b\"\n3,\n"), "{}", ran.stderr);
    let ran = run(&sql, &["--format", "json"]);
    assert_eq!(ran.stdout, "{\"n\":1,\"s\":null}\n{\"n\":2,\"s\":\"a,b\"}\n{\"n\":3,\"s\":null}\n", "{}", ran.stderr);
    let none = sql.replace("FROM numbers;", "FROM numbers WHERE n > 5;");
    assert_eq!(run(&none, &["--format", "csv"]).stdout, "n,s\n");
    assert_eq!(run(&none, &["--format", "json"]).stdout, "");
}

#[test]
fn statements_run_in_their_order() {
    let folder = tempfile::tempdir().expect("folder");
    let written = folder.path().join("written");
    let sql = format!(
        "{NUMBERS}CREATE TABLE written (n BIGINT NOT NULL) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');
         INSERT INTO written SELECT n FROM numbers;
         SELECT SUM(n) AS s FROM written;
         INSERT INTO written SELECT n + 10 FROM numbers;
         SELECT SUM(n) AS s FROM written;\n",
        written.display()
    );
    let ran = run_in(folder.path(), &sql, &["--final", "--format", "csv", "--quiet"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "s\n6\ns\n42\n", ""));

    std::fs::remove_dir_all(&written).expect("removed");
    let ran = run_in(folder.path(), &format!("{sql}SELECT m FROM numbers;"), &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("line 7, column 8: there is no column 'm'"), "{}", ran.stderr);
    assert!(!written.exists(), "nothing runs if a statement is wrong");
}

#[test]
fn a_signal_stops_a_select_and_what_follows_does_not_run() {
    let folder = tempfile::tempdir().expect("folder");
    for (sql, code) in [
        (format!("{ENDLESS}SELECT ad_id FROM events;\nSELECT ad_type FROM events;"), 130),
        (format!("{ENDLESS}SELECT ad_id FROM events;"), 0),
    ] {
        let file = file(folder.path(), &sql);
        let mut command = Command::new("timeout");
        // Otherwise timeout sends the signal twice, and the second one ends the program at once.
        command.args(["--foreground", "--kill-after=5s", "60s", env!("CARGO_BIN_EXE_anabranch"), "run", &file]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut rows = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("──") {
            line.clear();
            assert!(rows.read_line(&mut line).expect("read") > 0, "it ends without a row");
        }
        let signal = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().expect("kill");
        assert!(signal.success());
        let mut rest = String::new();
        rows.read_to_string(&mut rest).expect("read");
        let ran = Ran::from(child.wait_with_output().expect("ends"));
        assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        assert!(!rest.contains("ad_type") && ran.stderr.contains(" rows in "), "{}", ran.stderr);
        assert_eq!(
            ran.stderr.contains("interrupted: the statements that follow did not run"),
            code != 0,
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_duration_is_that_of_the_file() {
    let sql = format!("{ENDLESS}SELECT ad_id FROM events;\nSELECT ad_type FROM events;");
    let ran = run(&sql, &["--duration", "300ms"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains(" ad_id\n") && !ran.stdout.contains("ad_type"), "{}", ran.stdout);
    assert!(ran.stderr.contains("notice: the time is over: the statements that follow did not run"), "{}", ran.stderr);
}

#[test]
fn options_of_one_job_are_refused_for_several() {
    let several = format!("{NUMBERS}SELECT n FROM numbers;\nSELECT n + 1 AS n FROM numbers;");
    let ran = run(&several, &["--listen", "127.0.0.1:0"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("--listen is about one job, and the file has 0 jobs of INSERT INTO and 2 of SELECT"),
        "{}",
        ran.stderr
    );
    let ran = run(&format!("{NUMBERS}SELECT n FROM numbers;"), &["--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("listening at http://127.0.0.1:"), "{}", ran.stderr);
}

#[test]
fn two_jobs_of_a_file_do_not_share_checkpoints() {
    let folder = tempfile::tempdir().expect("folder");
    let place = folder.path().join("checkpoints");
    let sql = |between: &str| {
        format!(
            "{NUMBERS}CREATE TABLE t (n BIGINT) WITH ('connector' = 'print');
             SET 'checkpoint-directory' = '{0}';
             INSERT INTO t SELECT n FROM numbers;
             SELECT n FROM numbers;
             {between}INSERT INTO t SELECT n + 10 FROM numbers;",
            place.display()
        )
    };
    let ran = run_in(folder.path(), &sql(""), &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("two jobs of the file have the same 'checkpoint-directory'"), "{}", ran.stderr);
    let ran =
        run_in(folder.path(), &sql(&format!("SET 'checkpoint-directory' = '{}2';", place.display())), &["--quiet"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("t> 1\n") && ran.stdout.ends_with("t> 13\n"), "{}", ran.stdout);
}

#[test]
fn explain_shows_each_job_of_a_file() {
    let folder = tempfile::tempdir().expect("folder");
    let file = file(folder.path(), &format!("{NUMBERS}SELECT n FROM numbers;\nSELECT SUM(n) FROM numbers;"));
    let ran: Ran = anabranch(&["explain", &file]).output().expect("runs").into();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let parts: Vec<usize> = ["job 1 of 2", "source numbers", "job 2 of 2", "aggregate"]
        .iter()
        .map(|part| ran.stdout.find(part).unwrap_or_else(|| panic!("no '{part}' in {}", ran.stdout)))
        .collect();
    assert!(parts[0] < parts[1] && parts[1] < parts[2] && parts[2] < parts[3], "{}", ran.stdout);
}

#[test]
fn the_demonstration_needs_no_file() {
    let folder = tempfile::tempdir().expect("folder");
    let mut demo = anabranch(&["demo", "--rate", "1000", "--duration", "2s", "--parallelism", "2"]);
    let ran: Ran = demo.current_dir(folder.path()).output().expect("runs").into();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains(" events in ") && ran.stderr.contains("events/s"), "{}", ran.stderr);

    let printed: Ran = anabranch(&["demo", "--print-sql"]).output().expect("runs").into();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ad_campaigns.sql");
    assert_eq!(printed.stdout, std::fs::read_to_string(example).expect("read"));
    let ran = run_in(folder.path(), &printed.stdout, &["--duration", "300ms"]);
    assert_eq!(ran.code, Some(0), "what it prints can be saved and run: {}", ran.stderr);
}
