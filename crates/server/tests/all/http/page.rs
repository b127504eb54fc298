//! What the page reads: streams of samples, the past, the reasons, statements before they are a job, and the
//! page itself.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anabranch_server::http::{Limits, Listen, Listener, Script, Server};
use anabranch_server::{Engine, Job, Settings};
use serde_json::{Value, json};

use super::client::{Answer, connect, get, post, send};
use super::schema::Description;
use super::{JOB, bind, events, ready, wait_for};

const TOKEN: &str = "correct-horse-battery-9";
const READ_TOKEN: &str = "only-to-look-at-things";

fn served(sql: &str) -> (Job, Server, SocketAddr) {
    let (engine, settings) = (Engine::default(), Settings { parallelism: Some(2), ..Settings::default() });
    let job = engine.run(sql, &settings).expect("a job");
    let listener = bind();
    let address = listener.address();
    let server = job.serve_script(listener, Script { engine, sql: sql.to_owned(), settings }).expect("it serves");
    ready(&job, address);
    (job, server, address)
}

/// Events as a client reads them.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(address: SocketAddr, path: &str) -> Stream {
        Stream::send(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    fn send(address: SocketAddr, request: &str) -> Stream {
        let mut stream = connect(address);
        stream.write_all(request.as_bytes()).expect("sent");
        Stream(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).expect("a line") > 0, "the stream has ended");
        line.trim_end().to_owned()
    }

    /// The next event: its name and its document.
    fn next(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let line = self.line();
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).expect("JSON"));
            }
        }
    }
}

