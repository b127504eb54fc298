//! Jobs of a coordinator that has no workers: taken, listed, refused, stopped, and there again after a
//! restart.

use std::net::SocketAddr;
use std::path::Path;

use anabranch_server::Engine;
use anabranch_server::cluster::{Coordinator, CoordinatorOptions};
use anabranch_server::control::Security;
use serde_json::{Value, json};

use super::client::{Answer, LIMIT, get, post};
use super::schema::Description;
use super::{bind, events};

const ADS: &str = "/api/v1/jobs/ads";

fn start(store: &Path) -> (Coordinator, SocketAddr) {
    let listener = bind();
    let address = listener.address();
    let options = CoordinatorOptions {
        store: store.to_str().expect("text").to_owned(),
        listen: "127.0.0.1:0".parse().expect("an address"),
        advertise: None,
        authority: None,
        demo: None,
        security: Security::Plain { token: b"0123456789abcdef".to_vec() },
    };
    (Coordinator::start(Engine::default(), options, listener).expect("a coordinator"), address)
}

fn submit(address: SocketAddr, name: &str, sql: &str) -> Answer {
    post(address, "/api/v1/jobs", &json!({ "name": name, "sql": sql, "settings": { "parallelism": "2" } }).to_string())
}

/// Asks until the job is in this state, and returns it.
fn in_state(address: SocketAddr, job: &str, state: &str) -> Value {
    let slice = std::time::Duration::from_millis(10);
    let (_never, pause) = std::sync::mpsc::channel::<()>();
    for _ in 0..LIMIT.as_millis() / slice.as_millis() {
        let shown = get(address, job).json();
        if shown["state"] == state {
            return shown;
        }
        let _ = pause.recv_timeout(slice);
    }
    panic!("{job} is not {state}: {:?}", get(address, job));
}

#[test]
fn a_job_that_waits_for_slots_says_so() {
    let folder = tempfile::tempdir().expect("folder");
    let (coordinator, address) = start(folder.path());
    let sql = events(None).replace("SET 'job-name' = 'ads and more';", "");
    assert_eq!(submit(address, "ads", &sql).status, 201);
    in_state(address, ADS, "waiting");
    let why = get(address, &format!("{ADS}/why"));
    let description = Description(get(address, "/api/v1/openapi.json").json());
    let wrong = description.check(("/api/v1/jobs/{name}/why", "get", 200), &why.json());
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(why.json()["verdict"], json!("waiting"));
    assert!(why.json()["text"].as_str().is_some_and(|text| text.starts_with("the job waits for workers")), "{why:?}");
    coordinator.close(LIMIT);
}

#[test]
fn jobs_are_taken_refused_stopped_and_there_again() {
    let folder = tempfile::tempdir().expect("folder");
    let (coordinator, address) = start(folder.path());
    let description = Description(get(address, "/api/v1/openapi.json").json());
    let described = |answer: &Answer| {
        let wrong = description.check(("/api/v1/jobs", "post", answer.status), &answer.json());
        assert_eq!(wrong, Vec::<String>::new(), "{answer:?}");
    };
    assert_eq!(get(address, "/api/v1/jobs").json(), json!({ "jobs": [] }));
    assert_eq!(get(address, "/api/v1/workers").json(), json!({ "workers": [] }));
    assert_eq!(get(address, "/readyz").status, 200);
    let refused = |answer: &Answer, status: u16, error: &str| {
        let document = answer.json();
        let right = document["error"].as_str().is_some_and(|text| text.contains(error));
        assert!(answer.status == status && right && document["remedy"].is_string(), "{status} {error}: {answer:?}");
        described(answer);
    };
    let wrong = submit(address, "ads", &events(None).replace("COUNT(*)", "COUNT(nothing)"));
    refused(&wrong, 400, "nothing");
    let text = wrong.json()["text"].as_str().map(str::to_owned).expect("a text");
    assert!(text.starts_with("error: line ") && text.contains("^\n"), "{text}");
    refused(&submit(address, "a/b", &events(None)), 400, "cannot be the name");
    refused(&submit(address, "ads", &events(None).replace("blackhole", "print")), 400, "terminal");
    refused(&submit(address, "ads", "SET 'parallelism' = '1';"), 400, "nothing to run");
    refused(&post(address, "/api/v1/jobs", "{\"name\": \"ads\"}"), 400, "missing field `sql`");
    assert_eq!(get(address, "/api/v1/jobs").json(), json!({ "jobs": [] }), "nothing of them is left");

    let taken = submit(address, "ads", &events(None));
    assert_eq!((taken.status, taken.json()), (201, json!({ "name": "ads" })));
    described(&taken);
    let shown = in_state(address, ADS, "waiting");
    assert_eq!(shown["waits_for"], json!("2 more slots are needed for source events (stage 0)"));
    assert_eq!(get(address, "/api/v1/jobs").json()["jobs"][0]["waits_for"], shown["waits_for"]);
    let place = folder.path().canonicalize().expect("a folder").join("jobs/ads");
    assert_eq!(get(address, &format!("{ADS}/checkpoints")).json()["place"], json!(place));
    refused(&submit(address, "ads", &events(None)), 409, "already, which runs");
    changes_are_refused(address);
    assert_eq!(submit(address, "more", &events(None)).status, 201);
    assert_eq!(post(address, "/api/v1/jobs/more/cancel", "").status, 202);
    let cancelled = in_state(address, "/api/v1/jobs/more", "cancelled");
    assert_eq!(cancelled["failure"], json!(null));
    coordinator.close(LIMIT);

    // What waited is there again, and goes on waiting. What was cancelled is only listed.
    let (coordinator, address) = start(folder.path());
    in_state(address, ADS, "waiting");
    in_state(address, "/api/v1/jobs/more", "cancelled");
    assert_eq!(post(address, &format!("{ADS}/stop"), "").status, 202);
    in_state(address, ADS, "stopped");
    assert_eq!(post(address, &format!("{ADS}/stop"), "").status, 409);
    coordinator.close(LIMIT);

    let (coordinator, address) = start(folder.path());
    in_state(address, ADS, "stopped");
    removed(address);
    coordinator.close(LIMIT);

    let (_coordinator, address) = start(folder.path());
    assert_eq!(get(address, "/api/v1/jobs/more").status, 404, "what was removed does not come back");
    in_state(address, ADS, "stopped");
    assert_eq!(submit(address, "ads", &events(None)).status, 201, "a stopped job can be sent again");
    in_state(address, ADS, "waiting");
}

