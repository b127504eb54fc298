//! A job that is over leaves the list.

use std::sync::Arc;

use anabranch_model::Error;
use hyper::StatusCode;
use hyper::body::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{Answer, Api, json, refusal};
use super::reconfigure::{on_thread, refused};

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
pub(super) async fn remove(api: Arc<Api>, name: String, body: &Bytes) -> Answer {
    let order = match body.is_empty() {
        true => Ok(RemovalOrder::default()),
        false => serde_json::from_slice(body),
    };
    let RemovalOrder { discard_state } = match order {
        Ok(order) => order,
        Err(error) => {
            let error = Error::user(format!("the body is not a request to remove a job: {error}"));
            return refusal(StatusCode::BAD_REQUEST, &error.remedy("send nothing, or {\"discard_state\": true}"));
        }
    };
    on_thread(api, "remove", move |api| match api.jobs.remove(&name, discard_state) {
        Ok(()) => json(StatusCode::OK, &Removed { name }),
        Err(why) => refused(&why, ""),
    })
    .await
}
