//! Where a worker listens: connections of all its jobs come here and wait for their incarnations.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Clock, Error, Incarnation, Nanos, Notices, Result};

use super::connection::Patience;
use anabranch_protocol::membership::WorkerId;

use super::hello::{Greeting, Hello};
use super::keys::{Keys, Peer};
use super::links::{Expected, Links};
use crate::running::no_thread;

/// Connections that have not said yet who they are, at most: the oldest is dropped for a new one.
const GREETINGS_MAX: usize = 64;
/// Connections that wait for their incarnations, at most.
const WAITING_MAX: usize = 256;
/// Bytes of the secret, at least, where other machines can connect.
const TOKEN_MIN: usize = 16;
/// Time after which a failed attempt to accept is repeated.
const RETRY: Duration = Duration::from_millis(50);

/// Accepts the connections of one worker. One for all its jobs.
pub struct Endpoint {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    me: WorkerId,
    /// The secret that all workers share.
    token: Vec<u8>,
    /// `None`: connections are not encrypted.
    keys: Option<Keys>,
    patience: Patience,
    clock: Arc<dyn Clock>,
    /// Connections that were refused.
    notices: Notices,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The incarnation of each job that runs here.
    jobs: BTreeMap<u64, (Incarnation, Arc<Links>)>,
    /// Connections whose incarnations have not begun here, and until when they wait.
    waiting: Vec<(Greeting, Nanos)>,
    /// Connections that are being greeted, by their number.
    greetings: BTreeMap<u64, Arc<TcpStream>>,
    accepted: u64,
    closed: bool,
}

/// An incarnation at an endpoint. Dropping it lets go of the incarnation's connections.
pub(crate) struct Registration {
    shared: Arc<Shared>,
    job: u64,
    incarnation: Incarnation,
}

