//! A worker's process: hosts tasks of the jobs of one coordinator until that ends it or is gone.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, UNIX_EPOCH};

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Error, ErrorKind, Nanos, Result, SystemClock};
use anabranch_protocol::membership::WorkerId;
use anabranch_runtime::messages::{FromWorker, MESSAGES_VERSION, ToWorker};
use anabranch_runtime::network::{Endpoint, Keys, Peer, is_loopback};
use anabranch_runtime::{HostedJob, Origin, Premises};
use anabranch_state::Store;

use super::messages::{FromCluster, FromProcess};
use crate::Engine;
use crate::control::{Connection, Event, Security, connect};

/// Time to connect to the coordinator.
const CONNECT: Duration = Duration::from_secs(10);
/// Pause before another attempt to connect.
const AGAIN: Duration = Duration::from_secs(1);
/// Heartbeats within the time after which a silent worker is lost.
const BEATS: u32 = 4;
/// A coordinator that is silent for so many times that time has given this worker up, or cannot be reached.
const SILENCES: u32 = 2;

/// How a worker's process is started.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Where its coordinator listens: HOST:PORT.
    pub coordinator: String,
    /// The secret of the cluster.
    pub token: Vec<u8>,
    /// The certificates of the authorities that the coordinator's certificate is checked with, as PEM. `None`: the connection is not
    /// encrypted, and the coordinator is at a loopback address.
    pub authority: Option<Vec<u8>>,
    /// Its name, which no other worker of the coordinator has.
    pub name: String,
    /// How many tasks of one stage it may have.
    pub slots: u32,
    /// What distinguishes it.
    pub labels: Vec<String>,
    /// Where it listens to other workers; port 0 takes any free one. Else it is the address at which it reaches its coordinator.
    pub listen: Option<SocketAddr>,
    /// Where other workers reach it, if that is another address; with port 0 the port is the one at which it listens.
    pub advertise: Option<SocketAddr>,
    /// It is for one run of its coordinator, and ends with the connection.
    pub once: bool,
}

/// What this process provides for all jobs.
struct Here {
    engine: Engine,
    connection: Connection<FromProcess>,
}

impl Premises for Here {
    fn checkpoints(&self, plan: &Plan) -> Result<Store> {
        let options = plan.options.checkpoints.as_ref();
        let options = options.ok_or_else(|| Error::internal("a job takes checkpoints without a place for them"))?;
        self.engine.store(plan, options)
    }

    fn savepoint(&self, place: &str) -> Result<Origin> {
        self.engine.savepoint(place)
    }

    fn send(&self, job: u64, message: FromWorker) {
        self.connection.send(&FromProcess::Job { job, message });
    }
}

/// Runs a worker until its coordinator ends it. If the connection breaks, its tasks end, and it connects again: `notify` gets the
/// reason each time.
pub fn run_worker(engine: &Engine, options: &WorkerOptions, mut notify: impl FnMut(&Error)) -> Result<()> {
    let (_nobody, never) = channel::<()>();
    let mut known = false;
    loop {
        match connect_once(engine, options, &mut known) {
            Err(error) if error.kind() == ErrorKind::Outside && known && !options.once => notify(&error),
            Err(_) if known && options.once => return Ok(()),
            outcome => return outcome,
        }
        let _ = never.recv_timeout(AGAIN);
    }
}

