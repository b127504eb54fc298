use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use anabranch_server::http::{Called, Client, Server};
use serde_json::json;
use tempfile::TempDir;

use super::*;

const TOKEN: &str = "correct-horse-battery-9";
const READ_TOKEN: &str = "only-reads-and-changes-0";

/// A server of these keys, and where orders arrive.
struct Scene {
    address: SocketAddr,
    _server: Server,
    orders: Receiver<Asked>,
}

fn start(config: &Config) -> Result<Scene> {
    let listener = listener(config)?.expect("an address");
    let address = listener.address();
    let (sender, orders) = channel();
    let status = Arc::new(Mutex::new(Status { writes: 7, ..Status::default() }));
    let server = listener.serve_paths(Arc::new(Control { status, orders: sender }))?;
    Ok(Scene { address: SocketAddr::from(([127, 0, 0, 1], address.port())), _server: server, orders })
}

fn config(listen: &str) -> Config {
    Config { listen: Some(listen.parse().expect("an address")), ..Config::default() }
}

/// Files with tokens and a certificate, as the keys name them.
fn files() -> (TempDir, Config) {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let file = |name: &str, text: &str| -> Option<PathBuf> {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        Some(path)
    };
    let (token_file, read_token_file) = (file("token", TOKEN), file("read", READ_TOKEN));
    let (tls_cert, tls_key) = (file("cert.pem", &made.cert.pem()), file("key.pem", &made.signing_key.serialize_pem()));
    let config = Config { token_file, read_token_file, tls_cert, tls_key, ..config("0.0.0.0:0") };
    (folder, config)
}

