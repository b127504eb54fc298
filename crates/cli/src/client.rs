//! The client by which commands reach the coordinator.

use std::path::Path;
use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_server::cluster::TOKEN;
use anabranch_server::http::{Client, NoAnswer};
use serde::Serialize;
use serde_json::Value;

use crate::arguments;
use crate::failure::Failure;

/// Time without an answer after which a command gives up.
const WAIT: Duration = Duration::from_secs(60);

/// A client of the coordinator that a command line names.
pub(crate) fn client(given: &arguments::Client) -> Result<Client, Failure> {
    let token = token(given.token_file.as_deref()).map_err(Failure::request)?;
    Ok(Client { urls: given.urls(), token, authority: given.authority(), wait: WAIT, ..Client::default() })
}

/// The secret of the cluster, if it is given.
pub(crate) fn token(token_file: Option<&Path>) -> Result<Option<String>> {
    let text = match token_file {
        Some(path) => String::from_utf8_lossy(&file("--token-file", path)?).into_owned(),
        None => std::env::var(TOKEN).unwrap_or_default(),
    };
    Ok(Some(text.trim().to_owned()).filter(|token| token_file.is_some() || !token.is_empty()))
}

/// The file that an option names.
pub(crate) fn file(option: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        let error = Error::user(format!("cannot read this file: {error}"));
        error.at(format!("option {option} {}", path.display())).remedy("give a file that this process may read")
    })
}

/// Sends an order about statements. The place of an error is a place in `sql`.
pub(crate) fn send(client: &Client, path: &str, order: &impl Serialize, sql: &str) -> Result<Value, Failure> {
    let body = serde_json::to_value(order).map_err(|error| Failure::request(Error::internal(error.to_string())))?;
    client.post(path, &body).map_err(|why| match why {
        NoAnswer::Refused(refused) => Failure::planning(&refused.error, sql),
        other => other.into(),
    })
}

pub(crate) fn path(job: &str) -> String {
    format!("/api/v1/jobs/{}", encoded(job))
}

pub(crate) fn worker_path(worker: &str) -> String {
    format!("/api/v1/workers/{}", encoded(worker))
}

fn encoded(name: &str) -> String {
    let encoded = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(encoded).collect()
}

/// A request that has failed.
impl From<NoAnswer> for Failure {
    fn from(why: NoAnswer) -> Self {
        Failure::request(Error::from(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(path("ads-2"), "/api/v1/jobs/ads-2");
        assert_eq!(path("a b/ä"), "/api/v1/jobs/a%20b%2F%C3%A4");
    }
}
