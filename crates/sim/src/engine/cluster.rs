//! Workers in other processes: machines with worker processes, their connections to coordinators and to each
//! other, and what goes wrong with all of them.
//!
//! * `machine`: a worker's process; `hub`: a coordinator's, with its members.
//! * `control`: the connection between them; `wires`: those between workers, which carry the real bytes of
//!   the exchange.
//! * `lane`: one direction of either; `frames`: the bound of what is under way.
//! * `planted`: bugs in messages.

mod control;
mod frames;
mod hub;
mod lane;
mod machine;
mod planted;
mod wires;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Incarnation, ManualClock, Nanos, Rng};
use anabranch_operators::Connectors;
use anabranch_protocol::membership::WorkerId;
use anabranch_runtime::network::SteppedEndpoint;
use anabranch_runtime::{Check, JobHandle, Origin, Workers};

use self::control::{Control, JOB};
use self::hub::Hub;
use self::machine::{Machine, address, patience};
use self::planted::Carrier;
use self::wires::{Air, Wires};
use super::outside::{ProcessId, Shared};
use super::scenario::Several;
use super::store::FaultyStore;
use super::tables::Tables;
use crate::{Checked, Mutation, Seen};

/// A worker that is silent for so long is lost.
const SILENCE: Duration = Duration::from_millis(300);
/// The secret that all workers share.
const TOKEN: &[u8] = b"secret";
/// Processes of workers have numbers from here on.
const FIRST_WORKER: ProcessId = 1_000;
/// One turn of a machine without a process in which it gets one, in so many.
const RETURNS: u64 = 20;

/// What is outside of machines.
pub(super) struct Env<'a> {
    turn: &'a Turn<'a>,
    now: Nanos,
    mutation: Option<Mutation>,
    air: &'a mut Air,
    controls: &'a mut BTreeMap<u64, Control>,
}

/// What the world says of a turn.
pub(super) struct Turn<'a> {
    pub(super) shared: &'a Shared,
    pub(super) clock: &'a Arc<ManualClock>,
    pub(super) number: u64,
    pub(super) faulty: bool,
    pub(super) origin: Option<&'a Origin>,
    /// The tables; each process has its own access.
    pub(super) tables: &'a Tables,
    /// A task that does nothing now.
    pub(super) hung: Option<usize>,
    /// The plan is about to change.
    pub(super) switches: bool,
}

impl Env<'_> {
    fn store(&self, process: ProcessId) -> Arc<FaultyStore> {
        Arc::new(FaultyStore { shared: self.turn.shared.clone(), process, overwrites: false })
    }

    fn connectors(&self, process: ProcessId) -> Connectors {
        Tables { process, ..self.turn.tables.clone() }.connectors()
    }

    fn hangs(&self, task: usize) -> bool {
        self.turn.hung == Some(task)
    }

    /// A process may die now, one in `often` times.
    fn moment(&mut self, process: ProcessId, often: u64) {
        if self.turn.faulty && self.air.several.kills > 0 && self.air.rng.below(often) == 0 {
            self.turn.shared.lock().kill(process);
        }
    }
}

/// All machines with workers.
pub(super) struct Cluster {
    machines: Vec<Machine>,
    hubs: Vec<Hub>,
    controls: BTreeMap<u64, Control>,
    wires: Wires,
    air: Air,
    carrier: Carrier,
    /// Processes of workers, and their connections to coordinators, so far.
    started: u64,
    connected: u64,
    mutation: Option<Mutation>,
}

impl Cluster {
    pub(super) fn new(several: &Several, seed: u64, mutation: Option<Mutation>) -> Cluster {
        let mut rng = Rng::new(seed ^ 0xc105);
        let machine = |place| {
            // Some workers join late.
            let back_at = if rng.below(3) == 0 { rng.below(800) } else { 0 };
            Machine::new(place, Duration::from_millis(rng.below(100_000)), back_at)
        };
        let machines = (1..=several.machines).map(machine).collect();
        let air = Air { rng, several: several.clone(), cuts: BTreeMap::new(), slow: BTreeMap::new() };
        let carrier = Carrier::new(mutation);
        let (hubs, controls, wires) = (Vec::new(), BTreeMap::new(), Wires::default());
        Cluster { machines, hubs, controls, wires, air, carrier, started: 0, connected: 0, mutation }
    }

    /// Whether workers outlive coordinators, and other coordinators stand by.
    pub(super) fn has_standbys(&self) -> bool {
        !self.air.several.once
    }

    /// A coordinator's process begins to listen for workers.
    pub(super) fn stand_by(&mut self, process: ProcessId, clock: &Arc<ManualClock>) {
        let clock: Arc<dyn Clock> = clock.clone();
        let address = address(process);
        let endpoint = SteppedEndpoint::new(WorkerId(0), address, TOKEN, patience(), clock);
        // Coordinators that follow each other are at two places. Without standbys there is one.
        let place = if self.has_standbys() && process.is_multiple_of(2) { self.machines.len() + 1 } else { 0 };
        self.wires.listen((process, place), address, &endpoint);
        self.hubs.push(Hub::new((process, place), endpoint, self.air.several.slots));
    }

