//! A machine with at most one worker's process at a time. `server::cluster::worker` is the product's.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock, ManualClock, Nanos};
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::worker::{self, Term};
use anabranch_runtime::messages::ToWorker;
use anabranch_runtime::network::{Patience, SteppedEndpoint};
use anabranch_runtime::stepped::SteppedWorker;
use anabranch_runtime::{Arrival, Routes};
use anabranch_state::Store;

use super::control::{Addressed, Control, Down, Heard, Here, JOB, Orders, Reports, Up, next, read, say_hosts, write};
use super::planted::Carrier;
use super::wires::{Place, Wires};
use super::{Env, SILENCE, TOKEN};
use crate::Checked;
use crate::engine::outside::ProcessId;
use crate::engine::planted::Hand;

/// Heartbeats within the time after which a silent worker is lost.
const BEATS: u32 = 4;
/// One moment at which processes prefer to die, in so many.
const MOMENTS: u64 = 40;

/// A clock of its own: no two machines agree what time it is.
struct Skewed {
    of: Arc<ManualClock>,
    ahead: Duration,
}

impl Clock for Skewed {
    fn now(&self) -> Nanos {
        self.of.now().plus(self.ahead)
    }

    fn wall_ns(&self) -> i64 {
        self.of.wall_ns()
    }
}

/// A worker's process.
pub(super) struct WorkerProcess {
    pub(super) id: ProcessId,
    /// Numbers of its connections to coordinators, by their processes.
    pub(super) links: BTreeMap<ProcessId, u64>,
    /// It is for one coordinator, and ends with the connection.
    once: bool,
    clock: Arc<dyn Clock>,
    endpoint: Option<Arc<SteppedEndpoint>>,
    job: Option<SteppedWorker>,
    hand: Hand,
    routes: Heard,
    /// When the newest heartbeat was sent that was answered on each connection.
    answered: BTreeMap<u64, Nanos>,
    says: Addressed,
    beat_at: Nanos,
    /// The newest term whose messages it has taken.
    term: Term,
    /// Its job is over.
    forgets: bool,
}

/// A machine.
pub(super) struct Machine {
    pub(super) place: Place,
    pub(super) process: Option<WorkerProcess>,
    ahead: Duration,
    /// Connections of its processes so far: for a coordinator each is another life of the worker.
    lives: u64,
    /// The turn in which it has a process again.
    pub(super) back_at: u64,
    /// The turn until which its process is stopped.
    pub(super) stopped_until: u64,
}

impl Machine {
    pub(super) fn new(place: Place, ahead: Duration, back_at: u64) -> Machine {
        Machine { place, process: None, ahead, lives: 0, back_at, stopped_until: 0 }
    }

    /// It has a process from now on.
    pub(super) fn start(&mut self, id: ProcessId, env: &Env<'_>) {
        let clock: Arc<dyn Clock> = Arc::new(Skewed { of: Arc::clone(env.turn.clock), ahead: self.ahead });
        self.process = Some(WorkerProcess {
            id,
            links: BTreeMap::new(),
            once: env.air.several.once,
            clock,
            endpoint: None,
            job: None,
            hand: Hand::new(env.mutation),
            routes: Heard::default(),
            answered: BTreeMap::new(),
            says: Addressed::default(),
            beat_at: Nanos(0),
            term: Term(0),
            forgets: false,
        });
    }

    /// Its process connects to a coordinator, by a connection of this number.
    pub(super) fn connect(&mut self, number: u64, (coordinator, host): (ProcessId, Place), env: &mut Env<'_>) {
        let Some(process) = &mut self.process else { return };
        self.lives += 1;
        let mut control = Control::new((coordinator, host), self.place);
        control.say(env.now, env.air, Up::Hello { life: self.lives });
        env.controls.insert(number, control);
        process.links.insert(coordinator, number);
    }

