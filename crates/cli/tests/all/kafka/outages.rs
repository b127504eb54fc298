//! The exactly-once sink while the broker hangs, and while the checkpoint storage is away.

use std::path::Path;
use std::time::Duration;

use super::exact::{Fingerprint, Job, Writer};
use crate::broker::Broker;
use crate::topics::create;

/// A generator into a topic while its broker hangs, until that is told and some time longer. The rows must be
/// those that the generator gives to files.
fn broker_hangs(rows_per_second: u32, rows: u32, pause: Duration) {
    let broker = Broker::start();
    let servers = broker.servers();
    create(servers, "results", 2);
    let folder = tempfile::tempdir().expect("folder");
    let files = folder.path().join("files");
    let sql = |rate: &str, sink: &str| {
        format!(
            "CREATE TABLE events (user_id STRING, page_id STRING, ad_id STRING) WITH ('connector' = 'ad_events', 'seed' = '1', \
             'number-of-rows' = '{rows}', 'rows-per-second' = '{rate}', 'start-time' = '2026-01-01T00:00:00');
             CREATE TABLE results (user_id STRING, page_id STRING, ad_id STRING) WITH ({sink}, 'format' = 'json');
             INSERT INTO results SELECT user_id, page_id, ad_id FROM events;"
        )
    };
    let into_topic = format!(
        "'connector' = 'kafka', 'topic' = 'results', 'properties.bootstrap.servers' = '{servers}', 'connection.timeout' = '300 s'"
    );
    let mut job = Job::start(
        &sql(&rows_per_second.to_string(), &into_topic),
        &folder.path().join("job"),
        &["checkpoint-interval=500 ms"],
    );
    job.await_records(servers, "results", 1);
    let paused = broker.pause();
    job.await_line("topic results: requests to the Kafka brokers at");
    anabranch_model::pause(pause);
    drop(paused);
    job.await_line("answer again, after");
    let (lines, _) = job.finish();
    println!("{lines:#?}");
    let into_files = format!("'connector' = 'filesystem', 'path' = '{}'", files.display());
    Job::start(&sql("unlimited", &into_files), &folder.path().join("direct"), &[]).finish();
    let expected = of_folder(&files);
    assert_eq!(expected.records, u64::from(rows));
    assert_eq!(Fingerprint::of_topic(servers, "results"), expected, "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("the job restarted")), "{lines:#?}");
}

/// Of the lines of all visible files of a folder.
fn of_folder(folder: &Path) -> Fingerprint {
    let mut found = Fingerprint::default();
    for file in std::fs::read_dir(folder).expect("folder").map(|file| file.expect("file")) {
        if !file.file_name().to_string_lossy().starts_with('.') {
            let text = std::fs::read_to_string(file.path()).expect("text");
            text.lines().for_each(|line| found.add(line.as_bytes()));
        }
    }
    found
}

#[test]
fn a_job_goes_on_when_its_broker_has_hung() {
    broker_hangs(10_000, 400_000, Duration::ZERO);
}

#[test]
#[ignore = "takes some minutes: part of `make chaos`"]
fn a_job_goes_on_when_its_broker_has_hung_for_40_seconds_at_full_load() {
    broker_hangs(200_000, 8_000_000, Duration::from_secs(30));
}

/// Checkpoints fail and the job restarts meanwhile; what it reads waits in the topic.
#[test]
fn a_job_goes_on_when_the_place_of_its_checkpoints_was_away() {
    let broker = Broker::start();
    let servers = broker.servers();
    create(servers, "input", 2);
    create(servers, "results", 2);
    let folder = tempfile::tempdir().expect("folder");
    let (place, away) = (folder.path().join("checkpoints"), folder.path().join("away"));
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name} (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '{name}', 'format' = 'json', \
             'properties.bootstrap.servers' = '{servers}', 'connection.timeout' = '300 s');"
        )
    };
    let sql = format!("{} {} INSERT INTO results SELECT id FROM input;", table("input"), table("results"));
    let (writer, mut expected) = (Writer::new(servers, "input"), Fingerprint::default());
    let mut write = |ids: std::ops::Range<i64>| {
        for id in ids {
            let record = format!("{{\"id\":{id}}}");
            writer.send((id % 2) as i32, &record);
            expected.add(record.as_bytes());
        }
        writer.flush();
        expected
    };
    let settings = ["checkpoint-interval=500 ms", "checkpoint-timeout=60 s"];
    let mut job = Job::start(&sql, &place, &settings);
    write(0..10_000);
    job.await_records(servers, "results", 10_000);
    // A file in its place: no one can write there, whatever their rights.
    std::fs::rename(&place, &away).expect("renamed");
    std::fs::write(&place, "").expect("a file");
    write(10_000..20_000);
    job.await_notices("a request to the job's log failed and is retried", 10);
    write(20_000..30_000);
    std::fs::remove_file(&place).expect("removed");
    std::fs::rename(&away, &place).expect("renamed");
    let expected = write(30_000..40_000);
    job.await_records(servers, "results", expected.records);
    job.stop();
    let (lines, _) = job.finish();
    assert_eq!(Fingerprint::of_topic(servers, "results"), expected, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("checkpoint storage answers again")), "{lines:#?}");
}
