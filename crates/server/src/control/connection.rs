//! A connection after its greeting: a queue and a thread that writes it, a thread that reads, and one end.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_runtime::network::Deadline;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frame::{self, BODY_BYTES_MAX, Fault, Frame};
use super::hello;
use super::security::Security;
use super::wire::{Input, Wire, broken};
use crate::threads::lock;

/// Bytes that wait for a peer, at most, unless they are one message.
const WAITING_BYTES_MAX: usize = BODY_BYTES_MAX;
/// How long a connection that is closed still sends its queue, and then waits for the peer to close it too.
const LINGER: Duration = Duration::from_secs(1);
/// A closed connection is cut if the peer takes no byte for this time.
const STUCK_AFTER: Duration = Duration::from_millis(200);

/// Begins the message of a connection that nobody has accepted.
const CANNOT_CONNECT: &str = "cannot connect";

/// What happens at a connection.
#[derive(Debug)]
pub enum Event<In> {
    /// The peer has sent this.
    Message(In),
    /// The connection is over. Comes exactly once, and last. There is no error if either end has closed it.
    Closed(Option<Error>),
}

/// One end of a connection, to send messages. The connection closes when the last clone is dropped.
pub struct Connection<Out> {
    handle: Arc<Handle>,
    messages: PhantomData<fn(&Out)>,
}

struct Handle(Arc<Link>);

/// What a message or the end of a connection is given to. An error is a malformed message.
pub(super) type Handler = Box<dyn FnMut(Arrival<'_>) -> Result<()> + Send>;

pub(super) enum Arrival<'a> {
    Message(&'a [u8]),
    Closed(Option<Error>),
}

/// What the two threads of a connection share with those who send.
struct Link {
    wire: Arc<Wire>,
    peer: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    /// Gone once it has been given the end of the connection.
    handler: Mutex<Option<Handler>>,
}

struct State {
    phase: Phase,
    queue: VecDeque<Vec<u8>>,
    /// Bytes of the queue and of the frame that is being written.
    waiting_bytes: usize,
    outcome: Option<Error>,
    reader_has_ended: bool,
}

enum Phase {
    Open,
    /// The queue and this last frame are sent, until the deadline.
    Closing(Vec<u8>, Deadline),
    /// No further bytes are sent.
    Over,
}

/// Connects to a listener, within `timeout`. Events come on a thread of the connection, perhaps before this
/// returns. What `on_message` does delays the next message, and nothing else.
pub fn connect<In: DeserializeOwned + 'static, Out: Serialize>(
    address: SocketAddr,
    security: &Security,
    timeout: Duration,
    on_message: impl FnMut(Event<In>) + Send + 'static,
) -> Result<Connection<Out>> {
    let encryption = security.of_client(address)?;
    let opened = || {
        let deadline = Arc::new(Deadline::after(timeout));
        let connected = deadline.left().and_then(|left| TcpStream::connect_timeout(&address, left));
        let stream = connected.map_err(|error| {
            Error::outside(format!("{CANNOT_CONNECT}: {error}"))
                .remedy("see whether the process runs that listens there")
        })?;
        let (wire, mut input) = Wire::open(Arc::new(stream), encryption.as_ref(), &deadline)?;
        hello::introduce(&mut input, &wire, security.token(), &deadline)?;
        Ok((wire, input))
    };
    let (wire, input) = opened().map_err(|error: Error| error.at(address.to_string()))?;
    Ok(start(wire, input, address, on_message))
}

/// Starts the threads of a connection whose greeting is over. If that fails, the connection closes with the
/// error.
pub(super) fn start<In: DeserializeOwned + 'static, Out: Serialize>(
    wire: Arc<Wire>,
    input: Input,
    peer: SocketAddr,
    mut on_message: impl FnMut(Event<In>) + Send + 'static,
) -> Connection<Out> {
    let handler = move |arrival: Arrival<'_>| {
        on_message(match arrival {
            Arrival::Message(body) => Event::Message(serde_json::from_slice(body).map_err(|error| malformed(&error))?),
            Arrival::Closed(outcome) => Event::Closed(outcome),
        });
        Ok(())
    };
    Connection { handle: Arc::new(Handle(Link::start(wire, input, peer, Box::new(handler)))), messages: PhantomData }
}

