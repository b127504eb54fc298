//! Where a worker listens: connections of all its jobs come here and wait for their incarnations.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use anabranch_model::{Clock, Error, Incarnation, Notices, Result};
use anabranch_protocol::membership::WorkerId;

use super::acceptor::{Acceptor, Host, Stranger};
use super::connection::Patience;
use super::hello::Greeting;
use super::keys::{Keys, Peer};
use super::registry::Registry;

/// Connections that have not said yet who they are, at most: the oldest is dropped for a new one.
const GREETINGS_MAX: usize = 64;
/// Bytes of the secret, at least, where other machines can connect.
const TOKEN_MIN: usize = 16;

/// Accepts the connections of one worker. One for all its jobs.
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
    /// connections are encrypted, which an address needs that other machines reach.
    pub fn listen(
        address: SocketAddr,
        me: WorkerId,
        (token, keys): (&[u8], Option<Keys>),
        clock: Arc<dyn Clock>,
    ) -> Result<Endpoint> {
        Endpoint::listen_with(address, me, (token, keys), Patience::default(), clock)
    }

    /// Listens, with other times than the standard ones.
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

    /// Refuses a peer to which a connection would not be encrypted where others can read it, or would end at
    /// another machine.
    pub(crate) fn check(&self, peer: &Peer) -> Result<()> {
        let why = match (is_loopback(peer.address), peer.key, &self.shared.keys) {
            (_, Some(_), _) | (true, None, None) => return Ok(()),
            (false, None, _) => "it has announced an address without a key, and what leaves a machine is encrypted",
            (true, None, Some(_)) => "it has announced a loopback address, which other machines do not reach",
        };
        let remedy = "give that worker --listen or --advertise with an address that this one reaches";
        Err(Error::outside(why).at(peer.address.to_string()).remedy(remedy))
    }

    /// Ends the connections of an incarnation and those that still come: tasks that wait for their peers end
    /// with an error, and so does [`Wiring::connect`](crate::network::wiring::Wiring::connect).
    pub fn cancel(&self, job: u64, incarnation: Incarnation) {
        self.shared.registry.cancel(job, incarnation);
    }
}

/// Whether only processes of this machine reach the address.
#[must_use]
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Ends a thread that accepts connections at this address, and that ends with the next one. It waits for a
/// connection: if it gets none, it is left behind.
pub fn end_accepting(mut address: SocketAddr, thread: JoinHandle<()>) {
    if address.ip().is_unspecified() {
        let is_v4 = address.is_ipv4();
        address.set_ip(if is_v4 { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) });
    }
    if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
        // A panic of the thread has ended it as well.
        let _ = thread.join();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.registry.close();
    }
}

impl Host for Shared {
    const DROPPED: Shutdown = Shutdown::Both;

    /// The accepting thread. Each connection has a thread until it is known whose it is: one that is silent
    /// delays no other.
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            let mut state = self.lock();
            if state.closed {
                return;
            }
            match accepted {
                Ok((stream, _)) => {
                    // The same socket, for ending it.
                    let Ok(own) = stream.try_clone().map(Arc::new) else { continue };
                    state.accepted += 1;
                    let number = state.accepted;
                    state.greetings.insert(number, own);
                    if state.greetings.len() > GREETINGS_MAX
                        && let Some((_, oldest)) = state.greetings.pop_first()
                    {
                        // Its thread finds the end of the stream.
                        let _ = oldest.shutdown(Shutdown::Both);
                    }
                    drop(state);
                    self.spawn(stream, number);
                }
                // There may be too many open files for the moment.
                Err(_) => drop(self.changed.wait_timeout_while(state, RETRY, |state| !state.closed)),
            }
        }
    }

    fn spawn(self: &Arc<Self>, stream: TcpStream, number: u64) {
        let greeting = Greeted { shared: Arc::clone(self), number };
        let greet = move || greeting.shared.registry.note(greeting.greet(stream));
        // Without a thread the connection is closed, and its end is counted.
        if let Err(error) = std::thread::Builder::new().name("greet".into()).spawn(greet) {
            self.registry.note(Err(no_thread(&error)));
        }
    }
}

/// A connection that is being greeted.
struct Greeted {
    shared: Arc<Shared>,
    number: u64,
}

impl Greeted {
    fn greet(&self, stream: TcpStream) -> Result<()> {
        let greeting = Greeting::begin(stream, self.shared.keys.as_ref());
        // It has said who it is, so it counts as waiting from now on.
        let was_dropped = self.shared.lock().greetings.remove(&self.number).is_none();
        match greeting {
            Ok(greeting) => self.shared.registry.greet(Box::new(greeting)),
            Err(_) if was_dropped => {
                Err(Error::outside(format!("more than {GREETINGS_MAX} connections have not said who they are")))
            }
            Err(error) => Err(error),
        }
    }

    fn note(&self, error: Error) {
        self.registry.note(Err(error));
    }
}
