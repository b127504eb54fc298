//! The binary as a process: what it prints where, and the exit codes that scripts see.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::NamedTempFile;

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const COUNTED: &str = "\
CREATE TABLE events WITH ('connector' = 'ad_events', 'number-of-rows' = '1000', 'rows-per-second' = 'unlimited');
CREATE TABLE counts (n BIGINT) WITH ('connector' = 'print');
INSERT INTO counts SELECT COUNT(*) FROM events;
";
const ENDLESS: &str = "\
CREATE TABLE events WITH ('connector' = 'ad_events', 'rows-per-second' = '1000');
CREATE TABLE rows_out (ad_id STRING) WITH ('connector' = 'print');
INSERT INTO rows_out SELECT ad_id FROM events;
";

fn file(sql: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("file");
    file.write_all(sql.as_bytes()).expect("written");
    file
}

fn anabranch(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(sql: &str, arguments: &[&str]) -> Output {
    let file = file(sql);
    let path = file.path().to_str().expect("path");
    anabranch(&[&["run", path], arguments].concat()).output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines of a stream as they come, read by a thread so that waiting for one has a limit.
fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    let read = move || BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
    std::thread::Builder::new().name("lines".into()).spawn(read).expect("thread");
    receiver
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Waits for the end of a process whose standard error is being read: it ends with the process.
fn wait(mut child: Child, stderr: &Receiver<String>) -> (ExitStatus, Vec<String>) {
    let mut said = Vec::new();
    loop {
        match stderr.recv_timeout(LIMIT) {
            Ok(line) => said.push(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                child.kill().expect("kill");
                panic!("the process did not end; it said: {said:#?}");
            }
        }
    }
    (child.wait().expect("ended"), said)
}

#[test]
fn results_go_to_standard_output_and_the_summary_to_standard_error() {
    let output = run(COUNTED, &["--parallelism", "2"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "counts> 1000\n"));
    let said = text(&output.stderr);
    assert!(said.contains("1,000 events in") && said.contains("0 late, 0 malformed"), "{said}");
    assert!(!said.contains("groups") && !said.contains("per million"), "a short run cannot measure them: {said}");
}

#[test]
fn a_job_that_has_ended_is_not_run_again() {
    let folder = tempfile::tempdir().expect("folder");
    let set = format!("checkpoint-directory={}", folder.path().to_str().expect("text"));
    let first = run(COUNTED, &["--set", &set]);
    assert_eq!((first.status.code(), text(&first.stdout).as_str()), (Some(0), "counts> 1000\n"));
    for quiet in [&["--set", set.as_str()][..], &["--set", set.as_str(), "--quiet"]] {
        let again = run(COUNTED, quiet);
        let said = text(&again.stderr);
        assert_eq!((again.status.code(), text(&again.stdout).as_str()), (Some(0), ""), "{said}");
        assert!(said.starts_with("the job has ended before") && said.contains("checkpoint-directory"), "{said}");
    }
}

#[test]
fn quiet_says_nothing_but_results() {
    let output = run(COUNTED, &["--quiet", "--option", "events.number-of-rows=7"]);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("counts> 7\n", ""));
}

#[test]
fn an_option_without_effect_is_no_result() {
    let sql = format!("SET 'pipeline.object-reuse' = 'true';\n{COUNTED}");
    for (quiet, said) in [(&["--quiet"][..], false), (&[], true)] {
        let output = run(&sql, quiet);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "counts> 1000\n"));
        let notes = text(&output.stderr);
        assert_eq!(notes.starts_with("notice: pipeline.object-reuse has no effect: "), said, "{notes}");
        assert!(said || notes.is_empty(), "{notes}");
    }
}

