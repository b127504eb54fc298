//! Changes of running jobs over HTTP.

use std::net::SocketAddr;
use std::path::Path;

use anabranch_server::http::{Script, Server};
use anabranch_server::{Engine, Job, Settings};
use serde_json::{Value, json};

use super::client::{Answer, LIMIT, get, post};
use super::schema::Description;
use super::{JOB, bind, events, ready, wait_for};

fn started(checkpoints: Option<&Path>) -> (Job, Server, SocketAddr) {
    started_with(events(None), checkpoints)
}

fn started_with(sql: String, checkpoints: Option<&Path>) -> (Job, Server, SocketAddr) {
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut all = vec![set("epoch-interval", "20 ms")];
    all.extend(checkpoints.map(|place| set("checkpoint-directory", place.to_str().expect("text"))));
    all.extend(checkpoints.map(|_| set("checkpoint-interval", "50 ms")));
    let settings = Settings { parallelism: Some(2), set: all, ..Settings::default() };
    let engine = Engine::default();
    let job = engine.run(&sql, &settings).expect("a job");
    let listener = bind();
    let address = listener.address();
    let server = job.serve_script(listener, Script { engine, sql, settings }).expect("it serves");
    ready(&job, address);
    (job, server, address)
}

/// The answer to a request for a change, which is as it is described.
fn change(address: SocketAddr, order: &Value) -> Answer {
    let answer = post(address, &format!("{JOB}/reconfigure"), &order.to_string());
    let described = Description(get(address, "/api/v1/openapi.json").json());
    let path = ("/api/v1/jobs/{name}/reconfigure", "post", answer.status);
    assert_eq!(described.check(path, &answer.json()), Vec::<String>::new());
    answer
}

fn changes(address: SocketAddr) -> Value {
    let answer = get(address, &format!("{JOB}/changes"));
    let described = Description(get(address, "/api/v1/openapi.json").json());
    let path = ("/api/v1/jobs/{name}/changes", "get", answer.status);
    assert_eq!(described.check(path, &answer.json()), Vec::<String>::new());
    answer.json()
}

fn fates(answer: &Value) -> Vec<&str> {
    answer["changes"].as_array().expect("changes").iter().filter_map(|change| change["fate"].as_str()).collect()
}

#[test]
fn a_running_job_is_changed_and_what_was_changed_before_stays() {
    let folder = tempfile::tempdir().expect("folder");
    let (job, _server, address) = started(Some(folder.path()));
    let rehearsed = change(address, &json!({ "parallelism": 3, "dry_run": true }));
    assert_eq!((rehearsed.status, &rehearsed.json()["version"]), (200, &json!(1)), "{rehearsed:?}");
    assert_eq!((&rehearsed.json()["unchanged"], fates(&rehearsed.json())), (&json!(true), vec!["kept"; 3]));
    assert_eq!(changes(address), json!({ "changing": false, "step": null, "changes": [] }));

    let rescaled = change(address, &json!({ "parallelism": 3 }));
    assert_eq!((rescaled.status, &rescaled.json()["version"]), (200, &json!(2)), "{rescaled:?}");
    assert!(rescaled.json()["took_ms"].as_f64() > Some(0.0), "{rescaled:?}");
    wait_for(&job, "three tasks of each stage", || get(address, JOB).json()["tasks"] == json!(6));
    let text = events(None).replace("COUNT(*)", "COUNT(*) + 1");
    let altered = change(address, &json!({ "sql": text }));
    assert_eq!((altered.status, &altered.json()["version"]), (200, &json!(3)), "{altered:?}");
    let plan = get(address, &format!("{JOB}/plan")).json();
    assert_eq!((&plan["version"], &plan["stages"][0]["parallelism"]), (&json!(3), &json!(3)));
    assert!(plan["text"].as_str().is_some_and(|text| text.contains("+ 1")), "{plan}");
    let again = change(address, &json!({ "sql": text }));
    assert_eq!((&again.json()["unchanged"], &again.json()["version"]), (&json!(true), &json!(3)), "{again:?}");

    let listed = changes(address);
    let listed: Vec<_> = listed["changes"].as_array().expect("changes").iter().collect();
    let [first, second, third] = listed[..] else { panic!("{listed:?}") };
    let parallelism = || {
        let plan = get(address, &format!("{JOB}/plan")).json();
        [0, 1].map(|stage| plan["stages"][stage]["parallelism"].as_u64())
    };
    let of_stage = change(address, &json!({ "parallelism": 2, "stage": 1 }));
    assert_eq!((of_stage.status, parallelism()), (200, [Some(3), Some(2)]), "{of_stage:?}");
    let altered = change(address, &json!({ "sql": events(None) }));
    assert_eq!((altered.status, parallelism()), (200, [Some(3), Some(2)]), "the stage keeps its number: {altered:?}");
    let of_all = change(address, &json!({ "parallelism": 1, "dry_run": false }));
    assert_eq!((of_all.status, parallelism()), (200, [Some(1), None]), "{of_all:?}");
    assert_eq!(change(address, &json!({ "parallelism": 2, "stage": 9 })).status, 400);
    assert_eq!((&first["request"], &first["outcome"]), (&json!("parallelism 3"), &json!("settled")));
    assert_eq!((&second["request"], &second["version"]), (&json!("new text"), &json!(3)));
    assert_eq!(third["outcome"], json!("unchanged"));
    assert_eq!(job.restarts(), [""; 0], "nothing has failed");
}

