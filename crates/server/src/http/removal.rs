//! A job that is over leaves the list.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{Answered, Api, REQUEST, json, on_thread, parsed, refused};
use super::reconfigure::not_made;

/// The request to remove a job.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RemovalOrder {
    /// Removes the job also if it could resume from its newest checkpoint, which is removed with it.
    discard_state: bool,
}

/// A job that was removed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Removed {
    name: String,
}

/// Answers the request to remove a job.
pub(super) async fn remove(api: Arc<Api>, name: String, body: &Bytes) -> Answered {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let order = parsed(body, "a request to remove a job", "nothing, or {\"discard_state\": true}");
    let RemovalOrder { discard_state } = order.map_err(|error| refused(StatusCode::BAD_REQUEST, &error))?;
    on_thread("remove", REQUEST, move || {
        api.jobs.remove(&name, discard_state).map_err(|why| not_made(&why, ""))?;
        Ok(json(StatusCode::OK, &Removed { name }))
    })
    .await?
}
