//! The coordinator's process: which workers there are, and the messages between them and the jobs.

mod observers;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_model::{Clock, Error, HASH_SEED, Nanos, Result, hash_bytes};
use anabranch_protocol::Membership;
use anabranch_protocol::membership::{Config, Event as Change, Input, Member, Process, WorkerId};
use anabranch_protocol::worker::Term;
use anabranch_runtime::messages::{MESSAGES_VERSION, ToWorker};
use anabranch_runtime::network::{Endpoint, Peer, is_loopback};
use anabranch_runtime::{Check, Hosted, JobHandle, Link, Occupancy, RemoteWorker, Workers, random_seed};

use anabranch_state::LocalCopies;
use tracing::{info, warn};

use super::messages::{FromCluster, FromProcess, Introduction, Leader};
use crate::control::{Connection, Event, Incoming, Listener, Security};
use crate::threads::{lock, spawn};
pub(crate) use observers::Members;

/// A worker that is silent for this time is lost.
pub(super) const SILENCE: Duration = Duration::from_secs(2);
/// How often silence is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// The workers of a coordinator's process. Dropping it ends them.
pub struct Cluster {
    shared: Arc<Shared>,
    listener: Option<Listener>,
    endpoint: Arc<Endpoint>,
    occupancy: Arc<Occupancy>,
    /// Whether workers end with it.
    ends_workers: bool,
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    membership: Membership,
    /// Whether workers of other machines can connect.
    is_open: bool,
    /// The name of each number.
    names: BTreeMap<WorkerId, String>,
    workers: BTreeMap<Process, Known>,
    /// This coordinator, if it leads.
    leader: Option<Leader>,
    /// Coordinators that stand by, by the numbers of their connections, and when each was heard last.
    standbys: BTreeMap<u64, (Connection<FromCluster>, Nanos)>,
    jobs: BTreeMap<u64, JobHandle>,
}

/// A process that has introduced itself.
struct Known {
    name: String,
    pid: u32,
    /// When its last heartbeat arrived, in milliseconds since 1970.
    heard_ms: i64,
    connection: Connection<FromCluster>,
    member: Member,
    /// Where it listens to other workers, once it does.
    exchange: Option<Peer>,
    /// State files that it had on a local disk then.
    copies: Arc<[LocalCopies]>,
    heard: Nanos,
    /// Its tasks that run, by the numbers of their jobs.
    hosted: BTreeMap<u64, Hosted>,
    /// It gets no tasks of jobs that start.
    is_drained: bool,
    /// The coordinator that leads, as far as it knew with its last heartbeat, and when that arrived.
    leader: Option<(Leader, Nanos)>,
}

struct JobLink {
    job: u64,
    connection: Connection<FromCluster>,
}

impl Link for JobLink {
    fn send(&self, term: Term, message: ToWorker) {
        self.connection.send(&FromCluster::Job { job: self.job, term, message });
    }

    fn forget(&self, term: Term, ended: bool) {
        self.connection.send(&FromCluster::Forget { job: self.job, term, ended });
    }
}

impl Cluster {
    /// Listens for workers, which must know the token. Jobs of this process reach them only if their
    /// addresses are of this machine: it listens for their connections at a loopback address.
    pub fn listen(address: SocketAddr, security: Security, clock: Arc<dyn Clock>) -> Result<Cluster> {
        let exchange = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let endpoint = Endpoint::listen(exchange, WorkerId(0), (security.token(), None), Arc::clone(&clock))?;
        let endpoint = Arc::new(endpoint);
        let config = Config { silence: SILENCE, ..Config::default() };
        let state = State {
            membership: Membership::new(config),
            is_open: !is_loopback(address),
            names: BTreeMap::new(),
            workers: BTreeMap::new(),
            leader: None,
            standbys: BTreeMap::new(),
            jobs: BTreeMap::new(),
        };
        let shared = Arc::new(Shared { clock, state: Mutex::new(state) });
        let accepting = Arc::clone(&shared);
        let listener = Listener::bind(address, security, move |incoming| accepting.accept(incoming))?;
        let (ends, ended) = channel();
        let looking = Arc::clone(&shared);
        let thread = spawn("members", move || looking.watch(&ended))?;
        Ok(Cluster {
            shared,
            listener: Some(listener),
            endpoint,
            occupancy: Arc::default(),
            ends_workers: true,
            ends: Some(ends),
            thread: Some(thread),
        })
    }