impl Endpoint {
    /// Listens for other workers. They must know the same `token`, of at most 256 bytes. With `keys` all connections are encrypted,
    /// which an address needs that other machines reach.
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
        let place = |error: std::io::Error| Error::outside(format!("cannot listen: {error}")).at(address.to_string());
        let listener = TcpListener::bind(address).map_err(place)?;
        let address = listener.local_addr().map_err(place)?;
        let (token, notices, state) = (token.to_vec(), Notices::default(), Mutex::default());
        let shared = Arc::new(Shared { me, token, keys, patience, clock, notices, state, changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("accept".into()).spawn(move || accepting.accept(&listener));
        Ok(Endpoint { shared, address, thread: Some(thread.map_err(|error| no_thread(&error))?) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What other workers of this machine must know to connect.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer { address: self.address, key: self.shared.keys.as_ref().map(Keys::public) }
    }

    /// The worker that listens.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        self.shared.me
    }

    /// Connections that were refused, and why.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        &self.shared.notices
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    pub(crate) fn patience(&self) -> Patience {
        self.shared.patience
    }

    pub(crate) fn token(&self) -> &[u8] {
        &self.shared.token
    }

    /// Refuses a peer to which a connection would not be encrypted where others can read it, or would end at another machine.
    pub(crate) fn check(&self, peer: &Peer) -> Result<()> {
        let why = match (is_loopback(peer.address), peer.key, &self.shared.keys) {
            (_, Some(_), _) | (true, None, None) => return Ok(()),
            (false, None, _) => "it has announced an address without a key, and what leaves a machine is encrypted",
            (true, None, Some(_)) => "it has announced a loopback address, which other machines do not reach",
        };
        let remedy = "give that worker --listen or --advertise with an address that this one reaches";
        Err(Error::outside(why).at(peer.address.to_string()).remedy(remedy))
    }

    /// Ends the connections of an incarnation and those that still come: tasks that wait for their peers end with an error, and
    /// so does [`Wiring::connect`](crate::wiring::Wiring::connect).
    pub fn cancel(&self, job: u64, incarnation: Incarnation) {
        let state = self.shared.lock();
        let links =
            state.jobs.get(&job).filter(|(present, _)| *present == incarnation).map(|(_, links)| Arc::clone(links));
        drop(state);
        if let Some(links) = links {
            links.close();
        }
    }

    /// Begins an incarnation of a job, which awaits these connections. Ends an older one.
    pub(crate) fn register(
        &self,
        (job, incarnation): (u64, Incarnation),
        awaited: BTreeMap<WorkerId, Expected>,
    ) -> Result<(Arc<Links>, Registration)> {
        let shared = &self.shared;
        let links = Arc::new(Links::new(awaited, shared.patience, Arc::clone(&shared.clock)));
        let mut state = shared.lock();
        if let Some((present, _)) = state.jobs.get(&job).filter(|(present, _)| *present >= incarnation) {
            return Err(Error::outside(format!("job {job} runs here already, as incarnation {}", present.0)));
        }
        let older = state.jobs.insert(job, (incarnation, Arc::clone(&links)));
        let ready = |(greeting, _): &mut (Greeting, Nanos)| {
            greeting.hello.job == job && greeting.hello.incarnation <= incarnation
        };
        let ready: Vec<(Greeting, Nanos)> = state.waiting.extract_if(.., ready).collect();
        drop(state);
        if let Some((_, older)) = older {
            older.close();
        }
        let registration = Registration { shared: Arc::clone(shared), job, incarnation };
        ready.into_iter().for_each(|(greeting, _)| shared.note(shared.admit(greeting)));
        Ok((links, registration))
    }
}

/// Whether only processes of this machine reach the address.
#[must_use]
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Ends a thread that accepts connections at this address, and that ends with the next one. It waits for a connection: if it gets
/// none, it is left behind.
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
        let mut state = self.shared.lock();
        state.closed = true;
        state.waiting.clear();
        for stream in state.greetings.values() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.changed.notify_all();
        self.thread.take().into_iter().for_each(|thread| end_accepting(self.address, thread));
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let is_own = state.jobs.get(&self.job).is_some_and(|(incarnation, _)| *incarnation == self.incarnation);
        let own = if is_own { state.jobs.remove(&self.job) } else { None };
        drop(state);
        // Its threads are joined without the lock.
        drop(own);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.notices.report(self.clock.now(), error.to_string());
        }
    }

    /// The accepting thread. Each connection has a thread until it is known whose it is: one that is silent delays no
    /// other.
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
        let greet = move || greeting.shared.note(greeting.greet(stream));
        // Without a thread the connection is closed, and its end is counted.
        if let Err(error) = std::thread::Builder::new().name("greet".into()).spawn(greet) {
            self.note(Err(no_thread(&error)));
        }
    }

    fn checked(&self, greeting: Greeting) -> Result<()> {
        if !greeting.has_token(&self.token) {
            return refuse(greeting, "its token is not that of this worker");
        }
        if greeting.hello.to != self.me {
            let reason = format!("this is {}, not {}", self.me, greeting.hello.to);
            return refuse(greeting, &reason);
        }
        self.admit(greeting)
    }

    /// Gives a connection to its incarnation, or lets it wait for that.
    fn admit(&self, greeting: Greeting) -> Result<()> {
        let Hello { job, incarnation, from, .. } = greeting.hello;
        let mut state = self.lock();
        match state.jobs.get(&job) {
            Some((present, links)) if *present == incarnation => {
                let links = Arc::clone(links);
                drop(state);
                return links.accept(greeting);
            }
            Some((present, _)) if *present > incarnation => {
                let reason = format!("incarnation {} of job {job} is over, {} runs", incarnation.0, present.0);
                drop(state);
                return refuse(greeting, &reason);
            }
            _ => {}
        }
        let now = self.clock.now();
        // A worker that connects again has given its earlier attempt up.
        let is_over = |(other, until): &mut (Greeting, Nanos)| {
            *until <= now || (other.hello.job, other.hello.incarnation, other.hello.from) == (job, incarnation, from)
        };
        let over: Vec<(Greeting, Nanos)> = state.waiting.extract_if(.., is_over).collect();
        if state.closed || state.waiting.len() >= WAITING_MAX {
            drop(state);
            return refuse(greeting, "too many connections wait here for their incarnations");
        }
        state.waiting.push((greeting, now.plus(self.patience.connect_max)));
        drop(state);
        drop(over);
        Ok(())
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
            Ok(greeting) => self.shared.checked(greeting),
            Err(_) if was_dropped => {
                Err(Error::outside(format!("more than {GREETINGS_MAX} connections have not said who they are")))
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Greeted {
    fn drop(&mut self) {
        self.shared.lock().greetings.remove(&self.number);
    }
}

fn refuse(greeting: Greeting, reason: &str) -> Result<()> {
    let place = greeting.place();
    greeting.refuse(reason)?;
    Err(Error::outside(format!("its connection was refused: {reason}")).at(place))
}
