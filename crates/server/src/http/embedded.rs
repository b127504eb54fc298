//! The one job of the embedded engine, and its process as the only worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Error, Notice, Result};
use anabranch_runtime::{HERE, JobHandle};
use anabranch_state::{Access, Savepoint, Store};

use super::documents::Worker;
use super::jobs::{Jobs, Placed, Reading, Refusal, ServedJob};
use super::orders::JobOrder;
use crate::SavepointRequest;
use crate::cluster::Members;

/// Name of the only worker.
const WORKER: &str = "local";
/// Longest time to wait for the checkpoint of a savepoint.
const CHECKPOINT_MAX: Duration = Duration::from_secs(600);

/// Everything about an embedded job that does not change.
pub(crate) struct Running {
    pub(crate) plan: Arc<Plan>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The place of its checkpoints.
    pub(crate) store: Option<Store>,
    pub(crate) access: Access,
    /// When it started, in milliseconds since 1970.
    pub(crate) started_ms: i64,
}

/// A job that this process coordinates, as the API serves it.
#[derive(Clone)]
pub(crate) struct EmbeddedJob {
    pub(crate) running: Arc<Running>,
    pub(crate) handle: JobHandle,
    /// Workers in other processes.
    pub(crate) members: Option<Members>,
}

/// The job and the worker of an embedded engine.
pub(crate) struct Embedded {
    pub(crate) job: Arc<EmbeddedJob>,
    pub(crate) address: SocketAddr,
}

impl Jobs for Embedded {
    fn jobs(&self) -> Vec<Arc<dyn ServedJob>> {
        vec![Arc::clone(&self.job) as Arc<dyn ServedJob>]
    }

    fn workers(&self) -> Vec<Worker> {
        let slots = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (name, pid, address) = (WORKER.to_owned(), std::process::id(), self.address.to_string());
        let own = Worker { name, pid, slots, address, labels: Vec::new(), tasks: 0, last_heard_at_ms: None };
        let others = self.job.members.as_ref().map(Members::list).unwrap_or_default();
        [vec![own], others].concat()
    }

    fn submit(&self, _order: JobOrder) -> std::result::Result<(), Refusal> {
        let error = Error::user("this process runs one job, and takes no others");
        Err(Refusal::Conflict(error.remedy("send it to a coordinator: anabranch coordinator")))
    }
}

impl EmbeddedJob {
    fn tasks(&self) -> Vec<Placed> {
        let named = |process| match &self.members {
            Some(members) if process != HERE => members.name(process),
            _ => WORKER.to_owned(),
        };
        self.handle.placed().into_iter().map(|(process, metrics)| Placed { worker: named(process), metrics }).collect()
    }
}

impl ServedJob for EmbeddedJob {
    fn name(&self) -> &str {
        &self.running.plan.options.job_name
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.running.plan)
    }

    fn reading(&self) -> Reading {
        let Running { clock, store, started_ms, .. } = self.running.as_ref();
        // Read first: what the tasks report below is not older.
        let (at, wall_ms, status) = (clock.now(), clock.wall_ms(), self.handle.status());
        Reading {
            at,
            wall_ms,
            started_ms: *started_ms,
            status,
            coordination: self.handle.coordination(),
            failures: self.handle.restarts(),
            checkpoints: store.as_ref().map(|store| store.place().to_owned()),
            tasks: self.tasks(),
        }
    }

    fn notices(&self) -> Vec<Notice> {
        self.handle.notices().after(0)
    }

    fn stop(&self) {
        self.handle.stop();
    }

    fn cancel(&self) {
        self.handle.abort(Error::user("the job was cancelled by a request"));
    }

    fn refuses_savepoint(&self) -> Option<Error> {
        self.running.store.is_none().then(no_checkpoints)
    }

    fn savepoint(&self, place: &str, closing: &dyn Fn() -> bool) -> Result<Savepoint> {
        let Running { clock, store, access, .. } = self.running.as_ref();
        let from = store.as_ref().ok_or_else(no_checkpoints)?;
        let to = Store::open(place, access)?;
        let ended = || Error::outside("the job ended before the savepoint was taken");
        let mut had_ended = false;
        let mut pause = |time: Duration| {
            let has_ended = self.handle.wait_timeout(time);
            if closing() {
                return Err(Error::outside("the process ends: there is no savepoint"));
            }
            // The job may have answered just before its end. A copy does not wait, and needs no job.
            if !time.is_zero() && has_ended && std::mem::replace(&mut had_ended, true) {
                return Err(ended());
            }
            Ok(())
        };
        let (clock, limit) = (clock.as_ref(), CHECKPOINT_MAX);
        let taken = SavepointRequest { from, to: &to, clock, limit, pause: &mut pause }.take()?;
        taken.ok_or_else(ended)
    }
}

fn no_checkpoints() -> Error {
    Error::user("the job keeps no checkpoints, so no savepoint can be taken")
        .remedy("set a directory for them: SET 'checkpoint-directory' = '...'")
}
