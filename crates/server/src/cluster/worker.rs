//! A worker's process: hosts tasks of jobs.
//!
//! It connects to every coordinator that it is given, and tells each which tasks it hosts, so any coordinator
//! may adopt them. A connection that breaks ends no task. Tasks without a coordinator end by themselves when
//! their lease is over.

mod links;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Error, ErrorKind, Nanos, Result, SystemClock};
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::worker::Term;
use anabranch_runtime::messages::{FromWorker, MESSAGES_VERSION, Observed, ToWorker};
use anabranch_runtime::network::{Endpoint, Keys, Peer, is_loopback};
use anabranch_runtime::{Arrival, Hosted, HostedJob, Origin, Premises, Routes};
use anabranch_state::{LocalCopies, Store};
use tracing::{info, warn};

use super::messages::{FromCluster, FromProcess, Introduction};
use crate::Engine;
use crate::control::{Connection, is_absent};
use crate::threads::{lock, spawn};
use links::{Link, Said};

/// Heartbeats within the time after which a silent worker is lost.
const BEATS: u32 = 8;
/// Heartbeats within which a coordinator must have said that it leads.
const LATELY: u32 = 3;
/// A coordinator that is silent for so many times the time after which a worker is lost has given this one
/// up, or cannot be reached.
const SILENCES: u32 = 2;

/// A job's worker without tasks is not needed any more if no coordinator has said anything to it for so many
/// times that time.
const DESERTED: u32 = 15;
/// How long a process that is refused at its start tries again. The coordinators may still count a former
/// process of its name.
const FORMER: Duration = Duration::from_secs(3);

/// How a worker's process is started.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Where its coordinators listen, each as HOST:PORT: one leads, the others stand by.
    pub coordinators: Vec<String>,
    /// The secret of the cluster.
    pub token: Vec<u8>,
    /// The certificates of the authorities that the coordinators' certificates are checked with, as PEM.
    /// `None`: connections are not encrypted, and the coordinators are at loopback addresses.
    pub authority: Option<Vec<u8>>,
    /// Its name, which no other worker of the coordinators has.
    pub name: String,
    /// How many tasks of one stage it may have.
    pub slots: u32,
    /// What distinguishes it.
    pub labels: Vec<String>,
    /// Where it listens to other workers; port 0 takes any free one. Else it is the address at which it
    /// reaches a coordinator.
    pub listen: Option<SocketAddr>,
    /// Where other workers reach it, if that is another address; with port 0 the port is the one at which it
    /// listens.
    pub advertise: Option<SocketAddr>,
    /// A local directory that outlives the process, for copies of state files in object stores.
    pub state: Option<PathBuf>,
    /// It is for one run of its coordinator, and ends with the connection.
    pub once: bool,
    /// How long it waits at its start for a coordinator that listens.
    pub wait: Duration,
}

/// What this process provides for all jobs.
struct Here {
    engine: Engine,
    /// The worker's name.
    name: String,
    /// For copies of state files of jobs that do not give another one.
    state: Option<PathBuf>,
    routes: Mutex<Routes<Connection<FromProcess>>>,
}

/// What this process provides for one worker of a job. Its messages are dropped once the job is over here, or
/// has another worker.
struct Place {
    here: Arc<Here>,
    /// The job's name.
    name: String,
    /// Distinguishes it from other workers of the job.
    life: u64,
}

impl Premises for Place {
    fn checkpoints(&self, plan: &Plan) -> Result<Store> {
        let options = plan.options.checkpoints.as_ref();
        let options = options.ok_or_else(|| Error::internal("a job takes checkpoints without a place for them"))?;
        let store = self.here.engine.store(plan, options)?;
        match &self.here.state {
            Some(directory) if plan.options.state_directory.is_none() => store.with_copies(directory).map_err(of_state),
            _ => Ok(store),
        }
    }

    fn savepoint(&self, place: &str) -> Result<Origin> {
        self.here.engine.savepoint(place)
    }

    fn send(&self, job: u64, message: FromWorker) {
        if let FromWorker::Observed(Observed::Failed { incarnation, task, error }) = &message {
            let (task, worker) = (task.to_string(), &self.here.name);
            warn!(job = self.name, worker, incarnation = incarnation.0, task, error = %error, "task failed");
        }
        if let Some(connection) = lock(&self.here.routes).coordinator(job, self.life) {
            connection.send(&FromProcess::Job { job, message });
        }
    }

