//! The main job from Kafka to Kafka while its process is killed with SIGKILL at random moments: every result is in the
//! topic once, and is the one that a run without failures gives.
//!
//! `ANABRANCH_KILLS` says how often it is killed (3 by default; `make chaos` kills it 20 times), `ANABRANCH_SEED` when.

#[path = "../../connectors/tests/support/broker.rs"]
#[allow(dead_code, reason = "this test uses a part of the helper")]
mod broker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anabranch_model::Rng;
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

/// Events per second, and how long they last beside the kills.
const RATE: u32 = 10_000;
/// From the start of the process to its killing at most: long enough for some checkpoints.
const LIFE_MS_MAX: u64 = 2_000;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Starts a script in a process of its own.
fn start(script: &Path, arguments: &[String]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.arg("run").arg(script).args(["--plain"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

/// Waits for a process to end by itself; what it printed.
fn finish(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn options(table: &str, options: &[String]) -> Vec<String> {
    options.iter().flat_map(|option| ["--option".to_owned(), format!("{table}.{option}")]).collect()
}

/// Everything that is visible in a topic, with how often.
fn records(servers: &str, topic: &str) -> BTreeMap<String, u32> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("group.id", "independent").set("auto.offset.reset", "earliest");
    config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("consumer");
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10)).expect("metadata");
    let mut open = metadata.topics()[0].partitions().len();
    let mut assigned = TopicPartitionList::new();
    (0..open).for_each(|partition| drop(assigned.add_partition_offset(topic, partition as i32, Offset::Beginning)));
    consumer.assign(&assigned).expect("assigned");
    let (mut records, mut silent) = (BTreeMap::new(), 0);
    while open > 0 {
        match consumer.poll(Duration::from_millis(100)) {
            None => silent += 1,
            Some(Ok(message)) => {
                let text = String::from_utf8(message.payload().expect("a value").to_vec()).expect("text");
                *records.entry(text).or_default() += 1;
            }
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => panic!("{error}"),
        }
        assert!(silent < 300, "the topic is not read to its end");
    }
    records
}

/// Printed result rows without what identifies the table.
fn printed_rows(printed: &str) -> Vec<String> {
    let rows = printed.lines().filter(|line| line.contains("2026-01-01"));
    let mut rows: Vec<String> =
        rows.map(|line| line.split_once("> ").map_or(line, |(_, row)| row).to_owned()).collect();
    rows.sort();
    rows
}

#[test]
fn no_result_is_lost_or_doubled_however_often_the_process_is_killed() {
    let (kills, seed) = (number("ANABRANCH_KILLS").unwrap_or(3), number("ANABRANCH_SEED").unwrap_or(1));
    println!("seed {seed}, {kills} kills");
    let mut rng = Rng::new(seed);
    let broker = broker::Broker::start();
    let folder = tempfile::tempdir().expect("folder");
    let servers = format!("properties.bootstrap.servers={}", broker.servers());
    let rows = u64::from(RATE) * (kills * LIFE_MS_MAX / 2000 + 3);
    let generated: Vec<String> = ["start-time=2026-01-01 00:00:00", "seed=1", "out-of-orderness=500 ms"]
        .iter()
        .map(|option| (*option).to_owned())
        .chain([format!("number-of-rows={rows}"), format!("rows-per-second={RATE}")])
        .collect();
    let direct = start(&example("ad_campaigns.sql"), &options("events", &generated));
    let fill = [options("events", &generated), options("topic", std::slice::from_ref(&servers))].concat();
    let fill = start(&example("fill_kafka.sql"), &fill);

    let job = |bounded: bool, parallelism: u64| {
        let mut arguments = options("events", std::slice::from_ref(&servers));
        arguments.extend(options("results", std::slice::from_ref(&servers)));
        if bounded {
            arguments.extend(options("events", &["scan.bounded.mode=latest-offset".to_owned()]));
        }
        let directory = folder.path().to_str().expect("text");
        for set in [format!("checkpoint-directory={directory}"), "checkpoint-interval=100 ms".to_owned()] {
            arguments.extend(["--set".to_owned(), set]);
        }
        arguments.extend(["--parallelism".to_owned(), parallelism.to_string()]);
        start(&example("ad_campaigns_kafka.sql"), &arguments)
    };
    let mut killed = 0;
    while killed < kills {
        let mut child = job(false, 1 + rng.below(3));
        std::thread::park_timeout(Duration::from_millis(300 + rng.below(LIFE_MS_MAX - 300)));
        // The topic of events may not have been there yet: then the job has ended by itself, and is started again.
        let alive = child.try_wait().expect("status").is_none();
        child.kill().expect("killed");
        let output = child.wait_with_output().expect("output");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(alive || error.contains("does not exist"), "{error}");
        killed += u64::from(alive);
    }
    finish(fill);
    finish(job(true, 2));

    let expected = printed_rows(&finish(direct));
    assert!(expected.len() > 100, "{expected:?}");
    let records = records(broker.servers(), "ad-results");
    let doubled: Vec<_> = records.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "seed {seed}: visible more than once: {doubled:?}");
    assert_eq!(records.len(), expected.len(), "seed {seed}");
    let read = start(&example("read_results.sql"), &options("topic", std::slice::from_ref(&servers)));
    assert_eq!(printed_rows(&finish(read)), expected, "seed {seed}");
}
