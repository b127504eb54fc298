//! A job of a coordinator, as observers see it: before its tasks are placed, while they run, and after its
//! end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, Weak};

use anabranch_dataflow::Plan;
use anabranch_model::{Error, Notice, Result, StageId};
use anabranch_protocol::membership::Process;
use anabranch_runtime::{Coordination, JobHandle, Status};
use anabranch_state::{Savepoint, Store};

use super::changes::Decided;
use super::members::Members;
use super::messages::Leader;
use super::record::{Record, Records, State};
use crate::http::{EmbeddedJob, Reading, Running, ServedJob};
use crate::threads::{lock, spawn};

pub(super) struct Submitted {
    name: String,
    /// Its number among all jobs of the workers.
    pub(super) number: u64,
    /// It ran before this coordinator led.
    pub(super) resumes: bool,
    /// Its statements and options as of its last start or change.
    running: Mutex<Arc<Running>>,
    /// Held while it is changed: one change at a time.
    pub(super) changing: Mutex<()>,
    /// Its record was read again since it was planned.
    outdated: AtomicBool,
    /// By which text it resumes, as long as its record has two.
    decided: Mutex<Option<Decided>>,
    members: Members,
    records: Records,
    /// The coordinator that writes its record.
    writer: Leader,
    this: Weak<Submitted>,
    /// Its record as it is stored. Held while the store is written, so that observers never wait for it.
    stored: Mutex<Record>,
    shown: Mutex<(State, Option<String>)>,
    /// The job once it has taken over its checkpoints.
    live: Mutex<Option<EmbeddedJob>>,
    requested: Requested,
    /// Closes with the job's thread.
    end: Mutex<Option<Receiver<()>>>,
}

/// What was requested of the job, also before it could be reached.
#[derive(Default)]
struct Requested {
    stop: AtomicBool,
    cancel: AtomicBool,
    /// Another coordinator has it.
    leave: AtomicBool,
    /// The coordinator ends.
    close: AtomicBool,
}

impl Submitted {
    pub(super) fn new(
        (record, resumes): (Record, bool),
        running: Running,
        members: Members,
        (records, writer): (Records, Leader),
    ) -> Arc<Submitted> {
        let requested = Requested { stop: record.stop_requested.into(), ..Requested::default() };
        Arc::new_cyclic(|this| Submitted {
            name: record.order.name.clone(),
            number: record.number,
            resumes,
            running: Mutex::new(Arc::new(running)),
            changing: Mutex::default(),
            outdated: AtomicBool::new(false),
            decided: Mutex::default(),
            members,
            shown: Mutex::new((record.state, record.failure.clone())),
            stored: Mutex::new(record),
            live: Mutex::default(),
            requested,
            end: Mutex::default(),
            records,
            writer,
            this: this.clone(),
        })
    }

    pub(super) fn state(&self) -> State {
        lock(&self.shown).0
    }

    pub(super) fn set_end(&self, ended: Receiver<()>) {
        *lock(&self.end) = Some(ended);
    }

    /// A channel that closes with the job's thread, once it has one.
    pub(super) fn take_end(&self) -> Option<Receiver<()>> {
        lock(&self.end).take()
    }

    /// The job can be reached from now on.
    pub(super) fn began(&self, handle: JobHandle) {
        let (running, members) = (self.running(), Some(self.members.clone()));
        let job = EmbeddedJob { running, handle, members };
        *lock(&self.live) = Some(job.clone());
        if self.was_left() {
            job.handle.leave();
        } else if self.was_cancelled() {
            job.cancel();
        } else if self.requested.stop.load(SeqCst) || self.requested.close.load(SeqCst) {
            job.stop();
        }
    }

    /// Whether a user has asked this coordinator, or a former one, to stop it.
    pub(super) fn stop_was_requested(&self) -> bool {
        self.requested.stop.load(SeqCst)
    }

    /// Whether it is stopping, or has stopped, without a user's request: a former coordinator stopped it when
    /// that coordinator ended.
    pub(super) fn stops_for_coordinator(&self) -> bool {
        !self.stop_was_requested() && self.live().is_some_and(|live| live.handle.status().stopping)
    }

    /// Whether a user had asked for its stop before this coordinator had it.
    pub(super) fn was_to_stop(&self) -> bool {
        self.resumes && lock(&self.stored).stop_requested
    }

    /// It is about to start again.
    pub(super) fn starts_again(&self) {
        *lock(&self.live) = None;
    }

    /// Writes that a user wants it to stop, so that the next coordinator stops it if this one ends, and then
    /// stops it.
    fn carry_out_stop(&self) {
        // A store that does not answer keeps no job from stopping; another coordinator that has the job does.
        if self.write(|record| record.stop_requested = true).unwrap_or(true) {
            self.live().into_iter().for_each(|live| live.stop());
        }
    }

    /// Whether another coordinator has it.
    pub(super) fn was_left(&self) -> bool {
        self.requested.leave.load(SeqCst)
    }

    /// Whether a user has asked for its end.
    pub(super) fn end_was_requested(&self) -> bool {
        self.stop_was_requested() || self.was_cancelled()
    }

    /// Whether a user has asked for its end at once.
    pub(super) fn was_cancelled(&self) -> bool {
        self.requested.cancel.load(SeqCst)
    }

    /// Leaves the job to another coordinator. Its tasks keep running.
    pub(super) fn leave(&self) {
        self.requested.leave.store(true, SeqCst);
        self.live().into_iter().for_each(|live| live.handle.leave());
    }