/// Sends a request; `headers` end each with a line break.
fn ask(scene: &Scene, method: &str, path: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(scene.address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    stream.write_all((head + body).as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

const HERE: &str = "Host: localhost\r\n";
const SWITCH: &str = "/api/v1/osched/switch";
const PAUSE: &str = "/api/v1/osched/pause";

/// Takes the next orders, and answers them in turn.
fn take(orders: Receiver<Asked>, answers: Vec<Result<()>>) -> JoinHandle<Vec<String>> {
    let loops = move || {
        let answered = answers.into_iter().map(|given| {
            let Asked { order, answer } = orders.recv().expect("an order");
            answer.send(given).expect("taken");
            format!("{order:?}")
        });
        answered.collect()
    };
    std::thread::Builder::new().name("loop".into()).spawn(loops).expect("a thread")
}

#[test]
fn the_status_is_served_as_json_and_for_prometheus() {
    let scene = start(&config("127.0.0.1:0")).expect("a server");
    assert!(ask(&scene, "GET", "/api/v1/osched", "Host: 127.0.0.1:1\r\n", "").contains("\"writes\":7"));
    assert!(ask(&scene, "GET", "/metrics", HERE, "").contains("anabranch_osched_writes_total 7"));
    let missing = ask(&scene, "GET", "/other", HERE, "");
    assert!(missing.starts_with("HTTP/1.1 404") && missing.contains("GET /api/v1/osched"), "{missing}");
}

#[test]
fn orders_go_to_the_loop_and_its_answer_comes_back() {
    let mut scene = start(&config("127.0.0.1:0")).expect("a server");
    let orders = std::mem::replace(&mut scene.orders, channel().1);
    let taken = take(orders, vec![Ok(()), Err(Error::user("not now").remedy("later"))]);
    let body = "{\"policy\": \"p\", \"priority\": \"drain\"}";
    assert!(ask(&scene, "POST", SWITCH, HERE, body).starts_with("HTTP/1.1 200"));
    let refused = ask(&scene, "POST", PAUSE, HERE, "{\"paused\": true}");
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("not now"), "{refused}");
    let expected = ["Switch { policy: \"p\", priority: \"drain\" }", "Pause(true)"];
    assert_eq!(taken.join().expect("no panic"), expected);
    let gone = ask(&scene, "POST", PAUSE, HERE, "{\"paused\": true}");
    assert!(gone.starts_with("HTTP/1.1 503"), "{gone}");
    let wrong = ask(&scene, "POST", PAUSE, HERE, "{\"pause\": 1}");
    assert!(wrong.starts_with("HTTP/1.1 400") && wrong.contains("unknown field"), "{wrong}");
}

#[test]
fn pages_of_browsers_are_refused() {
    let scene = start(&config("127.0.0.1:0")).expect("a server");
    for headers in ["Host: evil.example\r\n", "Host: localhost\r\nOrigin: http://evil.example\r\n"] {
        for (method, path) in [("GET", "/metrics"), ("GET", "/api/v1/osched"), ("POST", PAUSE)] {
            let refused = ask(&scene, method, path, headers, "{\"paused\": true}");
            assert!(refused.starts_with("HTTP/1.1 403"), "{headers}{refused}");
        }
    }
    let refused = ask(&scene, "GET", "/metrics", "Host: evil.example\r\n", "");
    assert!(refused.contains("use http://127.0.0.1:PORT, or start with token-file"), "{refused}");
    assert!(ask(&scene, "GET", "/metrics", "Host: 127.0.0.1:7070\r\n", "").starts_with("HTTP/1.1 200"));
    assert!(scene.orders.try_recv().is_err(), "no order has reached the loop");
}

#[test]
fn each_request_needs_the_token_and_one_that_reads_changes_nothing() {
    let (_folder, files) = files();
    let keys = Config { token_file: files.token_file, read_token_file: files.read_token_file, ..config("127.0.0.1:0") };
    let mut scene = start(&keys).expect("a server");
    let with = |token: &str| format!("{HERE}Authorization: Bearer {token}\r\n");
    for (method, path) in [("GET", "/metrics"), ("GET", "/api/v1/osched"), ("POST", SWITCH), ("POST", PAUSE)] {
        for headers in [HERE.to_owned(), with("correct-horse-battery-8")] {
            let refused = ask(&scene, method, path, &headers, "{\"paused\": true}");
            assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("content of token-file"), "{refused}");
        }
    }
    assert!(ask(&scene, "GET", "/metrics", &with(READ_TOKEN), "").starts_with("HTTP/1.1 200"));
    let reads = ask(&scene, "POST", PAUSE, &with(READ_TOKEN), "{\"paused\": true}");
    assert!(reads.starts_with("HTTP/1.1 403") && reads.contains("use the token of token-file"), "{reads}");
    let taken = take(std::mem::replace(&mut scene.orders, channel().1), vec![Ok(())]);
    let paused = ask(&scene, "POST", PAUSE, &with(TOKEN), "{\"paused\": true}");
    assert!(paused.starts_with("HTTP/1.1 200"), "{paused}");
    assert_eq!(taken.join().expect("no panic"), ["Pause(true)"]);
}

/// The messages lead from an address without protection to one that the command reaches.
#[test]
fn an_address_for_others_needs_a_token_and_tls() {
    let (_folder, files) = files();
    let open = config("0.0.0.0:0");
    let refused = |config: &Config| start(config).err().expect("refused").to_string();
    let none = refused(&open);
    assert!(none.contains("add token-file = \"FILE\" and tls-cert = \"FILE\" and tls-key = \"FILE\","), "{none}");
    let with_token = Config { token_file: files.token_file.clone(), ..open };
    let no_tls = refused(&with_token);
    assert!(no_tls.contains("add tls-cert = \"FILE\" and tls-key = \"FILE\","), "{no_tls}");
    let half = refused(&Config { tls_cert: files.tls_cert.clone(), ..with_token });
    assert!(half.contains("tls-cert needs tls-key"), "{half}");
    let mut scene = start(&files).expect("as the messages say");
    let client = |token: Option<&str>, authority: Option<PathBuf>| Client {
        urls: vec![format!("https://localhost:{}", scene.address.port())],
        token: token.map(str::to_owned),
        authority,
        wait: Duration::from_secs(60),
        server: Called::Osched,
    };
    let (bare, without, known) =
        (client(Some(TOKEN), None), client(None, files.tls_cert.clone()), client(Some(TOKEN), files.tls_cert));
    let taken = take(std::mem::replace(&mut scene.orders, channel().1), vec![Ok(())]);
    let body = json!({"policy": "p", "priority": "drain"});
    let error = |client: &Client| Error::from(client.post(SWITCH, &body).expect_err("refused")).to_string();
    assert!(error(&bare).contains("add --tls-ca FILE"), "{}", error(&bare));
    assert!(error(&without).contains("token-file names in its osched.toml"), "{}", error(&without));
    known.post(SWITCH, &body).expect("switched");
    assert_eq!(taken.join().expect("no panic").len(), 1);
}