    /// Whether a coordinator that stands by knows all tasks that run.
    pub(super) fn is_informed(&self, process: ProcessId) -> bool {
        let hub = self.hubs.iter().find(|hub| hub.process == process);
        let mut running = self.machines.iter().filter(|machine| machine.has_tasks()).peekable();
        running.peek().is_some() && hub.is_some_and(|hub| running.all(|machine| hub.knows_tasks_of(machine.place)))
    }

    /// A coordinator's process is about to take the job over: how the job uses workers.
    pub(super) fn begin(&mut self, process: ProcessId, clock: &Arc<ManualClock>, faulty: bool) -> Option<Workers> {
        if !self.hubs.iter().any(|hub| hub.process == process) {
            self.stand_by(process, clock);
        }
        let Cluster { hubs, controls, air, .. } = self;
        let hub = hubs.iter_mut().find(|hub| hub.process == process)?;
        let (awaited, found, endpoint) = (air.several.awaited, hub.hosted(), Arc::clone(&hub.endpoint));
        // Since it was asked for its tasks.
        if faulty && !air.several.calm && air.rng.below(16) == 0 {
            hub.lose_one(controls, clock.now(), air);
        }
        let remotes = hub.remotes(controls);
        let hosted = Box::new(move || found.clone());
        let register = Box::new(move |job: JobHandle| job.joined(remotes));
        let (patience, check, is_wanted) = (Duration::ZERO, Check::Content, Box::new(|| true));
        let occupancy = Arc::default();
        Some(Workers { job: JOB, endpoint, awaited, occupancy, hosted, patience, check, is_wanted, register })
    }

    /// Its job has begun.
    pub(super) fn begun(&mut self, process: ProcessId, job: &JobHandle) {
        let hub = self.hubs.iter_mut().find(|hub| hub.process == process);
        hub.into_iter().for_each(|hub| hub.job = Some(job.clone()));
    }

    /// The newest incarnation whose tasks have ended because no coordinator was heard or the job has ended,
    /// or were to end for the next version of the plan.
    pub(super) fn ends(&self) -> Incarnation {
        self.carrier.ends
    }

    /// Whether a coordinator has given workers up because they were silent.
    pub(super) fn has_lost_silent(&self, process: ProcessId) -> bool {
        self.hubs.iter().any(|hub| hub.process == process && hub.silent > 0)
    }

    /// Whether nothing goes wrong but with coordinators.
    pub(super) fn is_calm(&self) -> bool {
        self.air.several.calm
    }

    /// A change of the plan was undone.
    pub(super) fn undone(&mut self) {
        self.wires.undone = true;
    }

    /// A coordinator's process has ended, in order or not.
    pub(super) fn end(&mut self, process: ProcessId, now: Nanos, seen: &mut Seen) {
        let Cluster { hubs, controls, wires, air, .. } = self;
        for control in controls.values_mut().filter(|control| control.coordinator == process) {
            // What it has said last may get through.
            if air.rng.below(4) > 0 {
                control.pump(now, air);
            }
        }
        for hub in hubs.iter_mut().filter(|hub| hub.process == process) {
            seen.add("silent workers", hub.silent);
        }
        hubs.retain(|hub| hub.process != process);
        for control in controls.values_mut().filter(|control| control.coordinator == process) {
            control.close(now, air);
        }
        wires.gone(process, now, air);
    }

    /// All processes of workers stop.
    pub(super) fn kill_all(&mut self, shared: &Shared) {
        for process in self.machines.iter().filter_map(|machine| machine.process.as_ref()) {
            shared.lock().kill(process.id);
        }
    }

    /// How many actors there are besides coordinators.
    pub(super) fn machines(&self) -> u64 {
        self.machines.len() as u64
    }

    /// A coordinator's process takes what has come, and sends what it has to.
    pub(super) fn step_hub(&mut self, process: ProcessId, now: Nanos) -> Checked {
        let Cluster { hubs, controls, wires, air, carrier, .. } = self;
        for control in controls.values_mut().filter(|control| control.coordinator == process) {
            control.pump(now, air);
        }
        let Some(hub) = hubs.iter_mut().find(|hub| hub.process == process) else { return Ok(()) };
        hub.step(controls, now, air, carrier)?;
        wires.carry((process, hub.place), &hub.endpoint, now, air, self.mutation)
    }

