//! Where a worker listens: connections of all its jobs come here and wait for their incarnations.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use anabranch_model::{Clock, Error, Incarnation, Notices, Result};
use anabranch_protocol::membership::WorkerId;

use super::acceptor::{Acceptor, Greeter, Stranger};
use super::connection::Patience;
use super::hello::Greeting;
use super::keys::{Keys, Peer};
use super::registry::Registry;

/// Smallest number of bytes of the secret, if other machines can connect.
const TOKEN_MIN: usize = 16;

/// Accepts the connections of one worker, for all its jobs.
pub struct Endpoint {
    shared: Arc<Shared>,
    acceptor: Acceptor,
}

struct Shared {
    registry: Arc<Registry>,
    /// `None`: connections are not encrypted.
    keys: Option<Keys>,
}

impl Endpoint {
    /// Listens for other workers. They must know the same `token`, of at most 256 bytes. With `keys` all
    /// connections are encrypted. An address that other machines reach needs them.
    pub fn listen(
        address: SocketAddr,
        me: WorkerId,
        (token, keys): (&[u8], Option<Keys>),
        clock: Arc<dyn Clock>,
    ) -> Result<Endpoint> {
        Endpoint::listen_with(address, me, (token, keys), Patience::default(), clock)
    }

    /// Like [`Endpoint::listen`], with other time limits than the standard ones.
    pub fn listen_with(
        address: SocketAddr,
        me: WorkerId,
        (token, keys): (&[u8], Option<Keys>),
        patience: Patience,
        clock: Arc<dyn Clock>,
    ) -> Result<Endpoint> {
        if !is_loopback(address) && (keys.is_none() || token.len() < TOKEN_MIN) {
            let error = Error::internal("an address that other machines reach needs keys, and a secret of 16 bytes");
            return Err(error.at(address.to_string()));
        }
        let shared = Arc::new(Shared { registry: Registry::new(me, token, patience, clock), keys });
        let acceptor = Acceptor::listen(address, ["accept", "greet"], &shared)?;
        Ok(Endpoint { shared, acceptor })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// What other workers of this machine must know to connect.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer { address: self.address(), key: self.shared.keys.as_ref().map(Keys::public) }
    }

    /// The worker that listens.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.shared.registry.me
    }

    /// Connections that were refused, and why.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        &self.shared.registry.notices
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.registry.clock
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.shared.registry
    }

    /// Refuses a peer if a connection to it would leave this machine without encryption. Refuses a loopback
    /// address of a worker that may be on another machine.
    pub(crate) fn check(&self, peer: &Peer) -> Result<()> {
        let why = match (is_loopback(peer.address), peer.key, &self.shared.keys) {
            (_, Some(_), _) | (true, None, None) => return Ok(()),
            (false, None, _) => "it has announced an address without a key, and what leaves a machine is encrypted",
            (true, None, Some(_)) => "it has announced a loopback address, which other machines do not reach",
        };
        let remedy = "give that worker --listen or --advertise with an address that this one reaches";
        Err(Error::outside(why).at(peer.address.to_string()).remedy(remedy))
    }

    /// Ends the present and future connections of an incarnation: tasks that wait for their peers end with an
    /// error, and so does [`Wiring::connect`](crate::network::wiring::Wiring::connect).
    pub fn cancel(&self, job: u64, incarnation: Incarnation) {
        self.shared.registry.cancel(job, incarnation);
    }
}

/// Whether only processes of this machine reach the address.
#[must_use]
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.registry.close();
    }
}

impl Greeter for Shared {
    const DROPPED: Shutdown = Shutdown::Both;

    fn greet(&self, stream: TcpStream, stranger: Stranger) {
        let greeting = Greeting::begin(stream, self.keys.as_ref()).map_err(|error| stranger.explain(error));
        // The greeting is over. From now on the registry counts the connection, if it waits.
        drop(stranger);
        self.registry.note(greeting.and_then(|greeting| self.registry.greet(Box::new(greeting))));
    }

    fn note(&self, error: Error) {
        self.registry.note(Err(error));
    }
}
