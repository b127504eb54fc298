//! A connection between a worker's process and a coordinator's: messages in their written form, in their
//! order while it lives. `server::cluster::messages` has what the product says there.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_dataflow::Plan;
use anabranch_model::{Error, Nanos, Result};
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::worker::Term;
use anabranch_runtime::messages::{FromWorker, ToWorker};
use anabranch_runtime::{Hosted, Link, Origin, Premises, Routes};
use anabranch_state::Store;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::lane::Lane;
use super::wires::{Air, Place};
use crate::Checked;
use crate::engine::outside::ProcessId;

/// From the coordinator's process.
pub(super) enum Down {
    Welcome(WorkerId),
    /// The answer to the heartbeat that was sent then. The coordinator of the job is in this process.
    Heard(Nanos),
    /// [`Orders`] in their written form.
    Job(String),
}

/// From the worker's process.
pub(super) enum Up {
    Hello {
        life: u64,
    },
    Ready {
        exchange: SocketAddr,
        sent: Nanos,
    },
    Beat {
        sent: Nanos,
    },
    /// [`Reports`] in their written form.
    Job(String),
}

/// What the coordinator of the job tells a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum Orders {
    Message(Term, ToWorker),
    /// The job is over.
    Forget(Term),
}

/// What a worker's process tells coordinators of the job.
#[derive(Serialize, Deserialize)]
pub(super) enum Reports {
    Message(FromWorker),
    /// The tasks run here, or do not any more.
    Hosts(Option<Hosted>),
    /// The tasks that a message is for are not here.
    Missing,
}

/// The number of the job in all processes.
pub(super) const JOB: u64 = 1;

/// Messages in their written form that were not sent yet.
pub(super) type Written = Arc<Mutex<VecDeque<String>>>;

/// The same, each with the number of the connection on which it goes.
pub(super) type Addressed = Arc<Mutex<VecDeque<(u64, String)>>>;

/// A connection.
pub(super) struct Control {
    pub(super) coordinator: ProcessId,
    /// Where the coordinator's process is.
    pub(super) host: Place,
    /// Where the worker's is.
    pub(super) place: Place,
    pub(super) down: Lane<Down>,
    pub(super) up: Lane<Up>,
    /// What the job's coordinator has said.
    pub(super) said: Written,
    /// The coordinator's process knows that it is over.
    pub(super) is_over: bool,
}

impl Control {
    pub(super) fn new((coordinator, host): (ProcessId, Place), place: Place) -> Control {
        Control {
            coordinator,
            host,
            place,
            down: Lane::default(),
            up: Lane::default(),
            said: Written::default(),
            is_over: false,
        }
    }

    pub(super) fn tell(&mut self, now: Nanos, air: &mut Air, message: Down) {
        let at = air.arrival(self.host, self.place, now);
        self.down.push(at, message);
    }

    pub(super) fn say(&mut self, now: Nanos, air: &mut Air, message: Up) {
        let at = air.arrival(self.place, self.host, now);
        self.up.push(at, message);
    }

    /// Sends what the job's coordinator has said.
    pub(super) fn pump(&mut self, now: Nanos, air: &mut Air) {
        while let Some(message) = next(&self.said) {
            self.tell(now, air, Down::Job(message));
        }
    }

    /// One of the processes has closed it, or is gone.
    pub(super) fn close(&mut self, now: Nanos, air: &mut Air) {
        let at = air.arrival(self.host, self.place, now);
        self.down.close(at);
        let at = air.arrival(self.place, self.host, now);
        self.up.close(at);
    }

    /// It is broken: what is under way is lost, and each end learns of it in its time.
    pub(super) fn reset(&mut self, now: Nanos, air: &mut Air) {
        self.down.lose();
        self.up.lose();
        self.close(now, air);
    }
}

/// Takes the first message.
pub(super) fn next<M>(written: &Mutex<VecDeque<M>>) -> Option<M> {
    locked(written).pop_front()
}

fn locked<M>(mutex: &Mutex<M>) -> MutexGuard<'_, M> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message as it is sent. What cannot be written is missing, and the checks notice that.
pub(super) fn write<M: Serialize>(message: &M) -> String {
    serde_json::to_string(message).unwrap_or_default()
}

/// A message as its receiver reads it.
pub(super) fn read<M: DeserializeOwned>(text: &str) -> Checked<M> {
    serde_json::from_str(text).map_err(|error| ("error", format!("a message cannot be read: {error}: {text}")))
}

/// Sends what the coordinator of a job says to one worker.
pub(super) struct Said(pub(super) Written);

impl Link for Said {
    fn send(&self, term: Term, message: ToWorker) {
        locked(&self.0).push_back(write(&Orders::Message(term, message)));
    }

    fn forget(&self, term: Term, _: bool) {
        locked(&self.0).push_back(write(&Orders::Forget(term)));
    }
}

/// Who hears what at a worker's process. Coordinators are given by the numbers of the connections to them.
pub(super) type Heard = Arc<Mutex<Routes<u64>>>;

/// What a worker's process provides for a worker of the job.
pub(super) struct Here {
    pub(super) store: Store,
    pub(super) origin: Option<Origin>,
    pub(super) routes: Heard,
    pub(super) says: Addressed,
    /// Distinguishes it from other workers of the job in this process.
    pub(super) life: u64,
}

impl Premises for Here {
    fn checkpoints(&self, _: &Plan) -> Result<Store> {
        Ok(self.store.clone())
    }

    fn savepoint(&self, _: &str) -> Result<Origin> {
        self.origin.clone().ok_or_else(|| Error::internal("there is no savepoint"))
    }

    fn send(&self, job: u64, message: FromWorker) {
        if let Some(number) = locked(&self.routes).coordinator(job, self.life) {
            locked(&self.says).push_back((*number, write(&Reports::Message(message))));
        }
    }

    fn hosts(&self, job: u64, hosted: Option<Hosted>) {
        let mut routes = locked(&self.routes);
        if routes.coordinator(job, self.life).is_some() {
            say_hosts(&mut routes, &self.says, hosted);
        }
    }
}

/// The tasks run here, or do not any more: all coordinators hear of it.
pub(super) fn say_hosts(routes: &mut Routes<u64>, says: &Addressed, hosted: Option<Hosted>) {
    let text = write(&Reports::Hosts(hosted.clone()));
    routes.hosts(JOB, hosted).for_each(|number| locked(says).push_back((*number, text.clone())));
}