    /// Its process does something. Whether it ends: its connection to the only coordinator is closed.
    pub(super) fn step(&mut self, env: &mut Env<'_>, wires: &mut Wires, carrier: &mut Carrier) -> Checked<bool> {
        let Some(process) = &mut self.process else { return Ok(false) };
        for (coordinator, number) in process.links.clone() {
            let host = env.controls.get(&number).map_or(0, |control| control.host);
            if !env.air.passes(host, self.place, env.now) {
                continue;
            }
            while let Some(message) = env.controls.get_mut(&number).and_then(|control| control.down.pop(env.now)) {
                process.message((self.place, number), message, env, wires, carrier)?;
            }
            if env.controls.get(&number).is_none_or(|control| control.down.has_closed(env.now)) {
                process.links.remove(&coordinator);
                process.lock().left(number);
                if process.once {
                    return Ok(true);
                }
            }
        }
        process.beat(env);
        if let Some(endpoint) = process.endpoint.clone() {
            wires.carry((process.id, self.place), &endpoint, env.now, env.air, env.mutation)?;
            if std::mem::take(&mut process.forgets) && endpoint.held() > 0 {
                return Err((
                    "leak",
                    format!("{:?} keeps connections of a job that is over", endpoint_worker(&endpoint)),
                ));
            }
            process.work(env);
            wires.carry((process.id, self.place), &endpoint, env.now, env.air, env.mutation)?;
        }
        process.pump(env);
        Ok(false)
    }

    /// Whether tasks run here.
    pub(super) fn has_tasks(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.lock().hosted().contains_key(&JOB))
    }

    /// Rows that were late at the process that ends now.
    pub(super) fn late_rows(&self) -> u64 {
        self.process.as_ref().and_then(|process| process.job.as_ref()).map_or(0, SteppedWorker::late_rows)
    }
}

