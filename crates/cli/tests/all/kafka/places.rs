//! Where tables start and end.

use std::io::Write as _;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tempfile::NamedTempFile;

use super::{output, run};
use crate::{broker, topics};

/// Ten records in each of two partitions, a second of 1970 apart.
fn fill(servers: &str) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", servers).create().expect("producer");
    for (n, partition) in (0..10).flat_map(|n| [(n, 0), (n, 1)]) {
        let value = format!(r#"{{"n":{n}}}"#);
        let record =
            BaseRecord::<str, _>::to("numbers").partition(partition).timestamp(1000 + n * 1000).payload(&value);
        producer.send(record).map_err(|(error, _)| error).expect("taken");
    }
    producer.flush(Duration::from_secs(60)).expect("flush");
}

/// The group has read so many records of the partitions.
fn commit(servers: &str, group: &str, offsets: &[(i32, i64)]) {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", servers).set("group.id", group).create().expect("consumer");
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset("numbers", *partition, Offset::Offset(*offset)).expect("an offset");
    }
    consumer.commit(&list, CommitMode::Sync).expect("committed");
}

fn script(options: &str, servers: &str) -> NamedTempFile {
    let mut script = NamedTempFile::new().expect("file");
    let sql = format!(
        "CREATE TABLE numbers (n INT, part INT METADATA FROM 'partition' VIRTUAL) WITH ('connector' = 'kafka', 'topic' = 'numbers', 'format' = 'json',
           'properties.bootstrap.servers' = '{servers}', {options});
         CREATE TABLE counted (part INT, least INT, most INT, n BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'counted');
         INSERT INTO counted SELECT part, MIN(n), MAX(n), COUNT(*) FROM numbers GROUP BY part;"
    );
    script.write_all(sql.as_bytes()).expect("written");
    script
}

#[test]
fn a_table_starts_and_ends_where_its_options_say() {
    let broker = broker::shared();
    let servers = broker.servers();
    topics::create(servers, "numbers", 2);
    fill(servers);
    // The group of a table that is read to its end stands there afterwards.
    ["starts", "ends"].iter().for_each(|group| commit(servers, group, &[(0, 4), (1, 7)]));
    commit(servers, "one", &[(0, 4)]);
    let startup = |options: &str| format!("{options}, 'scan.bounded.mode' = 'latest-offset'");
    for (options, expected) in [
        (startup("'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '9000'"), ["0,8,9,2", "1,8,9,2"].as_slice()),
        (startup("'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:1,offset:3'"), &["0,0,9,10", "1,3,9,7"]),
        (startup("'scan.startup.mode' = 'group-offsets', 'properties.group.id' = 'starts'"), &["0,4,9,6", "1,7,9,3"]),
        ("'scan.bounded.mode' = 'timestamp', 'scan.bounded.timestamp-millis' = '3500'".to_owned(), &["0,0,2,3", "1,0,2,3"]),
        ("'scan.bounded.mode' = 'timestamp', 'scan.bounded.timestamp-millis' = '99000'".to_owned(), &["0,0,9,10", "1,0,9,10"]),
        ("'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = 'partition:0,offset:4;'".to_owned(), &["0,0,3,4"]),
        ("'scan.bounded.mode' = 'group-offsets', 'properties.group.id' = 'ends'".to_owned(), &["0,0,3,4", "1,0,6,7"]),
        (
            "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:2;partition:1,offset:8',
             'scan.bounded.mode' = 'timestamp', 'scan.bounded.timestamp-millis' = '6000'"
                .to_owned(),
            &["0,2,4,3"],
        ),
    ] {
        let printed = counted_by(&script(&options, servers));
        assert_eq!(printed, expected, "{options}");
    }
    let refused = script("'scan.bounded.mode' = 'group-offsets', 'properties.group.id' = 'one'", servers);
    let error = String::from_utf8_lossy(&output(refused.path(), 1, &[]).stderr).into_owned();
    assert!(error.contains("topic numbers partition 1: 'scan.bounded.mode' is 'group-offsets'"), "{error}");
}

/// The printed rows, in order.
fn counted_by(script: &NamedTempFile) -> Vec<String> {
    let printed = run(script.path(), 2, &[]);
    let mut rows: Vec<String> =
        printed.lines().filter_map(|line| line.strip_prefix("counted> ")).map(str::to_owned).collect();
    rows.sort_unstable();
    rows
}