/// Of a job that waits for workers.
fn changes_are_refused(address: SocketAddr) {
    for (order, status, why) in [
        (json!({ "parallelism": 1 }), 409, "0 slots would be left, and the job needs 1"),
        (json!({ "sql": "SELECT" }), 400, "line 1"),
        (json!({ "moves": [{ "stage": 0, "task": 0, "to": "one" }] }), 400, "there is no worker 'one'"),
    ] {
        let answer = post(address, &format!("{ADS}/reconfigure"), &order.to_string());
        assert!(answer.status == status && answer.body.contains(why), "{order}: {answer:?}");
    }
    assert_eq!(post(address, "/api/v1/jobs/other/reconfigure", "{}").status, 404);
    let drained = post(address, "/api/v1/workers/one/drain", "");
    assert!(drained.status == 404 && drained.body.contains("there are no workers"), "{drained:?}");
}

/// Removes the cancelled job, once its state may be discarded.
fn removed(address: SocketAddr) {
    let remove = |job: &str, body: &str| post(address, &format!("/api/v1/jobs/{job}/remove"), body);
    let refused = remove("more", "");
    assert!(refused.status == 409 && refused.body.contains("anabranch remove more --discard-state"), "{refused:?}");
    assert_eq!(remove("other", "").status, 404);
    assert_eq!(remove("more", "[7]").status, 400);
    let removed = remove("more", "{\"discard_state\": true}");
    assert_eq!((removed.status, removed.json()), (200, json!({ "name": "more" })));
    let description = Description(get(address, "/api/v1/openapi.json").json());
    let called = ("/api/v1/jobs/{name}/remove", "post", removed.status);
    assert_eq!(description.check(called, &removed.json()), Vec::<String>::new());
    assert_eq!(get(address, "/api/v1/jobs/more").status, 404);
    assert_eq!(remove("more", "").status, 404);
}

#[test]
fn a_savepoint_of_a_job_that_waits_for_workers_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("folder");
    let (_coordinator, address) = start(folder.path());
    assert_eq!(submit(address, "ads", &events(None)).status, 201);
    in_state(address, ADS, "waiting");
    let place = json!({ "place": folder.path().join("savepoint") }).to_string();
    let refused = post(address, &format!("{ADS}/savepoint"), &place);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("2 more slots are needed for source events"), "{refused:?}");
    assert_eq!(post(address, &format!("{ADS}/remove"), "").status, 409, "it is not over");
}

#[test]
fn a_job_with_the_checkpoint_directory_of_another_one_is_refused() {
    let folder = tempfile::tempdir().expect("folder");
    let (_coordinator, address) = start(folder.path());
    let place = folder.path().join("shared");
    let sql = format!("SET 'checkpoint-directory' = '{}';\n{}", place.display(), events(None));
    assert_eq!(submit(address, "ads", &sql).status, 201);
    let refused = submit(address, "more", &sql);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("the running job 'ads' keeps its checkpoints there"), "{refused:?}");
    // Each of the remedies.
    let own = sql.replace("shared", "own");
    assert_eq!(submit(address, "more", &own).status, 201);
    assert_eq!(post(address, &format!("{ADS}/stop"), "").status, 202);
    in_state(address, ADS, "stopped");
    assert_eq!(submit(address, "third", &sql).status, 201);
}

#[test]
fn an_order_that_is_sent_again_because_its_answer_was_lost_is_taken_once() {
    let folder = tempfile::tempdir().expect("folder");
    let (coordinator, address) = start(folder.path());
    let order = |submission: &str| json!({ "name": "ads", "sql": events(None), "submission": submission }).to_string();
    let send = |address: SocketAddr, submission: &str| post(address, "/api/v1/jobs", &order(submission));
    for _ in 0..2 {
        let taken = send(address, "one");
        assert_eq!((taken.status, taken.json()), (201, json!({ "name": "ads" })));
    }
    assert_eq!(send(address, "another").status, 409);
    assert_eq!(submit(address, "ads", &events(None)).status, 409);
    assert_eq!(get(address, "/api/v1/jobs").json()["jobs"].as_array().map(Vec::len), Some(1));
    coordinator.close(LIMIT);
    let (_coordinator, address) = start(folder.path());
    assert_eq!(send(address, "one").status, 201, "another coordinator may answer");
    assert_eq!(send(address, "another").status, 409);
}
