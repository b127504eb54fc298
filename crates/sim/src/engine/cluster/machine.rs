//! A machine with at most one worker's process at a time. `server::cluster::worker` is the product's.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, ManualClock, Nanos};
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::worker;
use anabranch_runtime::network::{Patience, SteppedEndpoint};
use anabranch_runtime::stepped::SteppedWorker;
use anabranch_state::Store;

use super::control::{Control, Down, Here, Up, Written, next, read};
use super::planted::Carrier;
use super::wires::{Place, Wires};
use super::{Env, SILENCE, TOKEN};
use crate::engine::outside::ProcessId;
use crate::engine::planted::Hand;
use crate::engine::truth::Checked;

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
    /// Number of its connection to the coordinator.
    pub(super) control: u64,
    clock: Arc<dyn Clock>,
    endpoint: Option<Arc<SteppedEndpoint>>,
    job: Option<SteppedWorker>,
    hand: Hand,
    says: Written,
    beat_at: Nanos,
    /// Its job is over.
    forgets: bool,
}

/// A machine.
pub(super) struct Machine {
    pub(super) place: Place,
    pub(super) process: Option<WorkerProcess>,
    ahead: Duration,
    /// Its processes so far.
    pub(super) lives: u64,
    /// The turn in which it has a process again.
    pub(super) back_at: u64,
    /// The turn until which its process is stopped.
    pub(super) stopped_until: u64,
}

impl Machine {
    pub(super) fn new(place: Place, ahead: Duration, back_at: u64) -> Machine {
        Machine { place, process: None, ahead, lives: 0, back_at, stopped_until: 0 }
    }

    /// Its process connects to a coordinator.
    pub(super) fn connect(&mut self, id: ProcessId, number: u64, coordinator: ProcessId, env: &mut Env<'_>) {
        self.lives += 1;
        let clock: Arc<dyn Clock> = Arc::new(Skewed { of: Arc::clone(env.clock), ahead: self.ahead });
        let mut control = Control::new(coordinator, self.place);
        control.say(env.now, env.air, Up::Hello { life: self.lives });
        env.controls.insert(number, control);
        self.process = Some(WorkerProcess {
            id,
            control: number,
            clock,
            endpoint: None,
            job: None,
            hand: Hand::new(env.mutation),
            says: Written::default(),
            beat_at: Nanos(0),
            forgets: false,
        });
    }

    /// Its process does something. Whether it ends: its connection to the coordinator is closed.
    pub(super) fn step(
        &mut self,
        env: &mut Env<'_>,
        wires: &mut Wires,
        carrier: &mut Carrier,
    ) -> Result<bool, (&'static str, String)> {
        let Some(process) = &mut self.process else { return Ok(false) };
        while env.air.passes(0, self.place, env.now) {
            let message = env.controls.get_mut(&process.control).and_then(|control| control.down.pop(env.now));
            let Some(message) = message else { break };
            process.message(self.place, message, env, wires, carrier)?;
        }
        let passes = env.air.passes(0, self.place, env.now);
        if passes && env.controls.get(&process.control).is_none_or(|control| control.down.has_closed(env.now)) {
            return Ok(true);
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

    /// Rows that were late at the process that ends now.
    pub(super) fn late_rows(&self) -> u64 {
        self.process.as_ref().and_then(|process| process.job.as_ref()).map_or(0, SteppedWorker::late_rows)
    }
}

impl WorkerProcess {
    fn message(
        &mut self,
        place: Place,
        message: Down,
        env: &mut Env<'_>,
        wires: &mut Wires,
        carrier: &mut Carrier,
    ) -> Checked {
        match message {
            Down::Welcome(worker) => self.listen(place, worker, env, wires),
            Down::Job(text) => {
                let Some(endpoint) = &self.endpoint else { return Ok(()) };
                let job = self.job.get_or_insert_with(|| {
                    let config = worker::Config {
                        lease: SILENCE,
                        linger: Duration::from_millis(1),
                        resend: Duration::from_millis(20),
                    };
                    let origin = env.origin.cloned();
                    let store = Store::new(env.store(self.id), "simulated");
                    let here = Here { store, origin, says: Arc::clone(&self.says) };
                    let parts = (Arc::clone(endpoint), Arc::clone(&self.clock));
                    SteppedWorker::new(env.job(), config, env.connectors(self.id), parts, Arc::new(here))
                });
                for message in carrier.down(endpoint_worker(endpoint), read(&text)?) {
                    job.send(message);
                }
                // It may die while it deploys its tasks or restores their state.
                env.moment(self.id, MOMENTS);
            }
            Down::Forget => {
                self.job = None;
                self.forgets = true;
            }
        }
        Ok(())
    }

    /// It is known now, and listens to other workers.
    fn listen(&mut self, place: Place, worker: WorkerId, env: &mut Env<'_>, wires: &mut Wires) {
        let address = address(self.id);
        let endpoint = SteppedEndpoint::new(worker, address, TOKEN, patience(), Arc::clone(&self.clock));
        wires.listen((self.id, place), address, &endpoint);
        self.endpoint = Some(endpoint);
        let sent = self.clock.now();
        self.say(env, Up::Ready { exchange: address, sent });
    }

    fn say(&self, env: &mut Env<'_>, message: Up) {
        if let Some(control) = env.controls.get_mut(&self.control) {
            control.say(env.now, env.air, message);
        }
    }

    fn beat(&mut self, env: &mut Env<'_>) {
        let now = self.clock.now();
        if self.endpoint.is_some() && now >= self.beat_at {
            self.beat_at = now.plus(SILENCE / BEATS);
            self.say(env, Up::Beat { sent: now });
        }
    }

    fn pump(&self, env: &mut Env<'_>) {
        while let Some(message) = next(&self.says) {
            self.say(env, Up::Job(message));
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
            let channels = tasks.channels(task) as u64;
            let channel = env.air.rng.below(channels.max(1)) as usize;
            let steps = if channels == 0 { 1 } else { 1 + env.air.rng.below(8) };
            for _ in 0..steps {
                env.shared.lock().poll_rows = 1 + env.air.rng.below(8) as usize;
                if !self.hand.step(&mut tasks, task, channel) {
                    break;
                }
            }
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
