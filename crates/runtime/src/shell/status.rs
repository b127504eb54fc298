//! The phase of a job, and its checkpoints in numbers, for observers.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anabranch_model::{Epoch, Incarnation, Nanos, Notice, Result};
use anabranch_protocol::change::Changing;
use anabranch_protocol::coordinator::{Checkpoint, Phase};
use anabranch_protocol::membership::Process;
use anabranch_protocol::worker::Term;
use anabranch_state::TaskState;
use tracing::{debug, info, warn};

use crate::shell::job::Committed;
use crate::task::host::log_notice;
use crate::task::phases::{Measuring, Passage, Phases};

/// A job at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its phase.
    pub phase: Phase,
    /// Whether it was asked to stop.
    pub stopping: bool,
    /// The change of its plan in progress, if there is one.
    pub changing: Option<Changing>,
    /// Whether it has ended, with or without a failure.
    pub ended: bool,
    /// The workers or slots that are missing before its tasks can be placed.
    pub waits_for: Option<String>,
    /// Why it has failed, if it has.
    pub failure: Option<String>,
    /// Whether a user has cancelled it. That is no failure.
    pub cancelled: bool,
    /// The present life of its tasks.
    pub incarnation: Incarnation,
    /// Number of restarts of its tasks by this process.
    pub restarts: u64,
    /// Checkpoints that this process has committed.
    pub checkpoints_completed: u64,
    /// Checkpoints that this process has begun and abandoned.
    pub checkpoints_abandoned: u64,
    /// The newest checkpoint that this process has committed.
    pub last_checkpoint: Option<Completed>,
}

/// A committed checkpoint in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Its incarnation and epoch.
    pub committed: Committed,
    /// When it was committed, by the job's clock.
    pub at: Nanos,
    /// From its request to its commit. Zero if it was not requested here.
    pub took: Duration,
    /// Its phases. `None`: it was not requested here, or no source has measured it.
    pub phases: Option<Phases>,
    /// Size of the files that it refers to, including files of earlier checkpoints.
    pub bytes: u64,
}

/// Shows and logs the life of a job.
#[derive(Debug, Default)]
pub(crate) struct Life {
    shown: Mutex<Shown>,
    /// The job's name, once it is known.
    job: OnceLock<String>,
}

#[derive(Debug, Default)]
struct Shown {
    status: Status,
    checkpoints: Measuring,
    /// An incarnation whose tasks do not all run yet, and when it began.
    begun: Option<(Incarnation, Nanos)>,
}

impl Default for Status {
    /// A job that is about to start.
    fn default() -> Status {
        Status {
            phase: Phase::Starting,
            stopping: false,
            changing: None,
            ended: false,
            waits_for: None,
            failure: None,
            cancelled: false,
            incarnation: Incarnation(0),
            restarts: 0,
            checkpoints_completed: 0,
            checkpoints_abandoned: 0,
            last_checkpoint: None,
        }
    }
}

impl Life {
    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job's name for the log. It does not change.
    pub(crate) fn named(&self, job: &str) {
        self.job.get_or_init(|| job.to_owned());
    }

    fn job(&self) -> &str {
        self.job.get().map_or("", String::as_str)
    }

    pub(crate) fn status(&self) -> Status {
        self.lock().status.clone()
    }

    /// The tasks of an incarnation are about to start from this checkpoint.
    pub(crate) fn begins(&self, incarnation: Incarnation, term: Term, from: Option<Epoch>, now: Nanos) {
        let mut shown = self.lock();
        shown.begun = Some((incarnation, now));
        shown.checkpoints.clear();
        drop(shown);
        let from_epoch = from.map(|epoch| epoch.0);
        info!(job = self.job(), incarnation = incarnation.0, term = term.0, from_epoch, "incarnation begins");
    }

    /// Tasks are running, and this process coordinates them from now on.
    pub(crate) fn adopted(&self, incarnation: Incarnation, term: Term) {
        info!(job = self.job(), incarnation = incarnation.0, term = term.0, "tasks adopted");
    }

    pub(crate) fn entered(&self, phase: Phase, incarnation: Incarnation, stopping: bool, now: Nanos) {
        let mut shown = self.lock();
        let status = &mut shown.status;
        (status.phase, status.incarnation, status.stopping) = (phase, incarnation, stopping);
        let runs = phase == Phase::Running;
        if let Some((_, since)) = shown.begun.take_if(|(begun, _)| runs && *begun == incarnation) {
            drop(shown);
            let took_ms = now.after(since).as_secs_f64() * 1e3;
            info!(job = self.job(), incarnation = incarnation.0, took_ms, "incarnation runs");
        }
    }

    pub(crate) fn ended(&self, outcome: &Result<()>) {
        let status = &mut self.lock().status;
        let failure = outcome.as_ref().err().map(ToString::to_string);
        // The job may have ended by itself just before.
        status.cancelled &= failure.is_some();
        (status.ended, status.failure) = (true, failure.filter(|_| !status.cancelled));
    }

