//! Bodies of answers: a text that is there as a whole, or events that come while the client reads them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// Events that wait for a client.
const EVENTS_MAX: usize = 2;
/// A client that takes no event for this time is disconnected.
const SLOW_MAX: Duration = Duration::from_secs(20);
/// How often a thread looks whether there is room for an event.
const LOOK: Duration = Duration::from_millis(5);

/// The body of an answer.
pub(super) enum Body {
    Whole(Full<Bytes>),
    Events { events: Receiver<Bytes>, taken: Option<Box<dyn Fn() + Send>> },
}

/// The sender of events. Dropping it ends the answer.
pub(super) struct Events(Sender<Bytes>);

/// The client has left, or is too slow.
#[derive(Debug)]
pub(super) struct ClientLeft;

impl Body {
    pub(super) fn events() -> (Events, Body) {
        let (sender, receiver) = channel(EVENTS_MAX);
        (Events(sender), Body::Events { events: receiver, taken: None })
    }

    /// Calls this each time that the client takes an event. A body that is there as a whole drops it at once.
    pub(super) fn telling(self, taken: impl Fn() + Send + 'static) -> Body {
        match self {
            Body::Events { events, .. } => Body::Events { events, taken: Some(Box::new(taken)) },
            whole => whole,
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body::Whole(Full::new(bytes))
    }
}

impl Events {
    /// Sends an event; waits until the client has taken one of those before it.
    pub(super) async fn send(&self, event: impl Into<Bytes>) -> Result<(), ClientLeft> {
        match timeout(SLOW_MAX, self.0.send(event.into())).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(ClientLeft),
        }
    }

    /// Like [`Events::send`], for a thread that may wait.
    pub(super) fn send_blocking(&self, event: impl Into<Bytes>) -> Result<(), ClientLeft> {
        let mut event = event.into();
        for _ in 0..SLOW_MAX.as_millis() / LOOK.as_millis() {
            match self.0.try_send(event) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => return Err(ClientLeft),
                Err(TrySendError::Full(same)) => event = same,
            }
            anabranch_model::pause(LOOK);
        }
        Err(ClientLeft)
    }

    /// Whether the client has left.
    pub(super) fn has_left(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until the client has left.
    pub(super) async fn left(&self) {
        self.0.closed().await;
    }
}

/// An event of `text/event-stream`. `data` has no line break.
pub(super) fn event(id: Option<u64>, name: &str, data: &str) -> String {
    match id {
        Some(id) => format!("id: {id}\nevent: {name}\ndata: {data}\n\n"),
        None => format!("event: {name}\ndata: {data}\n\n"),
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(whole) => Pin::new(whole).poll_frame(cx),
            Body::Events { events, taken } => {
                let polled = events.poll_recv(cx);
                if let (Poll::Ready(Some(_)), Some(taken)) = (&polled, taken) {
                    taken();
                }
                polled.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(whole) => whole.is_end_stream(),
            Body::Events { events, .. } => events.is_closed() && events.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(whole) => whole.size_hint(),
            Body::Events { .. } => SizeHint::default(),
        }
    }
}
