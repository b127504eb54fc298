//! The export of `anabranch run` to a collector: what it gets, and that a collector that fails does not
//! disturb the job.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::collector::{Answers, Collector, attribute};

const COUNTED: &str = "
    CREATE TABLE events (ad_id STRING) WITH ('connector' = 'ad_events', 'number-of-rows' = '1000',
      'rows-per-second' = '2000');
    CREATE TABLE counts (events BIGINT) WITH ('connector' = 'print');
    INSERT INTO counts SELECT COUNT(*) FROM events;";

fn run(folder: &Path, url: &str, more: &[&str]) -> Output {
    let file = folder.join("counted.sql");
    std::fs::write(&file, COUNTED).expect("written");
    let place = format!("checkpoint-directory={}", folder.join("checkpoints").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command.args(["run", "--otlp", url, "--otlp-interval", "50ms", "--set", &place]).arg(&file).args(more);
    command.stdin(Stdio::null()).output().expect("runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_collector_gets_the_metrics_and_the_spans_of_a_job() {
    let folder = tempfile::tempdir().expect("folder");
    let collector = Collector::start(Answers::Well);
    let more = ["--set", "checkpoint-interval=100 ms", "--set", "job-name=ads"];
    let output = run(folder.path(), &collector.url(), &more);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "counts> 1000\n"));

    let rows = collector.points("run", "anabranch_task_input_rows_total");
    let of_source = |point: &&serde_json::Value| attribute(point, "stage") == "0";
    let source: Vec<_> = rows.iter().filter(of_source).collect();
    let read: f64 = source.iter().map(|point| point["asDouble"].as_f64().expect("a number")).sum();
    assert_eq!(read, 1000.0, "{rows:#?}");
    assert!(source.iter().all(|point| attribute(point, "job") == "ads"), "{rows:#?}");
    assert!(
        source.iter().all(|point| !attribute(point, "stage_name").is_empty() && !attribute(point, "task").is_empty())
    );
    let incarnation = collector.points("run", "anabranch_job_incarnation");
    assert_eq!(incarnation[0]["asDouble"], 1.0, "{incarnation:#?}");
    let quantiles = collector.points("run", "anabranch_task_latency_seconds");
    assert!(quantiles.iter().any(|point| attribute(point, "quantile") == "0.99"), "{quantiles:#?}");
    assert!(!collector.points("run", "anabranch_task_latency_seconds_count").is_empty());
    assert!(!collector.points("run", "anabranch_process_cpu_seconds_total").is_empty());

    let spans = collector.spans();
    let named = |name: &str| spans.iter().filter(|(span, _)| span["name"] == name).cloned().collect::<Vec<_>>();
    let (starts, checkpoints) = (named("start of an incarnation"), named("checkpoint"));
    assert_eq!(starts.len(), 1, "{spans:#?}");
    assert!(checkpoints.len() > 1, "{spans:#?}");
    for (span, resource) in &spans {
        let time = |field: &str| span[field].as_str().and_then(|time| time.parse::<u64>().ok()).expect("a time");
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span:#?}");
        assert_eq!((attribute(span, "job").as_str(), attribute(span, "incarnation").as_str()), ("ads", "1"));
        assert_eq!(span["traceId"].as_str().map(str::len), Some(32), "{span:#?}");
        assert_eq!((attribute(resource, "service.name").as_str(), span["kind"].as_u64()), ("anabranch", Some(1)));
    }
    let tasks = |span: &serde_json::Value| attribute(span, "tasks").parse::<u32>().expect("a number");
    assert!(
        checkpoints.iter().all(|(span, _)| tasks(span) > 1 && !attribute(span, "epoch").is_empty()),
        "{checkpoints:#?}"
    );
    assert!(starts[0].0["startTimeUnixNano"] != starts[0].0["endTimeUnixNano"], "{starts:#?}");
}

#[test]
fn a_collector_that_fails_does_not_disturb_the_job() {
    let refuses = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        format!("http://{}", listener.local_addr().expect("an address"))
    };
    for answers in [None, Some(Answers::Error), Some(Answers::Never)] {
        let folder = tempfile::tempdir().expect("folder");
        let collector = answers.map(Collector::start);
        let url = collector.as_ref().map_or_else(refuses, Collector::url);
        let output = run(folder.path(), &url, &["--log-format", "json"]);
        let said = text(&output.stderr);
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(0), "counts> 1000\n"),
            "{answers:?}: {said}"
        );
        let failures = said.matches("\"collector does not answer\"").count();
        // One that never answers is given up when a request has taken long, which may be after the job's end.
        assert!(failures == 1 || (failures == 0 && answers == Some(Answers::Never)), "{answers:?}: {said}");
        assert!(said.contains("\"job ended\""), "{said}");
        collector.iter().for_each(|collector| assert!(collector.requests() > 0, "{answers:?}"));
    }
}

#[test]
fn an_address_that_is_none_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let output = run(folder.path(), "https://127.0.0.1:4318", &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("option --otlp https://127.0.0.1:4318") && said.contains("help: "), "{said}");
}
