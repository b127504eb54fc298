//! Where a process accepts control connections.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Clock as _, Error, Notices, Result, SystemClock};
use anabranch_runtime::network::{Deadline, end_accepting, is_tls};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connection::{Connection, Event, start};
use super::hello;
use super::security::{Encryption, Security};
use super::wire::{Input, Wire};

/// Connections that have not finished the greeting, at most.
const GREETINGS_MAX: usize = 64;
/// A peer must have said who it is after this time.
const GREETING: Duration = Duration::from_secs(5);
/// Time after which a failed attempt to accept is repeated.
const RETRY: Duration = Duration::from_millis(50);

/// Accepts connections until it is dropped. Connections that it has accepted outlive it.
pub struct Listener {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// A connection whose peer belongs to the cluster. It closes if it is not started.
pub struct Incoming {
    wire: Arc<Wire>,
    input: Input,
    peer: SocketAddr,
}

struct Shared {
    security: Security,
    encryption: Option<Encryption>,
    greeting: Duration,
    on_connection: Box<dyn Fn(Incoming) + Send + Sync>,
    clock: SystemClock,
    /// Connections that were refused.
    notices: Notices,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Connections that are being greeted, by their number.
    greetings: BTreeMap<u64, Arc<TcpStream>>,
    accepted: u64,
    closed: bool,
}

impl Incoming {
    /// The address of the peer.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Begins to receive. Events come on a thread of the connection, perhaps before this returns.
    pub fn start<In: DeserializeOwned + 'static, Out: Serialize>(
        self,
        on_message: impl FnMut(Event<In>) + Send + 'static,
    ) -> Connection<Out> {
        start(self.wire, self.input, self.peer, on_message)
    }
}

impl Listener {
    /// Listens. Port 0 takes a free one. `on_connection` is called on a thread of the connection, once its
    /// hello has been checked: it may wait.
    pub fn bind(
        address: SocketAddr,
        security: Security,
        on_connection: impl Fn(Incoming) + Send + Sync + 'static,
    ) -> Result<Listener> {
        Self::bind_with(address, security, GREETING, Box::new(on_connection))
    }

    pub(super) fn bind_with(
        address: SocketAddr,
        security: Security,
        greeting: Duration,
        on_connection: Box<dyn Fn(Incoming) + Send + Sync>,
    ) -> Result<Listener> {
        let encryption = security.of_listener(address)?;
        let place = |error: std::io::Error| Error::outside(format!("cannot listen: {error}")).at(address.to_string());
        let listener = TcpListener::bind(address).map_err(place)?;
        let address = listener.local_addr().map_err(place)?;
        let (clock, notices, state, changed) =
            (SystemClock::new(), Notices::default(), Mutex::default(), Condvar::new());
        let shared = Shared { security, encryption, greeting, on_connection, clock, notices, state, changed };
        let shared = Arc::new(shared);
        let accepting = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("control-accept".into()).spawn(move || accepting.accept(&listener));
        Ok(Listener { shared, address, thread: Some(thread.map_err(place)?) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that were refused, and why.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        &self.shared.notices
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        for stream in state.greetings.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.changed.notify_all();
        self.thread.take().into_iter().for_each(|thread| end_accepting(self.address, thread));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, error: &Error) {
        self.notices.report(self.clock.now(), error.to_string());
    }

    /// The accepting thread. Each connection has a thread for its greeting.
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            let mut state = self.lock();
            if state.closed {
                return;
            }
            match accepted {
                Ok((stream, peer)) => {
                    let stream = Arc::new(stream);
                    state.accepted += 1;
                    let number = state.accepted;
                    state.greetings.insert(number, Arc::clone(&stream));
                    if state.greetings.len() > GREETINGS_MAX
                        && let Some((_, oldest)) = state.greetings.pop_first()
                    {
                        // Its thread finds the end of the stream, and can still answer.
                        let _ = oldest.shutdown(Shutdown::Read);
                    }
                    drop(state);
                    self.spawn(stream, peer, number);
                }
                // There may be too many open files for the moment.
                Err(_) => drop(self.changed.wait_timeout_while(state, RETRY, |state| !state.closed)),
            }
        }
    }

    fn spawn(self: &Arc<Self>, stream: Arc<TcpStream>, peer: SocketAddr, number: u64) {
        let greeting = Greeting { shared: Arc::clone(self), number };
        let greet = move || {
            let shared = Arc::clone(&greeting.shared);
            match greeting.greet(stream, peer) {
                Ok(incoming) => (shared.on_connection)(incoming),
                Err(error) => shared.note(&error.at(peer.to_string())),
            }
        };
        // Without a thread the connection is closed, and its greeting is over.
        if let Err(error) = std::thread::Builder::new().name("control-greet".into()).spawn(greet) {
            self.note(&Error::outside(format!("cannot start a thread: {error}")).at(peer.to_string()));
        }
    }
}

/// A connection that is being greeted.
struct Greeting {
    shared: Arc<Shared>,
    number: u64,
}

impl Greeting {
    fn greet(self, stream: Arc<TcpStream>, peer: SocketAddr) -> Result<Incoming> {
        let shared = &self.shared;
        let deadline = Arc::new(Deadline::after(shared.greeting));
        if shared.encryption.is_some() {
            let first = Wire::first_byte(&stream, &deadline).map_err(|error| self.reason(hello::unfinished(&error)))?;
            if !first.is_some_and(is_tls) {
                let (wire, mut input) = Wire::open(stream, None, &deadline)?;
                return Err(hello::refuse_without_tls(&mut input, &wire, |error| self.reason(error)));
            }
        }
        let (wire, mut input) =
            Wire::open(stream, shared.encryption.as_ref(), &deadline).map_err(|error| self.reason(error))?;
        let explain = |error| self.reason(error);
        hello::receive(&mut input, &wire, shared.security.token(), explain)?;
        if !self.is_accepted() {
            let error = self.reason(Error::cancelled());
            hello::reject(&mut input, &wire, error.message());
            return Err(error);
        }
        hello::accept(&wire, &deadline)?;
        Ok(Incoming { wire, input, peer })
    }

    /// Takes the connection out of those that are being greeted, unless the listener has done so.
    fn is_accepted(&self) -> bool {
        let mut state = self.shared.lock();
        state.greetings.remove(&self.number).is_some() && !state.closed
    }

    /// Why a greeting has failed: the listener may have ended it.
    fn reason(&self, error: Error) -> Error {
        let state = self.shared.lock();
        if state.closed {
            Error::outside("this process listens no more")
        } else if state.greetings.contains_key(&self.number) {
            error
        } else {
            Error::outside(format!("more than {GREETINGS_MAX} connections have not said who they are"))
        }
    }
}

impl Drop for Greeting {
    fn drop(&mut self) {
        self.shared.lock().greetings.remove(&self.number);
    }
}
