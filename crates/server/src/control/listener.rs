//! Where a process accepts control connections.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock as _, Error, Notice, Notices, Result, SystemClock};
use anabranch_runtime::network::{Acceptor, Deadline, Greeter, Stranger, is_tls};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::warn;

use super::connection::{Connection, Event, start};
use super::hello;
use super::security::{Encryption, Security};
use super::wire::{Input, Wire};

/// A peer must have said who it is after this time.
const GREETING: Duration = Duration::from_secs(5);

/// Accepts connections until it is dropped. Connections that it has accepted outlive it.
pub struct Listener {
    shared: Arc<Shared>,
    acceptor: Acceptor,
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
}

impl Incoming {
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
        let (clock, notices) = (SystemClock::new(), Notices::default());
        let shared = Arc::new(Shared { security, encryption, greeting, on_connection, clock, notices });
        let acceptor = Acceptor::listen(address, ["control-accept", "control-greet"], &shared)?;
        Ok(Listener { shared, acceptor })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// Connections that were refused, and why.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        &self.shared.notices
    }
}

impl Greeter for Shared {
    /// A peer that is dropped can still be answered.
    const DROPPED: Shutdown = Shutdown::Read;

    fn greet(&self, stream: TcpStream, stranger: Stranger) {
        match self.greeted(stream, &stranger) {
            Ok(incoming) => (self.on_connection)(incoming),
            Err(error) => self.note(error.at(stranger.peer().ip().to_string())),
        }
    }

    fn note(&self, error: Error) {
        let notice = self.notices.report(self.clock.now(), error.to_string());
        if notice.is_logged() {
            let Notice { times, text, .. } = notice;
            warn!(error = text, times, "control connection refused");
        }
    }
}

impl Shared {
    fn greeted(&self, stream: TcpStream, stranger: &Stranger) -> Result<Incoming> {
        let (stream, deadline) = (Arc::new(stream), Arc::new(Deadline::after(self.greeting)));
        let explain = |error| stranger.explain(error);
        if self.encryption.is_some() {
            let first = Wire::first_byte(&stream, &deadline).map_err(|error| explain(hello::unfinished(&error)))?;
            if !first.is_some_and(is_tls) {
                let (wire, mut input) = Wire::open(stream, None, &deadline)?;
                return Err(hello::refuse_without_tls(&mut input, &wire, explain));
            }
        }
        let (wire, mut input) = Wire::open(stream, self.encryption.as_ref(), &deadline).map_err(explain)?;
        hello::receive(&mut input, &wire, self.security.token(), explain)?;
        if !stranger.leave() {
            let error = explain(Error::cancelled());
            hello::reject(&mut input, &wire, error.message());
            return Err(error);
        }
        hello::accept(&wire, &deadline)?;
        Ok(Incoming { wire, input, peer: stranger.peer() })
    }
}
