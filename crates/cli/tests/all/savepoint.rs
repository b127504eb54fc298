//! Savepoints and the inspection of state, as processes: a running job, a command beside it, another job that
//! resumes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

/// Five seconds of events, counted in windows of 200 ms.
const SQL: &str = "\
CREATE TABLE events (ad_id STRING, event_type STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
  WATERMARK FOR ts AS ts - INTERVAL '0.01' SECOND)
  WITH ('connector' = 'ad_events', 'rows-per-second' = '5000', 'number-of-rows' = '25000', 'seed' = '1',
        'start-time' = '2026-01-01 00:00:00');
CREATE TABLE results (start_ts TIMESTAMP_LTZ(3), event_type STRING, n BIGINT) WITH ('connector' = 'print');
INSERT INTO results SELECT window_start, event_type, COUNT(*)
  FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.2' SECOND)) GROUP BY window_start, window_end, event_type;
";

fn anabranch(arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5s", "60s", env!("CARGO_BIN_EXE_anabranch")]).args(arguments);
    command.envs(crate::s3::Server::variables()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A command's standard output, standard error and exit code.
fn said(output: &Output) -> (String, String, i32) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code().expect("not killed"))
}

fn run(arguments: &[&str]) -> (String, String, i32) {
    said(&anabranch(arguments).output().expect("runs"))
}

/// Runs a command that must succeed; returns its output.
fn ok(arguments: &[&str]) -> String {
    let (out, error, code) = run(arguments);
    assert_eq!(code, 0, "{arguments:?}: {error}");
    out
}

/// A job with its checkpoints at a place, running until some exist.
fn start(script: &Path, place: &str) -> Child {
    let (directory, interval) = (format!("checkpoint-directory={place}"), "checkpoint-interval=50 ms");
    let arguments =
        ["run", script.to_str().expect("text"), "--plain", "-p", "2", "--set", &directory, "--set", interval];
    let mut child = anabranch(&arguments).spawn().expect("runs");
    for _ in 0..LIMIT.as_millis() / 20 {
        if run(&["state", place]).2 == 0 {
            return child;
        }
        anabranch_model::pause(Duration::from_millis(20));
    }
    child.kill().and_then(|()| child.wait()).expect("ended");
    panic!("there are no checkpoints");
}

/// A job that has ended, and a savepoint of the time when it ran: the folder of `count.sql` and `savepoint`,
/// and what the job printed.
fn saved(sql: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("folder");
    let [script, checkpoints, savepoint] = ["count.sql", "checkpoints", "savepoint"].map(|name| at(&folder, name));
    fs::write(&script, sql).expect("script");
    let job = start(Path::new(&script), &checkpoints);
    ok(&["savepoint", &checkpoints, &savepoint]);
    let (printed, error, code) = said(&job.wait_with_output().expect("ended"));
    assert_eq!(code, 0, "{error}");
    (folder, printed)
}

