//! The one job of the embedded engine, and its process as the only worker.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Error, Notice, PlanVersion, Result, StageId};
use anabranch_plan::{Planned, fitted_to};
use anabranch_protocol::membership::{Process, WorkerId};
use anabranch_runtime::{HERE, HERE_NAME, JobHandle, Moves, Reconfigure, Reconfigured};
use anabranch_state::{Access, Savepoint, Store};

use super::documents::Worker;
use super::functions::{FunctionJob, FunctionOrder};
use super::histories::ChangeHistories;
use super::jobs::{Jobs, Placed, Reading, Refusal, ServedJob};
use super::orders::JobOrder;
use super::reconfigure::ReconfigureOrder;
use crate::cluster::Members;
use crate::engine::check_scaled;
use crate::functions::{Changeable, FunctionRefusal, replace};
use crate::threads::lock;
use crate::{Engine, SavepointRequest, Settings};

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

/// Called with the version that a job's plan will have.
type Note<'a> = &'a mut dyn FnMut(PlanVersion) -> Result<(), Refusal>;

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
    /// `None`: the job cannot be changed.
    pub(crate) script: Option<Mutex<Script>>,
    /// What plans statements, also while the job is being changed.
    pub(crate) engine: Option<Engine>,
    pub(crate) histories: ChangeHistories,
}

/// Why a savepoint of a job without tasks cannot be taken: they would write it.
fn waits_for_workers(what: &str) -> Error {
    let error = Error::user(format!("the job waits for workers ({what}): no task runs that could write a savepoint"));
    error.remedy(
        "start workers, and take the savepoint then; or stop the job, and copy its newest checkpoint: anabranch savepoint \
         PLACE-OF-CHECKPOINTS PATH --last",
    )
}

/// The statements and settings of a job, for changes of it.
#[derive(Clone)]
pub struct Script {
    /// The engine that has planned it.
    pub engine: Engine,
    /// The statements.
    pub sql: String,
    /// The caller's settings.
    pub settings: Settings,
}

impl Jobs for Embedded {
    fn jobs(&self) -> Vec<Arc<dyn ServedJob>> {
        vec![Arc::clone(&self.job) as Arc<dyn ServedJob>]
    }

    fn workers(&self) -> Vec<Worker> {
        let slots = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (name, pid, address) = (HERE_NAME.to_owned(), std::process::id(), self.address.to_string());
        let own =
            Worker { name, pid, slots, address, labels: Vec::new(), tasks: 0, last_heard_at_ms: None, drained: false };
        let others = self.job.members.as_ref().map(Members::list).unwrap_or_default();
        [vec![own], others].concat()
    }

    fn submit(&self, _order: JobOrder) -> Result<(), Refusal> {
        let error = Error::user("this process runs one job, and takes no others");
        Err(Refusal::Conflict(error.remedy("send it to a coordinator: anabranch coordinator")))
    }

    fn reconfigure(&self, _job: &str, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal> {
        let script = Embedded::script(self)?;
        // One change at a time. What waits here is a thread of its own.
        let mut script = lock(script);
        self.change(&mut script, order)
    }

    fn replace_functions(&self, order: &FunctionOrder) -> Result<Vec<FunctionJob>, FunctionRefusal> {
        let script = Embedded::script(self)?;
        let script = RefCell::new(lock(script));
        replace(order, &[Held { embedded: self, script }], &self.histories)
    }

    fn histories(&self) -> &ChangeHistories {
        &self.histories
    }

    fn script(&self, _job: &str) -> Result<JobOrder, Refusal> {
        let Script { sql, settings, .. } = lock(Embedded::script(self)?).clone();
        let name = self.job.name().to_owned();
        let mut set: BTreeMap<String, String> = settings.set.into_iter().collect();
        set.extend(settings.parallelism.map(|tasks| ("parallelism".to_owned(), tasks.to_string())));
        Ok(JobOrder { name, sql, settings: set, options: settings.table_options, submission: None })
    }

    fn engine(&self) -> Option<Engine> {
        self.engine.clone()
    }

    fn remove(&self, _job: &str, _discards_state: bool) -> Result<(), Refusal> {
        let error = Error::user("this process runs one job, and keeps no list of jobs");
        Err(Refusal::Conflict(error.remedy("remove the directory of its checkpoints once the process has ended")))
    }

    fn drain(&self, worker: &str, is_drained: bool) -> Result<bool, Refusal> {
        self.job.worker(worker)?;
        Ok(self.job.members.iter().any(|members| members.drain(worker, is_drained)))
    }
}

impl Embedded {
    fn script(&self) -> Result<&Mutex<Script>, Refusal> {
        let fixed = || Error::user("this process cannot change its job: it has no statements of it");
        self.script.as_ref().ok_or_else(|| Refusal::Conflict(fixed()))
    }