    /// Stops it for the end of the coordinator: the next one resumes it.
    pub(super) fn close(&self) {
        // It may be about to begin.
        self.requested.close.store(true, SeqCst);
        self.live().into_iter().for_each(|live| live.stop());
    }

    /// Its record as it was stored last.
    pub(super) fn record(&self) -> Record {
        lock(&self.stored).clone()
    }

    /// Changes its record in the store. False if another coordinator has written it since.
    pub(super) fn write(&self, change: impl FnOnce(&mut Record)) -> Result<bool> {
        let mut stored = lock(&self.stored);
        let mut record = stored.clone();
        change(&mut record);
        let written = self.records.write(&mut record, self.writer)?;
        if written {
            *stored = record;
        }
        Ok(written)
    }

    /// Another coordinator has written its record.
    pub(super) fn read(&self, record: Record) {
        *lock(&self.stored) = record;
        self.outdated.store(true, SeqCst);
    }

    /// Whether its record was read again since it was planned.
    pub(super) fn is_outdated(&self) -> bool {
        self.outdated.load(SeqCst)
    }

    /// What it is planned from.
    pub(super) fn running(&self) -> Arc<Running> {
        Arc::clone(&lock(&self.running))
    }

    /// It starts from this plan from now on.
    pub(super) fn set_running(&self, running: Running) {
        let mut present = lock(&self.running);
        *present = Arc::new(Running { started_ms: present.started_ms, ..running });
        self.outdated.store(false, SeqCst);
    }

    /// By which text it resumes, as long as its record has two.
    pub(super) fn decided(&self) -> Option<Decided> {
        lock(&self.decided).clone()
    }

    pub(super) fn set_decided(&self, decided: Option<Decided>) {
        *lock(&self.decided) = decided;
    }

    /// The job is over.
    pub(super) fn ended(&self, state: State, failure: Option<String>) {
        *lock(&self.shown) = (state, failure);
    }

    /// Its tasks could not be placed.
    pub(super) fn waits_for_workers(&self) -> bool {
        self.live().is_some_and(|live| live.handle.status().waits_for.is_some())
    }

    /// The job, if it has taken over its checkpoints.
    pub(super) fn live(&self) -> Option<EmbeddedJob> {
        lock(&self.live).clone()
    }

    /// The reading of a job that was not reached yet.
    fn blank(&self) -> Reading {
        let running = self.running();
        let Running { clock, store, started_ms, .. } = running.as_ref();
        Reading {
            at: clock.now(),
            wall_ms: clock.wall_ms(),
            started_ms: *started_ms,
            status: Status { stopping: self.stop_was_requested(), ..Status::default() },
            coordination: Coordination::default(),
            failures: Vec::new(),
            checkpoints: store.as_ref().map(|store| store.place().to_owned()),
            tasks: Vec::new(),
        }
    }
}

impl ServedJob for Submitted {
    fn name(&self) -> &str {
        &self.name
    }

    fn plan(&self) -> Arc<Plan> {
        self.live().map_or_else(|| Arc::clone(&self.running().plan), |live| live.plan())
    }

    fn reading(&self) -> Reading {
        let mut reading = self.live().map_or_else(|| self.blank(), |live| live.reading());
        let status = &mut reading.status;
        status.stopping |= self.stop_was_requested();
        match &*lock(&self.shown) {
            // The record is written a moment after the job's end: until then its name is taken.
            (State::Running, _) if status.ended => {
                (status.ended, status.stopping) = (false, true);
                (status.waits_for, status.failure, status.cancelled) = (None, None, false);
            }
            (State::Running, _) => {}
            (state, failure) => {
                (status.ended, status.stopping) = (true, *state == State::Stopped);
                status.cancelled = *state == State::Cancelled;
                (status.waits_for, status.failure) = (None, failure.clone());
            }
        }
        reading
    }

    fn worker_name(&self, process: Process) -> String {
        self.live().map_or_else(|| process.worker.to_string(), |live| live.worker_name(process))
    }

    fn key_groups(&self) -> BTreeMap<StageId, Vec<u64>> {
        self.live().map(|live| live.key_groups()).unwrap_or_default()
    }

    fn notices(&self) -> Vec<Notice> {
        self.live().map(|live| live.notices()).unwrap_or_default()
    }

    fn store(&self) -> Option<Store> {
        self.running().store.clone()
    }

    fn stop(&self) {
        if self.requested.stop.swap(true, SeqCst) || self.state() != State::Running {
            return;
        }
        let carry_out = self.this.upgrade().map(|this| move || this.carry_out_stop());
        let thread = carry_out.map(|run| spawn("stop", run));
        if !matches!(thread, Some(Ok(_))) {
            self.live().into_iter().for_each(|live| live.stop());
        }
    }

    fn cancel(&self) {
        self.requested.cancel.store(true, SeqCst);
        self.live().into_iter().for_each(|live| live.cancel());
    }

    fn abort_change(&self) -> Result<()> {
        let live = self.live().ok_or_else(|| Error::user("the job does not run yet").remedy("wait until it does"))?;
        live.handle.abort_change()
    }

    fn refuses_savepoint(&self) -> Option<Error> {
        match self.live() {
            Some(live) => live.refuses_savepoint(),
            None => Some(
                Error::user("the job does not run yet: it has not taken over its checkpoints")
                    .remedy("wait until it does"),
            ),
        }
    }

    fn savepoint(&self, place: &str, closing: &dyn Fn() -> bool) -> Result<Savepoint> {
        let live = self.live().ok_or_else(|| Error::outside("the job does not run yet"))?;
        live.savepoint(place, closing)
    }
}
