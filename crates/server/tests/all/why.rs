//! Each reason for which a job gives no results, made to happen in a real job.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use anabranch_server::{Engine, Job, Settings, Verdict, Why};

use crate::service::Service;

/// Nothing that works takes this long.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(250);

fn start(sql: &str, parallelism: u32, set: &[(&str, &str)]) -> Job {
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let settings = Settings { parallelism: Some(parallelism), set, ..Settings::default() };
    Engine::default().run(sql, &settings).unwrap_or_else(|error| panic!("{error}: {sql}"))
}

/// Asks until this is the reason.
fn wait_for(job: &Job, verdict: Verdict) -> Why {
    wait_for_words(job, verdict, "")
}

/// Asks until this is the reason, with these words.
fn wait_for_words(job: &Job, verdict: Verdict, words: &str) -> Why {
    let mut why = job.why();
    for _ in 0..LIMIT.as_millis() / LOOK.as_millis() {
        if why.verdict == verdict && why.text.contains(words) {
            return why;
        }
        anabranch_model::pause(LOOK);
        why = job.why();
    }
    panic!("{verdict:?} '{words}' is not the reason: {why:?}");
}

/// The reason of a job, which is stopped then.
fn reason(sql: &str, verdict: Verdict) -> Why {
    reason_in_words(sql, verdict, "")
}

fn reason_in_words(sql: &str, verdict: Verdict, words: &str) -> Why {
    let job = start(sql, 1, &[]);
    let why = wait_for_words(&job, verdict, words);
    job.cancel();
    let _ = job.wait();
    why
}

/// A table of numbers that does not end; `ts` is its event time.
fn numbers(name: &str, ts: &str, options: &str) -> String {
    format!(
        "CREATE TABLE {name} (id BIGINT, ts AS {ts}, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '2000',
           'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '1000000000'{options});\n"
    )
}

const NOWHERE: &str = "CREATE TABLE nowhere (x BIGINT) WITH ('connector' = 'blackhole');\n";

fn windows(of: &str, length: &str) -> String {
    format!(
        "INSERT INTO nowhere SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE {of}, DESCRIPTOR(ts), INTERVAL {length})) GROUP BY window_start, window_end;"
    )
}

fn last(why: &Why) -> (&str, bool) {
    why.chain.last().map_or(("", false), |link| (link.name.as_str(), link.cause))
}

#[test]
fn a_table_without_rows() {
    let folder = tempfile::tempdir().expect("folder");
    let why = reason(&files(folder.path(), "fail"), Verdict::NoInput);
    assert_eq!(last(&why), ("table files", true));
    assert!(why.text.contains("no row has been read by 'source files'"), "{why:?}");
}

#[test]
fn a_table_whose_rows_have_all_been_read() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("a.json"), "{\"x\": 1}\n{\"x\": 2}\n").expect("written");
    let why = reason(&files(folder.path(), "fail"), Verdict::Idle);
    assert!(why.text.contains("no new rows come from 'source files'"), "{why:?}");
}

fn files(folder: &Path, on_malformed: &str) -> String {
    format!(
        "CREATE TABLE files (x BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json',
           'source.monitor-interval' = '100 ms', 'on-malformed' = '{on_malformed}');
         {NOWHERE} INSERT INTO nowhere SELECT x FROM files;",
        folder.display()
    )
}

#[test]
fn records_of_another_form() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("a.json"), "this is no JSON\n".repeat(20)).expect("written");
    let why = reason(&files(folder.path(), "skip"), Verdict::Malformed);
    assert!(why.text.starts_with("20 of 20 records"), "{why:?}");
}

#[test]
fn a_condition_that_no_row_meets() {
    let sql =
        numbers("n", "TO_TIMESTAMP_LTZ(id, 3)", "") + NOWHERE + "INSERT INTO nowhere SELECT id FROM n WHERE id < 0;";
    let why = reason(&sql, Verdict::AllDropped);
    assert!(last(&why).0 == "condition" && why.chain[why.chain.len() - 1].text == "(id < 0)", "{why:?}");
}

#[test]
fn rows_that_are_late_or_have_no_event_time() {
    let sql = numbers("n", "TO_TIMESTAMP_LTZ(1000000000 - id * 1000, 3)", "") + NOWHERE + &windows("n", "'1' SECOND");
    let why = reason(&sql, Verdict::Late);
    assert!(why.text.contains("late and count in no result"), "{why:?}");
    let sql =
        numbers("n", "TO_TIMESTAMP_LTZ(CASE WHEN id < 0 THEN id END, 3)", "") + NOWHERE + &windows("n", "'1' SECOND");
    let why = reason(&sql, Verdict::WithoutEventTime);
    assert!(why.text.contains("have NULL as event time"), "{why:?}");
}