impl WorkerProcess {
    fn lock(&self) -> MutexGuard<'_, Routes<u64>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn message(
        &mut self,
        (place, number): (Place, u64),
        message: Down,
        env: &mut Env<'_>,
        wires: &mut Wires,
        carrier: &mut Carrier,
    ) -> Checked {
        match message {
            Down::Welcome(worker) => self.listen((place, number), worker, env, wires),
            Down::Heard(sent) => self.answered(number, sent),
            Down::Job(text) => match read(&text)? {
                Orders::Message(term, message) => self.job((number, term), message, env, carrier)?,
                Orders::Forget(term) => {
                    if self.forget(term) {
                        carrier.forgotten();
                    }
                }
            },
        }
        Ok(())
    }

    /// A coordinator answers a heartbeat.
    fn answered(&mut self, number: u64, sent: Nanos) {
        let before = self.answered.insert(number, sent);
        let was_silent = before.is_some_and(|before| before.plus(SILENCE) <= self.clock.now());
        let of = self.lock().jobs_of(|coordinator| *coordinator == number).next();
        if let (Some((_, term)), Some(job)) = (of, &self.job) {
            if was_silent {
                job.silent();
            }
            job.answered(term, sent);
        }
    }

    /// A coordinator of the job says something to the job's worker here.
    fn job(
        &mut self,
        (number, term): (u64, Term),
        message: ToWorker,
        env: &mut Env<'_>,
        carrier: &mut Carrier,
    ) -> Checked {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let (seen, message) = carrier.routed(term, self.term, message);
        let arrival = self.lock().arrives(JOB, (seen, number), &message);
        match arrival {
            Arrival::Refused => return Ok(()),
            Arrival::Missing => {
                self.say(number, env, Up::Job(write(&Reports::Missing)));
                return Ok(());
            }
            Arrival::New(life) => {
                let config = worker::Config {
                    lease: SILENCE,
                    linger: Duration::from_millis(1),
                    resend: Duration::from_millis(20),
                };
                let (origin, store) = (env.turn.origin.cloned(), Store::new(env.store(self.id), "simulated"));
                let (routes, says) = (Arc::clone(&self.routes), Arc::clone(&self.says));
                let here = Here { store, origin, routes, says, life };
                let parts = (Arc::clone(endpoint), Arc::clone(&self.clock));
                self.job = Some(SteppedWorker::new(JOB, config, env.connectors(self.id), parts, Arc::new(here)));
            }
            Arrival::Present => {}
        }
        if term < self.term {
            let worker = endpoint_worker(endpoint);
            return Err(("fencing", format!("{worker} takes an order of {term:?} after one of {:?}", self.term)));
        }
        self.term = term;
        let Some(job) = &self.job else { return Ok(()) };
        carrier.down(endpoint_worker(endpoint), message).into_iter().for_each(|message| job.send(message));
        // It may die while it deploys its tasks or restores their state.
        env.moment(self.id, MOMENTS);
        Ok(())
    }

    /// A coordinator has ended the job.
    fn forget(&mut self, term: Term) -> bool {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if !routes.accepts(JOB, term) {
            return false;
        }
        routes.forget(JOB);
        // Before its tasks have ended: a later incarnation may run by then.
        say_hosts(&mut routes, &self.says, None);
        drop(routes);
        self.job = None;
        self.forgets = self.once;
        true
    }

    /// A coordinator has accepted it. It listens to other workers.
    fn listen(&mut self, (place, number): (Place, u64), worker: WorkerId, env: &mut Env<'_>, wires: &mut Wires) {
        let address = address(self.id);
        if self.endpoint.is_none() {
            let endpoint = SteppedEndpoint::new(worker, address, TOKEN, patience(), Arc::clone(&self.clock));
            wires.listen((self.id, place), address, &endpoint);
            self.endpoint = Some(endpoint);
        }
        self.say(number, env, Up::Ready { exchange: address, sent: self.clock.now() });
        let mut routes = self.lock();
        if let Some(hosted) = routes.hosted().get(&JOB).cloned() {
            self.say(number, env, Up::Job(write(&Reports::Hosts(Some(hosted)))));
        }
        routes.joined(number, number);
    }

    fn say(&self, number: u64, env: &mut Env<'_>, message: Up) {
        if let Some(control) = env.controls.get_mut(&number) {
            control.say(env.now, env.air, message);
        }
    }

    fn beat(&mut self, env: &mut Env<'_>) {
        let now = self.clock.now();
        if self.endpoint.is_some() && now >= self.beat_at {
            self.beat_at = now.plus(SILENCE / BEATS);
            let coordinators: Vec<u64> = self.lock().coordinators().copied().collect();
            coordinators.into_iter().for_each(|number| self.say(number, env, Up::Beat { sent: now }));
        }
    }

    fn pump(&self, env: &mut Env<'_>) {
        while let Some((number, message)) = next(&self.says) {
            self.say(number, env, Up::Job(message));
        }
    }

    /// Its threads do something, each for itself.
    fn work(&mut self, env: &mut Env<'_>) {
        let Some(job) = &mut self.job else { return };
        for _ in 0..env.air.rng.below(8) {
            job.work();
        }
        if job.tasks().is_none() {
            return;
        }
        for _ in 0..env.air.rng.below(4) {
            if job.tasks().is_some_and(|mut tasks| self.hand.record(&mut tasks)) {
                // Other workers may have their snapshots, or may not.
                env.moment(self.id, MOMENTS);
            }
        }
        let count = job.tasks().map_or(0, |tasks| tasks.count() as u64);
        for _ in 0..env.air.rng.below(2 * count + 1) {
            let task = env.air.rng.below(count) as usize;
            if env.hangs(task) {
                continue;
            }
            let Some(mut tasks) = job.tasks() else { return };
            self.hand.switches = env.turn.switches;
            self.hand.steps(&mut tasks, task, &mut env.air.rng, env.turn.shared);
        }
    }
}

fn endpoint_worker(endpoint: &Arc<SteppedEndpoint>) -> WorkerId {
    anabranch_runtime::wiring::Network::worker(endpoint.as_ref())
}

/// Where the exchange of a process listens. Nothing of the operating system is behind it.
pub(super) fn address(id: ProcessId) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), u16::try_from(id % 60_000).unwrap_or(0) + 1)
}

/// How long workers wait for each other: less than in the product, because a seed has little time.
pub(super) fn patience() -> Patience {
    Patience { beat: SILENCE / BEATS, silence_max: SILENCE * 2, connect_max: SILENCE * 6 }
}