/// What becomes of each part, without numbers that grow meanwhile.
fn parts(answer: &Value) -> Vec<Value> {
    let of_part = |change: &Value| {
        let names = ["fate", "part", "number", "stage", "next_stage", "how"];
        let loads = change["loads"].as_array().expect("loads").iter();
        let loads = loads.map(|load| json!([load["worker"], load["tasks"], load["key_groups"]]));
        let mut part: Value = names.into_iter().map(|name| (name.to_owned(), change[name].clone())).collect();
        part["loads"] = loads.collect();
        part
    };
    answer["changes"].as_array().expect("changes").iter().map(of_part).collect()
}

/// The only part whose text has this.
fn part<'a>(answer: &'a Value, what: &str) -> &'a Value {
    let is_it = |change: &&Value| change["what"].as_str().is_some_and(|text| text.contains(what));
    let mut found = answer["changes"].as_array().expect("changes").iter().filter(is_it);
    let part = found.next().unwrap_or_else(|| panic!("{what}: {answer}"));
    assert!(found.next().is_none(), "{what}: {answer}");
    part
}

/// Counts in windows of 100 ms, and of so many seconds.
fn two_counts(count: &str, seconds: u32) -> String {
    let sql = events(None).replace("COUNT(*)", count);
    let second = format!(
        "INSERT INTO results SELECT ad_id, COUNT(*)
         FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND))
         GROUP BY ad_id, window_start, window_end;"
    );
    sql + &second
}

/// A dry run, then the change: it does what was foreseen. Returns what was foreseen.
fn foreseen_and_done(address: SocketAddr, order: &Value) -> Value {
    let mut rehearsed = order.clone();
    rehearsed["dry_run"] = json!(true);
    let foreseen = change(address, &rehearsed).json();
    let done = change(address, order).json();
    assert_eq!((&done["unchanged"], &done["ahead"]), (&json!(false), &json!(null)), "{done}");
    assert_eq!(parts(&done), parts(&foreseen), "{order}");
    let listed = changes(address)["changes"].as_array().and_then(|listed| listed.last().cloned()).expect("a record");
    assert_eq!((&listed["outcome"], parts(&listed)), (&json!("settled"), parts(&foreseen)), "{order}");
    assert_eq!(foreseen["ahead"]["plan"], get(address, &format!("{JOB}/plan")).json(), "{order}");
    assert!(foreseen["ahead"]["epoch"].is_u64() && foreseen["ahead"]["loads_ahead"].is_boolean(), "{foreseen}");
    for part in foreseen["changes"].as_array().expect("changes") {
        let (bytes, loaded) = (part["bytes"].as_u64(), part["loaded_bytes"].as_u64());
        match (part["how"].as_str(), part["part"].as_str()) {
            (Some("loaded"), Some("state")) => assert!(bytes >= loaded && loaded.is_some(), "{part}"),
            (Some("in-place" | "handed-over" | "reopened"), _) => assert_eq!(loaded, Some(0), "{part}"),
            (None, _) if part["fate"] != "kept" => assert_eq!(loaded, None, "{part}"),
            other => panic!("{other:?}: {part}"),
        }
    }
    foreseen
}

