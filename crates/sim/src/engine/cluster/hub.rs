//! A coordinator's process: which workers it has, and what passes between them and its job.
//! `server::cluster::members` is the product's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_model::{Error, Nanos};
use anabranch_protocol::Membership;
use anabranch_protocol::membership::{Config, Event, Input, Member, Process, WorkerId};
use anabranch_runtime::network::{Peer, SteppedEndpoint};
use anabranch_runtime::{Hosted, JobHandle, RemoteWorker};

use super::SILENCE;
use super::control::{Control, Down, Reports, Said, Up, read};
use super::planted::Carrier;
use super::wires::{Air, Place};
use crate::Checked;
use crate::engine::outside::ProcessId;

/// The workers of one coordinator, which has the job, had it, or stands by.
pub(super) struct Hub {
    pub(super) process: ProcessId,
    pub(super) place: Place,
    pub(super) endpoint: Arc<SteppedEndpoint>,
    pub(super) job: Option<JobHandle>,
    membership: Membership,
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
    /// Its tasks that run.
    hosted: Option<Hosted>,
}

impl Hub {
    pub(super) fn new((process, place): (ProcessId, Place), endpoint: Arc<SteppedEndpoint>, slots: u32) -> Hub {
        let membership = Membership::new(Config { silence: SILENCE, ..Config::default() });
        Hub { process, place, endpoint, job: None, membership, known: BTreeMap::new(), slots, silent: 0 }
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
            if !air.passes(control.place, control.host, now) {
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

    /// The tasks of the job that run at its workers.
    pub(super) fn hosted(&self) -> Vec<(Process, Hosted)> {
        self.known.iter().filter_map(|(process, known)| Some((*process, known.hosted.clone()?))).collect()
    }

    /// Whether it knows which tasks run on a machine.
    pub(super) fn knows_tasks_of(&self, place: Place) -> bool {
        self.known.iter().any(|(process, known)| process.worker == worker(place) && known.hosted.is_some())
    }

    /// The workers for the job, where tasks can be placed.
    pub(super) fn remotes(&self, controls: &BTreeMap<u64, Control>) -> Vec<RemoteWorker> {
        self.known.values().filter_map(|known| known.remote(controls)).collect()
    }

    /// One of its workers leaves.
    pub(super) fn lose_one(&mut self, controls: &mut BTreeMap<u64, Control>, now: Nanos, air: &mut Air) {
        let count = self.known.len() as u64;
        let which = (count > 0).then(|| air.rng.below(count) as usize);
        let control = which.and_then(|which| self.known.values().nth(which)).map(|known| known.control);
        control.into_iter().for_each(|control| self.closed(control, controls, now, air));
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
                let Some(process) = self.of(id) else { return Ok(()) };
                match (read(&text)?, &self.job) {
                    (Reports::Hosts(hosted), _) => {
                        self.known.get_mut(&process).into_iter().for_each(|known| known.hosted.clone_from(&hosted));
                    }
                    (Reports::Missing, _) => self.missing(process, controls),
                    (Reports::Message(message), Some(job)) => {
                        carrier.up(process, message).into_iter().for_each(|message| job.from_worker(process, message));
                    }
                    (Reports::Message(_), None) => {}
                }
            }
        }
        Ok(())
    }

    /// A worker has no tasks of the job, though this coordinator took them to be there: they have ended
    /// meanwhile.
    fn missing(&mut self, process: Process, controls: &BTreeMap<u64, Control>) {
        let (Some(known), Some(job)) = (self.known.get_mut(&process), &self.job) else { return };
        known.hosted = None;
        job.lost(process, Error::outside(format!("{} does not have the job's tasks any more", process.worker)));
        job.joined(known.remote(controls).into_iter().collect());
    }

    fn introduce(&mut self, id: u64, life: u64, controls: &mut BTreeMap<u64, Control>, now: Nanos, air: &mut Air) {
        let Some(control) = controls.get_mut(&id) else { return };
        let worker = worker(control.place);
        // As long as its former connection is there, the name is taken.
        if self.known.keys().any(|known| known.worker == worker) {
            return control.close(now, air);
        }
        let process = Process { worker, life };
        let member = Member { process, slots: self.slots, labels: Arc::new(BTreeSet::new()) };
        self.known.insert(process, Known { control: id, member, exchange: None, heard: Nanos(0), hosted: None });
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
        let is_newest = self.membership.heard(process) == Some(sent);
        if let (Some(job), Some(control)) = (self.job.as_ref().filter(|_| is_newest), controls.get_mut(&id)) {
            job.heard(process, sent);
            control.tell(now, air, Down::Heard(sent));
        }
    }

    /// Gives an input to the membership, and tells the job what follows.
    fn member(&mut self, now: Nanos, input: Input, why: &str, controls: &mut BTreeMap<u64, Control>, air: &mut Air) {
        // One that connects again has left before.
        let is_silent = !matches!(input, Input::Leave(_));
        self.membership.handle(now, input);
        while let Some(change) = self.membership.poll() {
            match change {
                Event::Joined(process) => {
                    let remote = self.known.get(&process).and_then(|known| known.remote(controls));
                    if let (Some(job), Some(remote)) = (&self.job, remote) {
                        job.joined(vec![remote]);
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
}

/// The number of the worker of a machine, which all coordinators know.
fn worker(place: Place) -> WorkerId {
    WorkerId(place as u32)
}

impl Known {
    fn remote(&self, controls: &BTreeMap<u64, Control>) -> Option<RemoteWorker> {
        let link = Arc::new(Said(Arc::clone(&controls.get(&self.control)?.said)));
        let exchange = Peer { address: self.exchange?, key: None };
        let name = self.member.process.worker.to_string();
        Some(RemoteWorker {
            name,
            member: self.member.clone(),
            exchange,
            heard: self.heard,
            copies: Arc::new([]),
            link,
        })
    }
}
