//! Assigns connections to incarnations: the decisions of a worker's endpoint, without sockets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_model::{Clock, Error, Incarnation, Nanos, Notice, Notices, Result};
use anabranch_protocol::membership::WorkerId;
use tracing::warn;

use super::connection::Patience;
use super::hello::{Greeting, Hello};
use super::incoming::{Deliver, Incoming, IncomingChannel};
use super::links::{Expected, Links};

/// Limit of the connections that wait for their incarnations.
const WAITING_MAX: usize = 256;

/// A connection whose sender has introduced itself, and which waits for an answer.
pub(super) trait Arrival: Send {
    fn hello(&self) -> Hello;

    /// Whether the sender knows the secret that all workers share.
    fn has_token(&self, token: &[u8]) -> bool;

    /// The peer, for errors.
    fn place(&self) -> String;

    /// Refuses the connection.
    fn refuse(self: Box<Self>, reason: &str) -> Result<()>;

    /// Accepts the connection, or refuses it if it does not have these channels.
    fn open(
        self: Box<Self>,
        channels: Vec<IncomingChannel>,
        patience: Patience,
        clock: Arc<dyn Clock>,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Incoming>;
}

impl Arrival for Greeting {
    fn hello(&self) -> Hello {
        self.hello
    }

    fn has_token(&self, token: &[u8]) -> bool {
        Greeting::has_token(self, token)
    }

    fn place(&self) -> String {
        Greeting::place(self)
    }

    fn refuse(self: Box<Self>, reason: &str) -> Result<()> {
        Greeting::refuse(*self, reason)
    }

    fn open(
        self: Box<Self>,
        channels: Vec<IncomingChannel>,
        patience: Patience,
        clock: Arc<dyn Clock>,
        deliver: Arc<dyn Deliver>,
    ) -> Result<Incoming> {
        Incoming::open(*self, channels, patience, clock, deliver)
    }
}

/// The incarnations at a worker, and the connections that wait for their incarnations.
pub(crate) struct Registry {
    pub(crate) me: WorkerId,
    /// The secret that all workers share.
    pub(crate) token: Vec<u8>,
    pub(crate) patience: Patience,
    pub(crate) clock: Arc<dyn Clock>,
    /// Connections that were refused.
    pub(crate) notices: Notices,
    state: Mutex<RegistryState>,
}

#[derive(Default)]
struct RegistryState {
    /// The incarnation of each job that runs here.
    jobs: BTreeMap<u64, (Incarnation, Arc<Links>)>,
    /// Connections whose incarnations have not begun here, and their deadlines.
    waiting: Vec<(Box<dyn Arrival>, Nanos)>,
    closed: bool,
}

/// An incarnation at an endpoint. Dropping it removes the incarnation's connections from the registry.
pub(crate) struct Registration {
    registry: Arc<Registry>,
    job: u64,
    incarnation: Incarnation,
}

impl Registry {
    pub(super) fn new(me: WorkerId, token: &[u8], patience: Patience, clock: Arc<dyn Clock>) -> Arc<Registry> {
        let (token, notices, state) = (token.to_vec(), Notices::default(), Mutex::default());
        Arc::new(Registry { me, token, patience, clock, notices, state })
    }

    fn lock(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            let notice = self.notices.report(self.clock.now(), error.to_string());
            if notice.is_logged() {
                let Notice { times, text, .. } = notice;
                warn!(error = text, times, "data connection refused");
            }
        }
    }

    /// Refuses all further connections.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }

    /// Number of jobs that run here.
    pub(super) fn jobs(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Ends the present and future connections of an incarnation: tasks that wait for their peers end with an
    /// error, and so does [`Wiring::connect`](crate::network::wiring::Wiring::connect).
    pub(super) fn cancel(&self, job: u64, incarnation: Incarnation) {
        let state = self.lock();
        let links =
            state.jobs.get(&job).filter(|(present, _)| *present == incarnation).map(|(_, links)| Arc::clone(links));
        drop(state);
        if let Some(links) = links {
            links.close();
        }
    }

    /// Begins an incarnation of a job, which expects these connections. Ends an older one.
    pub(crate) fn register(
        self: &Arc<Self>,
        (job, incarnation): (u64, Incarnation),
        awaited: BTreeMap<WorkerId, Expected>,
    ) -> Result<(Arc<Links>, Registration)> {
        let links = Arc::new(Links::new(awaited, self.patience, Arc::clone(&self.clock)));
        let mut state = self.lock();
        if let Some((present, _)) = state.jobs.get(&job).filter(|(present, _)| *present >= incarnation) {
            return Err(Error::outside(format!("job {job} runs here already, as incarnation {}", present.0)));
        }
        let older = state.jobs.insert(job, (incarnation, Arc::clone(&links)));
        let ready = |(arrival, _): &mut (Box<dyn Arrival>, Nanos)| {
            let hello = arrival.hello();
            hello.job == job && hello.incarnation <= incarnation
        };
        let ready: Vec<_> = state.waiting.extract_if(.., ready).collect();
        drop(state);
        if let Some((_, older)) = older {
            older.close();
        }
        let registration = Registration { registry: Arc::clone(self), job, incarnation };
        ready.into_iter().for_each(|(arrival, _)| self.note(self.admit(arrival)));
        Ok((links, registration))
    }

    /// Handles a connection that has introduced itself.
    pub(super) fn greet(&self, arrival: Box<dyn Arrival>) -> Result<()> {
        if !arrival.has_token(&self.token) {
            return refuse(arrival, "its token is not that of this worker");
        }
        if arrival.hello().to != self.me {
            let reason = format!("this is {}, not {}", self.me, arrival.hello().to);
            return refuse(arrival, &reason);
        }
        self.admit(arrival)
    }

    /// Gives a connection to its incarnation, or lets it wait for the incarnation.
    fn admit(&self, arrival: Box<dyn Arrival>) -> Result<()> {
        let Hello { job, incarnation, from, .. } = arrival.hello();
        let mut state = self.lock();
        match state.jobs.get(&job) {
            Some((present, links)) if *present == incarnation => {
                let links = Arc::clone(links);
                drop(state);
                return links.accept(arrival);
            }
            Some((present, _)) if *present > incarnation => {
                let reason = format!("incarnation {} of job {job} is over, {} runs", incarnation.0, present.0);
                drop(state);
                return refuse(arrival, &reason);
            }
            _ => {}
        }
        let now = self.clock.now();
        // A worker that connects again has abandoned its earlier attempt.
        let is_over = |(other, until): &mut (Box<dyn Arrival>, Nanos)| {
            let other = other.hello();
            *until <= now || (other.job, other.incarnation, other.from) == (job, incarnation, from)
        };
        let over: Vec<_> = state.waiting.extract_if(.., is_over).collect();
        if state.closed || state.waiting.len() >= WAITING_MAX {
            let reason = match state.closed {
                true => "this process ends",
                false => "too many connections wait here for their incarnations",
            };
            drop(state);
            return refuse(arrival, reason);
        }
        state.waiting.push((arrival, now.plus(self.patience.connect_max)));
        drop(state);
        drop(over);
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.registry.lock();
        let is_own = state.jobs.get(&self.job).is_some_and(|(incarnation, _)| *incarnation == self.incarnation);
        let own = if is_own { state.jobs.remove(&self.job) } else { None };
        drop(state);
        // Its threads are joined without the lock.
        drop(own);
    }
}

fn refuse(arrival: Box<dyn Arrival>, reason: &str) -> Result<()> {
    let place = arrival.place();
    arrival.refuse(reason)?;
    Err(Error::outside(format!("its connection was refused: {reason}")).at(place))
}
