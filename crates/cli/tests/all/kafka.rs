//! From Kafka to Kafka as users run it: processes of the binary, a real broker, and the example scripts.

mod backlog;
mod changes;
mod exact;
mod keys;
mod outages;
mod patterns;
mod places;
mod versions;
mod workers;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::NamedTempFile;

const ROWS: u32 = 60_000;

fn example(name: &str) -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../examples").join(name)
}

/// Runs a script to its end in a separate process, with table options; returns its output.
fn run(script: &Path, parallelism: u32, options: &[String]) -> String {
    let output = output(script, parallelism, options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn output(script: &Path, parallelism: u32, options: &[String]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5s", "300s", env!("CARGO_BIN_EXE_anabranch"), "run"]).arg(script);
    command.args(["--plain", "--parallelism", &parallelism.to_string()]);
    options.iter().for_each(|option| {
        command.args(["--option", option]);
    });
    command.stdin(Stdio::null()).output().expect("the binary runs")
}

/// Printed result rows by what they say, with how often each was printed.
fn rows(printed: &str) -> BTreeMap<String, u32> {
    let mut rows = BTreeMap::new();
    for line in printed.lines().filter(|line| line.contains("2026-01-01")) {
        let values = line.split_once("> ").or_else(|| line.split_once(": ")).map_or(line, |(_, values)| values);
        *rows.entry(values.to_owned()).or_default() += 1;
    }
    rows
}

#[test]
fn the_main_job_from_kafka_to_kafka_gives_what_it_gives_without() {
    let broker = crate::broker::Broker::start();
    let server = |table: &str| format!("{table}.properties.bootstrap.servers={}", broker.servers());
    let generated = || {
        let start = ["rows-per-second=unlimited", "start-time=2026-01-01 00:00:00"];
        // In order: the rows of several partitions of the generator may be late in each partition of the
        // topic.
        let order = ["seed=1", "out-of-orderness=500 ms", "partitions=1"];
        start
            .iter()
            .chain(&order)
            .map(|option| format!("events.{option}"))
            .chain([format!("events.number-of-rows={ROWS}")])
            .collect::<Vec<_>>()
    };
    let direct = rows(&run(&example("ad_campaigns.sql"), 1, &generated()));
    assert!(direct.len() > 100 && direct.values().all(|n| *n == 1), "{direct:?}");

    run(&example("fill_kafka.sql"), 1, &[generated(), vec![server("topic")]].concat());
    let bounded = "events.scan.bounded.mode=latest-offset".to_owned();
    run(&example("ad_campaigns_kafka.sql"), 2, &[server("events"), server("results"), bounded]);
    let through_kafka = rows(&run(&example("read_results.sql"), 1, &[server("topic")]));
    assert_eq!(through_kafka, direct);
}

#[test]
fn a_topic_that_does_not_exist_is_an_error_that_names_it() {
    let broker = crate::broker::Broker::start();
    let mut script = NamedTempFile::new().expect("file");
    let sql = format!(
        "CREATE TABLE missing (a STRING) WITH ('connector' = 'kafka', 'topic' = 'no-such-topic', 'format' = 'json', \
         'properties.bootstrap.servers' = '{}');
         CREATE TABLE out (a STRING) WITH ('connector' = 'print');
         INSERT INTO out SELECT a FROM missing;",
        broker.servers()
    );
    script.write_all(sql.as_bytes()).expect("written");
    let output = Command::new("timeout")
        .args(["300s", env!("CARGO_BIN_EXE_anabranch"), "run"])
        .arg(script.path())
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no-such-topic") && error.contains("help:"), "{error}");
}
