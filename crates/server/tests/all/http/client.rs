//! A client of HTTP that sends exactly what a test wants: a socket, one request for each connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Nothing that works takes this long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// A socket to the server.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream.set_write_timeout(Some(LIMIT)).expect("a limit");
    stream
}

/// Sends a request with these further headers, one in each line.
pub(crate) fn send(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    exchange(&mut connect(address), method, path, headers, body)
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, "GET", path, "", "")
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    send(address, "POST", path, "", body)
}

/// Sends a request over TLS, to a server whose certificate is signed by this one.
pub(crate) fn send_tls(address: SocketAddr, authority: &CertificateDer<'static>, headers: &str, path: &str) -> Answer {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let name = ServerName::try_from("localhost").expect("a name");
    let client = ClientConnection::new(Arc::new(config.with_no_client_auth()), name).expect("a client");
    exchange(&mut StreamOwned::new(client, connect(address)), "GET", path, headers, "")
}

fn exchange(stream: &mut (impl Read + Write), method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let host = if headers.to_ascii_lowercase().contains("host:") { "" } else { "Host: localhost\r\n" };
    let headers: String = headers.lines().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    // A server that refuses a request does not read all of it.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    received(stream)
}

/// Reads an answer up to the end of the connection.
pub(crate) fn received(stream: &mut impl Read) -> Answer {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    // A server that has refused a body resets the connection, after its answer.
    while let Ok(read @ 1..) = stream.read(&mut piece) {
        text.extend_from_slice(&piece[..read]);
    }
    let text = String::from_utf8(text).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status =
        lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()).expect("a status");
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers: Vec<_> = lines.map(|line| header(line).expect("a header")).collect();
    Answer { status, headers, body: body.to_owned() }
}
