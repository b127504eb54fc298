//! The state of `osched` over HTTP, and the requests to switch a policy or to pause. For programs of this machine only.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Error, Result};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::status::Status;

#[cfg(test)]
mod tests;

/// Bytes of a request.
const BODY_MAX: usize = 64 << 10;
/// Time in which a client must send its request.
const CLIENT_MAX: Duration = Duration::from_secs(10);
/// Time for the loop to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A request to the loop.
#[derive(Debug)]
pub enum Order {
    /// Let a policy decide by something else from now on.
    Switch {
        /// Name of the policy in the configuration.
        policy: String,
        /// Name of a policy, or a SQL expression.
        priority: String,
    },
    /// Suspend decisions and restore all threads, or go on.
    Pause(bool),
}

/// An order with the place for its answer.
pub struct Asked {
    /// What is requested.
    pub order: Order,
    /// Takes the answer.
    pub answer: Sender<Result<()>>,
}

/// Serves until it is dropped.
pub struct Control {
    address: SocketAddr,
    closing: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What connections share.
struct Shared {
    status: Arc<Mutex<Status>>,
    orders: Sender<Asked>,
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

impl Control {
    /// Listens, and serves the status; orders go to the loop.
    pub fn start(listen: SocketAddr, status: Arc<Mutex<Status>>, orders: Sender<Asked>) -> Result<Control> {
        let of = |error: Error| error.at(format!("listen = \"{listen}\""));
        if !listen.ip().is_loopback() {
            let error = Error::user("only programs of this machine may control its scheduling");
            return Err(of(error.remedy("use an address such as 127.0.0.1:7070")));
        }
        let failed =
            |error: std::io::Error| of(Error::outside(format!("cannot listen: {error}")).remedy("choose another port"));
        let socket = TcpListener::bind(listen).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
        let (closing, closes) = oneshot::channel();
        let shared = Arc::new(Shared { status, orders });
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(socket, &shared) => {}
                    _ = closes => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(run).map_err(failed)?;
        Ok(Control { address, closing: Some(closing), thread: Some(thread) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.closing.take().map(|closing| closing.send(()));
        // A panic of the thread has ended the server already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(socket: TcpListener, shared: &Arc<Shared>) {
    // It fails only if the runtime has no driver for sockets, and this one has.
    let Ok(socket) = tokio::net::TcpListener::from_std(socket) else { return };
    loop {
        let Ok((stream, _)) = socket.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let shared = Arc::clone(shared);
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            async move { Ok::<_, Infallible>(answer(request, &shared).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(CLIENT_MAX);
        let connection = server.serve_connection(TokioIo::new(stream), service);
        // A client that breaks the protocol or is slow loses its connection.
        tokio::spawn(async move { drop(tokio::time::timeout(3 * CLIENT_MAX, connection).await) });
    }
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    // A page of a browser that reaches this address by a name of its own must not.
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_local(host) {
        return refusal(StatusCode::FORBIDDEN, &Error::user("the request is for another host").remedy("use 127.0.0.1"));
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let text = shared.status().exposition();
            response(StatusCode::OK, "text/plain; version=0.0.4", text.into_bytes())
        }
        (&Method::GET, "/api/v1/osched") => json(StatusCode::OK, &shared.status()),
        (&Method::POST, "/api/v1/osched/switch") => match body::<SwitchDocument>(request).await {
            Ok(SwitchDocument { policy, priority }) => shared.carry_out(Order::Switch { policy, priority }).await,
            Err(error) => refusal(StatusCode::BAD_REQUEST, &error),
        },
        (&Method::POST, "/api/v1/osched/pause") => match body::<PauseDocument>(request).await {
            Ok(PauseDocument { paused }) => shared.carry_out(Order::Pause(paused)).await,
            Err(error) => refusal(StatusCode::BAD_REQUEST, &error),
        },
        (_, path) => {
            let error = Error::user(format!("there is no {} {path}", request.method()));
            let known = "GET /metrics, GET /api/v1/osched, POST /api/v1/osched/switch, POST /api/v1/osched/pause";
            refusal(StatusCode::NOT_FOUND, &error.remedy(format!("use {known}")))
        }
    }
}

impl Shared {
    fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn carry_out(&self, order: Order) -> Response<Full<Bytes>> {
        let (answer, answered) = channel();
        let gone = || Error::outside("the scheduler is ending").remedy("start it again");
        if self.orders.send(Asked { order, answer }).is_err() {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, &gone());
        }
        let waited = tokio::task::spawn_blocking(move || answered.recv_timeout(ANSWER_MAX)).await;
        match waited {
            Ok(Ok(Ok(()))) => json(StatusCode::OK, &self.status()),
            Ok(Ok(Err(error))) => refusal(StatusCode::BAD_REQUEST, &error),
            _ => refusal(StatusCode::SERVICE_UNAVAILABLE, &gone()),
        }
    }
}

/// A document of the request. It must say that it is JSON: a page of another site cannot.
async fn body<T: for<'de> Deserialize<'de>>(request: Request<Incoming>) -> Result<T> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(Error::user("the body is not JSON").remedy("send it with Content-Type: application/json"));
    }
    let collected = tokio::time::timeout(CLIENT_MAX, Limited::new(request.into_body(), BODY_MAX).collect()).await;
    let bytes = collected.ok().and_then(|collected| collected.ok());
    let bytes =
        bytes.ok_or_else(|| Error::user(format!("the body is not complete, or larger than {BODY_MAX} bytes")))?;
    serde_json::from_slice(&bytes.to_bytes()).map_err(|error| {
        Error::user(format!("the body is not what is expected: {error}")).remedy("docs/osched.md has the documents")
    })
}

fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "localhost" | "[::1]") || name.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
}

fn json<T: serde::Serialize>(status: StatusCode, document: &T) -> Response<Full<Bytes>> {
    let bytes = serde_json::to_vec(document).unwrap_or_default();
    response(status, "application/json", bytes)
}

fn refusal(status: StatusCode, error: &Error) -> Response<Full<Bytes>> {
    let document = serde_json::json!({"error": error.message(), "place": error.place(), "remedy": error.help()});
    json(status, &document)
}

fn response(status: StatusCode, kind: &'static str, bytes: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(bytes)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
