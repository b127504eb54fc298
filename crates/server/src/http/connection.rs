//! Connections: accepted up to a bound, and closed when their clients are slow.
//!
//! A client is known once it has sent a request that may be answered (with the token, if there is one). If
//! all places are taken, a new connection replaces the one that has waited longest for its client, an unknown
//! client first. So silent connections keep no probe and no user out. A request that is being answered keeps
//! its place.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::answers::{Answer, protected};
use super::guard::Guard;
use super::rates::SAMPLE;
use crate::threads::lock;

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
    /// Connections at the same time. A further one replaces a connection that waits for its client, or waits
    /// in the socket's queue.
    pub connections: u32,
    /// Time in which an unknown client must send the headers of its next request.
    pub unknown: Duration,
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
        let [unknown, handshake, body, headers, client] = [5, 10, 10, 20, 30].map(Duration::from_secs);
        Limits { connections: 256, unknown, handshake, headers, body, client }
    }
}

/// What answers requests.
pub(super) trait Service: Send + Sync + 'static {
    /// Decides which requests may be answered.
    fn guard(&self) -> &Guard;

    /// The answer to a request, which may be a refusal.
    fn respond(self: Arc<Self>, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;

    /// Is called each time that [`SAMPLE`] has passed.
    fn sample(&self) {}
}

/// Serves connections until `closes`.
pub(super) async fn serve<S: Service>(
    socket: std::net::TcpListener,
    service: Arc<S>,
    tls: Option<Arc<ServerConfig>>,
    limits: Limits,
    mut closes: watch::Receiver<bool>,
) {
    // It fails only if the runtime has no driver for sockets, and this one has.
    let Ok(socket) = TcpListener::from_std(socket) else { return };
    let tls = tls.map(TlsAcceptor::from);
    let slots = Arc::new(Semaphore::new(limits.connections as usize));
    let (places, mut waiting) = (Places::default(), None);
    let mut sample = interval(SAMPLE);
    sample.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // If another branch comes first, a stream that was accepted waits for the next turn.
        let next = async {
            if waiting.is_none() {
                waiting = Some(socket.accept().await);
            }
            if slots.available_permits() == 0 {
                places.make_room();
            }
            Arc::clone(&slots).acquire_owned().await
        };
        tokio::select! {
            _ = closes.changed() => break,
            _ = sample.tick() => service.sample(),
            slot = next => match (slot, waiting.take()) {
                (Ok(slot), Some(Ok((stream, _)))) => {
                    let (service, tls, place) = (Arc::clone(&service), tls.clone(), places.take());
                    tokio::spawn(connection(stream, service, tls, limits, closes.clone(), place, slot));
                }
                _ => sleep(NO_SOCKET_PAUSE).await,
            },
        }
    }
    drop(socket);
    // Connections that take longer end with the runtime.
    let _ = timeout(LAST_ANSWERS_MAX, slots.acquire_many(limits.connections)).await;
}

