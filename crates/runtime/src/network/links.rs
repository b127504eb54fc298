//! The connections of one incarnation at one worker.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock, Error, Nanos, Result};

use super::connection::Patience;
use anabranch_protocol::membership::WorkerId;

use super::hello::Hello;
use super::incoming::{Deliver, Incoming, IncomingChannel};
use super::keys::Peer;
use super::outgoing::{Outgoing, OutgoingChannel};
use super::registry::Arrival;
use super::wire::Wire;

/// Time between two attempts to connect to a worker that does not listen yet.
const RETRY: Duration = Duration::from_millis(50);
/// The longest time of one attempt.
const ATTEMPT: Duration = Duration::from_secs(5);

/// The channels from another worker.
pub(crate) struct Expected {
    pub(crate) channels: Vec<IncomingChannel>,
    pub(crate) deliver: Arc<dyn Deliver>,
}

/// The connections of one incarnation.
pub(crate) struct Links {
    state: Mutex<LinksState>,
    changed: Condvar,
    patience: Patience,
    clock: Arc<dyn Clock>,
}

struct LinksState {
    /// Workers that have not connected yet.
    awaited: BTreeMap<WorkerId, Expected>,
    /// Workers whose connections are being accepted.
    opening: usize,
    incoming: Vec<Arc<Incoming>>,
    outgoing: BTreeMap<WorkerId, Arc<Outgoing>>,
    /// The connection that is being established.
    connecting: Option<TcpStream>,
    /// Why some connections are missing.
    failure: Option<Error>,
    closed: bool,
}

impl Links {
    /// `awaited` are the workers that send to this one.
    pub(super) fn new(awaited: BTreeMap<WorkerId, Expected>, patience: Patience, clock: Arc<dyn Clock>) -> Links {
        let state = LinksState {
            awaited,
            opening: 0,
            incoming: Vec::new(),
            outgoing: BTreeMap::new(),
            connecting: None,
            failure: None,
            closed: false,
        };
        Links { state: Mutex::new(state), changed: Condvar::new(), patience, clock }
    }

    fn lock(&self) -> MutexGuard<'_, LinksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts the connection of a worker of the incarnation. An error is one of this connection; for an
    /// expected worker it also fails [`Links::wait`].
    pub(super) fn accept(&self, arrival: Box<dyn Arrival>) -> Result<()> {
        let (from, place) = (arrival.hello().from, arrival.place());
        let mut state = self.lock();
        let expected = if state.closed { None } else { state.awaited.remove(&from) };
        let Some(Expected { channels, deliver }) = expected else {
            let reason =
                if state.closed { "the incarnation is over" } else { "no connection is awaited from this worker" };
            drop(state);
            arrival.refuse(reason)?;
            return Err(Error::outside(format!("its connection was refused: {reason}")).at(place));
        };
        state.opening += 1;
        drop(state);
        let incoming = arrival.open(channels, self.patience, Arc::clone(&self.clock), deliver);
        let mut state = self.lock();
        state.opening -= 1;
        let outcome = match incoming {
            Ok(incoming) => {
                if state.closed {
                    incoming.close();
                }
                state.incoming.push(Arc::new(incoming));
                Ok(())
            }
            Err(error) => {
                let message = error.to_string();
                state.failure.get_or_insert(error);
                Err(Error::outside(message))
            }
        };
        drop(state);
        self.changed.notify_all();
        outcome
    }