#[test]
fn a_window_that_is_open() {
    let sql = numbers("n", "TO_TIMESTAMP_LTZ(id, 3)", "") + NOWHERE + &windows("n", "'1' DAY");
    let why = reason_in_words(&sql, Verdict::WindowOpen, "event time has reached");
    assert_eq!(why.next.as_ref().map(|next| next.at_ms), Some(86_400_000), "{why:?}");
}

#[test]
fn a_source_that_holds_event_time_back_or_waits_for_one() {
    let both = |options: &str| {
        numbers("behind", "TO_TIMESTAMP_LTZ(id % 10, 3)", options)
            + &numbers("ahead", "TO_TIMESTAMP_LTZ(3600000 + id, 3)", options)
            + NOWHERE
            + "CREATE VIEW both AS SELECT id, ts FROM behind UNION ALL SELECT id, ts FROM ahead;"
            + &windows("both", "'1' SECOND")
    };
    let why = reason(&both(""), Verdict::SilentPartition);
    assert!(why.text.contains("of table behind holds event time back"), "{why:?}");
    assert!(last(&why).0.starts_with("partition"), "{why:?}");
    let aligned = both(
        ", 'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '2 s', 'scan.watermark.alignment.update-interval' = '50 ms'",
    )
    .replace("3600000 + id", "id * 100");
    let why = reason(&aligned, Verdict::HeldBackByAlignment);
    assert!(why.text.contains("'source ahead' waits") && why.text.contains("allows 2000 ms"), "{why:?}");
}

/// Work for each row behind an exchange by the key.
fn work(key: &str) -> String {
    format!(
        "CREATE TABLE n (id BIGINT, ts AS PROCTIME()) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0',
           'fields.id.end' = '1000000000', 'rows-per-second' = '200000');
         {NOWHERE}
         INSERT INTO nowhere SELECT CHAR_LENGTH(REGEXP_REPLACE(REPEAT(CAST(n AS STRING), 300), '([0-9]*5)+6', 'x')) FROM (
           SELECT SUM(id) OVER (PARTITION BY {key} ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM n);"
    )
}

#[test]
fn a_stage_that_holds_up_those_before_it() {
    let job = start(&work("id % 100"), 2, &[]);
    let why = wait_for(&job, Verdict::Busy);
    let name = &job.metrics()[why.stage.map_or(0, |stage| stage as usize) * 2].stage_name;
    assert!(!name.starts_with("source"), "the cause is marked, not the source that waits for it: {why:?}");
    assert!(why.text.contains("holds up the stages before it"), "{why:?}");
    job.cancel();
    let _ = job.wait();
}

#[test]
fn a_task_whose_keys_have_most_rows() {
    let job = start(&work("id % 1"), 2, &[]);
    let why = wait_for(&job, Verdict::Skewed);
    assert!(why.remedies[0].change.as_ref().is_some_and(|change| change.balance.is_some()), "{why:?}");
    job.cancel();
    let _ = job.wait();
}

#[test]
fn a_source_that_reads_more_slowly_than_rows_come() {
    let sql = format!(
        "CREATE TABLE n (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0',
           'fields.id.end' = '1000000000', 'rows-per-second' = '200000');
         {NOWHERE}
         INSERT INTO nowhere SELECT CHAR_LENGTH(REGEXP_REPLACE(REPEAT(CAST(id AS STRING), 300), '([0-9]*5)+6', 'x')) FROM n;"
    );
    let why = reason(&sql, Verdict::SourceBehind);
    assert!(why.text.starts_with("'source n' is behind its table by "), "{why:?}");
    assert_eq!(last(&why), ("source n", true));
    let change = why.remedies[0].change.as_ref();
    assert_eq!(change.and_then(|change| change.parallelism).map(u32::from), Some(2), "{why:?}");
}

#[test]
fn a_job_that_still_reads_a_static_table() {
    let sql = numbers("n", "TO_TIMESTAMP_LTZ(id, 3)", "")
        + NOWHERE
        + "CREATE TABLE names (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'number-of-rows' = '800',
             'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '799');
           INSERT INTO nowhere SELECT n.id FROM n JOIN names ON n.id = names.id;";
    let why = reason_in_words(&sql, Verdict::Starting, "waits until the static table 'names' is fully read");
    assert_eq!(last(&why), ("source n", true));
}

