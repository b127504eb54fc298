//! What the processes of a cluster log, and what they export.

use serde_json::Value;

use super::{rows, script};
use crate::collector::{Answers, Collector, attribute};
use crate::harness::{Cluster, file, free};
use crate::process::Process;

/// The events of a process, each of which is JSON.
fn events(process: &Process) -> Vec<Value> {
    let said = process.said();
    let events = serde_json::Deserializer::from_str(&said).into_iter();
    events.map(|event| event.unwrap_or_else(|error| panic!("{error}: {said}"))).collect()
}

fn find(events: &[Value], name: &str) -> Value {
    let found = events.iter().find(|event| event["event"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {events:#?}")).clone()
}

#[test]
fn the_processes_of_a_cluster_log_json_and_export_to_a_collector() {
    let folder = tempfile::tempdir().expect("folder");
    let collector = Collector::start(Answers::Well);
    let mut cluster = Cluster::start(folder.path());
    let (listen, http) = (cluster.listen(), cluster.http());
    cluster.stop_coordinator(0);
    let store = folder.path().join("store");
    let export = ["--log-format", "json", "--otlp", &collector.url(), "--otlp-interval", "100ms"];
    let http = http.trim_start_matches("http://");
    let place = ["coordinator", "--store", store.to_str().expect("text"), "--listen", &listen, "--http", http];
    let ends = ["--log-level", "debug", "--end-with-parent"];
    let mut coordinator = cluster.child(&[&place[..], &export, &ends].concat());
    cluster.until("the coordinator", || coordinator.said().contains("coordinator started"));
    let place = ["worker", "--coordinator", &listen, "--name", "first", "--slots", "4", "--end-with-parent"];
    let mut worker = cluster.child(&[&place[..], &export].concat());

    let job = file(folder.path(), "ads.sql", &script(folder.path(), Some(2000), 2000));
    cluster.ok(&["submit", &job, "--parallelism", "2", "--set", "checkpoint-interval=100 ms"]);
    cluster.until("the end of the job", || cluster.state("ads") == "ended");
    assert_eq!(rows(folder.path()), 2000);
    cluster.until("the end of its tasks", || worker.said().contains("tasks end"));
    cluster.until("metrics of the coordinator", || {
        let states = collector.points("coordinator", "anabranch_job_state");
        states.iter().any(|point| attribute(point, "state") == "ended" && point["asDouble"] == 1.0)
    });
    cluster.until("metrics of the worker", || !collector.points("worker", "anabranch_process_threads").is_empty());
    let checkpoints = || collector.spans().into_iter().filter(|(span, _)| span["name"] == "checkpoint");
    cluster.until("a checkpoint", || checkpoints().count() > 0);
    assert!(
        checkpoints().all(|(span, of)| {
            attribute(&span, "job") == "ads" && attribute(&of, "anabranch.role") == "coordinator"
        })
    );

    let said = events(&coordinator);
    assert!(said.iter().all(|event| event["time"].is_string() && event["level"].is_string()), "{said:#?}");
    assert!(find(&said, "leads")["url"].is_string());
    let joined = find(&said, "worker joined");
    assert_eq!((&joined["worker"], &joined["slots"]), (&"first".into(), &4.into()));
    for name in ["job submitted", "incarnation begins", "incarnation runs", "checkpoint completed", "job ended"] {
        assert_eq!(find(&said, name)["job"], "ads", "{said:#?}");
    }
    assert!(find(&said, "incarnation begins")["term"].is_u64());
    assert!(find(&said, "checkpoint completed")["epoch"].is_u64());
    let said = events(&worker);
    let run = find(&said, "tasks run");
    assert_eq!((&run["job"], &run["worker"], &run["incarnation"]), (&"ads".into(), &"first".into(), &1.into()));
    assert!(find(&said, "joins the cluster")["coordinator"].is_string());

    coordinator.close_input();
    cluster_lost(&cluster, &worker);
    worker.close_input();
    assert_eq!((coordinator.end(), worker.end()), (Some(130), Some(130)));
}

/// The worker notices the end of its coordinator.
fn cluster_lost(cluster: &Cluster, worker: &Process) {
    let lost = || events(worker).into_iter().find(|event| event["event"] == "coordinator lost");
    cluster.until("the end of the connection", || lost().is_some());
    let lost = lost().expect("an event");
    assert!(lost["level"] == "warn" && lost["error"].is_string(), "{lost}");
}

#[test]
fn lines_of_a_process_for_people_have_time_level_and_fields() {
    let folder = tempfile::tempdir().expect("folder");
    let cluster = Cluster::start(folder.path());
    let (listen, http) = (free().to_string(), free().to_string());
    let store = folder.path().join("other").display().to_string();
    let arguments = ["coordinator", "--store", &store, "--listen", &listen, "--http", &http, "--end-with-parent"];
    for (level, leads) in [("info", true), ("warn", false)] {
        let mut coordinator = cluster.child(&[&arguments[..], &["--log-level", level]].concat());
        cluster.until("the coordinator", || coordinator.said().contains("workers connect to"));
        let said = coordinator.said();
        assert_eq!(said.contains(&format!("Z info leads address={listen} url=http://{http}")), leads, "{said}");
        coordinator.close_input();
        assert_eq!(coordinator.end(), Some(130));
    }
}
