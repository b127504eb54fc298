//! The HTTP interface of a running job, over real sockets.

mod checkpoints;
mod client;
mod coordinator;
mod exposition;
mod page;
mod reconfigure;
mod schema;
mod security;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anabranch_server::http::{Limits, Listen, Listener, Server};
use anabranch_server::{Engine, Job, Settings, TaskMetrics};
use serde_json::json;

use self::client::{Answer, LIMIT, connect, get, post, received, send};
use self::schema::Description;

/// Events that do not end, or end after a number of rows; counted in windows of 100 ms.
fn events(rows: Option<u32>) -> String {
    let rows = rows.map(|rows| format!(", 'number-of-rows' = '{rows}'")).unwrap_or_default();
    format!(
        "SET 'job-name' = 'ads and more';
         CREATE TABLE events (ad_id STRING, event_time BIGINT, ts AS TO_TIMESTAMP_LTZ(event_time, 3),
           WATERMARK FOR ts AS ts) WITH ('connector' = 'ad_events', 'rows-per-second' = '5000',
           'start-time' = '2026-01-01 00:00:00'{rows});
         CREATE TABLE results (ad_id STRING, n BIGINT) WITH ('connector' = 'blackhole');
         INSERT INTO results SELECT ad_id, COUNT(*)
         FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))
         GROUP BY ad_id, window_start, window_end;"
    )
}

/// The job's path.
const JOB: &str = "/api/v1/jobs/ads%20and%20more";

fn start(rows: Option<u32>, checkpoints: Option<&Path>) -> Job {
    let mut set = vec![("epoch-interval".to_owned(), "20 ms".to_owned())];
    set.extend(checkpoints.map(|place| ("checkpoint-directory".to_owned(), place.to_str().expect("text").to_owned())));
    set.extend(checkpoints.map(|_| ("checkpoint-interval".to_owned(), "50 ms".to_owned())));
    Engine::default().run(&events(rows), &Settings { parallelism: Some(2), set, ..Settings::default() }).expect("a job")
}

fn bind() -> Listener {
    Listener::bind(&Listen { address: "127.0.0.1:0".into(), ..Listen::default() }).expect("a free port")
}

fn serve(job: &Job) -> (Server, SocketAddr) {
    let listener = bind();
    let address = listener.address();
    (job.serve(listener).expect("it serves"), address)
}

/// Asks until the answer is right.
fn wait_for(job: &Job, what: &str, mut so: impl FnMut() -> bool) {
    let slice = Duration::from_millis(5);
    for _ in 0..LIMIT.as_millis() / slice.as_millis() {
        if so() {
            return;
        }
        assert!(!job.wait_timeout(slice), "the job has ended before {what}");
    }
    panic!("{what} did not happen");
}

fn ready(job: &Job, address: SocketAddr) {
    wait_for(job, "all tasks run", || get(address, "/readyz").status == 200);
}

/// The routes that show something, all of which docs/http.md lists.
fn shown_paths(description: &Description) -> Vec<&String> {
    let paths = description.0["paths"].as_object().expect("paths");
    let guide = include_str!("../../../../docs/http.md");
    for path in paths.keys() {
        assert!(
            guide.contains(&format!(" {}` |", path.replace("{name}", "NAME"))),
            "docs/http.md does not list {path}"
        );
    }
    // The page and the streams have tests of their own, and so has the text of a job, which this one does not
    // tell.
    let is_shown = |path: &&String| {
        let elsewhere =
            path.ends_with("/live") || path.ends_with("/sql") || !path.contains('/') || path.starts_with("/page/");
        paths[*path]["get"].is_object() && !elsewhere && path.as_str() != "/"
    };
    paths.keys().filter(is_shown).collect()
}

