//! A collector of OpenTelemetry: an HTTP server that keeps what it is sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// What it does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    Well,
    /// With status 500.
    Error,
    /// Not at all, but the connection stays.
    Never,
}

#[derive(Clone)]
pub(crate) struct Collector {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Collector {
    pub(crate) fn start(answers: Answers) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let collector = Collector { address, requests: Arc::default() };
        let own = collector.clone();
        let serve = move || {
            let mut kept = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                kept.extend(own.take(stream, answers));
            }
        };
        std::thread::Builder::new().name("collector".into()).spawn(serve).expect("a thread");
        collector
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Reads a request and answers it. Returns the connection if it must stay.
    fn take(&self, mut stream: TcpStream, answers: Answers) -> Option<TcpStream> {
        let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
        let (mut lines, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            lines.push(line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let first: Vec<&str> = lines.first()?.split_whitespace().collect();
        assert_eq!((first[0], first[2]), ("POST", "HTTP/1.1"), "{lines:?}");
        let is_json = lines.iter().any(|line| line.trim().eq_ignore_ascii_case("content-type: application/json"));
        assert!(is_json, "{lines:?}");
        let document = serde_json::from_slice(&body).expect("JSON");
        self.requests.lock().expect("not poisoned").push((first[1].to_owned(), document));
        let status = match answers {
            Answers::Well => "200 OK",
            Answers::Error => "500 Internal Server Error",
            Answers::Never => return Some(stream),
        };
        // The client may have left.
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}");
        None
    }

    /// How many requests have come.
    pub(crate) fn requests(&self) -> usize {
        self.requests.lock().expect("not poisoned").len()
    }

    fn of(&self, path: &str) -> Vec<Value> {
        let requests = self.requests.lock().expect("not poisoned");
        requests.iter().filter(|(of, _)| of == path).map(|(_, document)| document.clone()).collect()
    }

    /// All spans that have come, and the resource of each.
    pub(crate) fn spans(&self) -> Vec<(Value, Value)> {
        let requests = self.of("/v1/traces");
        let resources = requests.iter().map(|request| &request["resourceSpans"][0]);
        let of = |resource: &Value| -> Vec<(Value, Value)> {
            let spans = resource["scopeSpans"][0]["spans"].as_array().expect("spans");
            spans.iter().map(|span| (span.clone(), resource["resource"].clone())).collect()
        };
        resources.flat_map(of).collect()
    }

    /// The newest points of a metric, if it has come from a process of this role.
    pub(crate) fn points(&self, role: &str, name: &str) -> Vec<Value> {
        let requests = self.of("/v1/metrics");
        let resources = requests.iter().rev().map(|request| &request["resourceMetrics"][0]);
        let mut of_role = resources.filter(|of| attribute(&of["resource"], "anabranch.role") == role);
        let found = of_role.find_map(|of| {
            let metrics = of["scopeMetrics"][0]["metrics"].as_array().expect("metrics");
            metrics.iter().find(|metric| metric["name"] == name)
        });
        let points = found.map(|metric| match metric.get("sum") {
            Some(sum) => {
                assert!(sum["isMonotonic"] == true && sum["aggregationTemporality"] == 2, "{metric}");
                sum["dataPoints"].clone()
            }
            None => metric["gauge"]["dataPoints"].clone(),
        });
        points.and_then(|points| points.as_array().cloned()).unwrap_or_default()
    }
}

/// The text, or the number as text, of an attribute.
pub(crate) fn attribute(of: &Value, key: &str) -> String {
    let attributes = of["attributes"].as_array().expect("attributes");
    let found = attributes.iter().find(|attribute| attribute["key"] == key);
    let value = found.map(|attribute| attribute["value"].clone()).unwrap_or_default();
    ["stringValue", "intValue"].iter().find_map(|kind| value[kind].as_str()).unwrap_or_default().to_owned()
}