/// RFC 7396, section 2.
fn patch(target: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        target.clone_from(change);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let members = target.as_object_mut().expect("an object");
    for (name, value) in change {
        match value {
            Value::Null => drop(members.remove(name)),
            value => patch(members.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}

fn without_null(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_null(value))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn a_stream_gives_the_same_documents_as_the_past() {
    let (job, _server, address) = served(&events(None));
    let mut stream = Stream::open(address, &format!("{JOB}/live"));
    let (name, mut document) = stream.next();
    assert_eq!(name, "whole");
    let mut tasks = Stream::open(address, &format!("{JOB}/live?stage=1"));
    assert_eq!(tasks.next().1["tasks"].as_object().map(serde_json::Map::len), Some(2), "the tasks of the stage");
    for _ in 0..3 {
        let (name, change) = stream.next();
        assert_eq!(name, "difference");
        assert!(change["stages"]["0"]["name"].is_null(), "what does not change is not sent: {change}");
        patch(&mut document, &change);
        let path = format!("{JOB}/history?at={}", document["at_ms"]);
        let mut then = get(address, &path).json();
        assert_eq!(then["seconds"], json!(1));
        then.as_object_mut().expect("an object").remove("seconds");
        assert_eq!(without_null(&document), without_null(&then));
    }
    // After a break: only what has changed since.
    let number = document["number"].as_u64().expect("a number");
    let (name, change) = Stream::open(address, &format!("{JOB}/live?from={number}")).next();
    assert!(name == "difference" || change["number"].as_u64() == Some(number), "{name} {change}");
    let (name, all) = Stream::open(address, "/api/v1/live").next();
    assert_eq!((name.as_str(), &all["jobs"]["ads and more"]["state"]), ("whole", &json!("running")));
    assert_eq!(all["workers"]["local"]["tasks"], json!(4));
    let past = get(address, &format!("{JOB}/history?from=0")).json();
    assert!(past["frames"].as_array().expect("frames").len() >= 3, "{past}");
    let began = &past["marks"][0];
    assert_eq!(began["kind"], json!("state"));
    let told = json!({ "job": "ads and more", "at_ms": began["at_ms"], "kind": "state", "text": began["text"] });
    assert!(all["marks"].as_array().expect("marks").contains(&told), "{all}");
    assert_eq!(get(address, &format!("{JOB}/history?from=yesterday")).status, 400);
    assert_eq!(get(address, "/api/v1/jobs/other/live").status, 404);
    job.stop();
    job.wait().expect("the job was not disturbed");
}

#[test]
fn a_client_that_takes_no_events_loses_its_connection() {
    let (engine, sql, settings) = (Engine::default(), events(None), Settings::default());
    let job = engine.run(&sql, &settings).expect("a job");
    let limits = Limits { connections: 2, client: std::time::Duration::from_secs(2), ..Limits::default() };
    let listener = bind().with_limits(limits);
    let address = listener.address();
    let _server = job.serve_script(listener, Script { engine, sql, settings }).expect("it serves");
    ready(&job, address);
    // Rows come faster than anybody can read them, and these two never read.
    let body = json!({ "sql": "CREATE TABLE n (x STRING) WITH ('connector' = 'datagen', 'fields.x.length' = '900'); SELECT x FROM n",
        "rows": 10000, "seconds": 60 })
    .to_string();
    let head =
        format!("POST /api/v1/sql/preview HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    let stalled = [(); 2].map(|()| Stream::send(address, &format!("{head}{body}")));
    assert_eq!(get(address, "/readyz").status, 200, "a place is free again");
    drop(stalled);
    job.stop();
    job.wait().expect("the job was not disturbed");
}

#[test]
fn streams_end_with_the_server() {
    let (job, server, address) = served(&events(None));
    let mut streams: Vec<Stream> = (0..4).map(|_| Stream::open(address, &format!("{JOB}/live"))).collect();
    streams.iter_mut().for_each(|stream| assert_eq!(stream.next().0, "whole"));
    drop(server);
    for stream in &mut streams {
        let mut rest = String::new();
        stream.0.read_to_string(&mut rest).expect("the end");
        assert!(rest.ends_with("0\r\n\r\n"), "the stream has its end: {rest:?}");
    }
    job.stop();
    job.wait().expect("the job was not disturbed");
}

#[test]
fn a_stream_outlives_the_time_of_a_slow_client_and_leaves_room_for_others() {
    let (engine, sql, settings) = (Engine::default(), events(None), Settings::default());
    let job = engine.run(&sql, &settings).expect("a job");
    let second = std::time::Duration::from_secs(1);
    let limits = Limits { unknown: second, headers: second, client: 3 * second, ..Limits::default() };
    let listener = bind().with_limits(limits);
    let address = listener.address();
    let _server = job.serve_script(listener, Script { engine, sql, settings }).expect("it serves");
    ready(&job, address);
    let streams: Vec<Stream> = (0..128).map(|_| Stream::open(address, "/api/v1/live")).collect();
    let mut open: Vec<Stream> = streams
        .into_iter()
        .map(|mut stream| {
            assert_eq!(stream.next().0, "whole");
            stream
        })
        .collect();
    let refused = get(address, "/api/v1/live");
    assert_eq!((refused.status, &refused.json()["remedy"]), (503, &json!("close other pages")));
    assert_eq!(get(address, "/readyz").status, 200, "probes have room");
    open.pop();
    wait_for(&job, "room for another one", || {
        let mut stream = Stream::open(address, "/api/v1/live");
        stream.line().contains("200")
    });
    for _ in 0..5 {
        open.iter_mut().for_each(|stream| assert_eq!(stream.next().0, "difference"));
    }
    job.stop();
    job.wait().expect("the job was not disturbed");
}

/// The answer, which is as it is described.
fn described(address: SocketAddr, route: &str, answer: &Answer) -> Value {
    let description = Description(get(address, "/api/v1/openapi.json").json());
    let (method, path) = route.split_once(' ').expect("a route");
    let wrong = description.check((path, method, answer.status), &answer.json());
    assert_eq!(wrong, Vec::<String>::new(), "{route}");
    answer.json()
}

#[test]
fn statements_are_checked_completed_and_previewed_before_they_are_a_job() {
    let (job, _server, address) = served(&events(None));
    let check = |sql: &str| {
        let answer = post(address, "/api/v1/sql/check", &json!({ "sql": sql }).to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        described(address, "post /api/v1/sql/check", &answer)
    };
    let table = "CREATE TABLE n (x BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '250', 'fields.x.kind' = 'sequence', 'fields.x.start' = '0', 'fields.x.end' = '249');\n";
    let wrong = check(&format!("{table}SELECT y FROM n"));
    assert_eq!(
        (&wrong["error"]["line"], &wrong["error"]["column"], &wrong["plan"]),
        (&json!(2), &json!(8), &json!(null))
    );
    let right = check(&format!("{table}SELECT x + 1 FROM n"));
    assert_eq!((&right["error"], &right["plan"]["stages"][0]["name"]), (&json!(null), &json!("source n")));
    assert_eq!(right["statements"], json!([{ "line": 1, "kind": "CREATE" }, { "line": 2, "kind": "SELECT" }]));

    let order = json!({ "sql": format!("{table}SELECT 'ä𝄞', x FROM n WHERE "), "cursor": table.len() + "SELECT '..2', x FR".len() });
    let answer = post(address, "/api/v1/sql/complete", &order.to_string());
    let found = described(address, "post /api/v1/sql/complete", &answer);
    assert_eq!(found["items"], json!(["FROM"]), "{found}");

    let preview = |sql: &str, rows: u32| {
        let body = json!({ "sql": sql, "rows": rows, "seconds": 20 }).to_string();
        let head =
            format!("POST /api/v1/sql/preview HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut stream = Stream::send(address, &(head + &body));
        let (mut all, mut columns) = (Vec::new(), Value::Null);
        loop {
            match stream.next() {
                (name, data) if name == "rows" => all.extend(data.as_array().expect("rows").clone()),
                (name, data) if name == "columns" => columns = data,
                (_, end) => return (columns, all, end),
            }
        }
    };
    let (columns, rows, end) = preview(&format!("{table}SELECT x, CAST(NULL AS STRING) AS s FROM n"), 100);
    assert_eq!(columns[0], json!({ "name": "x", "type": "BIGINT", "numeric": true }));
    assert_eq!((rows.len(), &end["reason"], &end["rows"]), (100, &json!("rows"), &json!(100)));
    assert!(rows.contains(&json!({ "weight": 1, "values": ["7", null] })), "{rows:?}");
    let (_, rows, end) = preview(&format!("{table}SELECT COUNT(*) FROM n"), 1000);
    let sum: i64 = rows.iter().map(|row| row["weight"].as_i64().expect("a weight")).sum();
    assert_eq!((sum, &end["reason"], &rows[rows.len() - 1]["values"]), (1, &json!("done"), &json!(["250"])));
    let (_, rows, _) = preview(&format!("{table}SELECT REPEAT('ü', 5000) FROM n"), 1);
    assert_eq!(rows[0]["values"][0].as_str().map(|text| text.chars().count()), Some(1001), "long values are cut");
    let (_, _, end) = preview("SELECT y", 1);
    assert_eq!((&end["reason"], &end["line"]), (&json!("error"), &json!(1)));
    let (_, _, end) = preview(&format!("{table}INSERT INTO n SELECT 1"), 1);
    assert_eq!(end["error"], json!("only a query has a preview"));
    assert_eq!(post(address, "/api/v1/sql/preview", "{}").status, 400);
    job.stop();
    job.wait().expect("the job was not disturbed");
}

#[test]
fn a_text_is_shown_without_its_secrets_and_keeps_them_when_it_comes_back() {
    let folder = tempfile::tempdir().expect("folder");
    let place = folder.path().to_str().expect("text");
    let text =
        events(None).replace("SET 'job-name'", &format!("SET 'checkpoint-directory' = '{place}'; SET 'job-name'"));
    let text = text.replace("'connector' = 'ad_events'", "'connector' = 'ad_events', 'seed' = '7'");
    // A table that nothing reads has a secret.
    let text = format!(
        "CREATE TABLE other (x INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1', 'format' = 'json',
           'properties.sasl.password' = 'hidden-secret'); {text}"
    );
    let (job, _server, address) = served(&text);
    let answer = get(address, &format!("{JOB}/sql"));
    let shown = described(address, "get /api/v1/jobs/{name}/sql", &answer);
    let sql = shown["sql"].as_str().expect("a text");
    assert!(sql.contains("***secret 1***") && !answer.body.contains("hidden-secret"), "{sql}");
    assert_eq!(shown["settings"], json!({ "parallelism": "2" }));
    let version = shown["version"].as_u64().expect("a version");
    let stale = json!({ "sql": sql, "if_version": version + 1 }).to_string();
    let refused = post(address, &format!("{JOB}/reconfigure"), &stale);
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("somebody else has changed it"), "{refused:?}");
    let order = json!({ "sql": sql.replace("COUNT(*)", "COUNT(*) + 1"), "if_version": version }).to_string();
    let changed = post(address, &format!("{JOB}/reconfigure"), &order);
    assert_eq!(changed.status, 200, "{changed:?}");
    let again = get(address, &format!("{JOB}/sql")).json();
    assert!(again["sql"].as_str().is_some_and(|sql| sql.contains("***secret 1***") && sql.contains("+ 1")), "{again}");
    job.stop();
    job.wait().expect("the job was not disturbed");
}

/// The parts of a text, which has no line end within them.
fn parts<'t>(text: &'t str, ranges: &Value) -> Vec<&'t str> {
    let cut = |range: &Value| {
        let number = |place: &str, what: &str| range[place][what].as_u64().expect("a number") as usize;
        assert_eq!(number("from", "line"), number("to", "line"), "{range}");
        let line = text.lines().nth(number("from", "line") - 1).expect("a line");
        let byte = |column: usize| line.char_indices().nth(column - 1).map_or(line.len(), |(at, _)| at);
        &line[byte(number("from", "column"))..byte(number("to", "column"))]
    };
    ranges.as_array().expect("parts").iter().map(cut).collect()
}

#[test]
fn operators_are_found_in_the_text_that_is_shown() {
    // A mark is longer than the secret, and both are before all that is looked for, in one line.
    let text = format!(
        "CREATE TABLE other (x INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1',
           'format' = 'json', 'properties.sasl.password' = 'hidden-secret'); /* ä𝄞 */ {}",
        events(None).replace('\n', " ")
    );
    let (job, _server, address) = served(&text);
    let shown = get(address, &format!("{JOB}/sql")).json();
    let sql = shown["sql"].as_str().expect("a text");
    assert!(sql.contains("***secret 1***"), "{sql}");
    let plan = described(address, "get /api/v1/jobs/{name}/plan", &get(address, &format!("{JOB}/plan")));
    assert_eq!(plan["version"], shown["version"]);
    let stages = plan["stages"].as_array().expect("stages");
    let tumble = "TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '0.1' SECOND))";
    assert_eq!(parts(sql, &stages[0]["sql"]["source"]), [tumble]);
    let last = &stages[stages.len() - 1];
    assert_eq!(parts(sql, &last["sql"]["sink"]), ["results"]);
    let operators = last["operators"].as_array().expect("operators");
    let is_final = |operator: &Value| operator.as_str().is_some_and(|text| text.starts_with("Final aggregate"));
    let place = operators.iter().position(is_final).expect("an aggregate");
    let of_final = parts(sql, &last["sql"]["operators"][place]);
    assert_eq!(of_final, ["COUNT(*)", tumble, "ad_id, window_start, window_end"], "{plan}");
    assert_eq!(operators.len(), last["sql"]["operators"].as_array().map_or(0, Vec::len));
    // A text that is checked is the client's own.
    let body = json!({ "sql": text }).to_string();
    let checked = post(address, "/api/v1/sql/check", &body).json();
    assert_eq!(parts(&text, &checked["plan"]["stages"][0]["sql"]["source"]), [tumble]);
    job.stop();
    job.wait().expect("the job was not disturbed");
}

#[test]
fn a_second_token_only_reads() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |name: &str, token: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, token).expect("written");
        Some(path)
    };
    let listen = Listen {
        address: "127.0.0.1:0".into(),
        token_file: file("token", TOKEN),
        read_token_file: file("read", READ_TOKEN),
        ..Listen::default()
    };
    let alone = Listen { token_file: None, ..listen.clone() };
    let refused = Listener::bind(&alone).err().expect("it needs the other one").to_string();
    assert!(refused.contains("add --token-file FILE"), "{refused}");
    let (engine, sql, settings) = (Engine::default(), events(None), Settings::default());
    let job = engine.run(&sql, &settings).expect("a job");
    let listener = Listener::bind(&listen).expect("it listens");
    let address = listener.address();
    let _server = job.serve_script(listener, Script { engine, sql, settings }).expect("it serves");
    let with = |token: &str, method: &str, path: &str| {
        send(address, method, path, &format!("Authorization: Bearer {token}"), "{}")
    };
    let description = with(READ_TOKEN, "GET", "/api/v1/openapi.json").json();
    for (path, of_path) in description["paths"].as_object().expect("paths") {
        if of_path["post"].is_object() {
            let path = path.replace("/api/v1/jobs/{name}", JOB).replace("{name}", "local");
            let refused = with(READ_TOKEN, "POST", &path);
            assert_eq!(refused.status, 403, "{path}: {refused:?}");
            assert_eq!(refused.json()["remedy"], json!("use the token of --token-file, not that of --read-token-file"));
        }
    }
    assert_eq!(with(READ_TOKEN, "GET", JOB).status, 200);
    let about = |token: &str| with(token, "GET", "/api/v1/server").json()["reads_only"].clone();
    assert_eq!((about(READ_TOKEN), about(TOKEN)), (json!(true), json!(false)));
    assert_eq!(get(address, "/api/v1/live").status, 401);
    assert_eq!(get(address, &format!("/api/v1/live?token={TOKEN}")).status, 401, "a token in an address is none");
    assert_eq!(get(address, "/").status, 200, "the page has no data");
    assert_eq!(with(TOKEN, "POST", &format!("{JOB}/stop")).status, 202);
    job.wait().expect("the job was not disturbed");
}

#[test]
fn no_other_site_shows_the_page_or_uses_it() {
    let (job, _server, address) = served(&events(None));
    for path in ["/", "/api/v1/jobs", "/healthz", "/nothing", "/page/nothing.js"] {
        let answer = get(address, path);
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'none'"), "{policy}");
        for (name, value) in
            [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), ("x-frame-options", "DENY")]
        {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        let rebound = send(address, "GET", path, "Host: evil.example", "");
        assert!(path == "/healthz" || rebound.status == 403, "{path}: {rebound:?}");
    }
    let description = get(address, "/api/v1/openapi.json").json();
    for (path, of_path) in description["paths"].as_object().expect("paths") {
        if of_path["post"].is_object() {
            let path = path.replace("/api/v1/jobs/{name}", JOB).replace("{name}", "local");
            let refused = send(address, "POST", &path, "Origin: http://evil.example", "{}");
            assert_eq!(refused.status, 403, "{path}: {refused:?}");
        }
    }
    let page = get(address, "/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let missing = get(address, "/page/nothing.js");
    assert_eq!((missing.status, missing.json()["remedy"].as_str().is_some()), (404, true));
    job.stop();
    job.wait().expect("the job was not disturbed");
}