    /// A user cancels the job.
    pub(crate) fn cancelled(&self) {
        self.lock().status.cancelled = true;
    }

    /// Its tasks cannot be placed for this reason, or can be placed again.
    pub(crate) fn waits_for(&self, missing: Option<String>) {
        self.lock().status.waits_for = missing;
    }

    pub(crate) fn changes(&self, changing: Option<Changing>) {
        self.lock().status.changing = changing;
    }

    pub(crate) fn restarted(&self, failure: &str) {
        let mut shown = self.lock();
        shown.status.restarts += 1;
        let (restarts, incarnation) = (shown.status.restarts, shown.status.incarnation.0);
        drop(shown);
        warn!(job = self.job(), restarts, incarnation, failure, "job restarted");
    }

    /// The user was notified.
    pub(crate) fn notified(&self, notice: &Notice) {
        log_notice(self.job(), notice);
    }

    /// The group that ends with this epoch was granted, with a checkpoint.
    pub(crate) fn checkpoint_requested(&self, epoch: Epoch, now: Nanos) {
        self.lock().checkpoints.requested(epoch, now);
    }

    /// Tasks of a process have written their snapshots.
    pub(crate) fn passed(&self, process: Process, passages: &[Passage]) {
        let mut shown = self.lock();
        passages.iter().for_each(|passage| shown.checkpoints.passed(process, passage));
    }

    /// The entry of a checkpoint is about to be written: every task has acknowledged it.
    pub(crate) fn checkpoint_acknowledged(&self, epoch: Epoch, now: Nanos) {
        self.lock().checkpoints.acknowledged(epoch, now);
    }

    pub(crate) fn checkpoint_completed(&self, newest: Option<&Checkpoint<TaskState>>, now: Nanos) {
        let Some(newest) = newest else { return };
        let mut locked = self.lock();
        let shown = &mut *locked;
        // The checkpoint at the end of a job is not requested.
        let (took, phases) = shown.checkpoints.committed(newest.epoch, now).unwrap_or_default();
        let committed = Committed { incarnation: newest.incarnation, epoch: newest.epoch };
        shown.status.checkpoints_completed += 1;
        let (completed, bytes) = (shown.status.checkpoints_completed, bytes(newest));
        shown.status.last_checkpoint = Some(Completed { committed, at: now, took, phases, bytes });
        drop(locked);
        let (incarnation, epoch, tasks) = (newest.incarnation.0, newest.epoch.0, newest.tasks.len());
        let took_ms = took.as_secs_f64() * 1e3;
        debug!(job = self.job(), incarnation, epoch, tasks, completed, took_ms, bytes, "checkpoint completed");
    }

    pub(crate) fn checkpoint_abandoned(&self, epoch: Epoch, now: Nanos) {
        let mut shown = self.lock();
        let took_ms = shown.checkpoints.abandoned(epoch, now).map(|took| took.as_secs_f64() * 1e3);
        shown.status.checkpoints_abandoned += 1;
        let (abandoned, incarnation) = (shown.status.checkpoints_abandoned, shown.status.incarnation.0);
        drop(shown);
        warn!(job = self.job(), incarnation, epoch = epoch.0, abandoned, took_ms, "checkpoint abandoned");
    }
}

/// Bytes of the files that a checkpoint refers to.
fn bytes(checkpoint: &Checkpoint<TaskState>) -> u64 {
    let of_task = |task: &TaskState| {
        let files = task.operators.iter().flat_map(|operator| &operator.files).map(|file| file.blob.bytes);
        files.sum::<u64>() + task.prepared().map(|prepared| prepared.blob.bytes).sum::<u64>()
    };
    checkpoint.tasks.values().map(of_task).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use anabranch_model::PlanVersion;

    use super::*;

    #[test]
    fn a_checkpoint_takes_from_its_request_to_its_commit() {
        let life = Life::default();
        let checkpoint = |epoch| Checkpoint {
            epoch: Epoch(epoch),
            incarnation: Incarnation(2),
            version: PlanVersion(1),
            tasks: BTreeMap::new(),
        };
        life.checkpoint_requested(Epoch(4), Nanos(1_000));
        life.checkpoint_abandoned(Epoch(4), Nanos(2_000));
        life.checkpoint_requested(Epoch(7), Nanos(5_000));
        life.checkpoint_completed(Some(&checkpoint(7)), Nanos(9_000));
        let first = life.status();
        assert_eq!((first.checkpoints_completed, first.checkpoints_abandoned), (1, 1));
        let committed = Committed { incarnation: Incarnation(2), epoch: Epoch(7) };
        let last = Completed { committed, at: Nanos(9_000), took: Duration::from_nanos(4_000), phases: None, bytes: 0 };
        assert_eq!(first.last_checkpoint, Some(last));
        life.checkpoint_completed(Some(&checkpoint(9)), Nanos(20_000));
        assert_eq!(life.status().last_checkpoint.map(|last| (last.committed.epoch, last.took)), {
            Some((Epoch(9), Duration::ZERO))
        });
    }
}