#[test]
fn a_place_of_checkpoints_that_is_away() {
    let folder = tempfile::tempdir().expect("folder");
    let [place, away] = ["checkpoints", "away"].map(|name| folder.path().join(name));
    let shown = place.display().to_string();
    let sql = numbers("n", "TO_TIMESTAMP_LTZ(id, 3)", "") + NOWHERE + "INSERT INTO nowhere SELECT id FROM n;";
    let job = start(&sql, 1, &[("checkpoint-directory", shown.as_str()), ("checkpoint-interval", "500 ms")]);
    job.checkpoint_now().expect("a checkpoint");
    wait_for(&job, Verdict::Well);
    // A file in its place: nobody can write there, whatever their rights.
    fs::rename(&place, &away).expect("renamed");
    fs::write(&place, "").expect("a file");
    let why = wait_for_words(&job, Verdict::CheckpointWaits, "a request to the job's log failed");
    assert!(why.text.starts_with("no checkpoint has completed for ") && why.text.contains(&shown), "{why:?}");
    assert!(why.chain.is_empty(), "no stage is the cause: {why:?}");
    fs::remove_file(&place).expect("removed");
    fs::rename(&away, &place).expect("renamed");
    wait_for(&job, Verdict::Well);
    job.cancel();
    let _ = job.wait();
}

#[test]
fn a_sink_that_waits_for_a_checkpoint() {
    let folder = tempfile::tempdir().expect("folder");
    let [results, checkpoints] = ["results", "checkpoints"].map(|name| folder.path().join(name).display().to_string());
    let sql = numbers("n", "TO_TIMESTAMP_LTZ(id, 3)", "")
        + &format!(
            "CREATE TABLE results (x BIGINT) WITH ('connector' = 'filesystem', 'path' = '{results}', 'format' = 'json'); INSERT INTO results SELECT id FROM n;"
        );
    let set = [("checkpoint-directory", checkpoints.as_str()), ("checkpoint-interval", "1 h")];
    let job = start(&sql, 1, &set);
    let why = wait_for(&job, Verdict::SinkWaitsForCheckpoint);
    assert!(why.remedies[0].change.as_ref().is_some_and(|change| change.settings.contains_key("checkpoint-interval")));
    job.checkpoint_now().expect("a checkpoint");
    wait_for(&job, Verdict::Well);
    job.cancel();
    let _ = job.wait();
}

/// Rows for which a service at this address is asked.
fn asks(url: &str, per_second: u32) -> String {
    format!(
        "CREATE TABLE n (id BIGINT, proctime AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '{per_second}',
           'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '100000000');
         CREATE TABLE users (id BIGINT, level BIGINT) WITH ('connector' = 'http', 'url' = '{url}/users/{{id}}', 'token' = 'let-me-in',
           'lookup.max-retries' = '1000');
         {NOWHERE} INSERT INTO nowhere SELECT u.level FROM n JOIN users FOR SYSTEM_TIME AS OF n.proctime AS u ON n.id = u.id;"
    )
}

#[test]
fn a_table_outside_that_does_not_answer() {
    // It takes connections, and never says anything.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let why = reason(&asks(&format!("http://{address}"), 100), Verdict::LookupSlow);
    assert!(why.text.contains("does not answer"), "{why:?}");
}

#[test]
fn a_table_outside_that_refuses_calls() {
    let service = Service::start(0);
    service.state.fails.store(true, SeqCst);
    // So many rows that several requests are made together: all of them count as failed.
    let sql = asks(&service.url(""), 5000);
    let why = reason_in_words(&sql, Verdict::LookupSlow, "looks up refuses 100 % of the calls");
    assert_eq!(last(&why), ("table outside", true));
}

#[test]
fn a_job_that_is_over_or_has_failed() {
    let sql = numbers("n", "TO_TIMESTAMP_LTZ(id, 3)", ", 'number-of-rows' = '10'") + NOWHERE;
    let job = start(&(sql.clone() + "INSERT INTO nowhere SELECT id FROM n;"), 1, &[]);
    assert_eq!(wait_for(&job, Verdict::Over).text, "the job has read all of its input and has ended");
    job.wait().expect("it has ended");
    let job = start(&(sql + "INSERT INTO nowhere SELECT 10 / (id - id) FROM n;"), 1, &[]);
    let why = wait_for(&job, Verdict::Failed);
    assert!(why.text.starts_with("the job has failed: "), "{why:?}");
    job.wait().expect_err("it has failed");
}