#[test]
fn every_route_answers_as_it_is_described() {
    let folder = tempfile::tempdir().expect("folder");
    let job = start(None, Some(&folder.path().join("checkpoints")));
    let (_server, address) = serve(&job);
    ready(&job, address);
    let sampled = || get(address, &format!("{JOB}/checkpoints")).json()["history"].clone();
    let is_sampled = || sampled().as_array().is_some_and(|marks| marks.iter().any(|mark| mark["phases"].is_object()));
    wait_for(&job, "a checkpoint in a sample", is_sampled);
    let described = get(address, "/api/v1/openapi.json");
    let description = Description(described.json());
    assert_eq!((described.status, description.0["openapi"].as_str()), (200, Some("3.1.0")));
    let check = |path: &str, method: &str, answer: &Answer| {
        let wrong = description.check((path, method, answer.status), &answer.json());
        assert_eq!(wrong, Vec::<String>::new(), "{method} {path}");
    };
    for path in shown_paths(&description) {
        let answer = get(address, &path.replace("/api/v1/jobs/{name}", JOB));
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        if path == "/metrics" {
            assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        } else {
            check(path, "get", &answer);
        }
    }
    let savepoint = folder.path().join("savepoint");
    let order = json!({ "place": savepoint }).to_string();
    let answer = post(address, &format!("{JOB}/savepoint"), &order);
    assert_eq!(answer.status, 201, "{answer:?}");
    check("/api/v1/jobs/{name}/savepoint", "post", &answer);
    assert!(savepoint.join("savepoint.json").exists() && answer.json()["rows"].as_u64() > Some(0), "{answer:?}");
    let answer = post(address, "/api/v1/jobs", "{\"name\": \"b\", \"sql\": \"\"}");
    assert_eq!(answer.status, 409, "{answer:?}");
    check("/api/v1/jobs", "post", &answer);
    let answer = post(address, &format!("{JOB}/stop"), "");
    assert_eq!((answer.status, answer.json()), (202, json!({ "name": "ads and more", "requested": "stop" })));
    check("/api/v1/jobs/{name}/stop", "post", &answer);
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    let refused = post(address, &format!("{JOB}/stop"), "");
    assert_eq!((refused.status, &refused.json()["error"]), (409, &json!("the job 'ads and more' is stopped")));
    check("/api/v1/jobs/{name}/stop", "post", &refused);
}

