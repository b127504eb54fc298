//! The connection between a worker's process and its coordinator's: messages in their written form, in their order while it
//! lives. `server::cluster::messages` has what the product says there.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_dataflow::Plan;
use anabranch_model::{Error, Nanos, Result};
use anabranch_protocol::membership::WorkerId;
use anabranch_protocol::worker::Term;
use anabranch_runtime::messages::{FromWorker, ToWorker};
use anabranch_runtime::{Hosted, Link, Origin, Premises};
use anabranch_state::Store;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::lane::Lane;
use super::wires::{Air, Place};
use crate::engine::outside::ProcessId;

/// From the coordinator's process.
pub(super) enum Down {
    Welcome(WorkerId),
    Job(String),
    Forget,
}

/// From the worker's process.
pub(super) enum Up {
    Hello { life: u64 },
    Ready { exchange: SocketAddr, sent: Nanos },
    Beat { sent: Nanos },
    Job(String),
}

/// Messages in their written form that were not sent yet.
pub(super) type Written = Arc<Mutex<VecDeque<String>>>;

/// A connection.
pub(super) struct Control {
    pub(super) coordinator: ProcessId,
    pub(super) place: Place,
    pub(super) down: Lane<Down>,
    pub(super) up: Lane<Up>,
    /// What the job's coordinator has said.
    pub(super) said: Written,
    /// The coordinator's process knows that it is over.
    pub(super) is_over: bool,
}

impl Control {
    pub(super) fn new(coordinator: ProcessId, place: Place) -> Control {
        Control {
            coordinator,
            place,
            down: Lane::default(),
            up: Lane::default(),
            said: Written::default(),
            is_over: false,
        }
    }

    pub(super) fn tell(&mut self, now: Nanos, air: &mut Air, message: Down) {
        let at = air.arrival(0, self.place, now);
        self.down.push(at, message);
    }

    pub(super) fn say(&mut self, now: Nanos, air: &mut Air, message: Up) {
        let at = air.arrival(self.place, 0, now);
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
        let at = air.arrival(0, self.place, now);
        self.down.close(at);
        let at = air.arrival(self.place, 0, now);
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
pub(super) fn next(written: &Written) -> Option<String> {
    written.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn write<M: Serialize>(written: &Written, message: &M) {
    // What cannot be written is missing, and the checks notice that.
    let text = serde_json::to_string(message).unwrap_or_default();
    written.lock().unwrap_or_else(PoisonError::into_inner).push_back(text);
}

/// A message as its receiver reads it.
pub(super) fn read<M: DeserializeOwned>(text: &str) -> std::result::Result<M, (&'static str, String)> {
    serde_json::from_str(text).map_err(|error| ("error", format!("a message cannot be read: {error}: {text}")))
}

/// Sends what the coordinator of a job says to one worker.
pub(super) struct Said(pub(super) Written);

impl Link for Said {
    fn send(&self, _: Term, message: ToWorker) {
        write(&self.0, &message);
    }

    /// The process of the coordinator does that.
    fn forget(&self, _: Term, _: bool) {}
}

/// What a worker's process provides for a job.
pub(super) struct Here {
    pub(super) store: Store,
    pub(super) origin: Option<Origin>,
    pub(super) says: Written,
}

impl Premises for Here {
    fn checkpoints(&self, _: &Plan) -> Result<Store> {
        Ok(self.store.clone())
    }

    fn savepoint(&self, _: &str) -> Result<Origin> {
        self.origin.clone().ok_or_else(|| Error::internal("there is no savepoint"))
    }

    fn send(&self, _: u64, message: FromWorker) {
        write(&self.says, &message);
    }

    /// No other coordinator adopts tasks here.
    fn hosts(&self, _: u64, _: Option<Hosted>) {}
}
