//! A backlog that is many times as large as the memory of the exactly-once sink.

use super::exact::{Fingerprint, Job, Writer};
use crate::broker::shared;
use crate::topics::create;

/// Their records take 100 MB.
const ROWS: u64 = 400_000;
/// The records of the sink and of its checkpoints take a fraction of the backlog.
const MEMORY_MAX: u64 = 300 << 20;

#[test]
fn a_backlog_passes_through_a_small_buffer_once() {
    let broker = shared();
    let servers = broker.servers();
    create(servers, "backlog", 2);
    create(servers, "backlog-results", 2);
    let (writer, pad, mut expected) = (Writer::new(servers, "backlog"), "x".repeat(220), Fingerprint::default());
    for id in 0..ROWS {
        let record = format!("{{\"id\":{id},\"pad\":\"{pad}\"}}");
        writer.send((id % 2) as i32, &record);
        if id % 3 > 0 {
            expected.add(record.as_bytes());
        }
    }
    writer.flush();
    let folder = tempfile::tempdir().expect("folder");
    let sql = format!(
        "CREATE TABLE backlog (id BIGINT, pad STRING) WITH ('connector' = 'kafka', 'topic' = 'backlog', 'format' = 'json', \
         'properties.bootstrap.servers' = '{servers}', 'connection.timeout' = '300 s', 'scan.bounded.mode' = 'latest-offset');
         CREATE TABLE results (id BIGINT, pad STRING) WITH ('connector' = 'kafka', 'topic' = 'backlog-results', 'format' = 'json', \
         'properties.bootstrap.servers' = '{servers}', 'connection.timeout' = '300 s', 'sink.buffer-bytes' = '1 mb');
         INSERT INTO results SELECT id, pad FROM backlog WHERE MOD(id, 3) > 0;"
    );
    // Checkpoints come as the sink requests them.
    let job = Job::start(&sql, &folder.path().join("checkpoints"), &["checkpoint-interval=1 h"]);
    let (lines, memory_max) = job.finish();
    println!("{lines:#?}, {memory_max} bytes");
    assert_eq!(Fingerprint::of_topic(servers, "backlog-results"), expected, "{lines:#?}");
    assert!(memory_max < MEMORY_MAX, "the process had {memory_max} bytes: {lines:#?}");
}