async fn connection<S: Service>(
    stream: TcpStream,
    service: Arc<S>,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    closes: watch::Receiver<bool>,
    place: Slot,
    _slot: OwnedSemaphorePermit,
) {
    // Without it, answers are only slower.
    let _ = stream.set_nodelay(true);
    let turn = Arc::clone(&place.turn);
    let served = async {
        match tls {
            None => requests(TokioIo::new(stream), service, limits, closes, turn).await,
            Some(acceptor) => {
                if let Ok(Ok(stream)) = timeout(limits.handshake, acceptor.accept(stream)).await {
                    requests(TokioIo::new(stream), service, limits, closes, turn).await;
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = place.turn.gives_way.notified() => {}
    }
}

/// Answers the requests of a connection, until the client leaves or is too slow.
async fn requests<I, S>(io: I, service: Arc<S>, limits: Limits, mut closes: watch::Receiver<bool>, turn: Arc<Turn>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: Service,
{
    let answer = service_fn(|request: Request<Incoming>| {
        let (service, turn) = (Arc::clone(&service), Arc::clone(&turn));
        async move {
            let ours = turn.begins(service.guard().check(request.method(), request.headers()).is_ok());
            let answer = protected(service.respond(request).await);
            // A client that takes no events is as slow as one that sends no request.
            Ok::<_, Infallible>(answer.map(|body| body.telling(move || ours.0.is_taken())))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.headers);
    builder.max_headers(HEADERS_MAX).max_buf_size(HEADER_BYTES_MAX);
    let mut connection = pin!(builder.serve_connection(io, answer));
    let mut ends = false;
    loop {
        tokio::select! {
            // An error means that the client has left, or sent what is not HTTP: it has had its answer.
            _ = connection.as_mut() => return,
            _ = closes.changed(), if !ends => {
                ends = true;
                connection.as_mut().graceful_shutdown();
            }
            () = sleep_until(turn.ends(limits).unwrap_or_else(|| Instant::now() + limits.unknown)) => {
                if turn.ends(limits).is_some_and(|end| end <= Instant::now()) {
                    return;
                }
            }
        }
    }
}

/// Whose turn it is on a connection: the server's while it works on an answer, else the client's.
struct Turn {
    state: Mutex<State>,
    /// Another connection needs its place.
    gives_way: Notify,
}

#[derive(Clone, Copy)]
struct State {
    /// Since when it is the client's turn.
    since: Option<Instant>,
    is_known: bool,
    /// Events are sent: nobody else gets its place.
    streams: bool,
}

/// The server's turn: it works on an answer, or sends events.
struct Ours(Arc<Turn>);

impl Drop for Ours {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        (state.since, state.streams) = (Some(Instant::now()), false);
    }
}

impl Default for Turn {
    fn default() -> Self {
        let state = State { since: Some(Instant::now()), is_known: false, streams: false };
        Turn { state: Mutex::new(state), gives_way: Notify::new() }
    }
}

impl Turn {
    /// The client has taken an event, and more follow.
    fn is_taken(&self) {
        let mut state = lock(&self.state);
        (state.since, state.streams) = (Some(Instant::now()), true);
    }

    /// A request has arrived. `is_known`: it may be answered.
    fn begins(self: Arc<Self>, is_known: bool) -> Ours {
        {
            let mut state = lock(&self.state);
            state.since = None;
            state.is_known |= is_known;
        }
        Ours(self)
    }

    /// When the client must have sent its next request, if it is the client's turn.
    fn ends(&self, limits: Limits) -> Option<Instant> {
        let State { since, is_known, .. } = *lock(&self.state);
        since.map(|since| since + if is_known { limits.client } else { limits.unknown.min(limits.client) })
    }
}

/// The connections that have a place.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    turns: BTreeMap<u64, Arc<Turn>>,
    next: u64,
}

/// The place of one connection.
struct Slot {
    number: u64,
    turn: Arc<Turn>,
    places: Places,
}

impl Places {
    fn take(&self) -> Slot {
        let mut taken = lock(&self.0);
        let (number, turn) = (taken.next, Arc::new(Turn::default()));
        taken.next += 1;
        taken.turns.insert(number, Arc::clone(&turn));
        Slot { number, turn, places: self.clone() }
    }

    /// The connection that has waited longest for its client gives way, of unknown clients first.
    fn make_room(&self) {
        let mut taken = lock(&self.0);
        let waits = |(number, turn): (&u64, &Arc<Turn>)| {
            let State { since, is_known, streams } = *lock(&turn.state);
            since.filter(|_| !streams).map(|since| (is_known, since, *number))
        };
        let longest = taken.turns.iter().filter_map(waits).min();
        if let Some(turn) = longest.and_then(|(_, _, number)| taken.turns.remove(&number)) {
            turn.gives_way.notify_one();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.places.0).turns.remove(&self.number);
    }
}