    fn change(&self, script: &mut Script, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal> {
        let sql = order.sql.clone().unwrap_or_else(|| script.sql.clone());
        let settings = order.applied_to(&script.settings, &self.job.plan())?;
        let planned = script.engine.plan(&sql, &settings).map_err(Refusal::Wrong)?;
        let nothing = || Error::user("the new text has no INSERT INTO, so there is nothing to run");
        let plan = planned.plan.ok_or_else(|| Refusal::Wrong(nothing().remedy("to end the job, stop it")))?;
        check_scaled(&plan).map_err(Refusal::Wrong)?;
        let moves = order.moves(|name| self.job.worker(name))?;
        let done = self.job.alter(order, &plan, &moves, None)?;
        if !order.dry_run {
            (script.sql, script.settings) = (sql, settings);
        }
        Ok(done)
    }
}

/// The job, while nobody else changes it.
struct Held<'a> {
    embedded: &'a Embedded,
    script: RefCell<MutexGuard<'a, Script>>,
}

impl Changeable for Held<'_> {
    fn name(&self) -> &str {
        self.embedded.job.name()
    }

    fn sql(&self) -> String {
        self.script.borrow().sql.clone()
    }

    fn plan(&self, sql: &str) -> Result<Planned> {
        let script = self.script.borrow();
        script.engine.plan(sql, &script.settings)
    }

    fn check(&self) -> Result<(), Refusal> {
        self.embedded.job.check()
    }

    fn change(&self, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal> {
        self.embedded.change(&mut self.script.borrow_mut(), order)
    }
}

impl EmbeddedJob {
    /// Refuses a job without running tasks: a change begins with a checkpoint by them.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let Some(what) = self.handle.status().waits_for else { return Ok(()) };
        let error = Error::user(format!("the job waits for workers ({what}): no task runs that could be changed"));
        let remedy = "start workers; or stop the job, and start it with fewer tasks";
        Err(Refusal::Conflict(error.remedy(remedy)))
    }

    /// Lets the job continue by the plan of an order, or says what that would do. The plan gets the form in
    /// which the job keeps most of what it has. If `note` is given, it is called before anything is changed.
    pub(crate) fn alter(
        &self,
        order: &ReconfigureOrder,
        plan: &Plan,
        moves: &Moves,
        note: Option<Note<'_>>,
    ) -> Result<Reconfigured, Refusal> {
        let ReconfigureOrder { allow_lost_state, allow_late, dry_run, .. } = *order;
        let request =
            |dry_run| Reconfigure { plan: plan.clone(), moves: moves.clone(), allow_lost_state, allow_late, dry_run };
        if let Some(note) = note.filter(|_| !dry_run) {
            note(self.change(request(true))?.next)?;
        }
        self.change(request(dry_run))
    }

    /// Changes the job, or says what a change would do.
    fn change(&self, request: Reconfigure) -> Result<Reconfigured, Refusal> {
        if !request.dry_run {
            self.check()?;
        }
        self.handle.reconfigure(request, fitted_to).map_err(Refusal::of_change)
    }

    /// The worker of this name in another process.
    pub(crate) fn worker(&self, name: &str) -> Result<WorkerId, Refusal> {
        let Some(members) = &self.members else {
            let error = Error::user("all tasks of this job are in one process");
            let remedy = "run it at workers: anabranch run FILE --workers N, or submit it to a coordinator";
            return Err(Refusal::Conflict(error.remedy(remedy)));
        };
        members.worker(name).ok_or_else(|| Refusal::Unknown(members.unknown(name)))
    }

    fn tasks(&self) -> Vec<Placed> {
        let placed = |(process, metrics)| Placed { worker: self.worker_name(process), metrics };
        self.handle.placed().into_iter().map(placed).collect()
    }
}

impl ServedJob for EmbeddedJob {
    fn name(&self) -> &str {
        &self.running.plan.options.job_name
    }

    fn plan(&self) -> Arc<Plan> {
        self.handle.plan()
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

    fn worker_name(&self, process: Process) -> String {
        match &self.members {
            Some(members) if process != HERE => members.name(process),
            _ => HERE_NAME.to_owned(),
        }
    }

    fn key_groups(&self) -> BTreeMap<StageId, Vec<u64>> {
        self.handle.key_groups()
    }

    fn notices(&self) -> Vec<Notice> {
        self.handle.notices().after(0)
    }

    fn store(&self) -> Option<Store> {
        self.running.store.clone()
    }

    fn stop(&self) {
        self.handle.stop();
    }

    fn cancel(&self) {
        self.handle.cancel_by_request();
    }

    fn abort_change(&self) -> Result<()> {
        self.handle.abort_change()
    }

    fn refuses_savepoint(&self) -> Option<Error> {
        if self.running.store.is_none() {
            return Some(no_checkpoints());
        }
        self.handle.status().waits_for.map(|what| waits_for_workers(&what))
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