    fn hosts(&self, job: u64, hosted: Option<Hosted>) {
        let mut routes = lock(&self.here.routes);
        if routes.coordinator(job, self.life).is_some() {
            let (job_name, worker) = (&self.name, &self.here.name);
            let before = routes.hosted().get(&job).map(|hosted| hosted.hosting.incarnation.0);
            match &hosted {
                Some(Hosted { hosting, .. }) => {
                    let (incarnation, tasks) = (hosting.incarnation.0, hosting.tasks.all.len());
                    info!(job = job_name, worker, incarnation, tasks, "tasks run");
                }
                None => {
                    before.into_iter().for_each(|incarnation| info!(job = job_name, worker, incarnation, "tasks end"));
                }
            }
            say_hosts(&mut routes, job, hosted);
        }
    }
}

/// The tasks of a job run here, or do not any more: all coordinators hear of it.
fn say_hosts(routes: &mut Routes<Connection<FromProcess>>, job: u64, hosted: Option<Hosted>) {
    let message = FromProcess::Hosts { job, hosted: hosted.clone() };
    routes.hosts(job, hosted).for_each(|coordinator| coordinator.send(&message));
}

/// The worker of a job, and when its coordinator has said something last.
struct Guest {
    hosted: HostedJob,
    heard: Nanos,
}

/// Runs a worker until its coordinator ends it.
pub fn run_worker(engine: &Engine, options: &WorkerOptions) -> Result<()> {
    let (sender, events) = channel();
    // What cannot be used is found before there are tasks.
    options.state.iter().try_for_each(|directory| LocalCopies::find(directory).map(drop)).map_err(of_state)?;
    let (name, state) = (options.name.clone(), options.state.clone());
    let here = Arc::new(Here { engine: engine.clone(), name, state, routes: Mutex::default() });
    Process::new(options, here, &sender)?.run(&events)
}

/// A coordinator does not answer. The worker connects to it again.
fn lost(worker: &str, error: &Error) {
    warn!(worker, error = %error, "coordinator lost");
}

fn of_state(error: Error) -> Error {
    error.at("option '--state'")
}

/// Listens to other workers. `local` is the address at which this process reaches a coordinator.
fn listen(
    options: &WorkerOptions,
    worker: WorkerId,
    local: IpAddr,
    clock: &Arc<dyn Clock>,
) -> Result<(Endpoint, Peer)> {
    let bind = options.listen.unwrap_or(SocketAddr::new(local, 0));
    let own = if bind.ip().is_unspecified() { local } else { bind.ip() };
    let mut announced = options.advertise.unwrap_or(SocketAddr::new(own, 0));
    let keys = (!is_loopback(bind) || !is_loopback(announced)).then(Keys::generate).transpose()?;
    let endpoint = Endpoint::listen(bind, worker, (&options.token, keys), Arc::clone(clock));
    let endpoint = endpoint.map_err(|error| match options.listen {
        Some(_) => error.at(format!("option --listen {bind}")),
        None => error,
    })?;
    if announced.port() == 0 {
        announced.set_port(endpoint.address().port());
    }
    let key = endpoint.peer().key;
    Ok((endpoint, Peer { address: announced, key }))
}

/// The process listens to other workers.
struct Joined {
    endpoint: Arc<Endpoint>,
    /// Where the other workers connect, and the key that they check.
    peer: Peer,
    silence: Duration,
}

struct Process<'a> {
    options: &'a WorkerOptions,
    here: Arc<Here>,
    clock: Arc<dyn Clock>,
    links: Vec<Link>,
    joined: Option<Joined>,
    /// A coordinator has answered a heartbeat: the process is one of the cluster.
    accepted: bool,
    /// When a coordinator refused it first.
    refused: Option<Nanos>,
    /// Until when it waits for a coordinator that listens, and whether it has said so.
    awaits: (Nanos, bool),
    jobs: BTreeMap<u64, Guest>,
}

