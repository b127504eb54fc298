//! A client of the API for the command line: one request for each connection, over plain HTTP or TLS.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Error, ErrorKind, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// Time to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Largest answer.
const ANSWER_MAX: u64 = 64 << 20;

/// Where the API is served, and how to reach it.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub url: String,
    /// The token of the process that serves it.
    pub token: Option<String>,
    /// File with the certificates that are trusted for TLS, in PEM.
    pub authority: Option<PathBuf>,
    /// Longest time without any byte of an answer.
    pub wait: Duration,
}

/// An answer that is no success.
#[derive(Debug)]
pub struct Refused {
    /// Status of HTTP.
    pub status: u16,
    /// The reason.
    pub error: Error,
}

/// Why a request has no answer, or not the one that was wanted.
#[derive(Debug)]
pub enum NoAnswer {
    /// The server has refused the request.
    Refused(Refused),
    /// There is no server, or it does not speak this protocol.
    Unreachable(Error),
}

impl From<NoAnswer> for Error {
    fn from(why: NoAnswer) -> Error {
        match why {
            NoAnswer::Refused(Refused { error, .. }) | NoAnswer::Unreachable(error) => error,
        }
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl Client {
    /// Gets a document.
    pub fn get(&self, path: &str) -> Result<Value, NoAnswer> {
        self.request("GET", path, "")
    }

    /// Requests a change.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, NoAnswer> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.request("POST", path, &body)
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Result<Value, NoAnswer> {
        let (status, body) = self.exchange(method, path, body).map_err(NoAnswer::Unreachable)?;
        let document = serde_json::from_slice(&body);
        let document: Value = document.map_err(|error| NoAnswer::Unreachable(self.stranger(&error.to_string())))?;
        match status {
            200..300 => Ok(document),
            _ => Err(NoAnswer::Refused(Refused { status, error: error_of(status, &document) })),
        }
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> Result<(u16, Vec<u8>)> {
        let (host, mut stream) = self.connect()?;
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{token}\r\n"
        );
        // A server that refuses a request does not read all of it: its answer says why.
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        let mut answer = Vec::new();
        let read = stream.take(ANSWER_MAX).read_to_end(&mut answer);
        if answer.is_empty() {
            sent.and(read).map_err(|error| self.unreachable(&error))?;
        }
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let head = end.and_then(|end| std::str::from_utf8(&answer[..end]).ok());
        let status = head.and_then(|head| head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        let (Some(end), Some(head), Some(status)) = (end, head, status) else {
            return Err(self.stranger("its answer is not HTTP"));
        };
        let body = answer[end + 4..].to_vec();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        match length.is_some_and(|length| length != body.len()) {
            true => Err(Error::outside("the connection broke before the answer was complete").at(self.url.clone())),
            false => Ok((status, body)),
        }
    }

    fn connect(&self) -> Result<(String, Box<dyn Stream>)> {
        let wrong = || {
            let error =
                Error::user("this is not the address of a coordinator").at(format!("--coordinator {}", self.url));
            error.remedy("give http://HOST:PORT or https://HOST:PORT, as the coordinator prints it")
        };
        let (scheme, rest) = self.url.split_once("://").ok_or_else(wrong)?;
        let host = rest.trim_end_matches('/');
        let addresses = host.to_socket_addrs().map_err(|_| wrong())?;
        let mut failure = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => return Ok((host.to_owned(), self.protect(scheme, host, stream, wrong)?)),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.map_or_else(wrong, |error| self.unreachable(&error)))
    }

    fn protect(
        &self,
        scheme: &str,
        host: &str,
        stream: TcpStream,
        wrong: impl Fn() -> Error,
    ) -> Result<Box<dyn Stream>> {
        let limit = Some(self.wait).filter(|wait| !wait.is_zero());
        stream
            .set_read_timeout(limit)
            .and_then(|()| stream.set_write_timeout(limit))
            .map_err(|e| self.unreachable(&e))?;
        match scheme {
            "http" => Ok(Box::new(stream)),
            "https" => {
                let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(name).map_err(|_| wrong())?;
                let client = ClientConnection::new(self.trust()?, name);
                let client = client.map_err(|error| Error::internal(format!("TLS cannot begin: {error}")))?;
                Ok(Box::new(StreamOwned::new(client, stream)))
            }
            _ => Err(wrong()),
        }
    }

    fn trust(&self) -> Result<Arc<ClientConfig>> {
        let missing = || {
            Error::user("an https address needs the certificate of its authority")
                .at(self.url.clone())
                .remedy("add --tls-ca FILE")
        };
        let path = self.authority.as_ref().ok_or_else(missing)?;
        let wrong = |why: String| {
            Error::user(format!("this file cannot be used: {why}")).at(format!("option --tls-ca {}", path.display()))
        };
        let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions();
        let config = config.map_err(|error| Error::internal(format!("TLS cannot be set up: {error}")))?;
        Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
    }

    fn unreachable(&self, error: &std::io::Error) -> Error {
        Error::outside(format!("no coordinator answers at {}: {error}", self.url)).remedy(
            "start one: anabranch coordinator --store DIRECTORY; if it runs elsewhere, give --coordinator or set \
             ANABRANCH_COORDINATOR",
        )
    }

    fn stranger(&self, why: &str) -> Error {
        let error = Error::outside(format!("what listens at {} is no coordinator: {why}", self.url));
        error.remedy("give the address that the coordinator prints (--coordinator)")
    }
}

/// The error that a document describes.
fn error_of(status: u16, document: &Value) -> Error {
    let text = |field: &str| document[field].as_str().map(str::to_owned);
    let message = text("error").unwrap_or_else(|| format!("the answer has status {status}"));
    let mut error = if status < 500 { Error::user(message) } else { Error::outside(message) };
    if let Some(place) = text("place") {
        error = error.at(place);
    }
    let remedy = match status {
        401 => Some("set ANABRANCH_TOKEN to the coordinator's token, or give --token-file".to_owned()),
        _ => text("remedy"),
    };
    remedy.into_iter().fold(error, Error::remedy)
}

impl Refused {
    /// Whether the sender of the request must change it.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.error.kind() == ErrorKind::User
    }
}