/// Connects to the coordinator.
fn connect_to(options: &WorkerOptions) -> Result<(Connection<FromProcess>, Receiver<Event<FromCluster>>)> {
    let WorkerOptions { coordinator, token, authority, .. } = options;
    let wrong = |why: String| {
        let error = Error::outside(why).at(format!("--coordinator {coordinator}"));
        error.remedy("give HOST:PORT, as the coordinator prints it")
    };
    let host = coordinator.rsplit_once(':').map_or(coordinator.as_str(), |(host, _)| host);
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
    let security = match authority.clone() {
        Some(authority) => Security::TlsClient { token: token.clone(), authority, name: Some(name) },
        None => Security::Plain { token: token.clone() },
    };
    // A name may lead to another machine by the next attempt.
    let addresses = coordinator.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    let mut outcome = Err(wrong("the name has no address".to_owned()));
    for address in addresses {
        let (sender, events) = channel();
        let on_event = move |event: Event<FromCluster>| {
            // The receiver is gone only when the connection is not needed any more.
            let _ = sender.send(event);
        };
        outcome = connect(address, &security, CONNECT, on_event).map(|connection| (connection, events));
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Listens to other workers. `local` is the address at which this process reaches the coordinator.
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

/// Runs a worker until its connection ends. `known`: a coordinator has accepted it.
fn connect_once(engine: &Engine, options: &WorkerOptions, known: &mut bool) -> Result<()> {
    let was_known = *known;
    let (connection, events) = connect_to(options)?;
    let life = UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos() as u64);
    connection.send(&FromProcess::Hello {
        version: MESSAGES_VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        name: options.name.clone(),
        life,
        slots: options.slots,
        labels: options.labels.clone(),
        pid: std::process::id(),
    });
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let place = |error: Error| error.at(format!("the coordinator at {}", options.coordinator));
    let (endpoint, peer, silence) = match events.recv_timeout(CONNECT) {
        Ok(Event::Message(FromCluster::Welcome { worker, silence })) => {
            let (endpoint, peer) = listen(options, worker, connection.local_address()?.ip(), &clock)?;
            *known = true;
            (Arc::new(endpoint), peer, silence)
        }
        // A worker that was known tries again: its own former connection may be there still.
        Ok(Event::Message(FromCluster::Refused { why })) => return Err(place(Error::outside(why))),
        Ok(Event::Closed(Some(why))) => return Err(place(why)),
        _ => return Err(place(Error::outside("it does not answer"))),
    };
    connection.send(&FromProcess::Ready { exchange: peer.address, key: peer.key, sent: clock.now() });
    let premises = Arc::new(Here { engine: engine.clone(), connection: connection.clone() });
    let process = Process { engine: engine.clone(), endpoint, silence, premises, connection, jobs: BTreeMap::new() };
    match process.run(&events, clock.as_ref()) {
        Ok(Ended::ByCoordinator) => Ok(()),
        // It was never one of the cluster.
        Ok(Ended::Refused(why)) => {
            *known = was_known;
            Err(place(Error::outside(why)))
        }
        Err(error) => Err(place(error)),
    }
}

/// How a coordinator has ended a worker.
enum Ended {
    ByCoordinator,
    Refused(String),
}

struct Process {
    engine: Engine,
    endpoint: Arc<Endpoint>,
    silence: Duration,
    premises: Arc<Here>,
    connection: Connection<FromProcess>,
    jobs: BTreeMap<u64, HostedJob>,
}

impl Process {
    fn run(mut self, events: &Receiver<Event<FromCluster>>, clock: &dyn Clock) -> Result<Ended> {
        let (mut beat_at, silence_max) = (Nanos(0), self.silence * SILENCES);
        let mut lost_at = clock.now().plus(silence_max);
        loop {
            if clock.now() >= beat_at {
                self.connection.send(&FromProcess::Beat { sent: clock.now() });
                beat_at = clock.now().plus(self.silence / BEATS);
            }
            let received = events.recv_timeout(beat_at.min(lost_at).after(clock.now()));
            if received.is_ok() {
                lost_at = clock.now().plus(silence_max);
            }
            match received {
                Ok(Event::Message(FromCluster::Job { job, message })) => self.job(job, message)?,
                Ok(Event::Message(FromCluster::Forget { job })) => self.forget(job),
                Ok(Event::Message(FromCluster::End)) => return Ok(Ended::ByCoordinator),
                Ok(Event::Message(FromCluster::Refused { why })) => return Ok(Ended::Refused(why)),
                Ok(Event::Message(FromCluster::Beat | FromCluster::Welcome { .. })) => {}
                Err(RecvTimeoutError::Timeout) if clock.now() >= lost_at => {
                    return Err(Error::outside(format!("it has been silent for {} s", silence_max.as_secs())));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Event::Closed(Some(why))) => return Err(why),
                Ok(Event::Closed(None)) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::outside("it has closed the connection"));
                }
            }
        }
    }

    fn job(&mut self, job: u64, message: ToWorker) -> Result<()> {
        if !self.jobs.contains_key(&job) {
            let premises: Arc<dyn Premises> = Arc::<Here>::clone(&self.premises);
            let (connectors, endpoint) = (self.engine.connectors().clone(), Arc::clone(&self.endpoint));
            self.jobs.insert(job, HostedJob::start(job, self.silence, connectors, endpoint, premises)?);
        }
        if let Some(hosted) = self.jobs.get(&job) {
            hosted.send(message);
        }
        Ok(())
    }

    /// Ends the tasks of a job. Other jobs do not wait for that.
    fn forget(&mut self, job: u64) {
        if let Some(hosted) = self.jobs.remove(&job) {
            let ended = std::thread::Builder::new().name("end".into()).spawn(move || drop(hosted));
            // Without a thread it was dropped here.
            drop(ended);
        }
    }
}