    /// Workers do not end with this process: they wait for the next one.
    pub(crate) fn keep_workers(&mut self) {
        self.ends_workers = false;
    }

    /// Where workers connect.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(Listener::address)
    }

    /// The workers for a new job, which starts once `awaited` workers have joined.
    #[must_use]
    pub fn workers(&self, awaited: usize) -> Workers {
        self.workers_of(random_seed(), awaited, Duration::ZERO)
    }

    /// The workers of the job with this number. Waits for `patience` for workers that have tasks of the job.
    pub(super) fn workers_of(&self, job: u64, awaited: usize, patience: Duration) -> Workers {
        let (shared, asked) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let hosted = Box::new(move || lock(&asked.state).hosted(job));
        let register = Box::new(move |handle: JobHandle| {
            let mut state = lock(&shared.state);
            let there = state.workers.values().filter(|known| !known.is_drained);
            // All at once: the job's tasks are spread over them.
            handle.joined(there.filter_map(|known| known.remote(job)).collect());
            state.jobs.insert(job, handle);
        });
        let (endpoint, check) = (Arc::<Endpoint>::clone(&self.endpoint), Check::Content);
        let (is_wanted, occupancy) = (Box::new(|| true), Arc::clone(&self.occupancy));
        Workers { job, endpoint, awaited, occupancy, hosted, patience, check, is_wanted, register }
    }

    /// A job is over in this process.
    pub fn forget(&self, job: u64) {
        lock(&self.shared.state).jobs.remove(&job);
    }

    /// From now on this coordinator leads, or another one does. Workers and standbys hear of it.
    pub(super) fn lead(&self, leader: Option<Leader>) {
        let mut state = lock(&self.shared.state);
        state.leader = leader;
        state.tell_leader();
    }

    /// The workers for observers.
    pub(crate) fn members(&self) -> Members {
        Members(Arc::clone(&self.shared))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.listener = None;
        for known in lock(&self.shared.state).workers.values().filter(|_| self.ends_workers) {
            known.connection.send(&FromCluster::End);
        }
        self.ends = None;
        self.thread.take().map(JoinHandle::join).unwrap_or(Ok(())).unwrap_or_default();
    }
}

impl Known {
    /// The worker for a job, if tasks can be placed there.
    fn remote(&self, job: u64) -> Option<RemoteWorker> {
        let link = Arc::new(JobLink { job, connection: self.connection.clone() });
        let (member, copies) = (self.member.clone(), Arc::clone(&self.copies));
        let name = self.name.clone();
        Some(RemoteWorker { name, member, exchange: self.exchange?, heard: self.heard, copies, link })
    }
}

impl Shared {
    fn watch(&self, ended: &Receiver<()>) {
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let mut state = lock(&self.state);
            state.member(self.clock.now(), Input::Tick, "");
            let leads = FromCluster::Leads { leader: state.leader };
            let silent = |(_, heard): &(Connection<FromCluster>, Nanos)| self.clock.now().after(*heard) > SILENCE;
            state.standbys.extract_if(.., |_, standby| silent(standby)).for_each(|(_, (standby, _))| standby.close());
            state.standbys.values().for_each(|(standby, _)| standby.send(&leads));
        }
    }

    /// A process has connected. Its first message says which worker it is.
    fn accept(self: &Arc<Self>, incoming: Incoming) {
        let (shared, (sender, connection)) = (Arc::clone(self), channel::<Connection<FromCluster>>());
        let mut known: Option<(Connection<FromCluster>, Process)> = None;
        let mut standby = None;
        let started = incoming.start(move |event: Event<FromProcess>| match (event, &known) {
            (Event::Message(FromProcess::Hello(introduction)), None) => {
                let Ok(connection) = connection.recv() else { return };
                if let Err(why) = is_of(introduction.version, &introduction.release) {
                    return connection.send(&FromCluster::Refused { why });
                }
                match lock(&shared.state).introduce(introduction, &connection) {
                    Ok(process) => known = Some((connection, process)),
                    Err(why) => {
                        warn!(why, "worker refused");
                        connection.send(&FromCluster::Refused { why });
                    }
                }
            }
            (Event::Message(FromProcess::StandsBy { version, release }), None) if standby.is_none() => {
                let Ok(connection) = connection.recv() else { return };
                if let Err(why) = is_of(version, &release) {
                    return connection.send(&FromCluster::Refused { why });
                }
                let mut state = lock(&shared.state);
                connection.send(&FromCluster::Leads { leader: state.leader });
                let number = random_seed();
                state.standbys.insert(number, (connection, shared.clock.now()));
                standby = Some(number);
            }
            (Event::Message(FromProcess::StandsBy { .. }), None) => {
                let now = shared.clock.now();
                let mut state = lock(&shared.state);
                let of = standby.and_then(|number| state.standbys.get_mut(&number));
                of.into_iter().for_each(|(_, heard)| *heard = now);
            }
            (Event::Closed(_), None) => {
                standby.take().into_iter().for_each(|number| drop(lock(&shared.state).standbys.remove(&number)));
            }
            (Event::Message(message), Some((_, process))) => {
                lock(&shared.state).message((shared.clock.now(), shared.clock.wall_ms()), *process, message);
            }
            (Event::Message(_), None) => {}
            (Event::Closed(why), Some((_, process))) => {
                let ended = |why: Error| format!("has ended its connection ({})", why.message());
                let why = why.map_or_else(|| "has closed its connection".to_owned(), ended);
                let mut state = lock(&shared.state);
                state.member(shared.clock.now(), Input::Leave(*process), &why);
                // A worker that was not ready yet is not a member.
                state.workers.remove(process);
            }
        });
        let _ = sender.send(started);
    }
}