#[test]
fn a_job_is_shown_as_it_is() {
    let job = start(None, None);
    let (_server, address) = serve(&job);
    ready(&job, address);
    let shown = get(address, JOB).json();
    assert_eq!((&shown["state"], &shown["stages"], &shown["tasks"]), (&json!("running"), &json!(2), &json!(4)));
    wait_for(&job, "a rate", || get(address, JOB).json()["rows_read_per_second"].as_f64() > Some(0.0));
    let plan = get(address, &format!("{JOB}/plan")).json();
    assert_eq!((&plan["stages"][0]["name"], &plan["exchanges"][0]["to"]), (&json!("source events"), &json!(1)));
    let tasks = get(address, &format!("{JOB}/tasks")).json();
    let threads: Vec<_> =
        tasks["tasks"].as_array().expect("tasks").iter().map(|task| task["thread"].as_u64()).collect();
    let expected: Vec<_> = job.metrics().iter().map(|task| task.thread.map(u64::from)).collect();
    assert_eq!(threads, expected);
    let workers = get(address, "/api/v1/workers").json();
    assert_eq!(workers["workers"][0]["pid"], json!(std::process::id()));
    let cancelled = post(address, &format!("{JOB}/cancel"), "");
    assert_eq!((cancelled.status, cancelled.json()), (202, json!({ "name": "ads and more", "requested": "cancel" })));
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    let shown = get(address, JOB).json();
    assert_eq!((&shown["state"], &shown["failure"]), (&json!("cancelled"), &json!(null)));
    assert_eq!(get(address, "/readyz").status, 503);
    assert_eq!(get(address, "/healthz").json(), json!({ "healthy": true }));
    job.wait().expect_err("it was cancelled");
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason_and_a_remedy() {
    let job = start(None, None);
    let (_server, address) = serve(&job);
    let refused = |answer: &Answer, status: u16, error: &str, remedy: &str| {
        let document = answer.json();
        let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
        assert_eq!(document.as_object().map(|fields| fields.len()), Some(3), "{document}");
        let right = answer.status == status && text("error").contains(error) && text("remedy").contains(remedy);
        assert!(right, "{status} {error} {remedy}: {answer:?}");
    };
    refused(&get(address, "/api/v1/jobs/other"), 404, "no job 'other'", "'ads and more'");
    refused(&get(address, "/api/v2/jobs"), 404, "nothing at this path", "/api/v1/openapi.json");
    let method = send(address, "DELETE", JOB, "", "");
    refused(&method, 405, "DELETE", "use GET");
    assert_eq!(method.header("allow"), Some("GET"));
    let savepoint = format!("{JOB}/savepoint");
    for body in ["", "{}", "{\"place\": 5}", "{\"place\": \" \"}", "{\"place\": \"a\", \"b\": 1}"] {
        refused(&post(address, &savepoint, body), 400, "the body is not a request", "{\"place\":");
    }
    refused(&post(address, &savepoint, "{\"place\": \"a\"}"), 409, "keeps no checkpoints", "checkpoint-directory");
    let large = "x".repeat(100_000);
    refused(&post(address, &savepoint, &large), 413, "more than 65536 bytes", "shorter");
    refused(&send(address, "POST", &savepoint, "Origin: http://localhost:1", "{}"), 403, "another site", "browser");
    refused(&send(address, "GET", JOB, "Host: example.org", ""), 403, "localhost", "--token-file");
    assert_eq!(send(address, "GET", JOB, "Host: [::1]:80", "").status, 200);
    let header = format!("X-Large: {}", "x".repeat(50_000));
    assert_eq!(send(address, "GET", JOB, &header, "").status, 431);
    let head = send(address, "HEAD", JOB, "", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let mut garbage = connect(address);
    garbage.write_all(b"\x16\x03\x01 not HTTP\r\n\r\n").expect("sent");
    assert_eq!(received(&mut garbage).status, 400);
    job.stop();
    job.wait().expect("no request has harmed the job");
}

#[test]
fn the_guide_explains_every_metric_and_no_other() {
    let folder = tempfile::tempdir().expect("folder");
    let job = start(None, Some(folder.path()));
    let (_server, address) = serve(&job);
    let guide = include_str!("../../../../docs/http.md");
    let explained: BTreeSet<&str> = guide.split('`').filter(|word| word.starts_with("anabranch_")).collect();
    // Some exist only after the first checkpoint, the first watermark, or the second group; those of lookups,
    // in jobs that ask a table.
    let here = |name: &&&str| !name.starts_with("anabranch_task_lookup_");
    wait_for(&job, "every metric that is explained", || {
        let metrics = exposition::parse(&get(address, "/metrics").body);
        let unknown: Vec<_> = metrics.keys().filter(|name| !explained.contains(name.as_str())).collect();
        assert!(unknown.is_empty(), "docs/http.md does not explain {unknown:?}");
        explained.iter().filter(here).all(|name| metrics.contains_key(*name))
    });
}

#[test]
fn a_savepoint_needs_an_empty_place() {
    let folder = tempfile::tempdir().expect("folder");
    let job = start(None, Some(&folder.path().join("checkpoints")));
    let (_server, address) = serve(&job);
    let order = json!({ "place": folder.path().join("checkpoints") }).to_string();
    let refused = post(address, &format!("{JOB}/savepoint"), &order);
    assert_eq!(refused.status, 409, "{refused:?}");
    let error = refused.json();
    assert!(error["error"].as_str().is_some_and(|error| error.contains("must be empty")), "{error}");
    assert!(error["place"].is_string() && error["remedy"] == json!("give a new place"), "{error}");
}

#[test]
fn metrics_are_those_of_the_job() {
    let folder = tempfile::tempdir().expect("folder");
    let job = start(Some(3_000), Some(folder.path()));
    let (_server, address) = serve(&job);
    exposition::parse(&get(address, "/metrics").body);
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    let metrics = exposition::parse(&get(address, "/metrics").body);
    let tasks = job.metrics();
    let of_task = |name: &str, of: fn(&TaskMetrics) -> f64| {
        let found: Vec<_> = metrics[name].samples.iter().map(|(_, labels, value)| (labels.clone(), *value)).collect();
        let pair = |name: &str, value: String| (name.to_owned(), value);
        let labels = |task: &TaskMetrics| {
            let (stage, index) = (task.task.stage.0.to_string(), task.task.index.to_string());
            let job = pair("job", "ads and more".into());
            vec![job, pair("stage", stage), pair("stage_name", task.stage_name.clone()), pair("task", index)]
        };
        let expected: Vec<_> = tasks.iter().map(|task| (labels(task), of(task))).collect();
        assert_eq!(found, expected, "{name}");
    };
    of_task("anabranch_task_input_rows_total", |task| task.rows_in as f64);
    of_task("anabranch_task_input_bytes_total", |task| task.bytes_in as f64);
    of_task("anabranch_task_output_rows_total", |task| task.rows_out as f64);
    of_task("anabranch_task_output_bytes_total", |task| task.bytes_out as f64);
    of_task("anabranch_task_busy_seconds_total", |task| task.busy_ns as f64 / 1e9);
    of_task("anabranch_task_idle_seconds_total", |task| task.idle_ns as f64 / 1e9);
    of_task("anabranch_task_backpressured_seconds_total", |task| task.backpressured_ns as f64 / 1e9);
    of_task("anabranch_task_late_rows_total", |task| task.late_rows as f64);
    of_task("anabranch_task_malformed_rows_total", |task| task.malformed_rows as f64);
    of_task("anabranch_task_epoch", |task| task.epoch as f64);
    of_task("anabranch_task_queue_bytes", |task| task.queue_bytes as f64);
    let single = |name: &str| metrics[name].samples[0].2;
    let status = job.status();
    assert_eq!(single("anabranch_job_checkpoints_completed_total"), status.checkpoints_completed as f64);
    let last = status.last_checkpoint.expect("the one at the end");
    assert_eq!(single("anabranch_job_last_checkpoint_duration_seconds"), last.took.as_secs_f64());
    assert_eq!((single("anabranch_job_restarts_total"), single("anabranch_job_ready")), (0.0, 0.0));
    let state: Vec<_> = metrics["anabranch_job_state"].samples.iter().filter(|(.., value)| *value == 1.0).collect();
    assert!(matches!(state[..], [(_, labels, _)] if labels[1].1 == "ended"), "{state:?}");
    let latency = &metrics["anabranch_task_latency_seconds"];
    let rows: Vec<f64> = latency.samples.iter().filter(|(name, ..)| name.ends_with("_count")).map(|s| s.2).collect();
    assert_eq!(rows, tasks.iter().map(|task| task.latency.rows as f64).collect::<Vec<_>>());
    assert!(single("anabranch_process_cpu_seconds_total") > 0.0);
    assert!(single("anabranch_process_resident_memory_bytes") > 1e6);
}

/// A client that sends nothing, half a request, or never reads an answer holds the only connection that the
/// server has. It is closed, and the next client is answered. The job does not notice.
#[test]
fn slow_clients_are_closed_and_others_are_answered() {
    let job = start(None, None);
    let wait = Duration::from_millis(200);
    let limits = Limits { connections: 1, unknown: wait, handshake: wait, headers: wait, body: wait, client: wait };
    let listener = bind().with_limits(limits);
    let address = listener.address();
    let server = job.serve(listener).expect("it serves");
    let next_is_answered = || assert_eq!(get(address, "/healthz").json(), json!({ "healthy": true }));
    let silent = connect(address);
    next_is_answered();
    let mut half = connect(address);
    half.write_all(b"POST /api/v1/jobs/x/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
        .expect("sent");
    assert_eq!(received(&mut half).status, 408, "the body was awaited");
    next_is_answered();
    let mut deaf = connect(address);
    // The answers fill the buffers of both sockets; then the server reads no further request.
    let requests = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100_000);
    deaf.write_all(&requests).expect_err("the server waits, or has closed the connection");
    next_is_answered();
    // Connections that are held do not delay the end of the server.
    let held = connect(address);
    drop(server);
    job.stop();
    job.wait().expect("the job was not disturbed");
    drop((silent, deaf, held));
}
