//! A client of the API for the command line: one request for each connection, over plain HTTP or TLS.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock as _, Error, ErrorKind, Result, SystemClock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

const CONNECT: Duration = Duration::from_secs(10);
/// Time for a coordinator to start, or for one of several to take over.
const CHANGE: Duration = Duration::from_secs(5);
/// Time for one of several coordinators to say that it lives.
const ALIVE: Duration = Duration::from_secs(2);
/// Pause before the coordinators are asked again.
const AGAIN: Duration = Duration::from_millis(200);
const ANSWER_MAX: u64 = 64 << 20;

/// Where the API is served, and how to reach it.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Each `http://HOST:PORT` or `https://HOST:PORT`. Of several coordinators one leads, and answers.
    pub urls: Vec<String>,
    /// The token of the process that serves it.
    pub token: Option<String>,
    /// File with the certificates that are trusted for TLS, in PEM.
    pub authority: Option<PathBuf>,
    /// Longest time without any byte of an answer.
    pub wait: Duration,
    /// Which process serves it.
    pub server: Called,
}

/// The process that a client calls, which messages name.
#[derive(Clone, Copy, Debug, Default)]
pub enum Called {
    /// A coordinator, or a job with `--listen`.
    #[default]
    Coordinator,
    /// `anabranch osched run`.
    Osched,
}

/// An answer that is no success.
#[derive(Debug)]
pub struct Refused {
    /// Status of HTTP.
    pub status: u16,
    /// The reason.
    pub error: Error,
    /// The reason for people, with the line of the statements that the server has read.
    pub text: Option<String>,
}

/// Why a request has no answer, or a refusal.
#[derive(Debug)]
pub enum NoAnswer {
    /// The server has refused the request.
    Refused(Refused),
    /// Nothing listens there: the server has not started yet, or it is gone.
    Absent(Error),
    /// The server is not reached, or it does not speak this protocol.
    Unreachable(Error),
}

impl Called {
    fn name(self) -> &'static str {
        match self {
            Called::Coordinator => "coordinator",
            Called::Osched => "osched",
        }
    }

    /// The option with its address.
    fn option(self) -> &'static str {
        match self {
            Called::Coordinator => "--coordinator",
            Called::Osched => "--url",
        }
    }

    fn no_address(self, url: &str) -> Error {
        let error = Error::user(format!("this is not the address of the {}", self.name()));
        let remedy = format!("give http://HOST:PORT or https://HOST:PORT, as the {} prints it", self.name());
        error.at(format!("{} {url}", self.option())).remedy(remedy)
    }

    fn unreachable(self, url: &str, error: &std::io::Error) -> Error {
        let remedy = match self {
            Called::Coordinator => {
                "start one: anabranch coordinator --store DIRECTORY; if it runs elsewhere, give --coordinator or set \
                 ANABRANCH_COORDINATOR"
            }
            Called::Osched => {
                "start one whose file has listen = \"127.0.0.1:7070\": anabranch osched run FILE; if it listens \
                 elsewhere, give --url"
            }
        };
        Error::outside(format!("no {} answers at {url}: {error}", self.name())).remedy(remedy)
    }

    fn stranger(self, url: &str, why: &str) -> Error {
        let error = Error::outside(format!("what listens at {url} is no {}: {why}", self.name()));
        error.remedy(format!("give the address that the {} prints ({})", self.name(), self.option()))
    }

    /// The error that a document describes.
    fn error_of(self, status: u16, document: &Value) -> Error {
        let text = |field: &str| document[field].as_str().map(str::to_owned);
        let message = text("error").unwrap_or_else(|| format!("the answer has status {status}"));
        let mut error = if status < 500 { Error::user(message) } else { Error::outside(message) };
        if let Some(place) = text("place") {
            error = error.at(place);
        }
        let remedy = match (status, self) {
            (401, Called::Coordinator) => {
                Some("set ANABRANCH_TOKEN to the coordinator's token, or give --token-file".to_owned())
            }
            (401, Called::Osched) => {
                Some("give the file that token-file names in its osched.toml: --token-file".to_owned())
            }
            _ => text("remedy"),
        };
        remedy.into_iter().fold(error, Error::remedy)
    }
}

impl From<Error> for NoAnswer {
    fn from(error: Error) -> NoAnswer {
        NoAnswer::Unreachable(error)
    }
}