/// Whether nobody listened where a connection was to be made.
pub fn is_absent(error: &Error) -> bool {
    error.message().starts_with(CANNOT_CONNECT)
}

fn malformed(error: &serde_json::Error) -> Error {
    Error::outside(format!("it has sent a malformed message: {error}")).remedy("run the same release everywhere")
}

impl<Out: Serialize> Connection<Out> {
    /// Queues a message. Never waits. Any failure ends the connection, and [`Event::Closed`] has the error. A
    /// connection that is over drops messages.
    pub fn send(&self, message: &Out) {
        let link = &self.handle.0;
        if link.is_open() {
            link.send(frame::message(message));
        }
    }
}

impl<Out> Connection<Out> {
    /// Closes the connection. Never waits. What is queued is sent for up to a second, as long as the peer
    /// takes it.
    pub fn close(&self) {
        self.handle.0.close();
    }

    /// Whether both are the same connection.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    /// The address of this end.
    pub fn local_address(&self) -> Result<SocketAddr> {
        self.handle.0.wire.local_address().map_err(|error| broken(&error))
    }

    /// The address of the peer.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.handle.0.peer
    }
}

impl<Out> Clone for Connection<Out> {
    fn clone(&self) -> Self {
        Connection { handle: Arc::clone(&self.handle), messages: PhantomData }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Link {
    fn start(wire: Arc<Wire>, mut input: Input, peer: SocketAddr, handler: Handler) -> Arc<Link> {
        let unlimited = wire.without_deadline(&mut input, STUCK_AFTER);
        let (queue, reader_has_ended) = (VecDeque::new(), false);
        let state = State { phase: Phase::Open, queue, waiting_bytes: 0, outcome: None, reader_has_ended };
        let (state, changed, handler) = (Mutex::new(state), Condvar::new(), Mutex::new(Some(handler)));
        let link = Arc::new(Link { wire, peer, state, changed, handler });
        let (writing, reading) = (Arc::clone(&link), Arc::clone(&link));
        let started = unlimited
            .and_then(|()| std::thread::Builder::new().name("control-write".into()).spawn(move || writing.write()))
            .and_then(|_| std::thread::Builder::new().name("control-read".into()).spawn(move || reading.read(input)));
        if let Err(error) = started {
            link.end(Some(Error::outside(format!("the connection cannot start: {error}"))));
            link.announce();
        }
        link
    }

    fn is_open(&self) -> bool {
        matches!(lock(&self.state).phase, Phase::Open)
    }

    fn send(&self, frame: Result<Vec<u8>>) {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return self.fail(error),
        };
        let mut state = lock(&self.state);
        if !matches!(state.phase, Phase::Open) {
            return;
        }
        let bytes = state.waiting_bytes + frame.len();
        if state.waiting_bytes > 0 && bytes > WAITING_BYTES_MAX {
            drop(state);
            return self.end(Some(Error::outside(format!(
                "it does not read: {bytes} bytes wait for it, and {WAITING_BYTES_MAX} are allowed"
            ))));
        }
        state.waiting_bytes = bytes;
        state.queue.push_back(frame);
        drop(state);
        self.changed.notify_all();
    }

    fn close(&self) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Open) {
            state.phase = Phase::Closing(frame::farewell(), Deadline::after(LINGER));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the connection with an error, which is sent to the peer in place of the queue.
    fn fail(&self, error: Error) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Open) {
            state.phase = Phase::Closing(frame::failure(error.message()), Deadline::after(LINGER));
            state.queue.clear();
            state.outcome = Some(error);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the connection at once, for both threads. The first cause of the end is announced.
    fn end(&self, outcome: Option<Error>) {
        let mut state = lock(&self.state);
        if matches!(state.phase, Phase::Open) {
            state.outcome = outcome;
        }
        state.phase = Phase::Over;
        state.queue = VecDeque::new();
        drop(state);
        self.changed.notify_all();
        self.wire.stop();
    }

    /// Announces the end of the connection to the handler, once.
    fn announce(&self) {
        let handler = lock(&self.handler).take();
        let Some(mut handler) = handler else { return };
        let outcome = lock(&self.state).outcome.take().map(|error| error.at(self.peer.to_string()));
        // A panic has printed its message already. The thread still ends the connection.
        let _ = catch_unwind(AssertUnwindSafe(|| handler(Arrival::Closed(outcome))));
    }

    /// The thread that reads.
    fn read(&self, mut input: Input) {
        match self.receive(&mut input) {
            Ok(outcome) => {
                if self.is_open() {
                    self.end(outcome);
                }
            }
            Err(error) => {
                self.fail(error);
                self.announce();
                // Closing a socket with unread bytes may lose the error that was sent to the peer.
                let _ = io::copy(&mut input, &mut io::sink());
            }
        }
        self.announce();
        lock(&self.state).reader_has_ended = true;
        self.changed.notify_all();
    }

    /// Receives until the peer has ended the connection, or has sent what it must not send.
    fn receive(&self, input: &mut Input) -> Result<Option<Error>> {
        loop {
            match frame::read(input) {
                Ok(Frame::Message(body)) => self.deliver(&body)?,
                Ok(Frame::Farewell) => return Ok(None),
                Ok(Frame::Failure(reason)) => {
                    return Ok(Some(Error::outside(format!("it has ended the connection: {reason}"))));
                }
                Err(Fault::Broken(error)) => return Ok(Some(error)),
                Err(Fault::Malformed(error)) => return Err(error),
            }
        }
    }

    fn deliver(&self, body: &[u8]) -> Result<()> {
        let mut handler = lock(&self.handler);
        match &mut *handler {
            Some(handler) if self.is_open() => catch_unwind(AssertUnwindSafe(|| handler(Arrival::Message(body))))
                .unwrap_or_else(|_| Err(Error::internal("the receiver of a message has panicked"))),
            // A connection that is closed here drops what still comes.
            _ => Ok(()),
        }
    }

    /// The thread that writes. It sees to the end of the connection, because reading waits without a limit.
    fn write(&self) {
        let gives_up = |is_stuck: bool| match &lock(&self.state).phase {
            Phase::Open => false,
            Phase::Closing(_, deadline) => is_stuck || deadline.left().is_err(),
            Phase::Over => true,
        };
        let mut written = Ok(());
        while let Some((frame, is_last)) = self.next() {
            written = self.wire.write_all(&frame, &gives_up);
            lock(&self.state).waiting_bytes -= frame.len();
            if written.is_err() || is_last {
                break;
            }
        }
        self.wire.finish();
        if !self.is_open() {
            self.announce();
        }
        // The thread that reads may find the peer's reason, or what the peer had sent before.
        let state = lock(&self.state);
        let waits = |state: &mut State| !state.reader_has_ended && !matches!(state.phase, Phase::Over);
        drop(self.changed.wait_timeout_while(state, LINGER, waits));
        self.end(written.err().map(|error| broken(&error)));
        self.announce();
    }

    /// Waits for the next bytes to write. Says whether it is the last.
    fn next(&self) -> Option<(Vec<u8>, bool)> {
        let waits = |state: &mut State| state.queue.is_empty() && matches!(state.phase, Phase::Open);
        let mut state = self.changed.wait_while(lock(&self.state), waits).unwrap_or_else(PoisonError::into_inner);
        if matches!(state.phase, Phase::Over) {
            return None;
        }
        if let Some(frame) = state.queue.pop_front() {
            return Some((frame, false));
        }
        let Phase::Closing(farewell, _) = &mut state.phase else { return None };
        let farewell = std::mem::take(farewell);
        state.waiting_bytes += farewell.len();
        Some((farewell, true))
    }
}
