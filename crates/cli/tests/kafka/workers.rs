//! Kafka to Kafka by several processes, some of which are killed.

use crate::broker::Broker;
use crate::exact::{Fingerprint, Job, Writer};
use crate::topics::create;

const ROWS: u64 = 1_500_000;
const KILLS: usize = 3;

#[test]
fn workers_that_are_killed_between_kafka_and_kafka_lose_and_double_nothing() {
    let broker = Broker::start();
    let servers = broker.servers();
    create(servers, "clicks", 4);
    let writer = Writer::new(servers, "clicks");
    for id in 0..ROWS {
        // A window of a second has 20,000 rows.
        writer.send((id % 4) as i32, &format!("{{\"k\":{},\"at\":{}}}", id % 997, id / 20));
    }
    writer.flush();
    let folder = tempfile::tempdir().expect("folder");
    let sql = |topic: &str| {
        let at =
            format!("'format' = 'json', 'properties.bootstrap.servers' = '{servers}', 'connection.timeout' = '300 s'");
        format!(
            "CREATE TABLE clicks (k BIGINT, at BIGINT, ts AS TO_TIMESTAMP_LTZ(at, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
             WITH ('connector' = 'kafka', 'topic' = 'clicks', 'scan.bounded.mode' = 'latest-offset', {at});
             CREATE TABLE counts (k BIGINT, window_start TIMESTAMP_LTZ(3), n BIGINT)
             WITH ('connector' = 'kafka', 'topic' = '{topic}', {at});
             INSERT INTO counts SELECT k, window_start, COUNT(*)
             FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end;"
        )
    };
    for topic in ["expected", "counts"] {
        create(servers, topic, 2);
    }
    let interval = ["checkpoint-interval=200 ms"];
    Job::start(&sql("expected"), &folder.path().join("alone"), &interval).finish();
    let mut job = Job::start_with(&sql("counts"), &folder.path().join("workers"), &interval, &["--workers", "2"]);
    for kill in 1..=KILLS {
        // The windows of another part of the rows are there.
        job.await_records(servers, "counts", 5_000 * kill as u64);
        job.kill_worker(kill);
    }
    let (lines, _) = job.finish();
    println!("{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("worker local-") && line.contains("is lost")), "{lines:#?}");
    let expected = Fingerprint::of_topic(servers, "expected");
    assert!(expected.records > 10_000);
    assert_eq!(Fingerprint::of_topic(servers, "counts"), expected, "{lines:#?}");
}