fn at(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn rows(printed: &str) -> BTreeSet<String> {
    let rows = printed.lines().map(|line| line.split_once("> ").expect("a result").1.to_owned());
    rows.collect()
}

/// A savepoint of a running job at one place to another place; then the job's end, and a new job with the
/// rest.
fn savepoint_and_rest(place: &str, path: &str, own: &str) {
    let folder = tempfile::tempdir().expect("folder");
    let script = folder.path().join("count.sql");
    fs::write(&script, SQL).expect("script");
    let script_text = script.to_str().expect("text");
    let job = start(&script, place);

    let printed = ok(&["savepoint", place, path]);
    assert!(printed.contains("savepoint of job job-") && printed.contains("source 0: events (ad_events)"), "{printed}");
    let overview = ok(&["state", path]);
    assert!(overview.contains("savepoint of job") && overview.contains("partition 0 of 4 at "), "{overview}");
    let (_, error, code) = run(&["savepoint", place, path]);
    assert!(code == 2 && error.contains("must be empty") && error.contains("help:"), "{error}");

    // The state as tables, while the job runs.
    let overview = ok(&["state", place]);
    assert!(overview.contains("state 0: aggregate, window tumble 200 ms, by [event_type"), "{overview}");
    let (_, error, code) = run(&["state", path, "--format", "csv"]);
    assert!(code == 2 && error.contains("name one with --operator, or use --format json"), "{error}");
    let csv = ok(&["state", path, "--operator", "0", "--format", "csv", "--key", "event_type=view"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("pane_start,event_type,"), "{csv}");
    assert!(lines.len() > 1 && lines[1..].iter().all(|line| line.contains(",view,")), "{csv}");
    let json = ok(&["state", path, "--operator", "0", "--format", "json", "--limit", "1"]);
    assert!(json.lines().count() == 1 && json.starts_with("{\"pane_start\":"), "{json}");

    // The job runs to its end, and no longer answers.
    let (printed, error, code) = said(&job.wait_with_output().expect("ended"));
    assert_eq!(code, 0, "{error}");
    let all = rows(&printed);
    assert_eq!(all.len(), 25 * 3, "{printed}");

    let directory = format!("checkpoint-directory={own}");
    let arguments = ["run", script_text, "--plain", "-p", "3", "--from", path, "--set", &directory];
    let (printed, error, code) = run(&arguments);
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("kept  source events (ad_events): positions in 4 partitions"), "{error}");
    assert!(error.contains("kept  state of aggregate, window tumble 200 ms"), "{error}");
    let rest = rows(&printed);
    assert!(rest.is_subset(&all) && !rest.is_empty() && rest.len() < all.len(), "{rest:?} of {all:?}");
    let before: Vec<&String> = all.difference(&rest).collect();
    assert!(before.iter().all(|row| row[..23] < rest.first().expect("a row")[..23]), "{before:?} before {rest:?}");
}

#[test]
fn a_job_begins_with_a_savepoint_of_a_running_one() {
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| at(&folder, name);
    savepoint_and_rest(&at("checkpoints"), &at("savepoint"), &at("own"));

    // No job answers any more; the last checkpoint is still there.
    let (_, error, code) = run(&["savepoint", &at("checkpoints"), &at("late")]);
    assert!(code == 1 && error.contains("no job runs there") && error.contains("--last"), "{error}");
    ok(&["savepoint", "--last", &at("checkpoints"), &at("late")]);
    assert!(fs::read_dir(folder.path().join("checkpoints/requests")).expect("folder").next().is_none());
}

#[test]
fn the_same_from_one_place_in_s3_to_another() {
    // Places that an earlier try has not used.
    let process = std::process::id();
    let place = |name: &str| crate::s3::shared().place(&format!("savepoints-{process}/{name}"));
    savepoint_and_rest(&place("checkpoints"), &place("savepoint"), &place("own"));
}

#[test]
fn a_query_without_place_for_the_state_is_refused() {
    let (folder, _) = saved(SQL);
    let [script, savepoint] = ["count.sql", "savepoint"].map(|name| at(&folder, name));
    fs::write(&script, SQL.replace("INTERVAL '0.2' SECOND", "INTERVAL '0.5' SECOND")).expect("script");
    let from = ["run", &script, "--plain", "--from", &savepoint];
    let (printed, error, code) = run(&from);
    assert!(code == 2 && printed.is_empty() && error.contains("--allow-lost-state"), "{error}");
    assert!(error.contains("lost  state of aggregate, window tumble 200 ms"), "{error}");
    assert!(error.contains("new   state of aggregate, window tumble 500 ms"), "{error}");
    let (printed, error, code) = run(&[from.as_slice(), &["--allow-lost-state"]].concat());
    assert!(code == 0 && !printed.is_empty(), "{error}");
}

#[test]
fn a_savepoint_is_copied_by_its_files() {
    let (folder, _) = saved(SQL);
    let [script, savepoint, copy] = ["count.sql", "savepoint", "copy"].map(|name| at(&folder, name));
    let (_, error, code) = run(&["savepoint", &savepoint, &copy]);
    assert!(code == 2 && error.contains("copy its files, or give the place of a job's checkpoints"), "{error}");

    let copied = Command::new("cp").args(["-r", &savepoint, &copy]).status().expect("cp");
    assert!(copied.success());
    let from = |place: &str| rows(&ok(&["run", &script, "--plain", "--from", place]));
    let rest = from(&savepoint);
    assert!(!rest.is_empty());
    assert_eq!(from(&copy), rest);
}

/// The count at the end of each printed row, summed.
fn counted(printed: &str) -> u64 {
    let count = |row: &String| {
        let digits = row.rsplit(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty()).expect("a count");
        digits.parse::<u64>().expect("a number")
    };
    rows(printed).iter().map(count).sum()
}

/// The refusal names two remedies. Without the savepoint, all rows are counted. With permission, each row
/// behind the savepoint is counted or late.
#[test]
fn another_event_time_behind_a_savepoint_is_refused_and_each_remedy_keeps_its_promise() {
    let (folder, before) = saved(&SQL.replace("(event_time, 3)", "(event_time + 86400000, 3)"));
    let [script, savepoint] = ["count.sql", "savepoint"].map(|name| at(&folder, name));
    assert_eq!(counted(&before), 25_000);

    fs::write(&script, SQL).expect("script");
    let (printed, error, code) = run(&["run", &script, "--plain", "--from", &savepoint]);
    assert!(code == 2 && printed.is_empty() && error.contains("rows would be late"), "{error}");
    assert!(error.contains("start a new job without the savepoint, or allow that (--allow-late)"), "{error}");
    assert_eq!(counted(&ok(&["run", &script, "--plain"])), 25_000);
    let (printed, error, code) = run(&["run", &script, "--plain", "--from", &savepoint, "--allow-late"]);
    assert_eq!(code, 0, "{error}");
    let number = |word: &str| {
        let line = error.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("no {word} in {error}"));
        let before = line.split(word).next().and_then(|before| before.split_whitespace().last()).expect("a number");
        before.replace(',', "").parse::<u64>().expect("a number")
    };
    let (read, late) = (number(" events in"), number(" late,"));
    // Windows that the savepoint keeps open have rows from before it.
    assert!(late > 0 && read > 0 && counted(&printed) + late >= read, "{error}{printed}");
}

#[test]
fn places_without_anything_are_told() {
    let folder = tempfile::tempdir().expect("folder");
    let place = folder.path().display().to_string();
    let unused = format!("{place}/unused");
    for arguments in [["state", &place].as_slice(), &["savepoint", &place, &unused]] {
        let (_, error, code) = run(arguments);
        assert!(code == 2 && error.contains("there are no checkpoints") && error.contains("help:"), "{error}");
    }
    let (_, error, code) = run(&["state", &format!("{place}/missing")]);
    assert!(code == 2 && error.contains("there is no such directory"), "{error}");
}