impl<'a> Process<'a> {
    fn new(options: &'a WorkerOptions, here: Arc<Here>, events: &Sender<(usize, Said)>) -> Result<Process<'a>> {
        let link = |(place, coordinator): (usize, &String)| Link::dial(place, coordinator, options, events.clone());
        let links = options.coordinators.iter().enumerate().map(link).collect::<Result<_>>()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let (joined, accepted, refused, jobs) = (None, false, None, BTreeMap::new());
        let awaits = (clock.now().plus(options.wait), false);
        Ok(Process { options, here, clock, links, joined, accepted, refused, awaits, jobs })
    }

    fn run(&mut self, events: &Receiver<(usize, Said)>) -> Result<()> {
        let mut beat_at = Nanos(0);
        loop {
            if self.clock.now() >= beat_at {
                self.give_up_silent();
                self.end_deserted();
                self.beat();
                beat_at = self.clock.now().plus(self.beat_every());
            }
            let Ok((place, said)) = events.recv_timeout(beat_at.after(self.clock.now())) else { continue };
            let ends = match said {
                Said::Connected(connection) => self.connected(place, connection),
                Said::Message(message) => self.message(place, message)?,
                Said::Closed(why) => self.closed(place, why)?,
            };
            if ends {
                return Ok(());
            }
        }
    }

    fn beat_every(&self) -> Duration {
        self.joined.as_ref().map_or(Duration::from_millis(100), |joined| joined.silence / BEATS)
    }

    /// Tells every coordinator that the process lives, and which of them leads.
    fn beat(&self) {
        let lately = self.beat_every() * LATELY;
        let now = self.clock.now();
        let leader = self.links.iter().filter_map(|link| link.leads_since(now, lately)).max();
        let message = FromProcess::Beat { sent: now, leader };
        lock(&self.here.routes).coordinators().for_each(|connection| connection.send(&message));
    }

    /// A coordinator that is silent for long has given this worker up, or cannot be reached.
    fn give_up_silent(&mut self) {
        let Some(joined) = self.joined.as_ref().filter(|_| self.accepted) else { return };
        let (now, silence) = (self.clock.now(), joined.silence * SILENCES);
        for (place, link) in self.links.iter_mut().enumerate().filter(|(_, link)| link.is_silent(now, silence)) {
            link.connection.take().into_iter().for_each(|connection| connection.close());
            let error = Error::outside(format!("it has been silent for {} s", silence.as_secs()));
            lost(&self.options.name, &error.at(link.place()));
            lock(&self.here.routes).left(place as u64);
        }
    }

    fn connected(&mut self, place: usize, connection: Connection<FromProcess>) -> bool {
        // A process that connects again is another one for the coordinator, which has counted the one before
        // as lost.
        let life = UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64);
        connection.send(&FromProcess::Hello(Introduction {
            version: MESSAGES_VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.options.name.clone(),
            life,
            slots: self.options.slots,
            labels: self.options.labels.clone(),
            pid: std::process::id(),
        }));
        self.links[place].connected(connection, self.clock.now());
        false
    }

    /// A coordinator says something. Returns whether the process ends.
    fn message(&mut self, place: usize, message: FromCluster) -> Result<bool> {
        self.links[place].heard = self.clock.now();
        match message {
            FromCluster::Welcome { worker, silence } => self.joins(place, worker, silence)?,
            FromCluster::Refused { why } => {
                let error = Error::outside(why).at(self.links[place].place());
                let since = *self.refused.get_or_insert(self.clock.now());
                if !self.accepted && self.clock.now() >= since.plus(FORMER) {
                    return Err(error);
                }
                // A former process of this name may count as present until it has been silent for long.
                if self.accepted {
                    lost(&self.options.name, &error);
                }
                self.links[place].connection = None;
            }
            FromCluster::Leads { leader } => {
                (self.accepted, self.refused) = (true, None);
                self.links[place].leads = leader;
            }
            FromCluster::Heard { sent, jobs } => self.answered(place, sent, &jobs),
            FromCluster::Job { job, term, message } => self.job(place, job, term, message)?,
            FromCluster::Forget { job, term, ended } => self.forget(job, term, ended),
            FromCluster::End => return Ok(true),
        }
        Ok(false)
    }

    /// A coordinator answers a heartbeat: the leases of its jobs begin then.
    fn answered(&mut self, place: usize, sent: Nanos, jobs: &[u64]) {
        let (Some(joined), now) = (&self.joined, self.clock.now()) else { return };
        let was_silent = self.links[place].answers(sent, now, joined.silence);
        let Some(connection) = &self.links[place].connection else { return };
        let routes = lock(&self.here.routes);
        for (job, term) in routes.jobs_of(|coordinator| coordinator.is(connection)) {
            let Some(guest) = self.jobs.get(&job).filter(|_| jobs.contains(&job)) else { continue };
            if was_silent {
                guest.hosted.silent();
            }
            guest.hosted.answered(term, sent);
        }
    }

    /// A coordinator has accepted the process.
    fn joins(&mut self, place: usize, worker: WorkerId, silence: Duration) -> Result<()> {
        let Some(connection) = self.links[place].connection.clone() else { return Ok(()) };
        let joined = match &self.joined {
            Some(joined) => joined,
            None => {
                let local = connection.local_address()?.ip();
                let (endpoint, peer) = listen(self.options, worker, local, &self.clock)?;
                info!(worker = self.options.name, address = %peer.address, "worker listens to other workers");
                self.joined.insert(Joined { endpoint: Arc::new(endpoint), peer, silence })
            }
        };
        let Peer { address: exchange, key } = joined.peer;
        // A directory that cannot be used any more is an error of the next job.
        let find = |directory: &PathBuf| LocalCopies::find(directory).unwrap_or_default();
        let copies = self.options.state.as_ref().map(find).unwrap_or_default();
        connection.send(&FromProcess::Ready { exchange, key, copies, sent: self.clock.now() });
        info!(worker = self.options.name, coordinator = self.links[place].address(), "joins the cluster");
        let mut routes = lock(&self.here.routes);
        for (job, hosted) in routes.hosted() {
            connection.send(&FromProcess::Hosts { job: *job, hosted: Some(hosted.clone()) });
        }
        routes.joined(place as u64, connection);
        Ok(())
    }

