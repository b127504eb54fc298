//! The request for a savepoint.

use std::sync::mpsc::{TryRecvError, channel};
use std::sync::{Arc, PoisonError};

use anabranch_model::Error;
use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::sync::oneshot;

use super::answers::{Answer, Api, json, no_thread, refusal, status_of};
use super::documents::SavepointDocument;
use super::jobs::ServedJob;
use super::orders::SavepointOrder;

/// Takes a savepoint on a separate thread, one at a time.
pub(super) async fn savepoint(api: Arc<Api>, job: Arc<dyn ServedJob>, body: &Bytes) -> Answer {
    let order: SavepointOrder = match serde_json::from_slice(body) {
        Ok(SavepointOrder { place }) if !place.trim().is_empty() => SavepointOrder { place },
        wrong => {
            let why = wrong.err().map_or_else(|| "the place is empty".to_owned(), |error| error.to_string());
            let error = Error::user(format!("the body is not a request for a savepoint: {why}"));
            let remedy =
                "send {\"place\": \"DIRECTORY\"}, an empty or new directory, or such a place in an object store";
            return refusal(StatusCode::BAD_REQUEST, &error.remedy(remedy));
        }
    };
    if let Some(error) = job.refuses_savepoint() {
        return refusal(StatusCode::CONFLICT, &error);
    }
    let ((answer, answered), (ends, ended)) = (oneshot::channel(), channel());
    {
        let mut last = api.savepoint.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|last| last.try_recv() == Err(TryRecvError::Empty)) {
            let error = Error::user("another savepoint is being taken").remedy("wait until it is done");
            return refusal(StatusCode::CONFLICT, &error);
        }
        *last = Some(ended);
    }
    let (closing, place) = (Arc::clone(&api), order.place.clone());
    let run = move || {
        let taken = job.savepoint(&order.place, &|| closing.is_closing.is_set());
        // The next one may begin when the client has this answer.
        drop::<std::sync::mpsc::Sender<()>>(ends);
        // The client may have left.
        let _ = answer.send(taken);
    };
    if let Err(error) = std::thread::Builder::new().name("savepoint".into()).spawn(run) {
        return no_thread(&error);
    }
    match answered.await {
        Ok(Ok(savepoint)) => json(StatusCode::CREATED, &SavepointDocument::of(&savepoint, &place)),
        Ok(Err(error)) => refusal(status_of(&error), &error),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &Error::internal("the savepoint ended by a panic")),
    }
}
