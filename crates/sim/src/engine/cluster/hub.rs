//! A coordinator's process: which workers it has, and what passes between them and its job. `server::cluster::members` is the
//! product's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_model::{Error, Nanos};
use anabranch_protocol::Membership;
use anabranch_protocol::membership::{Config, Event, Input, Member, Process, WorkerId};
use anabranch_runtime::network::{Peer, SteppedEndpoint};
use anabranch_runtime::{JobHandle, RemoteWorker};

use super::SILENCE;
use super::control::{Control, Down, Said, Up, read};
use super::planted::Carrier;
use super::wires::{Air, Place};
use crate::engine::outside::ProcessId;
use crate::engine::truth::Checked;

/// The workers of one coordinator.
pub(super) struct Hub {
    pub(super) process: ProcessId,
    pub(super) endpoint: Arc<SteppedEndpoint>,
    pub(super) job: Option<JobHandle>,
    membership: Membership,
    /// The number of each machine.
    names: BTreeMap<Place, WorkerId>,
    known: BTreeMap<Process, Known>,
    slots: u32,
    /// Workers that were silent for too long.
    pub(super) silent: u64,
}

struct Known {
    /// Number of its connection.
    control: u64,
    member: Member,
    /// Where it listens to other workers, once it does.
    exchange: Option<SocketAddr>,
    heard: Nanos,
}

impl Hub {
    pub(super) fn new(process: ProcessId, endpoint: Arc<SteppedEndpoint>, slots: u32) -> Hub {
        let membership = Membership::new(Config { silence: SILENCE, ..Config::default() });
        let (names, known) = (BTreeMap::new(), BTreeMap::new());
        Hub { process, endpoint, job: None, membership, names, known, slots, silent: 0 }
    }

    /// Takes what has arrived, and handles the time.
    pub(super) fn step(
        &mut self,
        controls: &mut BTreeMap<u64, Control>,
        now: Nanos,
        air: &mut Air,
        carrier: &mut Carrier,
    ) -> Checked {
        let own: Vec<u64> =
            controls.iter().filter(|(_, control)| control.coordinator == self.process).map(|(id, _)| *id).collect();
        for id in own {
            let Some(control) = controls.get_mut(&id) else { continue };
            if !air.passes(control.place, 0, now) {
                continue;
            }
            while let Some(message) = controls.get_mut(&id).and_then(|control| control.up.pop(now)) {
                self.message(id, message, controls, now, air, carrier)?;
            }
            if controls.get(&id).is_some_and(|control| control.up.has_closed(now)) {
                self.closed(id, controls, now, air);
            }
        }
        self.member(now, Input::Tick, "", controls, air);
        Ok(())
    }

    /// The job is over: its workers keep nothing of it.
    pub(super) fn forget(&mut self, controls: &mut BTreeMap<u64, Control>, now: Nanos, air: &mut Air) {
        self.job = None;
        for known in self.known.values() {
            if let Some(control) = controls.get_mut(&known.control) {
                control.tell(now, air, Down::Forget);
            }
        }
    }

    fn of(&self, id: u64) -> Option<Process> {
        self.known.iter().find(|(_, known)| known.control == id).map(|(process, _)| *process)
    }

    fn message(
        &mut self,
        id: u64,
        message: Up,
        controls: &mut BTreeMap<u64, Control>,
        now: Nanos,
        air: &mut Air,
        carrier: &mut Carrier,
    ) -> Checked {
        match message {
            Up::Hello { life } => self.introduce(id, life, controls, now, air),
            Up::Ready { exchange, sent } => {
                let known = self.of(id).and_then(|process| self.known.get_mut(&process));
                if let Some(known) = known {
                    known.exchange = Some(exchange);
                }
                self.beat(id, sent, controls, now, air);
            }
            Up::Beat { sent } => self.beat(id, sent, controls, now, air),
            Up::Job(text) => {
                let Some((process, job)) = self.of(id).zip(self.job.clone()) else { return Ok(()) };
                for message in carrier.up(process, read(&text)?) {
                    job.from_worker(process, message);
                }
            }
        }
        Ok(())
    }

    fn introduce(&mut self, id: u64, life: u64, controls: &mut BTreeMap<u64, Control>, now: Nanos, air: &mut Air) {
        let Some(control) = controls.get_mut(&id) else { return };
        let next = WorkerId(self.names.len() as u32 + 1);
        let worker = *self.names.entry(control.place).or_insert(next);
        // As long as its former connection is there, the name is taken.
        if self.known.keys().any(|known| known.worker == worker) {
            return control.close(now, air);
        }
        let process = Process { worker, life };
        let member = Member { process, slots: self.slots, labels: Arc::new(BTreeSet::new()) };
        self.known.insert(process, Known { control: id, member, exchange: None, heard: Nanos(0) });
        control.tell(now, air, Down::Welcome(worker));
    }

    fn closed(&mut self, id: u64, controls: &mut BTreeMap<u64, Control>, now: Nanos, air: &mut Air) {
        if let Some(process) = self.of(id) {
            self.member(now, Input::Leave(process), "has ended its connection", controls, air);
            self.known.remove(&process);
        }
        if let Some(control) = controls.get_mut(&id) {
            control.close(now, air);
            control.is_over = true;
        }
    }

    fn beat(&mut self, id: u64, sent: Nanos, controls: &mut BTreeMap<u64, Control>, now: Nanos, air: &mut Air) {
        let Some(process) = self.of(id) else { return };
        let Some(known) = self.known.get_mut(&process).filter(|known| known.exchange.is_some()) else { return };
        known.heard = sent;
        let member = known.member.clone();
        self.member(now, Input::Heartbeat { member, sent }, "was replaced", controls, air);
        self.job.iter().for_each(|job| job.heard(process, sent));
    }

    /// Gives an input to the membership, and tells the job what follows.
    fn member(&mut self, now: Nanos, input: Input, why: &str, controls: &mut BTreeMap<u64, Control>, air: &mut Air) {
        let is_silent = input == Input::Tick;
        self.membership.handle(now, input);
        while let Some(change) = self.membership.poll() {
            match change {
                Event::Joined(process) => {
                    let remote = self.known.get(&process).and_then(|known| known.remote(controls));
                    if let (Some(job), Some(remote)) = (&self.job, remote) {
                        job.joined(remote);
                    }
                }
                Event::Lost(process) => {
                    let Some(known) = self.known.remove(&process) else { continue };
                    if let Some(control) = controls.get_mut(&known.control) {
                        control.close(now, air);
                    }
                    self.silent += u64::from(is_silent);
                    let why = if is_silent { "has been silent" } else { why };
                    let why = Error::outside(format!("{} is lost: it {why}", process.worker));
                    self.job.iter().for_each(|job| job.lost(process, Error::outside(why.message())));
                }
                Event::Drained(_) => {}
            }
        }
    }

    /// The job gets to know the workers that are there.
    pub(super) fn register(&mut self, job: JobHandle, controls: &BTreeMap<u64, Control>) {
        self.known.values().filter_map(|known| known.remote(controls)).for_each(|worker| job.joined(worker));
        self.job = Some(job);
    }
}

impl Known {
    fn remote(&self, controls: &BTreeMap<u64, Control>) -> Option<RemoteWorker> {
        let link = Arc::new(Said(Arc::clone(&controls.get(&self.control)?.said)));
        let exchange = Peer { address: self.exchange?, key: None };
        Some(RemoteWorker { member: self.member.clone(), exchange, heard: self.heard, copies: Arc::new([]), link })
    }
}
