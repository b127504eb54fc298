//! The request for a savepoint.

use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, channel};

use anabranch_model::Error;
use hyper::StatusCode;
use hyper::body::Bytes;

use super::answers::{Answered, Api, failed, json, on_thread, refused};
use super::documents::SavepointDocument;
use super::jobs::ServedJob;
use super::orders::SavepointOrder;
use crate::threads::lock;

/// Takes a savepoint on a separate thread, one at a time.
pub(super) async fn savepoint(api: Arc<Api>, job: Arc<dyn ServedJob>, body: &Bytes) -> Answered {
    let order: SavepointOrder = match serde_json::from_slice(body) {
        Ok(SavepointOrder { place }) if !place.trim().is_empty() => SavepointOrder { place },
        wrong => {
            let why = wrong.err().map_or_else(|| "the place is empty".to_owned(), |error| error.to_string());
            let error = Error::user(format!("the body is not a request for a savepoint: {why}"));
            let remedy =
                "send {\"place\": \"DIRECTORY\"}, an empty or new directory, or such a place in an object store";
            return Err(refused(StatusCode::BAD_REQUEST, &error.remedy(remedy)));
        }
    };
    if let Some(error) = job.refuses_savepoint() {
        return Err(refused(StatusCode::CONFLICT, &error));
    }
    let (ends, ended) = channel::<()>();
    {
        let mut last = lock(&api.savepoint);
        if last.as_ref().is_some_and(|last| last.try_recv() == Err(TryRecvError::Empty)) {
            let error = Error::user("another savepoint is being taken").remedy("wait until it is done");
            return Err(refused(StatusCode::CONFLICT, &error));
        }
        *last = Some(ended);
    }
    let place = order.place.clone();
    let run = move || {
        let taken = job.savepoint(&order.place, &|| api.is_closing.is_set());
        // The next one may begin when the client has this answer.
        drop(ends);
        taken
    };
    let taken = on_thread("savepoint", "the savepoint", run).await?;
    let savepoint = taken.map_err(|error| failed(&error))?;
    Ok(json(StatusCode::CREATED, &SavepointDocument::of(&savepoint, &place)))
}