#[test]
fn a_change_does_what_its_dry_run_says_of_each_part() {
    let folder = tempfile::tempdir().expect("folder");
    let (job, _server, address) = started_with(two_counts("COUNT(*)", 1), Some(folder.path()));
    let has_checkpoint = || get(address, &format!("{JOB}/checkpoints")).json()["last"].is_object();
    wait_for(&job, "a checkpoint", has_checkpoint);
    let how = |part: &Value| (part["fate"].clone(), part["how"].clone(), part["loads"].clone());
    let opened = json!([{ "worker": "local", "tasks": 3, "key_groups": 0, "bytes": 0 }]);

    // All tasks get other key groups.
    let all = foreseen_and_done(address, &json!({ "parallelism": 3 }));
    assert_eq!(how(part(&all, "source events")), (json!("kept"), json!("reopened"), opened));
    for window in ["tumble 100 ms", "tumble 1 s"] {
        let state = part(&all, window);
        let load = &state["loads"][0];
        assert_eq!((&state["how"], &load["worker"]), (&json!("loaded"), &json!("local")), "{state}");
        assert_eq!((&load["tasks"], &load["key_groups"]), (&json!(3), &json!(128)), "{state}");
        assert!(
            state["what"].as_str().is_some_and(|text| text.contains("[ad_id STRING]: [count() BIGINT]")),
            "{state}"
        );
    }
    // Only one stage gets others.
    let stage = part(&all, "tumble 100 ms")["next_stage"].clone();
    let one = foreseen_and_done(address, &json!({ "parallelism": 2, "stage": stage }));
    assert_eq!(part(&one, "tumble 100 ms")["how"], json!("loaded"), "{one}");
    for stays in ["tumble 1 s", "source events"] {
        assert_eq!(how(part(&one, stays)), (json!("kept"), json!("in-place"), json!([])), "{one}");
    }
    // Another query before the same state.
    let counts = "COUNT(*) FILTER (WHERE event_time > 0)";
    let altered = foreseen_and_done(address, &json!({ "sql": two_counts(counts, 1) }));
    assert_eq!(how(part(&altered, "tumble 100 ms")), (json!("kept"), json!("handed-over"), json!([])), "{altered}");
    assert_eq!(how(part(&altered, "tumble 1 s")), (json!("kept"), json!("in-place"), json!([])), "{altered}");
    // One state stays, one is lost, and one is new.
    let order = json!({ "sql": two_counts(counts, 2), "allow_lost_state": true });
    let altered = foreseen_and_done(address, &order);
    assert_eq!(how(part(&altered, "tumble 100 ms")), (json!("kept"), json!("in-place"), json!([])), "{altered}");
    let (lost, new) = (part(&altered, "tumble 1 s"), part(&altered, "tumble 2 s"));
    assert_eq!((how(lost), &lost["next_stage"]), ((json!("lost"), json!(null), json!([])), &json!(null)), "{lost}");
    assert_eq!((how(new), &new["stage"]), ((json!("new"), json!(null), json!([])), &json!(null)), "{new}");
    assert!(lost["stage"].is_u64() && lost["bytes"].is_u64() && new["next_stage"].is_u64(), "{altered}");
    assert_ne!(lost["number"], new["number"], "a number is never used again");
    assert_eq!(job.restarts(), [""; 0], "nothing has failed");
}

