//! A worker's process: hosts tasks of the jobs of one coordinator until that ends it or is gone.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, UNIX_EPOCH};

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Error, ErrorKind, Nanos, Result, SystemClock};
use anabranch_runtime::messages::{FromWorker, MESSAGES_VERSION, ToWorker};
use anabranch_runtime::network::Endpoint;
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

/// How a worker's process is started.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Where its coordinator listens.
    pub coordinator: SocketAddr,
    /// The secret of the cluster.
    pub token: Vec<u8>,
    /// Its name, which no other worker of the coordinator has.
    pub name: String,
    /// How many tasks of one stage it may have.
    pub slots: u32,
    /// What distinguishes it.
    pub labels: Vec<String>,
    /// The address of this machine at which other workers reach it.
    pub listen: IpAddr,
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
    if !options.listen.is_loopback() {
        return Err(Error::user(
            "rows that workers send each other are not encrypted yet, so they stay on one machine",
        )
        .at(format!("--listen {}", options.listen))
        .remedy("give a loopback address, such as 127.0.0.1"));
    }
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

/// Runs a worker until its connection ends. `known`: a coordinator has accepted it.
fn connect_once(engine: &Engine, options: &WorkerOptions, known: &mut bool) -> Result<()> {
    let (sender, events) = channel();
    let security = Security::Plain { token: options.token.clone() };
    let on_event = move |event: Event<FromCluster>| {
        // The receiver is gone only when the process ends.
        let _ = sender.send(event);
    };
    let connection = connect(options.coordinator, &security, CONNECT, on_event)?;
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
    let (endpoint, silence) = match events.recv_timeout(CONNECT) {
        Ok(Event::Message(FromCluster::Welcome { worker, silence })) => {
            let listen = SocketAddr::new(options.listen, 0);
            let endpoint = Endpoint::listen(listen, worker, &options.token, Arc::clone(&clock))?;
            *known = true;
            (Arc::new(endpoint), silence)
        }
        // A worker that was known tries again: its own former connection may be there still.
        Ok(Event::Message(FromCluster::Refused { why })) => return Err(place(Error::outside(why))),
        Ok(Event::Closed(Some(why))) => return Err(place(why)),
        _ => return Err(place(Error::outside("it does not answer"))),
    };
    connection.send(&FromProcess::Ready { exchange: endpoint.address(), sent: clock.now() });
    let premises = Arc::new(Here { engine: engine.clone(), connection: connection.clone() });
    let process = Process { engine: engine.clone(), endpoint, silence, premises, connection, jobs: BTreeMap::new() };
    process.run(&events, clock.as_ref()).map_err(place)
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
    fn run(mut self, events: &Receiver<Event<FromCluster>>, clock: &dyn Clock) -> Result<()> {
        let mut beat_at = Nanos(0);
        loop {
            if clock.now() >= beat_at {
                self.connection.send(&FromProcess::Beat { sent: clock.now() });
                beat_at = clock.now().plus(self.silence / BEATS);
            }
            match events.recv_timeout(beat_at.after(clock.now())) {
                Ok(Event::Message(FromCluster::Job { job, message })) => self.job(job, message)?,
                Ok(Event::Message(FromCluster::Forget { job })) => self.forget(job),
                Ok(Event::Message(FromCluster::End)) => return Ok(()),
                Ok(Event::Message(FromCluster::Refused { why })) => return Err(Error::outside(why)),
                Ok(Event::Message(FromCluster::Welcome { .. })) | Err(RecvTimeoutError::Timeout) => {}
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