/// Whether a process is of this release; else why not.
fn is_of(version: u32, release: &str) -> Result<(), String> {
    let own = env!("CARGO_PKG_VERSION");
    let why = || format!("it is release {release}, the coordinator {own}: run the same on every machine");
    if version == MESSAGES_VERSION { Ok(()) } else { Err(why()) }
}

/// The number of a worker, which all coordinators know from its name. 0 is the worker in a coordinator's
/// process.
fn number(name: &str) -> WorkerId {
    WorkerId((hash_bytes(HASH_SEED, name.as_bytes()) % u64::from(u32::MAX)) as u32 + 1)
}

/// Why other workers cannot connect to one that listens here.
fn why_unreachable(peer: &Peer, is_open: bool) -> Option<String> {
    let Peer { address, key } = peer;
    let give = "give it --listen or --advertise with an address that the other workers reach";
    if address.ip().is_unspecified() || address.port() == 0 {
        return Some(format!("it announces {address} to other workers, which is no place to connect to: {give}"));
    }
    match (is_loopback(*address), key) {
        (false, None) => Some(format!("it announces {address} without a key: run the same release on every machine")),
        (true, _) if is_open => Some(format!("it announces {address}, which other machines do not reach: {give}")),
        _ => None,
    }
}

impl State {
    /// A process says which worker it is. `Err`: why it cannot join.
    fn introduce(
        &mut self,
        Introduction { name, pid, life, slots, labels, .. }: Introduction,
        connection: &Connection<FromCluster>,
    ) -> Result<Process, String> {
        if let Some(other) = self.workers.values().find(|known| known.name == name) {
            let peer = other.connection.peer();
            return Err(format!(
                "there is a worker {name} already, process {} at {peer}: give another --name",
                other.pid
            ));
        }
        let worker = number(&name);
        if self.names.get(&worker).is_some_and(|other| *other != name) {
            return Err(format!("its name {name} cannot be told from another one: give another --name"));
        }
        self.names.insert(worker, name.clone());
        let process = Process { worker, life };
        let labels: Arc<BTreeSet<String>> = Arc::new(labels.into_iter().collect());
        let member = Member { process, slots, labels };
        let known = Known {
            name,
            pid,
            heard_ms: 0,
            connection: connection.clone(),
            member,
            exchange: None,
            copies: [].into(),
            heard: Nanos(0),
            hosted: BTreeMap::new(),
            is_drained: false,
            leader: None,
        };
        self.workers.insert(process, known);
        connection.send(&FromCluster::Welcome { worker, silence: SILENCE });
        Ok(process)
    }

