//! An endpoint without sockets and threads, for a simulator that carries the bytes of its connections.
//!
//! The parts are those of the product: the registry, the hello, both ends of a connection with their frames
//! and credits. Instead of a thread that waits for a socket, the simulator gives an end the bytes that have
//! arrived ([`SteppedWire::give`]), takes the bytes that it writes ([`SteppedWire::take`]), and advances its
//! time ([`SteppedWire::tick`]).

mod wire;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock, Error, Incarnation, Nanos, Result};
use anabranch_protocol::membership::WorkerId;

use super::connection::Patience;
use super::hello::Hello;
use super::keys::Peer;
use super::links::Links;
use super::registry::Registry;
use crate::network::wiring::{Connected, Network, Placed, Wiring, peer_of};
pub use wire::SteppedWire;
use wire::{Dialed, Phase};

/// Time between two attempts to connect to a worker that does not listen.
const RETRY: Duration = Duration::from_millis(5);

/// Where a simulated worker listens, for all its jobs.
pub struct SteppedEndpoint {
    registry: Arc<Registry>,
    address: SocketAddr,
    pending: Mutex<Vec<Pending>>,
}

/// An incarnation that connects to its peers, one after the other, and waits for theirs.
struct Pending {
    wiring: Wiring,
    links: Arc<Links>,
    /// The peers that are not connected yet.
    hellos: VecDeque<(Hello, SocketAddr)>,
    /// The attempt to connect to the first of them, and when to retry if there is none.
    dialing: Option<SteppedWire>,
    again: Nanos,
    deadline: Nanos,
    connected: Connected,
}

impl SteppedEndpoint {
    /// An endpoint at this address of the simulator.
    #[must_use]
    pub fn new(
        me: WorkerId,
        address: SocketAddr,
        token: &[u8],
        patience: Patience,
        clock: Arc<dyn Clock>,
    ) -> Arc<SteppedEndpoint> {
        let registry = Registry::new(me, token, patience, clock);
        Arc::new(SteppedEndpoint { registry, address, pending: Mutex::default() })
    }

    /// The end of a connection that another endpoint has begun.
    #[must_use]
    pub fn accept(&self) -> SteppedWire {
        let registry = Arc::clone(&self.registry);
        SteppedWire::new(Arc::clone(&self.registry.clock), self.registry.patience, Phase::Greeting(registry))
    }

    /// Continues to connect, as far as possible now. Returns the new connections, and their destinations.
    #[must_use]
    pub fn dials(&self) -> Vec<(SocketAddr, SteppedWire)> {
        let mut pending = std::mem::take(&mut *self.lock());
        let (mut dials, mut waiting) = (Vec::new(), Vec::new());
        for mut one in pending.drain(..) {
            match one.step(&self.registry, &mut dials) {
                None => waiting.push(one),
                Some(outcome) => {
                    one.dialing.iter().for_each(SteppedWire::close);
                    (one.connected)(outcome.map(|()| one.wiring));
                }
            }
        }
        self.lock().append(&mut waiting);
        dials
    }

    /// Number of jobs that run here or connect.
    #[must_use]
    pub fn held(&self) -> usize {
        self.registry.jobs() + self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SteppedEndpoint {
    fn drop(&mut self) {
        self.registry.close();
    }
}

impl Network for SteppedEndpoint {
    fn worker(&self) -> WorkerId {
        self.registry.me
    }

    fn peer(&self) -> Peer {
        Peer { address: self.address, key: None }
    }

    fn connect(self: Arc<Self>, placed: Placed, connected: Connected) {
        let Placed { life, plan, placement, peers } = placed;
        let begun = Wiring::begin(&plan, life, &placement, &self.registry).and_then(|(wiring, hellos)| {
            let hellos = hellos.into_iter().map(|hello| Ok((hello, peer_of(&peers, hello.to)?.address)));
            Ok((wiring, hellos.collect::<Result<_>>()?))
        });
        let (wiring, hellos) = match begun {
            Ok(begun) => begun,
            Err(error) => return connected(Err(error)),
        };
        let Some(links) = wiring.links().cloned() else { return connected(Ok(wiring)) };
        let now = self.registry.clock.now();
        let deadline = now.plus(self.registry.patience.connect_max);
        self.lock().push(Pending { wiring, links, hellos, dialing: None, again: now, deadline, connected });
    }

    fn cancel(&self, job: u64, incarnation: Incarnation) {
        self.registry.cancel(job, incarnation);
    }
}

impl Pending {
    /// `None`: some connections are missing.
    fn step(&mut self, registry: &Registry, dials: &mut Vec<(SocketAddr, SteppedWire)>) -> Option<Result<()>> {
        let now = registry.clock.now();
        if let Some(Err(error)) = self.links.poll(self.deadline) {
            return Some(Err(error));
        }
        if let Some(wire) = &self.dialing {
            match wire.dialed() {
                Dialed::Waits if now < self.deadline => return None,
                Dialed::Waits => return Some(Err(Error::outside("the peer does not answer"))),
                Dialed::Accepted => drop(self.hellos.pop_front()),
                Dialed::Unreachable if now < self.deadline => self.again = now.plus(RETRY),
                Dialed::Unreachable => return Some(Err(Error::outside("no connection"))),
                Dialed::Refused(error) => return Some(Err(error)),
            }
            self.dialing = None;
        }
        let Some((hello, address)) = self.hellos.front() else { return self.links.poll(self.deadline) };
        if now >= self.again {
            let message = match hello.message(&registry.token) {
                Ok(message) => message,
                Err(error) => return Some(Err(error)),
            };
            let phase = Phase::Dialing(*hello, Arc::clone(&self.links), *address);
            let wire = SteppedWire::new(Arc::clone(&registry.clock), registry.patience, phase);
            wire.write(&message);
            self.dialing = Some(wire.clone());
            dials.push((*address, wire));
        }
        None
    }
}
