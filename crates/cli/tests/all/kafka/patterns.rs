//! A table of all topics that match: topics come and go while the job runs.

use std::collections::BTreeMap;

use anabranch_model::Rng;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;

use super::exact::{Job, Writer};
use crate::broker::Broker;
use crate::topics::{create, records};

fn delete(servers: &str, topic: &str) {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", servers).create().expect("a client");
    let outcomes = futures::executor::block_on(admin.delete_topics(&[topic], &AdminOptions::new())).expect("asked");
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

#[test]
fn topics_come_and_go_while_the_job_runs_and_every_record_counts_once() {
    let broker = Broker::start();
    let servers = broker.servers();
    create(servers, "out", 1);
    let folder = tempfile::tempdir().expect("folder");
    let sql = format!(
        "CREATE TABLE events (n INT, topic STRING METADATA VIRTUAL) WITH ('connector' = 'kafka', 'topic-pattern' = 'in-.*', 'format' = 'json',
           'scan.topic-partition-discovery.interval' = '200 ms', 'connection.timeout' = '3 s', 'properties.bootstrap.servers' = '{servers}');
         CREATE TABLE results (topic STRING, n INT) WITH ('connector' = 'kafka', 'topic' = 'out', 'format' = 'json',
           'properties.bootstrap.servers' = '{servers}');
         INSERT INTO results SELECT topic, n FROM events;"
    );
    let start = || Job::start(&sql, &folder.path().join("job"), &["checkpoint-interval=200 ms"]);
    let mut job = start();
    job.await_line("there are no topics like 'in-.*'");
    let mut expected = BTreeMap::new();
    let mut write = |topic: &str, partitions: i32, numbers: std::ops::Range<u32>| {
        let writer = Writer::new(servers, topic);
        let mut rng = Rng::new(u64::from(numbers.start));
        for n in numbers {
            writer.send(rng.below(partitions as u64) as i32, &format!(r#"{{"n":{n}}}"#));
            expected.insert(format!(r#"{{"topic":"{topic}","n":{n}}}"#), 1);
        }
        writer.flush();
        expected.len() as u64
    };
    create(servers, "in-b", 3);
    let written = write("in-b", 3, 0..500);
    job.await_records(servers, "out", written);
    create(servers, "in-a", 2);
    let written = write("in-a", 2, 500..1000);
    job.await_records(servers, "out", written);
    // The next process finds another topic before those that the first one knew.
    drop(job);
    create(servers, "in-0", 1);
    write("in-0", 1, 1000..1200);
    write("in-b", 3, 1200..1500);
    let mut job = start();
    let written = write("in-a", 2, 1500..1700);
    job.await_records(servers, "out", written);
    delete(servers, "in-b");
    job.await_line("the job restarted");
    create(servers, "in-c", 1);
    write("in-c", 1, 1700..1800);
    let written = write("in-a", 2, 1800..2000);
    job.await_records(servers, "out", written);
    job.stop();
    job.finish();
    assert_eq!(records(servers, "out"), expected);
}
