//! A few paths of another part of the program, behind the guard, the limits and the TLS of the API.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::Error;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use serde::Serialize;

use super::answers::{Answer, Answered, BODY_MAX, REQUEST, answer, json, on_thread, read, refusal};
use super::connection::Service;
use super::exposition::CONTENT_TYPE;
use super::guard::Guard;

/// The content of a group of paths.
pub trait Paths: Send + Sync + 'static {
    /// The answer to a request that may be answered. It is called on a thread of the request, so it may wait.
    fn answer(&self, method: &str, path: &str, body: &[u8]) -> Reply;
}

/// An answer.
pub struct Reply(Answer);

impl Reply {
    /// A document.
    #[must_use]
    pub fn document(document: &impl Serialize) -> Reply {
        Reply(json(StatusCode::OK, document))
    }

    /// Metrics in the text format of Prometheus.
    #[must_use]
    pub fn metrics(text: String) -> Reply {
        Reply(answer(StatusCode::OK, CONTENT_TYPE, text.into()))
    }

    /// The request is wrong (status 400).
    #[must_use]
    pub fn wrong(error: &Error) -> Reply {
        Reply(refusal(StatusCode::BAD_REQUEST, error))
    }

    /// There is nothing at the path, or it takes other methods (404).
    #[must_use]
    pub fn nothing(error: &Error) -> Reply {
        Reply(refusal(StatusCode::NOT_FOUND, error))
    }

    /// It cannot be answered now (503).
    #[must_use]
    pub fn unavailable(error: &Error) -> Reply {
        Reply(refusal(StatusCode::SERVICE_UNAVAILABLE, error))
    }
}

/// The paths with their guard.
pub(super) struct Guarded {
    pub(super) paths: Arc<dyn Paths>,
    pub(super) guard: Arc<Guard>,
    /// Time for a request's body to arrive.
    pub(super) body_wait: Duration,
}

impl Service for Guarded {
    fn guard(&self) -> &Guard {
        &self.guard
    }

    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        self.answered(request).await.unwrap_or_else(|refused| *refused)
    }
}

impl Guarded {
    async fn answered(&self, request: Request<Incoming>) -> Answered {
        let (head, body) = request.into_parts();
        self.guard.check(&head.method, &head.headers)?;
        let body = read(body, BODY_MAX, self.body_wait).await?;
        let paths = Arc::clone(&self.paths);
        on_thread("request", REQUEST, move || paths.answer(head.method.as_str(), head.uri.path(), &body).0).await
    }
}
