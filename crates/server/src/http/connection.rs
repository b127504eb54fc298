//! Connections: accepted up to a bound, and closed when their clients are slow.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::answers::{Api, respond};
use super::rates::SAMPLE;

/// Headers of a request, and their bytes.
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Time for answers that are on their way when the server ends.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);
/// Pause when the system has no further socket.
const NO_SOCKET_PAUSE: Duration = Duration::from_millis(100);

/// What clients may take from the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time. Others wait in the socket's queue.
    pub connections: u32,
    /// Time for the handshake of TLS.
    pub handshake: Duration,
    /// Time in which a client must send the headers of its next request.
    pub headers: Duration,
    /// Time in which a client must send the body of a request.
    pub body: Duration,
    /// Time in which a client must take an answer and send its next request.
    pub client: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let [handshake, body, headers, client] = [10, 10, 20, 30].map(Duration::from_secs);
        Limits { connections: 64, handshake, headers, body, client }
    }
}

/// Serves connections until `closes`.
pub(super) async fn serve(
    socket: std::net::TcpListener,
    api: Arc<Api>,
    tls: Option<Arc<ServerConfig>>,
    limits: Limits,
    mut closes: watch::Receiver<bool>,
) {
    // It fails only if the runtime has no driver for sockets, and this one has.
    let Ok(socket) = TcpListener::from_std(socket) else { return };
    let tls = tls.map(TlsAcceptor::from);
    let slots = Arc::new(Semaphore::new(limits.connections as usize));
    let mut sample = interval(SAMPLE);
    sample.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, socket.accept().await)
        };
        tokio::select! {
            _ = closes.changed() => break,
            _ = sample.tick() => api.sample(),
            accepted = next => match accepted {
                (Ok(slot), Ok((stream, _))) => {
                    tokio::spawn(connection(stream, Arc::clone(&api), tls.clone(), limits, closes.clone(), slot));
                }
                _ => sleep(NO_SOCKET_PAUSE).await,
            },
        }
    }
    drop(socket);
    // Connections that take longer end with the runtime.
    let _ = timeout(LAST_ANSWERS_MAX, slots.acquire_many(limits.connections)).await;
}

async fn connection(
    stream: TcpStream,
    api: Arc<Api>,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    closes: watch::Receiver<bool>,
    _slot: OwnedSemaphorePermit,
) {
    // Without it, answers are only slower.
    let _ = stream.set_nodelay(true);
    match tls {
        None => requests(TokioIo::new(stream), api, limits, closes).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = timeout(limits.handshake, acceptor.accept(stream)).await {
                requests(TokioIo::new(stream), api, limits, closes).await;
            }
        }
    }
}

/// Answers the requests of a connection, until the client leaves or is too slow.
async fn requests<I>(io: I, api: Arc<Api>, limits: Limits, mut closes: watch::Receiver<bool>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    let turn = Arc::new(Turn::default());
    let service = service_fn(|request| {
        let (api, turn) = (Arc::clone(&api), Arc::clone(&turn));
        async move {
            turn.is_ours(true);
            let response = respond(api, request).await;
            turn.is_ours(false);
            Ok::<_, Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.headers);
    builder.max_headers(HEADERS_MAX).max_buf_size(HEADER_BYTES_MAX);
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut ends = false;
    loop {
        tokio::select! {
            // An error means that the client has left, or sent what is not HTTP: it has had its answer.
            _ = connection.as_mut() => return,
            _ = closes.changed(), if !ends => {
                ends = true;
                connection.as_mut().graceful_shutdown();
            }
            () = sleep_until(turn.since().unwrap_or_else(Instant::now) + limits.client) => {
                if turn.since().is_some_and(|since| since.elapsed() >= limits.client) {
                    return;
                }
            }
        }
    }
}

/// Whose turn it is on a connection: the server's while it works on an answer, else the client's, and since when.
struct Turn(Mutex<Option<Instant>>);

impl Default for Turn {
    fn default() -> Self {
        Turn(Mutex::new(Some(Instant::now())))
    }
}

impl Turn {
    fn is_ours(&self, ours: bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (!ours).then(Instant::now);
    }

    /// Since when it is the client's.
    fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
