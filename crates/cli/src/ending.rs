//! `anabranch stop`, `cancel` and `remove`: the end of a job.

use std::time::Duration;

use anabranch_model::{Clock, Error, SystemClock};
use anabranch_server::http::Client;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::{End, Job, Remove};
use crate::client::{client, path};
use crate::console::Console;
use crate::failure::Failure;
use crate::jobs::{is_over, string, text};
use crate::signals::Signals;

/// How often the state of a job is read.
const LOOK: Duration = Duration::from_millis(100);
/// A longer wait is reported.
const SOON: Duration = Duration::from_secs(2);

/// How a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// At the end of an epoch.
    Stop,
    /// At once.
    Cancel,
}

/// Requests the end of a job, and waits for it.
pub(crate) fn end(arguments: &End, request: Request) -> Result<(), Failure> {
    let End { no_wait, target: Job { job, client: given } } = arguments;
    let client = client(given)?;
    let (verb, requested) = match request {
        Request::Stop => ("stop", "stops at the end of an epoch"),
        Request::Cancel => ("cancel", "is cancelled"),
    };
    client.post(&format!("{}/{verb}", path(job)), &Value::Null)?;
    if *no_wait {
        return Ok(Console::output().line(&format!("job {job} {requested}"))?);
    }
    let found = wait(&client, job, requested)?;
    let line = match (string(&found["state"]).as_str(), request) {
        ("stopped", _) => format!("job {job} has stopped"),
        ("cancelled", _) => format!("job {job} was cancelled"),
        ("ended", _) => format!("job {job} had come to its end"),
        (_, request) => {
            let why = text(&found["failure"]).unwrap_or_default();
            let error = match request {
                Request::Stop => format!("job {job} has failed before it could stop: {why}"),
                Request::Cancel => format!("job {job} had failed: {why}"),
            };
            return Err(Error::outside(error).remedy("submit it again: it resumes from its newest checkpoint").into());
        }
    };
    Ok(Console::output().line(&line)?)
}

/// Waits until a job has ended. Returns its document then.
fn wait(client: &Client, job: &str, requested: &str) -> Result<Value, Failure> {
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    let clock = SystemClock::new();
    let (soon, mut is_told) = (clock.now().plus(SOON), false);
    loop {
        let found = client.get(&path(job))?;
        if is_over(&string(&found["state"])) {
            return Ok(found);
        }
        if signals.stop_asked() {
            let error = Error::user(format!("interrupted: job {job} {requested}, and nobody waits for that any more"));
            return Err(error.remedy("see with anabranch jobs what has become of it").into());
        }
        if !is_told && clock.now() >= soon {
            is_told = true;
            Console::error().line(&format!("job {job} {requested}; Ctrl-C ends only this wait"))?;
        }
        signals.wait(LOOK);
    }
}

/// Removes a job that is over.
pub(crate) fn remove(arguments: &Remove) -> Result<(), Failure> {
    let Remove { discard_state, target: Job { job, client: given } } = arguments;
    let client = client(given)?;
    client.post(&format!("{}/remove", path(job)), &json!({ "discard_state": discard_state }))?;
    Ok(Console::output().line(&format!("job {job} was removed"))?)
}
