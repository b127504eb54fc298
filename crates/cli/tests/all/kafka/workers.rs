//! Kafka to Kafka by several processes, some of which are killed.

use super::exact::{Fingerprint, Job, Writer};
use crate::broker::shared;
use crate::topics::create;

/// Each part is written once a worker was killed in the part before it: the job always has workers to kill.
const PARTS: u64 = 4;
const PART_SECONDS: u64 = 19;
const KEYS: u64 = 997;
/// A window of a second has this many rows.
const SECOND_ROWS: u64 = 20_000;

#[test]
fn workers_that_are_killed_between_kafka_and_kafka_lose_and_double_nothing() {
    let broker = shared();
    let servers = broker.servers();
    create(servers, "clicks", 4);
    let writer = Writer::new(servers, "clicks");
    let folder = tempfile::tempdir().expect("folder");
    let sql = |topic: &str| {
        let at =
            format!("'format' = 'json', 'properties.bootstrap.servers' = '{servers}', 'connection.timeout' = '300 s'");
        format!(
            "CREATE TABLE clicks (k BIGINT, at BIGINT, ts AS TO_TIMESTAMP_LTZ(at, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
             WITH ('connector' = 'kafka', 'topic' = 'clicks', {at});
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
    let mut job = Job::start_with(&sql("counts"), &folder.path().join("workers"), &interval, &["--workers", "2"]);
    for part in 0..PARTS {
        write(&writer, part);
        if part < PARTS - 1 {
            job.await_records(servers, "counts", part * PART_SECONDS * KEYS + 5_000);
            job.kill_worker(part as usize);
        }
    }
    // One later row in each partition ends the last windows.
    for partition in 0..4 {
        let at = (PARTS * PART_SECONDS + 2) * 1_000;
        writer.send(partition, &format!("{{\"k\":0,\"at\":{at}}}"));
    }
    writer.flush();
    let all = PARTS * PART_SECONDS * KEYS;
    let end = |mut job: Job, topic| {
        job.await_records(servers, topic, all);
        job.stop();
        job.finish().0
    };
    let lines = end(job, "counts");
    println!("{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("worker local-") && line.contains("is lost")), "{lines:#?}");
    end(Job::start(&sql("expected"), &folder.path().join("alone"), &interval), "expected");
    let expected = Fingerprint::of_topic(servers, "expected");
    assert_eq!(expected.records, all);
    assert_eq!(Fingerprint::of_topic(servers, "counts"), expected, "{lines:#?}");
}

fn write(writer: &Writer, part: u64) {
    let rows = PART_SECONDS * SECOND_ROWS;
    for id in part * rows..(part + 1) * rows {
        writer.send((id % 4) as i32, &format!("{{\"k\":{},\"at\":{}}}", id % KEYS, id * 1_000 / SECOND_ROWS));
    }
    writer.flush();
}