#[test]
fn the_plan_of_an_earlier_version_is_there_as_long_as_its_samples() {
    let folder = tempfile::tempdir().expect("folder");
    let (job, _server, address) = started(Some(folder.path()));
    let sampled = |version: u32| {
        let past = get(address, &format!("{JOB}/history?at={}", i64::MAX)).json();
        past["job"]["plan_version"] == json!(version)
    };
    wait_for(&job, "a sample", || sampled(1));
    let plan = |parameters: &str| get(address, &format!("{JOB}/plan{parameters}"));
    let first = plan("").json();
    assert_eq!(change(address, &json!({ "parallelism": 3 })).status, 200);
    wait_for(&job, "a sample of the new version", || sampled(2));
    let second = plan("").json();
    assert_eq!((&first["version"], &second["version"]), (&json!(1), &json!(2)));
    assert_eq!((plan("?version=1").json(), plan("?version=2").json()), (first, second));
    let described = Description(get(address, "/api/v1/openapi.json").json());
    for (parameters, status) in [("?version=1", 200), ("?version=7", 404), ("?version=newest", 400)] {
        let answer = plan(parameters);
        assert_eq!(answer.status, status, "{answer:?}");
        let path = ("/api/v1/jobs/{name}/plan", "get", status);
        assert_eq!(described.check(path, &answer.json()), Vec::<String>::new());
    }
    let missing = plan("?version=7").json();
    assert_eq!(missing["error"], json!("version 7 of the plan of job 'ads and more' is not kept"));
    assert_eq!(missing["remedy"], json!("ask for a version that the history has: 1, 2"));
}

#[test]
fn a_change_that_is_wrong_or_refused_or_fails_leaves_the_job_as_it_is() {
    let folder = tempfile::tempdir().expect("folder");
    let (job, _server, address) = started(Some(folder.path()));
    let refused = |order: &Value, status: u16, error: &str| {
        let answer = change(address, order);
        let right = answer.json()["error"].as_str().is_some_and(|text| text.contains(error));
        assert!(answer.status == status && right, "{status} {error}: {answer:?}");
        answer.json()
    };
    for order in [json!({ "sq": "" }), json!({ "parallelism": 0 }), json!({ "moves": [{ "stage": 1 }] })] {
        assert!(refused(&order, 400, "the body is not a change")["remedy"].is_string());
    }
    let wrong = refused(&json!({ "sql": events(None).replace("COUNT(*)", "COUNT(nothing)") }), 400, "nothing");
    let text = wrong["text"].as_str().expect("a text");
    assert!(text.starts_with("error: line ") && text.contains("^\n"), "{text}");
    refused(&json!({ "sql": "SET 'parallelism' = '1';" }), 400, "nothing to run");
    refused(&json!({ "moves": [{ "stage": 0, "task": 0, "to": "second" }] }), 409, "in one process");
    refused(&json!({ "settings": { "epoch-interval": "10 ms" } }), 409, "changes epoch-interval");
    let other = events(None).replace("GROUP BY ad_id,", "GROUP BY").replace("ad_id, COUNT", "'x', COUNT");
    refused(&json!({ "sql": other }), 409, "the job would lose");
    let fails = events(None).replace("GROUP BY", "WHERE 1 / (event_time - event_time) > 0 GROUP BY");
    refused(&json!({ "sql": fails }), 409, "division by zero");
    let listed = changes(address);
    let outcomes = listed["changes"].as_array().expect("changes").iter().map(|change| &change["outcome"]);
    let outcomes: Vec<&str> = outcomes.filter_map(Value::as_str).collect();
    assert_eq!(outcomes, ["refused", "refused", "refused", "refused", "refused", "undone"]);
    let reason = listed["changes"][5]["reason"].as_str().expect("a reason");
    assert!(reason.contains("the job continues unchanged"), "{reason}");
    wait_for(&job, "the job goes on", || get(address, JOB).json()["state"] == "running");

    let unknown = post(address, "/api/v1/jobs/other/reconfigure", "{}");
    assert_eq!(unknown.status, 404, "{unknown:?}");
    let drained = post(address, "/api/v1/workers/local/drain", "");
    assert_eq!(drained.status, 409, "{drained:?}");
    let dropped = change(address, &json!({ "sql": other, "allow_lost_state": true }));
    assert_eq!(dropped.status, 200, "{dropped:?}");
    job.stop();
    assert!(job.wait_timeout(LIMIT), "the job hangs");
    refused(&json!({ "parallelism": 1 }), 409, "is stopped");
}