    /// A machine does something.
    pub(super) fn step(&mut self, which: usize, turn: &Turn<'_>, seen: &mut Seen) -> Checked {
        let now = turn.clock.now();
        self.go_wrong(turn, now, seen);
        let machine = &mut self.machines[which];
        if machine.stopped_until > turn.number {
            return Ok(());
        }
        let Cluster { hubs, controls, wires, air, carrier, .. } = self;
        let mut env = Env { turn, now, mutation: self.mutation, air, controls };
        match machine.process.as_ref().map(|process| process.id) {
            None => {
                let newest = hubs.last().map(|hub| (hub.process, hub.place));
                if let Some(newest) =
                    newest.filter(|_| turn.number >= machine.back_at && env.air.rng.below(RETURNS) == 0)
                {
                    (self.started, self.connected) = (self.started + 1, self.connected + 1);
                    let id = FIRST_WORKER + self.started;
                    machine.start(id, &env);
                    machine.connect(self.connected, newest, &mut env);
                    if env.air.several.sick == Some(machine.place) {
                        turn.shared.lock().sick.insert(id);
                    }
                    seen.add("workers", 1);
                }
            }
            Some(id) if turn.shared.lock().is_dead(id) => {
                seen.add("worker crashes", 1);
                self.bury(which, turn, seen, true);
            }
            Some(_) => {
                let known = |hub: &&Hub| machine.process.as_ref().is_some_and(|of| of.links.contains_key(&hub.process));
                let unknown = hubs.iter().find(|hub| !known(hub)).map(|hub| (hub.process, hub.place));
                if let Some(unknown) = unknown.filter(|_| !env.air.several.once && env.air.rng.below(RETURNS) == 0) {
                    self.connected += 1;
                    machine.connect(self.connected, unknown, &mut env);
                }
                if machine.step(&mut env, wires, carrier)? {
                    self.bury(which, turn, seen, false);
                }
            }
        }
        self.controls.retain(|number, control| {
            let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
            let is_used = processes.flat_map(|process| process.links.values()).any(|link| link == number);
            is_used || (!control.is_over && self.hubs.iter().any(|hub| hub.process == control.coordinator))
        });
        seen.add("exchanged bytes", std::mem::take(&mut self.wires.carried));
        seen.add("connections", std::mem::take(&mut self.wires.made));
        Ok(())
    }

    /// The process of a machine is gone. `crashed`: what it has sent may be lost.
    fn bury(&mut self, which: usize, turn: &Turn<'_>, seen: &mut Seen, crashed: bool) {
        let (now, machine) = (turn.clock.now(), &mut self.machines[which]);
        seen.add("late rows", machine.late_rows());
        let Some(process) = machine.process.take() else { return };
        // It reaches nothing any more.
        turn.shared.lock().kill(process.id);
        for number in process.links.values() {
            let Some(control) = self.controls.get_mut(number) else { continue };
            if crashed && self.air.rng.below(2) == 0 {
                control.up.lose();
            }
            control.close(now, &mut self.air);
        }
        self.wires.gone(process.id, now, &mut self.air);
        machine.back_at = turn.number + self.air.rng.below(if turn.faulty { 300 } else { 30 });
        machine.stopped_until = 0;
    }

    /// Cuts a link, or all links of a place, in one direction or both.
    fn cut(&mut self, places: u64, now: Nanos) {
        let (from, to) = (self.air.rng.below(places) as usize, self.air.rng.below(places) as usize);
        let until = now.plus(Duration::from_micros(self.air.rng.below(900_000)));
        let (all, both) = (self.air.rng.below(4) == 0, self.air.rng.below(2) == 0);
        for to in (0..places as usize).filter(|other| all || *other == to) {
            self.air.cuts.insert((from, to), until);
            if both {
                self.air.cuts.insert((to, from), until);
            }
        }
        self.air.slow.insert((to, from), 1 + self.air.rng.below(50));
    }

    /// Faults of machines and of what is between them.
    fn go_wrong(&mut self, turn: &Turn<'_>, now: Nanos, seen: &mut Seen) {
        if !turn.faulty {
            self.air.cuts.clear();
            self.air.slow.clear();
            self.machines.iter_mut().for_each(|machine| machine.stopped_until = 0);
            return;
        }
        let several = self.air.several.clone();
        let mut happens = |often: u64| self.air.rng.below(10_000) < often;
        let (kills, stops, cuts, resets) =
            (happens(several.kills), happens(several.stops), happens(several.cuts), happens(several.resets));
        let (which, hosts) = (self.air.rng.below(self.machines()) as usize, 1 + u64::from(self.has_standbys()));
        let places = self.machines() + hosts;
        if let Some(process) = self.machines[which].process.as_ref().filter(|_| kills) {
            turn.shared.lock().kill(process.id);
        }
        if stops && self.machines[which].process.is_some() {
            // For less or more time than after which it is lost.
            self.machines[which].stopped_until = turn.number + self.air.rng.below(1_500);
            seen.add("suspended workers", 1);
        }
        if cuts {
            self.cut(places, now);
            seen.add("cut links", 1);
        }
        if resets {
            let control = self.air.rng.below(2) == 0;
            let count = self.controls.len() as u64;
            let chosen = if count == 0 { 0 } else { self.air.rng.below(count) as usize };
            match self.controls.values_mut().nth(chosen).filter(|_| control) {
                Some(control) => control.reset(now, &mut self.air),
                None => drop(self.wires.reset(now, &mut self.air)),
            }
            seen.add("reset connections", 1);
        }
    }
}
