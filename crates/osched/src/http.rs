//! Requests to the engines' HTTP interfaces: blocking, with a deadline over all of an answer and a limit of
//! its size.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Error, Result};
use serde::de::DeserializeOwned;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

#[cfg(test)]
pub(crate) mod tests;

/// Bytes of an answer's beginning that an error quotes.
const QUOTED_BYTES: usize = 100;

/// Connections that stay open without a request.
const IDLE_MAX: usize = 4;

/// How an interface is reached.
#[derive(Clone)]
pub struct HttpOptions {
    /// Sent as `Authorization: Bearer TOKEN`.
    pub token: Option<String>,
    /// File with the certificates that are trusted for `https`, in PEM. Default: those of the system.
    pub authority: Option<PathBuf>,
    /// Time for one request: to resolve, connect, send, and receive all of the answer.
    pub deadline: Duration,
    /// Largest body of an answer, in bytes.
    pub size_max: u64,
    /// Whether connections stay open for later requests. The HTTP server of the JDK, which Prometheus
    /// reporters in Java use, answers a later request on one connection 40 ms late, since it waits for the
    /// acknowledgement of the head before it sends the body.
    pub keeps_connections: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        let deadline = Duration::from_secs(5);
        HttpOptions { token: None, authority: None, deadline, size_max: 16 << 20, keeps_connections: true }
    }
}

/// A client.
pub struct Http {
    agent: ureq::Agent,
    options: HttpOptions,
}

impl Http {
    /// A client. `Err`: the file of the authority is not usable.
    pub fn new(options: HttpOptions) -> Result<Http> {
        let tls = TlsConfig::builder()
            .root_certs(roots(options.authority.as_deref())?)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        // Engines are on this machine or in this network: a proxy for the outside does not apply to them.
        let idle_max = if options.keeps_connections { IDLE_MAX } else { 0 };
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .max_idle_connections(idle_max)
            .max_idle_connections_per_host(idle_max)
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(options.deadline))
            .user_agent("anabranch-osched")
            .build();
        Ok(Http { agent: config.new_agent(), options })
    }

    /// Gets the body of `url`. Each failure is an error that names the address and what to do: nothing
    /// listens, no answer within the deadline, a status that is no success, an answer above the limit.
    pub fn get(&self, url: &str) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        self.get_into(url, &mut body)?;
        Ok(body)
    }

    /// As [`Http::get`], into memory that is used again. `body` is undefined after an error.
    pub fn get_into(&self, url: &str, body: &mut Vec<u8>) -> Result<()> {
        body.clear();
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            let error = Error::user("this is not the address of an HTTP interface").at(url);
            return Err(error.remedy("give http://HOST:PORT or https://HOST:PORT"));
        }
        let mut request = self.agent.get(url).header("Accept", "application/json, text/plain;version=0.0.4, */*;q=0.1");
        if let Some(token) = &self.options.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut answer = request.call().map_err(|error| self.failed(url, error))?;
        let status = answer.status().as_u16();
        let mut reader = answer.body_mut().with_config().limit(self.options.size_max).reader();
        reader.read_to_end(body).map_err(|error| self.failed(url, error.into()))?;
        if (200..300).contains(&status) { Ok(()) } else { Err(refused(url, status, body)) }
    }

    /// Gets a JSON document.
    pub fn get_json<T: DeserializeOwned>(&self, url: &str) -> Result<T> {
        let body = self.get(url)?;
        serde_json::from_slice(&body).map_err(|error| {
            let error = Error::outside(format!(
                "the answer is not the expected JSON: {error}; it begins: {}",
                beginning(&body)
            ));
            error.at(url).remedy("check that the address is that of the engine, and its version")
        })
    }

    fn failed(&self, url: &str, error: ureq::Error) -> Error {
        use std::io::ErrorKind::{ConnectionRefused, ConnectionReset, UnexpectedEof};
        let ms = self.options.deadline.as_millis();
        // A certificate that is not trusted comes as an error of reading.
        let is_tls = match &error {
            ureq::Error::Io(error) => error.get_ref().is_some_and(|cause| cause.is::<rustls::Error>()),
            error => matches!(error, ureq::Error::Tls(_) | ureq::Error::Rustls(_)),
        };
        let (error, remedy) = match error {
            error if is_tls => (
                Error::user(format!("TLS failed: {error}")),
                "name the file with the certificate of the engine's authority: tls-ca = \"FILE\" in an osched.toml",
            ),
            ureq::Error::Timeout(_) => (
                Error::outside(format!("no complete answer within {ms} ms")),
                "check that the engine is not stuck or overloaded",
            ),
            ureq::Error::HostNotFound => (Error::user("there is no host of this name"), "correct the address"),
            ureq::Error::BadUri(why) => {
                (Error::user(format!("this address is wrong: {why}")), "give http://HOST:PORT or https://HOST:PORT")
            }
            ureq::Error::BodyExceedsLimit(bytes) => (
                Error::outside(format!("the answer is larger than {bytes} bytes")),
                "restrict what is served there, such as by the filter of a metrics reporter",
            ),
            ureq::Error::Io(error) if error.kind() == ConnectionRefused => {
                (Error::outside("nothing listens there"), "start the engine, or correct the address")
            }
            ureq::Error::Io(error) if matches!(error.kind(), ConnectionReset | UnexpectedEof) => (
                Error::outside("the connection broke before the answer was complete"),
                "check that the engine still runs",
            ),
            other => (
                Error::outside(format!("the request failed: {other}")),
                "check that the address is that of the engine's HTTP interface",
            ),
        };
        error.at(url).remedy(remedy)
    }
}

/// The certificates that are trusted.
fn roots(authority: Option<&Path>) -> Result<RootCerts> {
    let Some(path) = authority else {
        let system = rustls_native_certs::load_native_certs().certs;
        return Ok(system.into_iter().map(|certificate| Certificate::from_der(&certificate).to_owned()).into());
    };
    let wrong = |why: String| {
        let error =
            Error::user(format!("this file of certificates cannot be used: {why}")).at(path.display().to_string());
        error.remedy("give a file of certificates in PEM")
    };
    let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let mut certificates = Vec::new();
    for item in ureq::tls::parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(error.to_string()))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() { Err(wrong("it has no certificate".to_owned())) } else { Ok(certificates.into()) }
}

fn refused(url: &str, status: u16, body: &[u8]) -> Error {
    let message = format!("the answer has status {status}: {}", beginning(body));
    let (error, remedy) = match status {
        401 | 403 => (Error::user(message), "give the file with the token of this interface (token-file)"),
        404 => (Error::user(message), "check that this is the address of the engine's interface, and of which engine"),
        _ => (Error::outside(message), "look at the engine's log"),
    };
    error.at(url).remedy(remedy)
}

fn beginning(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(QUOTED_BYTES)]).trim().to_owned()
}