#[test]
fn a_job_without_checkpoints_cannot_be_changed() {
    let (_job, _server, address) = started(None);
    let answer = change(address, &json!({ "parallelism": 1 }));
    assert!(answer.status == 409 && answer.body.contains("keeps no checkpoints"), "{answer:?}");
}

/// The answer to a request for other functions, which is as it is described.
fn replace(address: SocketAddr, order: &Value) -> Answer {
    let answer = post(address, "/api/v1/functions", &order.to_string());
    let described = Description(get(address, "/api/v1/openapi.json").json());
    let path = ("/api/v1/functions", "post", answer.status);
    assert_eq!(described.check(path, &answer.json()), Vec::<String>::new());
    answer
}

#[test]
fn a_function_of_a_running_job_is_replaced() {
    let folder = tempfile::tempdir().expect("folder");
    let function = "CREATE FUNCTION more(n BIGINT) RETURNS BIGINT RETURN n + 1;\n";
    let sql =
        format!("{function}{}", events(None).replace("GROUP BY ad_id", "WHERE more(event_time) > 0 GROUP BY ad_id"));
    let (job, _server, address) = started_with(sql, Some(folder.path()));
    let new = "CREATE OR REPLACE FUNCTION more(n BIGINT) RETURNS BIGINT RETURN n + 1000";
    let checked = replace(address, &json!({ "sql": new, "dry_run": true })).json();
    let [of_job] = checked["jobs"].as_array().expect("jobs").as_slice() else { panic!("{checked}") };
    assert_eq!((&of_job["functions"], &of_job["outcome"]), (&json!(["more"]), &json!("checked")));
    assert_eq!((fates(of_job), &of_job["version"]), (vec!["kept"; 3], &json!(1)));
    let unused = "CREATE OR REPLACE FUNCTION other(n BIGINT) RETURNS BIGINT RETURN n";
    assert_eq!(replace(address, &json!({ "sql": unused })).json(), json!({ "jobs": [] }));
    let refused = |order: Value, status: u16, text: &str| {
        let answer = replace(address, &order);
        assert!(answer.status == status && answer.body.contains(text), "{status} {text}: {answer:?}");
        answer.json()
    };
    refused(json!({ "sq": new }), 400, "the body is not a change of functions");
    refused(json!({ "sql": "CREATE FUNCTION more() RETURNS BIGINT RETURN 1" }), 400, "is replaced, not created");
    let wrong = "-- of\nCREATE OR REPLACE FUNCTION more(n BOOLEAN) RETURNS BIGINT\nRETURN 1";
    let wrong = refused(json!({ "sql": wrong }), 400, "argument 'n' of more is BOOLEAN, not BIGINT");
    let name = &of_job["job"];
    assert!(
        wrong["place"]
            .as_str()
            .is_some_and(|place| place.starts_with(&format!("job '{}'", name.as_str().expect("a name"))))
    );
    let text = wrong["text"].as_str().expect("a text");
    assert!(text.contains("^\n"), "{text}");
    refused(json!({ "sql": "DROP FUNCTION more" }), 409, "function more is used by running jobs");
    refused(json!({ "sql": new, "jobs": ["other"] }), 409, "the jobs that use these functions are now");
    assert_eq!(changes(address)["changes"], json!([]), "nothing has changed");

    let replaced = replace(address, &json!({ "sql": new, "jobs": [name] })).json();
    assert_eq!((&replaced["jobs"][0]["outcome"], &replaced["jobs"][0]["version"]), (&json!("changed"), &json!(2)));
    let plan = get(address, &format!("{JOB}/plan")).json();
    assert!(plan["text"].as_str().is_some_and(|text| text.contains("1000")), "{plan}");
    let rescaled = change(address, &json!({ "parallelism": 1 }));
    assert_eq!(rescaled.json()["version"], json!(3), "{rescaled:?}");
    let plan = get(address, &format!("{JOB}/plan")).json();
    assert!(plan["text"].as_str().is_some_and(|text| text.contains("1000")), "the function stays: {plan}");
    let fails = "CREATE OR REPLACE FUNCTION more(n BIGINT) RETURNS BIGINT RETURN n / (n - n)";
    let failed = replace(address, &json!({ "sql": fails })).json();
    assert_eq!(failed["jobs"][0]["outcome"], json!("failed"), "{failed}");
    assert!(failed["jobs"][0]["error"].as_str().is_some_and(|error| error.contains("division by zero")), "{failed}");
    let listed = changes(address);
    let listed: Vec<_> = listed["changes"].as_array().expect("changes").iter().collect();
    assert_eq!((&listed[0]["request"], &listed[0]["outcome"]), (&json!("function more"), &json!("settled")));
    assert_eq!((&listed[2]["request"], &listed[2]["outcome"]), (&json!("function more"), &json!("undone")));
    // The tasks of the version that was undone have failed, and those of the one before follow them.
    let others = job.restarts().into_iter().filter(|why| !why.contains("division by zero"));
    assert_eq!(others.collect::<Vec<_>>(), [""; 0], "nothing else has failed");
}

