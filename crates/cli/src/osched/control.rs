//! The state of `osched` over HTTP, and the requests to switch a policy or to pause.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_osched::config::Config;
use anabranch_osched::control::{Asked, Order};
use anabranch_osched::status::Status;
use anabranch_server::http::{Given, Listen, Listener, Paths, Reply};
use serde::Deserialize;

/// Time limit for the loop to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The state that is served.
const KNOWN: &str = "GET /metrics, GET /api/v1/osched, POST /api/v1/osched/switch, POST /api/v1/osched/pause";

/// The state that requests read, and the channel for their commands.
pub(super) struct Control {
    pub(super) status: Arc<Mutex<Status>>,
    pub(super) orders: Sender<Asked>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchDocument {
    policy: String,
    priority: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseDocument {
    paused: bool,
}

/// Listens at the address of the file, if it has one. Errors: other machines would reach the address without
/// a token and TLS, a file of these cannot be used, or the port is taken.
pub(super) fn listener(config: &Config) -> Result<Option<Listener>> {
    let Some(address) = config.listen else { return Ok(None) };
    let listen = Listen {
        address: address.to_string(),
        token: None,
        token_file: config.token_file.clone(),
        read_token_file: config.read_token_file.clone(),
        tls_cert: config.tls_cert.clone(),
        tls_key: config.tls_key.clone(),
    };
    Listener::bind_as(&listen, Given::Keys).map(Some)
}

impl Paths for Control {
    fn answer(&self, method: &str, path: &str, body: &[u8]) -> Reply {
        match (method, path) {
            ("GET", "/metrics") => Reply::metrics(super::status(&self.status).exposition()),
            ("GET", "/api/v1/osched") => Reply::document(&super::status(&self.status)),
            ("POST", "/api/v1/osched/switch") => match document::<SwitchDocument>(body) {
                Ok(SwitchDocument { policy, priority }) => self.carry_out(Order::Switch { policy, priority }),
                Err(error) => Reply::wrong(&error),
            },
            ("POST", "/api/v1/osched/pause") => match document::<PauseDocument>(body) {
                Ok(PauseDocument { paused }) => self.carry_out(Order::Pause(paused)),
                Err(error) => Reply::wrong(&error),
            },
            _ => Reply::nothing(
                &Error::user(format!("there is no {method} {path}")).remedy(format!("use one of: {KNOWN}")),
            ),
        }
    }
}

impl Control {
    fn carry_out(&self, order: Order) -> Reply {
        let (answer, answered) = channel();
        let is_sent = self.orders.send(Asked { order, answer }).is_ok();
        match is_sent.then(|| answered.recv_timeout(ANSWER_MAX)) {
            Some(Ok(Ok(()))) => Reply::document(&super::status(&self.status)),
            Some(Ok(Err(error))) => Reply::wrong(&error),
            _ => Reply::unavailable(&Error::outside("the scheduler is ending").remedy("start it again")),
        }
    }
}

/// The document of a request.
fn document<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        let error = Error::user(format!("the body is not what is expected: {error}"));
        error.remedy("send {\"policy\": \"NAME\", \"priority\": \"drain\"} to switch, {\"paused\": true} to pause")
    })
}

#[cfg(test)]
mod tests;