    /// A connection is over, or none could be made. Returns whether the process ends.
    fn closed(&mut self, place: usize, why: Option<Error>) -> Result<bool> {
        let was_connected = self.links[place].closed();
        lock(&self.here.routes).left(place as u64);
        if self.accepted && self.options.once {
            return Ok(true);
        }
        let closed = || Error::outside("it has closed the connection");
        let error = why.unwrap_or_else(closed).at(self.links[place].place());
        if !self.accepted && self.refused.is_some() {
            return Ok(false);
        }
        if !self.accepted {
            let is_last = self.links.iter().all(Link::has_failed);
            let ends = error.kind() != ErrorKind::Outside || is_last && !(is_absent(&error) && self.waits(&error));
            return if ends { Err(error) } else { Ok(false) };
        }
        if was_connected {
            lost(&self.options.name, &error);
            // A standby need not wait for the next heartbeat to learn that the leader is gone.
            self.beat();
        }
        Ok(false)
    }

    /// Whether the process waits for a coordinator that is not there yet. Says so once.
    fn waits(&mut self, error: &Error) -> bool {
        let (until, was_said) = self.awaits;
        if self.clock.now() >= until {
            return false;
        }
        if !was_said {
            let (worker, wait_s) = (&self.options.name, self.options.wait.as_secs());
            warn!(worker, wait_s, error = %error, "no coordinator answers yet: waits for one");
        }
        self.awaits.1 = true;
        true
    }

    fn job(&mut self, place: usize, job: u64, term: Term, message: ToWorker) -> Result<()> {
        let (Some(joined), Some(connection)) = (&self.joined, &self.links[place].connection) else { return Ok(()) };
        let arrival = lock(&self.here.routes).arrives(job, (term, connection.clone()), &message);
        let heard = self.clock.now();
        if arrival == Arrival::Missing {
            connection.send(&FromProcess::Missing { job });
        }
        if let Arrival::New(life) = arrival {
            let name = match &message {
                ToWorker::Deploy(deploy) => deploy.plan.options.job_name.clone(),
                _ => job.to_string(),
            };
            let premises: Arc<dyn Premises> = Arc::new(Place { here: Arc::clone(&self.here), name, life });
            let (connectors, endpoint) = (self.here.engine.connectors().clone(), Arc::clone(&joined.endpoint));
            let hosted = HostedJob::start(job, joined.silence, connectors, endpoint, premises)?;
            self.jobs.insert(job, Guest { hosted, heard });
        }
        let is_taken = matches!(arrival, Arrival::Present | Arrival::New(_));
        if let Some(guest) = self.jobs.get_mut(&job).filter(|_| is_taken) {
            guest.heard = heard;
            guest.hosted.send(message);
        }
        Ok(())
    }

    /// A coordinator has ended a job. `ended`: the job has ended by itself.
    fn forget(&mut self, job: u64, term: Term, ended: bool) {
        if lock(&self.here.routes).accepts(job, term) {
            self.end(job, ended);
        }
    }

    /// Ends the tasks of a job. Other jobs do not wait for that.
    fn end(&mut self, job: u64, ended: bool) {
        {
            let mut routes = lock(&self.here.routes);
            routes.forget(job);
            // Before its tasks have ended: a later incarnation may run by then.
            say_hosts(&mut routes, job, None);
        }
        if let Some(Guest { hosted, .. }) = self.jobs.remove(&job) {
            if ended {
                hosted.is_over();
            }
            // Without a thread it is dropped here.
            drop(spawn("end", move || drop(hosted)));
        }
    }

    /// Ends the workers of jobs that have no tasks here, and of which no coordinator says anything: this
    /// process was away when the job ended, or its tasks are elsewhere now.
    fn end_deserted(&mut self) {
        let Some(Joined { silence, .. }) = &self.joined else { return };
        let before = |heard: Nanos| heard.plus(*silence * DESERTED) < self.clock.now();
        let is_deserted = |guest: &Guest| before(guest.heard) && !guest.hosted.has_tasks();
        let deserted = self.jobs.iter().filter(|(_, guest)| is_deserted(guest)).map(|(job, _)| *job);
        for job in deserted.collect::<Vec<_>>() {
            self.end(job, false);
        }
    }
}