/// Rows of 26 keys whose key groups are not evenly divided, most of all those of one.
#[test]
fn key_groups_follow_the_load_that_was_measured() {
    let folder = tempfile::tempdir().expect("folder");
    let by = "CASE WHEN MOD(event_time, 3) > 0 THEN 'hot' ELSE SUBSTRING(ad_id, 1, 2) END";
    let sql = events(None).replace("COUNT(*)", "COUNT(DISTINCT ad_id)");
    let sql =
        sql.replace("SELECT ad_id,", &format!("SELECT {by},")).replace("GROUP BY ad_id,", &format!("GROUP BY {by},"));
    let (job, _server, address) = started_with(sql, Some(folder.path()));
    let wrong = |order: &Value, why: &str| {
        let answer = change(address, order);
        assert!(
            answer.status == 400 && answer.json()["error"].as_str().is_some_and(|text| text.contains(why)),
            "{answer:?}"
        );
    };
    wrong(&json!({ "balance": {}, "parallelism": 3 }), "changes nothing else");
    wrong(&json!({ "balance": { "seconds": 0 } }), "cannot be measured for 0 s");
    wrong(&json!({ "balance": { "stage": 0 } }), "stage 0 has no tasks that own keys");
    let short = change(address, &json!({ "balance": { "seconds": 0.001 } })).json();
    assert_eq!((&short["unchanged"], &short["version"]), (&json!(true), &json!(1)), "{short}");
    assert_eq!(short["balance"]["stages"][0]["verdict"], json!("too few rows"), "{short}");

    let order = json!({ "balance": { "seconds": 2, "stage": 1 } });
    let balanced = change(address, &order).json();
    let stage = &balanced["balance"]["stages"][0];
    assert_eq!((&balanced["version"], &stage["verdict"]), (&json!(2), &json!("moves")), "{balanced}");
    let rows = |when: &str| [0, 1].map(|task| stage["tasks"][task][when]["rows_per_second"].as_f64().expect("rows"));
    let most = |[a, b]: [f64; 2]| a.max(b);
    assert!(most(rows("after")) < most(rows("before")), "{balanced}");
    assert!(stage["hot"][0]["rows_per_second"].as_f64() > Some(0.0), "most rows have one key: {balanced}");
    assert!(stage["moved"][0]["end"].is_u64(), "{balanced}");
    assert_eq!(fates(&balanced), vec!["kept"; 3]);
    let request = changes(address)["changes"][0]["request"].clone();
    assert!(request.as_str().is_some_and(|text| text.starts_with("balance: aggregate=")), "{request}");
    let options = |job: &Job| job.served().jobs()[0].plan().options.stage_key_groups.clone();
    assert_eq!(options(&job).len(), 1);

    // Another text keeps it, and another number of tasks does not.
    let text = events(None);
    assert_eq!(change(address, &json!({ "sql": text, "allow_lost_state": true })).status, 200);
    assert_eq!(options(&job).len(), 1);
    assert_eq!(change(address, &json!({ "parallelism": 3, "stage": 1 })).status, 200);
    assert_eq!(options(&job).len(), 0);
    assert_eq!(job.restarts(), [""; 0], "nothing has failed");
}
