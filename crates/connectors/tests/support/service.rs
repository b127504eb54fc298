//! A service over HTTP for tests: it knows users by their numbers, takes its time, and fails when it is told
//! to. To be included with `#[path]` by the tests of any crate under `crates/`; needs nothing but the
//! standard library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A running service.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) port: u16,
    #[allow(dead_code, reason = "each test file that includes this uses what it needs")]
    pub(crate) state: Arc<State>,
}

/// What it does, and what it has seen.
#[derive(Default)]
pub(crate) struct State {
    /// How long each answer takes.
    pub(crate) delay_ms: AtomicU64,
    /// Requests fail for a while.
    pub(crate) fails: AtomicBool,
    pub(crate) requests: AtomicU64,
    pub(crate) keys: AtomicU64,
    /// The most keys of a request.
    pub(crate) most_keys: AtomicU64,
    /// It closes connections without requests after this time; 0: never.
    pub(crate) closes_after_ms: AtomicU64,
    /// Requests under way, and the most there were.
    now: AtomicU64,
    pub(crate) most: AtomicU64,
}

/// What it says of a user: the one whose number ends with 3 it does not know.
pub(crate) fn name_of(id: u64) -> Option<String> {
    (id % 10 != 3).then(|| format!("user, number \"{id}\""))
}

#[allow(dead_code, reason = "each test file that includes this uses what it needs")]
impl Service {
    pub(crate) fn start(delay_ms: u64) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State { delay_ms: AtomicU64::new(delay_ms), ..State::default() });
        let shared = Arc::clone(&state);
        let accept = move || {
            for connection in listener.incoming() {
                let state = Arc::clone(&shared);
                let serve = move || serve(&connection.expect("a connection"), &state);
                std::thread::Builder::new().name("service".into()).spawn(serve).expect("a thread");
            }
        };
        std::thread::Builder::new().name("service".into()).spawn(accept).expect("a thread");
        Service { port, state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// Answers the requests of a connection until it ends.
fn serve(connection: &TcpStream, state: &State) {
    let mut reader = BufReader::new(connection.try_clone().expect("a connection"));
    let mut line = String::new();
    let patience = Some(state.closes_after_ms.load(SeqCst)).filter(|ms| *ms > 0).map(Duration::from_millis);
    connection.set_read_timeout(patience).expect("a connection");
    while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        let request = std::mem::take(&mut line);
        let (mut length, mut token) = (0, false);
        while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
            let header = std::mem::take(&mut line).to_ascii_lowercase();
            if let Some(bytes) = header.strip_prefix("content-length:") {
                length = bytes.trim().parse().expect("a number");
            }
            token |= header.trim() == "authorization: bearer let-me-in";
        }
        line.clear();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let now = state.now.fetch_add(1, SeqCst) + 1;
        state.most.fetch_max(now, SeqCst);
        state.requests.fetch_add(1, SeqCst);
        anabranch_model::pause(Duration::from_millis(state.delay_ms.load(SeqCst)));
        let (status, text) = match (token, state.fails.load(SeqCst)) {
            (false, _) => ("401 Unauthorized", "who are you?".to_owned()),
            (_, true) => ("503 Service Unavailable", "not now".to_owned()),
            _ => answer(&request, &String::from_utf8(body).expect("text"), state),
        };
        state.now.fetch_sub(1, SeqCst);
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        if (&mut &*connection).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(request: &str, body: &str, state: &State) -> (&'static str, String) {
    let user = |id: u64| {
        let name = name_of(id)?.replace('"', "\\\"");
        Some(format!("{{\"name\": \"{name}\", \"level\": {}, \"id\": {id}}}", id % 10))
    };
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    match (method, path.strip_prefix("/users")) {
        ("GET", Some(id)) => {
            state.keys.fetch_add(1, SeqCst);
            let id: u64 = id.trim_start_matches('/').parse().expect("a number");
            // Without the number: the one who has asked knows it.
            user(id).map_or(("404 Not Found", "nobody".to_owned()), |user| {
                ("200 OK", format!("[{}]", user.replace(&format!(", \"id\": {id}"), "")))
            })
        }
        ("POST", Some("")) => {
            let ids = body.split("\"id\":").skip(1).map(|rest| {
                let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<u64>().expect("a number")
            });
            let ids: Vec<u64> = ids.collect();
            state.keys.fetch_add(ids.len() as u64, SeqCst);
            state.most_keys.fetch_max(ids.len() as u64, SeqCst);
            ("200 OK", format!("[{}]", ids.into_iter().filter_map(user).collect::<Vec<_>>().join(", ")))
        }
        _ => ("400 Bad Request", "what?".to_owned()),
    }
}