#[test]
fn wrong_sql_is_shown_with_its_line_and_a_caret() {
    let output = run(&COUNTED.replace("COUNT(*)", "ad_idd"), &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let place = "3 | INSERT INTO counts SELECT ad_idd FROM events;\n  |                           ^\n";
    assert!(said.starts_with("error: line 3, column 27: ") && said.contains(place), "{said}");
    assert!(said.contains("help: "), "{said}");
}

#[test]
fn a_file_that_is_missing_or_has_nothing_to_run_is_the_users_fault() {
    let output = anabranch(&["run", "no-such-file.sql"]).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no-such-file.sql"));
    let output = run("SET 'parallelism' = '2';", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no INSERT INTO"), "{}", text(&output.stderr));
}

#[test]
fn a_job_that_fails_names_the_place_and_exits_with_1() {
    let damaged = COUNTED.replace("'ad_events',", "'ad_events', 'format' = 'json', 'malformed-every' = '10',");
    let output = run(&damaged, &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: ") && said.contains("malformed") && said.contains("events"), "{said}");
}

#[test]
fn a_duration_ends_an_endless_job() {
    let output = run(ENDLESS, &["--duration", "300ms", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("rows_out> "));
}

#[test]
fn the_first_signal_stops_in_order() {
    for name in ["INT", "TERM"] {
        let file = file(&ENDLESS.replace("'print'", "'blackhole'"));
        let mut child = anabranch(&["run", file.path().to_str().expect("path")]).spawn().expect("starts");
        let stderr = lines(child.stderr.take().expect("piped"));
        let progress = stderr.recv_timeout(LIMIT).expect("a line of progress");
        assert!(progress.contains("events/s"), "{progress}");
        signal(&child, name);
        let (status, said) = wait(child, &stderr);
        assert_eq!(status.code(), Some(0), "{name}: {said:#?}");
        assert!(said.iter().any(|line| line.starts_with("stopping")), "{said:#?}");
        assert!(said.iter().any(|line| line.contains(" events in ")), "{said:#?}");
    }
}

#[test]
fn the_second_signal_ends_a_job_that_cannot_stop() {
    // Its standard output is not read: once the pipe is full, the sink waits forever.
    let file = file(&ENDLESS.replace("'1000'", "'unlimited'"));
    let mut child = anabranch(&["run", file.path().to_str().expect("path")]).spawn().expect("starts");
    let stderr = lines(child.stderr.take().expect("piped"));
    stderr.recv_timeout(LIMIT).expect("a line of progress");
    signal(&child, "INT");
    while !stderr.recv_timeout(LIMIT).expect("the request is acknowledged").starts_with("stopping") {}
    signal(&child, "INT");
    let (status, said) = wait(child, &stderr);
    assert_eq!(status.code(), Some(130), "{said:#?}");
}

#[test]
fn explain_shows_stages_and_runs_nothing() {
    let file = file(ENDLESS);
    let output = anabranch(&["explain", file.path().to_str().expect("path")]).output().expect("runs");
    let plan = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(plan.contains("stage 0: ") && plan.contains("sink rows_out (print)"), "{plan}");
    assert!(!plan.contains("\nstate\n"), "{plan}");
}

#[test]
fn explain_warns_of_state_that_grows_with_every_row() {
    let bid = "(auction BIGINT, price BIGINT, `dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime`) WITH ('connector' = 'nexmark', 'table' = 'bid')";
    let query = |before: &str, condition: &str| {
        file(&format!(
            "{before}CREATE TABLE a {bid}; CREATE TABLE b {bid}; CREATE TABLE pairs (n BIGINT) WITH ('connector' = 'blackhole');
             INSERT INTO pairs SELECT a.price FROM a JOIN b ON a.auction = b.auction{condition};"
        ))
    };
    let bound = " AND a.`dateTime` BETWEEN b.`dateTime` - INTERVAL '1' HOUR AND b.`dateTime`";
    let lives = "SET 'table.exec.state.ttl' = '1 d'; ";
    for (before, condition, warns) in [("", "", true), ("", bound, false), (lives, "", false)] {
        let file = query(before, condition);
        let output = anabranch(&["explain", file.path().to_str().expect("path")]).output().expect("runs");
        let plan = text(&output.stdout);
        let (_, state) = plan.split_once("\nstate\n").expect("state");
        assert_eq!(
            state.contains("warning: grows with every row\n  help: SET 'table.exec.state.ttl', bound how far"),
            warns,
            "{plan}"
        );
        assert_eq!(state.contains("; bounded"), !warns, "{plan}");
    }
}

#[test]
fn the_shell_reads_statements_from_a_pipe() {
    let shell = |input: &str| {
        let mut child = anabranch(&["sql", "--parallelism", "1"]).stdin(Stdio::piped()).spawn().expect("starts");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
        child.wait_with_output().expect("ends")
    };
    let created = "CREATE TABLE e WITH ('connector' = 'ad_events',\n 'number-of-rows' = '7');\n";
    let output =
        shell(&format!("{created}SELECT COUNT(*) AS n\nFROM e; SELECT ad_id FROM e LIMIT 2;\n\\q\nnever read;"));
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.contains("table e created") && said.contains(" n\n ─\n 7\n1 row in"), "{said}");
    assert!(said.contains("2 rows in"), "{said}");
    let output = shell(&format!("{created}SELECT nothing FROM e;\nSELECT COUNT(*) FROM e;\n"));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no column 'nothing'"), "{}", text(&output.stderr));
    assert!(!text(&output.stdout).contains("row in"), "a script ends at its first error");
}

/// Runs the shell over a script on standard input.
fn shell(script: &str) -> Child {
    let mut child = anabranch(&["sql", "--parallelism", "1"]).stdin(Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("piped").write_all(script.as_bytes()).expect("written");
    child
}

#[test]
fn the_last_statement_of_a_piped_script_needs_no_semicolon() {
    let script =
        "\u{feff}CREATE TABLE e WITH ('connector' = 'ad_events', 'number-of-rows' = '7');\nSELECT COUNT(*) AS n FROM e";
    let output = shell(script).wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains(" n\n ─\n 7\n1 row in"), "{}", text(&output.stdout));
    let output = shell("SHOW TABLES;\n\nSELECT nothing FROM nowhere").wait_with_output().expect("ends");
    assert!(text(&output.stderr).contains("\n3 | SELECT nothing FROM nowhere\n"), "{}", text(&output.stderr));
}

#[test]
fn a_signal_stops_a_piped_script_in_order_and_begins_no_other_statement() {
    for (name, rest, code) in [("INT", " SHOW TABLES;", 130), ("TERM", "\nSHOW TABLES;", 130), ("TERM", "", 0)] {
        let script =
            "CREATE TABLE e WITH ('connector' = 'ad_events', 'rows-per-second' = '1000');\nSELECT ad_id FROM e;";
        let mut child = shell(&format!("{script}{rest}"));
        let stdout = lines(child.stdout.take().expect("piped"));
        let stderr = lines(child.stderr.take().expect("piped"));
        while !stdout.recv_timeout(LIMIT).expect("rows").contains("──") {}
        signal(&child, name);
        let (status, said) = wait(child, &stderr);
        assert_eq!(status.code(), Some(code), "{name} {rest}: {said:#?}");
        let shown: Vec<String> = stdout.iter().collect();
        assert!(
            shown.last().is_some_and(|line| line.contains(" row") && line.contains(" in ")),
            "{name} {rest}: {:?}",
            shown.last()
        );
    }
}

#[test]
fn a_reader_who_leaves_ends_a_command_without_a_word() {
    let endless = file(&ENDLESS.replace("'1000'", "'unlimited'"));
    let many = format!("{ENDLESS}{}", "INSERT INTO rows_out SELECT ad_id FROM events;\n".repeat(600));
    let many = file(&many);
    for (command, file) in [("run", &endless), ("explain", &many)] {
        let arguments = [command, file.path().to_str().expect("path")];
        let quiet: &[&str] = if command == "run" { &["--quiet"] } else { &[] };
        let mut child = anabranch(&[&arguments, quiet].concat()).spawn().expect("starts");
        let stderr = lines(child.stderr.take().expect("piped"));
        let mut first = String::new();
        BufReader::with_capacity(16, child.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
        let (status, said) = wait(child, &stderr);
        assert_eq!((status.code(), said), (Some(0), Vec::new()), "{command}");
    }
    let mut child =
        shell("CREATE TABLE e WITH ('connector' = 'ad_events', 'rows-per-second' = 'unlimited');\nSELECT * FROM e;");
    let stderr = lines(child.stderr.take().expect("piped"));
    drop(child.stdout.take());
    let (status, said) = wait(child, &stderr);
    assert_eq!((status.code(), said), (Some(0), Vec::new()));
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_statement() {
    let output = run(&format!("\u{feff}{COUNTED}"), &["--quiet"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "counts> 1000\n"));
}

#[test]
fn options_of_tables_reach_the_planner() {
    let damaged = COUNTED.replace("'ad_events',", "'ad_events', 'format' = 'json', 'malformed-every' = '10',");
    let output = run(&damaged, &["--option", "events.on-malformed=skip"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("100 malformed"), "{}", text(&output.stderr));
    let output = run(COUNTED, &["--option", "event.on-malformed=skip"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("its tables are: counts, events"), "{}", text(&output.stderr));
}

#[test]
fn options_of_the_command_line_win_over_the_file() {
    let sql = format!("SET 'parallelism' = '2';\n{COUNTED}\nSET;\n");
    let output = run(&sql, &["--set", "parallelism.default=3", "--set", "batch-rows=11"]);
    let said = text(&output.stdout);
    assert!(said.contains("parallelism = 3\n") && said.contains("batch-rows = 11\n"), "{said}");
    let wrong = run(&sql, &["--set", "paralelism=3"]);
    let said = text(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: --set paralelism=3: unknown option 'paralelism'\n"), "{said}");
}

#[test]
fn the_shell_answers_without_a_table() {
    let output = shell("VALUES (1, 'a'), (2, 'b');\nSELECT 1 + 1 AS two").wait_with_output().expect("ends");
    let said = text(&output.stdout);
    assert!(said.contains("       1  a\n       2  b\n2 rows in") && said.contains("   2\n1 row in"), "{said}");
}

#[test]
fn rows_that_are_dropped_for_null_are_counted() {
    let output = run(
        "SET 'table.exec.sink.not-null-enforcer' = 'DROP';
        CREATE TABLE required (n BIGINT NOT NULL) WITH ('connector' = 'print');
        INSERT INTO required VALUES (1), (NULL), (NULL), (4);",
        &[],
    );
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "required> 1\nrequired> 4\n", "{said}");
    assert!(said.contains("0 malformed, 2 with NULL for a NOT NULL column"), "{said}");
}

#[test]
fn a_job_is_served_over_http_while_it_runs() {
    let file = file(ENDLESS);
    let path = file.path().to_str().expect("path");
    let mut child = anabranch(&["run", path, "--quiet", "--listen", "127.0.0.1:0"]).spawn().expect("runs");
    let stderr = lines(child.stderr.take().expect("stderr"));
    let _rows = lines(child.stdout.take().expect("stdout"));
    let first = stderr.recv_timeout(LIMIT).expect("the address");
    let address = first.strip_prefix("listening at http://").expect("the address").to_owned();
    let request = |request: &str| {
        let mut stream = TcpStream::connect(&address).expect("connected");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let jobs = request("GET /api/v1/jobs");
    assert!(jobs.starts_with("HTTP/1.1 200 ") && jobs.contains("\"name\":\"job\""), "{jobs}");
    let second = run(ENDLESS, &["--listen", &address]);
    let said = text(&second.stderr);
    assert_eq!((second.status.code(), text(&second.stdout).as_str()), (Some(1), ""), "no job has started: {said}");
    assert!(
        said.contains(&format!("option --listen {address}: ")) && said.contains("help: choose another port"),
        "{said}"
    );
    let stopped = request("POST /api/v1/jobs/job/stop");
    assert!(stopped.starts_with("HTTP/1.1 202 "), "{stopped}");
    let (status, said) = wait(child, &stderr);
    assert_eq!(status.code(), Some(0), "{said:#?}");
}

#[test]
fn events_of_a_job_are_logged_as_json() {
    let folder = tempfile::tempdir().expect("folder");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let checkpoints = format!("checkpoint-directory={}", place("checkpoints"));
    let events = |text: &str| -> Vec<serde_json::Value> {
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")));
        lines.collect()
    };
    let names = |events: &[serde_json::Value]| -> Vec<String> {
        let names = events.iter().map(|event| event["event"].as_str().expect("a name").to_owned());
        names.collect()
    };
    let output = run(COUNTED, &["--log-format", "json", "--set", &checkpoints]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "counts> 1000\n"));
    let said = events(&text(&output.stderr));
    assert_eq!(names(&said)[..3], ["incarnation begins", "incarnation runs", "job started"], "{said:#?}");
    assert_eq!(names(&said).last().map(String::as_str), Some("job ended"), "{said:#?}");
    let began = &said[0];
    assert!(began["incarnation"] == 1 && began["term"].is_u64() && began["level"] == "info", "{began:#?}");
    assert!(said.iter().all(|event| event["job"] == "job" && event["time"].is_string()), "{said:#?}");
    let checkpoint = said.iter().find(|event| event["event"] == "checkpoint completed").expect("a checkpoint");
    assert!(checkpoint["epoch"].as_u64() > Some(0) && checkpoint["took_ms"].is_number(), "{said:#?}");
    assert!(checkpoint["tasks"].as_u64() > Some(0) && checkpoint["level"] == "debug", "{said:#?}");
    let again = run(COUNTED, &["--log-format", "json", "--set", &checkpoints]);
    assert_eq!(names(&events(&text(&again.stderr))), ["job had ended before"]);

    let failing = COUNTED.replace("'ad_events',", "'ad_events', 'format' = 'json', 'malformed-every' = '10',");
    let log = place("log");
    let output = run(&failing, &["--quiet", "--log-file", &log]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: "), "{}", text(&output.stderr));
    let logged = events(&std::fs::read_to_string(&log).expect("a log"));
    let ends: Vec<String> = names(&logged).into_iter().filter(|name| name.starts_with("job ")).collect();
    assert_eq!(ends, ["job started", "job failed"], "{logged:#?}");
    let failed = logged.last().expect("events");
    assert!(failed["level"] == "error" && failed["place"].is_string() && failed["remedy"].is_string(), "{logged:#?}");

    let few = place("few");
    let output = run(&failing, &["--quiet", "--log-file", &few, "--log-level", "warn"]);
    assert_eq!(output.status.code(), Some(1));
    let logged = events(&std::fs::read_to_string(&few).expect("a log"));
    assert_eq!(names(&logged), ["job failed"], "{logged:#?}");
}

#[test]
fn final_rows_are_emitted_once() {
    let file = file(
        "CREATE TABLE bid (auction BIGINT, price BIGINT) WITH ('connector' = 'nexmark', 'table' = 'bid', 'number-of-rows' = '2000', 'rows-per-second' = 'unlimited');
         CREATE TABLE best (auction BIGINT, price BIGINT) WITH ('connector' = 'print');
         INSERT INTO best SELECT auction, price FROM (
           SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS n FROM bid) WHERE n <= 2;",
    );
    let rows = |further: &[&str]| {
        let output = anabranch(&[&["run", "--quiet", file.path().to_str().expect("path")], further].concat()).output();
        let output = output.expect("runs");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let mut left = BTreeMap::<String, i64>::new();
    for change in rows(&[]) {
        let (_, change) = change.split_once("> ").expect("a table");
        *left.entry(change[2..].to_owned()).or_default() += if change.starts_with('+') { 1 } else { -1 };
    }
    let left: Vec<String> = left.into_iter().flat_map(|(row, count)| vec![row; count as usize]).collect();
    let mut emitted: Vec<String> =
        rows(&["--final"]).iter().map(|row| row.split_once("> ").expect("a table").1.to_owned()).collect();
    emitted.sort_unstable();
    assert_eq!(emitted, left);
}