impl From<NoAnswer> for Error {
    fn from(why: NoAnswer) -> Error {
        match why {
            NoAnswer::Refused(Refused { error, .. }) | NoAnswer::Absent(error) | NoAnswer::Unreachable(error) => error,
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
        let clock = SystemClock::new();
        let until = clock.now().plus(CHANGE);
        loop {
            let outcome = self.request_any(method, path, body);
            let is_one_of_several = self.urls.len() > 1;
            let may_come = match &outcome {
                Err(NoAnswer::Refused(refused)) => is_one_of_several && refused.status == 503,
                Err(NoAnswer::Unreachable(_)) => is_one_of_several,
                Err(NoAnswer::Absent(_)) => true,
                Ok(_) => false,
            };
            if !may_come || clock.now() >= until {
                return outcome;
            }
            anabranch_model::pause(AGAIN);
        }
    }

    /// The answer of the coordinator that leads, or why there is none.
    fn request_any(&self, method: &str, path: &str, body: &str) -> Result<Value, NoAnswer> {
        let mut outcome = Err(Error::user("no coordinator is given").into());
        for url in &self.urls {
            // One of several coordinators may be frozen: a short request finds out.
            if self.urls.len() > 1
                && let Err(error) = self.exchange(url, ALIVE, "GET", "/healthz", "")
            {
                outcome = outcome.or(Err(error));
                continue;
            }
            let answer = self.exchange(url, self.wait, method, path, body);
            outcome = answer.and_then(|(status, body)| self.answered(url, status, &body));
            // A coordinator that stands by answers with this status.
            if !matches!(&outcome, Err(NoAnswer::Refused(refused)) if refused.status == 503) {
                return outcome;
            }
        }
        outcome
    }

    fn exchange(
        &self,
        url: &str,
        wait: Duration,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<(u16, Vec<u8>), NoAnswer> {
        let (host, mut stream) = self.connect(url, wait)?;
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{token}\r\n"
        );
        // A server that refuses a request may not read all of it, so a failed write is no error if there is
        // an answer.
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        let mut answer = Vec::new();
        let read = stream.take(ANSWER_MAX).read_to_end(&mut answer);
        if answer.is_empty() {
            sent.and(read).map_err(|error| self.server.unreachable(url, &error))?;
        }
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let head = end.and_then(|end| std::str::from_utf8(&answer[..end]).ok());
        let status = head.and_then(|head| head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
        let (Some(end), Some(head), Some(status)) = (end, head, status) else {
            return Err(self.server.stranger(url, "its answer is not HTTP").into());
        };
        let body = answer[end + 4..].to_vec();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        match length.is_some_and(|length| length != body.len()) {
            true => {
                Err(Error::outside("the connection broke before the answer was complete").at(url.to_owned()).into())
            }
            false => Ok((status, body)),
        }
    }

    fn connect(&self, url: &str, wait: Duration) -> Result<(String, Box<dyn Stream>), NoAnswer> {
        let wrong = || self.server.no_address(url);
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let host = rest.trim_end_matches('/');
        let addresses = host.to_socket_addrs().map_err(|_| wrong())?;
        let mut failure = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => return Ok((host.to_owned(), self.protect((url, wait), (scheme, host), stream, wrong)?)),
                Err(error) => failure = Some(error),
            }
        }
        let Some(failure) = failure else { return Err(wrong().into()) };
        let error = self.server.unreachable(url, &failure);
        Err(if failure.kind() == std::io::ErrorKind::ConnectionRefused {
            NoAnswer::Absent(error)
        } else {
            error.into()
        })
    }

    fn protect(
        &self,
        (url, wait): (&str, Duration),
        (scheme, host): (&str, &str),
        stream: TcpStream,
        wrong: impl Fn() -> Error,
    ) -> Result<Box<dyn Stream>> {
        let limit = Some(wait).filter(|wait| !wait.is_zero());
        stream
            .set_read_timeout(limit)
            .and_then(|()| stream.set_write_timeout(limit))
            .map_err(|e| self.server.unreachable(url, &e))?;
        match scheme {
            "http" => Ok(Box::new(stream)),
            "https" => {
                let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(name).map_err(|_| wrong())?;
                let client = ClientConnection::new(self.trust(url)?, name);
                let client = client.map_err(|error| Error::internal(format!("TLS cannot begin: {error}")))?;
                Ok(Box::new(StreamOwned::new(client, stream)))
            }
            _ => Err(wrong()),
        }
    }

    fn trust(&self, url: &str) -> Result<Arc<ClientConfig>> {
        let missing = || {
            Error::user("an https address needs the certificate of its authority")
                .at(url.to_owned())
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

    /// The document of an answer.
    fn answered(&self, url: &str, status: u16, body: &[u8]) -> Result<Value, NoAnswer> {
        let document = serde_json::from_slice(body);
        let stranger = |error: serde_json::Error| self.server.stranger(url, &error.to_string());
        let document: Value = document.map_err(|error| NoAnswer::Unreachable(stranger(error)))?;
        match status {
            200..300 => Ok(document),
            _ => {
                let text = document["text"].as_str().map(str::to_owned);
                let error = self.server.error_of(status, &document);
                Err(NoAnswer::Refused(Refused { status, error, text }))
            }
        }
    }
}

impl Refused {
    /// Whether the sender of the request must change it.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.error.kind() == ErrorKind::User
    }
}
