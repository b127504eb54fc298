//! A POST to a collector.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anabranch_model::{Error, Result};
use serde_json::Value;

/// Bytes of an answer that are read: its status is at its beginning.
const HEAD: usize = 12;

/// Where a collector listens.
pub(super) struct Collector {
    url: String,
    /// `HOST:PORT`.
    host: String,
    /// What comes before the paths of OTLP.
    prefix: String,
}

impl Collector {
    /// `http://HOST:PORT`, with or without a path.
    pub(super) fn parse(url: &str) -> Result<Collector> {
        let wrong = |why: &str| {
            let error = Error::user(format!("this is not the address of a collector: {why}"));
            error.at(format!("option --otlp {url}")).remedy(
                "give http://HOST:PORT, such as http://127.0.0.1:4318; for TLS, run a collector on this machine",
            )
        };
        let rest = url.strip_prefix("http://").ok_or_else(|| wrong("it does not begin with http://"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = host.rsplit_once(':').filter(|(name, _)| !name.is_empty());
        port.and_then(|(_, port)| port.parse::<u16>().ok()).ok_or_else(|| wrong("it has no port"))?;
        if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(wrong("it has a space or a control character"));
        }
        let prefix = path.trim_end_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        Ok(Collector { url: url.to_owned(), host: host.to_owned(), prefix })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a document. `Err`: why the collector did not take it.
    pub(super) fn post(&self, path: &str, document: &Value, limit: Duration) -> Result<(), String> {
        let body = document.to_string();
        let Collector { host, prefix, .. } = self;
        let head = format!(
            "POST {prefix}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let answered = self.connect(limit).and_then(|mut stream| {
            stream.set_read_timeout(Some(limit))?;
            stream.set_write_timeout(Some(limit))?;
            stream.write_all(head.as_bytes())?;
            stream.write_all(body.as_bytes())?;
            let mut answer = [0; HEAD];
            stream.read_exact(&mut answer)?;
            Ok(answer)
        });
        let answer = answered.map_err(|error| error.to_string())?;
        let status = std::str::from_utf8(&answer).ok().and_then(|head| head.split(' ').nth(1));
        match status.and_then(|status| status.parse::<u16>().ok()) {
            Some(200..300) => Ok(()),
            Some(status) => Err(format!("the answer has status {status}")),
            None => Err("the answer is not HTTP".to_owned()),
        }
    }

    fn connect(&self, limit: Duration) -> std::io::Result<TcpStream> {
        let none = Err(std::io::Error::other("the name has no address"));
        let connect = |address| TcpStream::connect_timeout(&address, limit);
        self.host.to_socket_addrs()?.fold(none, |outcome, address| outcome.or_else(|_| connect(address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (url, host, prefix) in [
            ("http://127.0.0.1:4318", "127.0.0.1:4318", ""),
            ("http://[::1]:4318/", "[::1]:4318", ""),
            ("http://collector:80/otlp/", "collector:80", "/otlp"),
        ] {
            let collector = Collector::parse(url).expect(url);
            assert_eq!((collector.host.as_str(), collector.prefix.as_str(), collector.url()), (host, prefix, url));
        }
        for wrong in
            ["", "127.0.0.1:4318", "https://host:4318", "http://host", "http://:1", "http://h:99999", "http://h:1/a b"]
        {
            let error = Collector::parse(wrong).err().expect(wrong).to_string();
            assert!(error.contains("--otlp") && error.contains("help: "), "{error}");
        }
    }
}