    /// Connects to a worker. Retries while it does not listen.
    pub(crate) fn connect(&self, hello: &Hello, peer: &Peer, token: &[u8], deadline: Nanos) -> Result<()> {
        let Peer { address, key } = *peer;
        loop {
            let left = deadline.after(self.clock.now()).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&address, left.min(ATTEMPT)) {
                Ok(stream) => {
                    self.lock().connecting = stream.try_clone().ok();
                    self.pause(Duration::ZERO)?;
                    let clock = Arc::clone(&self.clock);
                    let place = |error: Error| error.at(format!("{} at {address}", hello.to));
                    let outgoing = Wire::connect(stream, address, key, left)
                        .map_err(place)
                        .and_then(|wire| Outgoing::open(wire, hello, token, (self.patience, left), clock));
                    self.lock().connecting = None;
                    return self.connected(hello.to, outgoing);
                }
                Err(error) if self.clock.now() >= deadline => {
                    let error = Error::outside(format!("no connection: {error}"));
                    return Err(error.at(format!("{} at {address}", hello.to)));
                }
                Err(_) => self.pause(RETRY)?,
            }
        }
    }

    /// Records whether a worker has accepted the connection.
    pub(super) fn connected(&self, to: WorkerId, outgoing: Result<Outgoing>) -> Result<()> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::cancelled());
        }
        state.outgoing.insert(to, Arc::new(outgoing?));
        Ok(())
    }

    /// Pauses. An error if the connections are closed.
    fn pause(&self, time: Duration) -> Result<()> {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, time, |state| !state.closed);
        match waited.unwrap_or_else(PoisonError::into_inner).0.closed {
            true => Err(Error::cancelled()),
            false => Ok(()),
        }
    }

    /// Waits until all workers that send to this one have connected.
    pub(crate) fn wait(&self, deadline: Nanos) -> Result<()> {
        let mut state = self.lock();
        loop {
            let now = self.clock.now();
            if let Some(outcome) = state.outcome(now, deadline) {
                return outcome;
            }
            let left = deadline.after(now);
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Like [`Links::wait`], without waiting. `None`: some are still missing.
    pub(super) fn poll(&self, deadline: Nanos) -> Option<Result<()>> {
        self.lock().outcome(self.clock.now(), deadline)
    }

    /// The sending end of a channel to a worker.
    pub(crate) fn channel(&self, to: WorkerId, channel: u32, capacity: usize) -> Result<OutgoingChannel> {
        let state = self.lock();
        match state.outgoing.get(&to) {
            Some(outgoing) => Ok(outgoing.channel(channel, capacity)),
            None if state.closed => Err(Error::cancelled()),
            None => Err(Error::internal(format!("no connection leads to {to}"))),
        }
    }

    /// Waits until the peers have received everything, and have sent everything.
    pub(crate) fn finish(&self) -> Result<()> {
        let state = self.lock();
        let outgoing: Vec<Arc<Outgoing>> = state.outgoing.values().cloned().collect();
        let incoming = state.incoming.clone();
        drop(state);
        let outcome = outgoing.iter().map(|outgoing| outgoing.finish()).fold(Ok(()), Result::and);
        // Tasks that need more input than has arrived have failed.
        incoming.iter().for_each(|incoming| drop(incoming.join()));
        outcome
    }

    /// Ends all present and future connections now.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.incoming.iter().for_each(|incoming| incoming.close());
        state.outgoing.values().for_each(|outgoing| outgoing.close());
        if let Some(stream) = state.connecting.take() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let awaited = std::mem::take(&mut state.awaited);
        drop(state);
        self.changed.notify_all();
        // These will not connect any more.
        awaited.values().for_each(|expected| expected.deliver.ended(&|| Err(Error::cancelled())));
    }
}

impl LinksState {
    /// Whether all workers have connected, or why they have not. `None`: undecided.
    fn outcome(&mut self, now: Nanos, deadline: Nanos) -> Option<Result<()>> {
        if self.closed {
            return Some(Err(Error::cancelled()));
        }
        if let Some(error) = self.failure.take() {
            return Some(Err(error));
        }
        if self.awaited.is_empty() && self.opening == 0 {
            return Some(Ok(()));
        }
        let missing = || self.awaited.keys().map(WorkerId::to_string).collect::<Vec<_>>().join(", ");
        (now >= deadline).then(|| Err(Error::outside(format!("{} did not connect in time", missing()))))
    }
}