    fn message(&mut self, now: (Nanos, i64), process: Process, message: FromProcess) {
        match message {
            FromProcess::Hello { .. } | FromProcess::StandsBy { .. } => {}
            FromProcess::Ready { exchange, key, copies, sent } => {
                let Some(known) = self.workers.get_mut(&process) else { return };
                known.copies = copies.into();
                let peer = Peer { address: exchange, key };
                match why_unreachable(&peer, self.is_open) {
                    Some(why) => {
                        warn!(worker = known.name, why, "worker refused");
                        known.connection.send(&FromCluster::Refused { why });
                    }
                    None => known.exchange = Some(peer),
                }
                self.beat(now, process, sent);
            }
            FromProcess::Beat { sent, leader } => {
                if let Some(known) = self.workers.get_mut(&process) {
                    known.leader = leader.map(|leader| (leader, now.0));
                }
                self.beat(now, process, sent);
            }
            FromProcess::Hosts { job, hosted } => {
                if let Some(known) = self.workers.get_mut(&process) {
                    match hosted {
                        Some(hosted) => drop(known.hosted.insert(job, hosted)),
                        None => drop(known.hosted.remove(&job)),
                    }
                }
            }
            FromProcess::Missing { job } => self.missing(process, job),
            FromProcess::Job { job, message } => {
                if let Some(job) = self.jobs.get(&job) {
                    job.from_worker(process, message);
                }
            }
        }
    }

    /// The tasks of a job that run at workers.
    fn hosted(&self, job: u64) -> Vec<(Process, Hosted)> {
        let of = |(process, known): (&Process, &Known)| Some((*process, known.hosted.get(&job)?.clone()));
        self.workers.iter().filter_map(of).collect()
    }

    /// A worker has no tasks of a job, although the coordinator expects them there: they have ended since.
    fn missing(&mut self, process: Process, job: u64) {
        let (Some(known), Some(handle)) = (self.workers.get_mut(&process), self.jobs.get(&job)) else { return };
        known.hosted.remove(&job);
        handle.lost(process, Error::outside(format!("worker {} does not have the job's tasks any more", known.name)));
        // Others can be placed there.
        handle.joined(known.remote(job).into_iter().collect());
    }

    fn tell_leader(&self) {
        let leads = FromCluster::Leads { leader: self.leader };
        self.workers.values().for_each(|known| known.connection.send(&leads));
        self.standbys.values().for_each(|(standby, _)| standby.send(&leads));
    }

    fn beat(&mut self, (now, wall_ms): (Nanos, i64), process: Process, sent: Nanos) {
        let Some(known) = self.workers.get_mut(&process).filter(|known| known.exchange.is_some()) else { return };
        (known.heard, known.heard_ms) = (sent, wall_ms);
        known.connection.send(&FromCluster::Leads { leader: self.leader });
        let (member, connection) = (known.member.clone(), known.connection.clone());
        self.member(now, Input::Heartbeat { member, sent }, "was replaced");
        if self.membership.heard(process) == Some(sent) {
            self.jobs.values().for_each(|job| job.heard(process, sent));
            connection.send(&FromCluster::Heard { sent, jobs: self.jobs.keys().copied().collect() });
        }
    }

    /// Gives an input to the membership, and tells the jobs what follows. `why` is the reason if its worker
    /// is lost.
    fn member(&mut self, now: Nanos, input: Input, why: &str) {
        let of = match &input {
            Input::Heartbeat { member, .. } => Some(member.process.worker),
            Input::Leave(process) => Some(process.worker),
            Input::Drain(_) | Input::Undrain(_) | Input::Tick => None,
        };
        self.membership.handle(now, input);
        while let Some(change) = self.membership.poll() {
            match change {
                Change::Joined(process) => {
                    let Some(known) = self.workers.get(&process) else { continue };
                    let (worker, pid, slots) = (&known.name, known.pid, known.member.slots);
                    info!(worker, pid, slots, peer = %known.connection.peer(), "worker joined");
                    for (number, job) in &self.jobs {
                        job.joined(known.remote(*number).into_iter().collect());
                    }
                }
                Change::Lost(process) => {
                    let Some(known) = self.workers.remove(&process) else { continue };
                    known.connection.close();
                    let silent = || format!("has been silent for {} s", SILENCE.as_secs());
                    let why = if of == Some(process.worker) { why.to_owned() } else { silent() };
                    match self.jobs.values().any(|job| !job.status().ended) {
                        true => warn!(worker = known.name, why, "worker lost"),
                        false => info!(worker = known.name, why, "worker left"),
                    }
                    for job in self.jobs.values() {
                        job.lost(process, Error::outside(format!("worker {} is lost: it {why}", known.name)));
                    }
                }
                Change::Drained(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_same_length_have_different_numbers() {
        let names = ["a", "b", "first", "third", "fifth", "local-1", "local-2", "worker-001", "worker-002"];
        let numbers: BTreeSet<WorkerId> = names.iter().map(|name| number(name)).collect();
        assert_eq!(numbers.len(), names.len());
        assert!(!numbers.contains(&WorkerId(0)));
    }
}
