//! The life of a job over its incarnations: start, run, stop, and after a failure the same again from the
//! last committed checkpoint.
//!
//! The coordinator cancels the tasks of an incarnation before the next one begins and waits for them, but not
//! forever: a task that no longer answers may be cut off and still running. That is harmless, because its
//! reports and its checkpoints carry an incarnation that is over.

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_model::{Nanos, TaskId};

use super::config::{Config, Restart};
use super::message::Cause;
use crate::table::{Taken, Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row("starting", "the incarnation is in the log", "restoring", "start all tasks from the newest checkpoint"),
    row(
        "starting",
        "the log says that this coordinator adopts the incarnation",
        "restoring",
        "ask its workers for all reports",
    ),
    row("restoring", "every task has started", "running", "grant the first group; after an adoption, the next one"),
    row("restoring", "a failure, or the time to start is over", "cancelling", "cancel"),
    row("restoring", "every task is gone, the last checkpoint committed", "ending", "append the end to the log"),
    row("restoring", "every task is gone, and rows were dropped", "finished", "finish"),
    row("running", "stop", "stopping", "grant the last epoch, stop after it"),
    row("running", "a failure", "cancelling", "cancel"),
    row("running", "every task is gone, the last checkpoint committed", "ending", "append the end to the log"),
    row(
        "running",
        "the same, but rows were dropped, or the coordinator before had stopped the job",
        "finished",
        "finish",
    ),
    row(
        "running",
        "a change, and the checkpoint that it waits for is committed",
        "switching",
        "grant one more epoch with a checkpoint; the tasks end after it",
    ),
    row(
        "restoring",
        "every task is gone, for a change that the coordinator before has granted",
        "starting",
        "as after switching",
    ),
    row(
        "running",
        "every task is gone, for a change that the coordinator before has granted",
        "starting",
        "as after switching",
    ),
    row("stopping", "every task is gone, for a change that was granted before", "starting", "as after switching"),
    row("stopping", "a failure", "cancelling", "cancel"),
    row("stopping", "every task is gone, the last checkpoint committed", "finished", "finish"),
    row("stopping", "the same, but all sources had ended before the stop", "ending", "append the end to the log"),
    row("switching", "a failure", "cancelling", "cancel; the change is given up"),
    row(
        "switching",
        "every task is gone, the last checkpoint committed",
        "starting",
        "append the next incarnation to the log, with the plan version of the change",
    ),
    row("switching", "the same, but all sources had ended before the change", "ending", "append the end to the log"),
    row("ending", "the end is in the log", "finished", "finish"),
    row("cancelling", "every task is gone, or the time for it is over", "pausing", "-"),
    row("cancelling", "the same, and no attempt is left or a retry is useless", "failed", "fail"),
    row("pausing", "the pause is over", "starting", "append the next incarnation to the log"),
    row("starting", "the log says that the job has ended", "finished", "finish"),
    row("starting", "the store does not answer for too long", "failed", "fail"),
    row("pausing", "the store does not answer for too long", "failed", "fail"),
    row("ending", "the store does not answer for too long", "failed", "fail"),
    row("starting", "a rival has taken over", "fenced", "fenced"),
    row("restoring", "a rival has taken over", "fenced", "fenced"),
    row("running", "a rival has taken over", "fenced", "fenced"),
    row("stopping", "a rival has taken over", "fenced", "fenced"),
    row("switching", "a rival has taken over", "fenced", "fenced"),
    row("cancelling", "a rival has taken over", "fenced", "fenced"),
    row("pausing", "a rival has taken over", "fenced", "fenced"),
    row("ending", "a rival has taken over", "fenced", "fenced"),
];

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The incarnation is being written to the log.
    Starting,
    /// The tasks are starting and restoring their state.
    Restoring,
    /// Every task runs.
    Running,
    /// The last epoch is granted.
    Stopping,
    /// The last epoch of the present plan version is granted.
    Switching,
    /// Every task is gone, and the entry that the job has ended is being written to the log.
    Ending,
    /// The tasks are ending at once.
    Cancelling,
    /// The job waits before the next attempt.
    Pausing,
    /// Ended without a failure.
    Finished,
    /// Ended by a failure.
    Failed,
    /// Another coordinator owns the job.
    Fenced,
}

impl Phase {
    /// The name in the transition table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Restoring => "restoring",
            Phase::Running => "running",
            Phase::Stopping => "stopping",
            Phase::Switching => "switching",
            Phase::Ending => "ending",
            Phase::Cancelling => "cancelling",
            Phase::Pausing => "pausing",
            Phase::Finished => "finished",
            Phase::Failed => "failed",
            Phase::Fenced => "fenced",
        }
    }

    /// Whether the job is over for this coordinator.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Phase::Finished | Phase::Failed | Phase::Fenced)
    }

    /// Whether the tasks of the incarnation run or are starting.
    pub(super) fn is_active(self) -> bool {
        matches!(self, Phase::Restoring | Phase::Running | Phase::Stopping | Phase::Switching)
    }
}

/// What the passing of time leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Begin,
    StartTimeout,
    Fail(Cause),
}

/// The machine of a job's life.
#[derive(Debug)]
pub(super) struct Life {
    phase: Phase,
    pub(super) taken: Taken,
    deadline: Option<Nanos>,
    /// Tasks that have not started yet.
    unstarted: BTreeSet<TaskId>,
    /// Tasks that are not gone yet.
    alive: BTreeSet<TaskId>,
    running_since: Option<Nanos>,
    /// Restarts since the count of failures was last reset.
    attempts: u32,
    /// A worker of the incarnation is lost.
    is_lost: bool,
    /// Why the job fails once all tasks are gone.
    verdict: Option<Cause>,
    /// What follows is another plan version, so failures of this one decide nothing.
    undoes: bool,
    /// A stop was requested; survives restarts.
    pub(super) stop_wanted: bool,
    restart: Restart,
    start_timeout: Duration,
    cancel_timeout: Duration,
}

impl Life {
    pub(super) fn new(config: &Config) -> Self {
        Life {
            phase: Phase::Starting,
            taken: Taken::new(TABLE),
            deadline: None,
            unstarted: BTreeSet::new(),
            alive: BTreeSet::new(),
            running_since: None,
            attempts: 0,
            is_lost: false,
            verdict: None,
            undoes: false,
            stop_wanted: false,
            restart: config.restart.clone(),
            start_timeout: config.start_timeout,
            cancel_timeout: config.cancel_timeout,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.deadline
    }

    fn enter(&mut self, phase: Phase, deadline: Option<Nanos>) {
        self.taken.insert(self.phase.name(), phase.name());
        self.phase = phase;
        self.deadline = deadline;
    }

    /// The incarnation is in the log: its tasks can start.
    pub(super) fn begun(&mut self, now: Nanos, tasks: &BTreeSet<TaskId>) {
        self.unstarted = tasks.clone();
        self.alive = tasks.clone();
        (self.running_since, self.undoes, self.is_lost) = (None, false, false);
        self.enter(Phase::Restoring, Some(now.plus(self.start_timeout)));
    }

    /// A task is ready. Returns whether all are.
    pub(super) fn started(&mut self, now: Nanos, task: TaskId) -> bool {
        self.unstarted.remove(&task);
        let all = self.phase == Phase::Restoring && self.unstarted.is_empty();
        if all {
            self.running_since = Some(now);
            self.enter(Phase::Running, None);
        }
        all
    }

    /// A task that restores its state has got further.
    pub(super) fn restoring(&mut self, now: Nanos) {
        if self.phase == Phase::Restoring {
            self.deadline = Some(now.plus(self.start_timeout));
        }
    }

    pub(super) fn stopping(&mut self) {
        self.enter(Phase::Stopping, None);
    }

    pub(super) fn switching(&mut self) {
        self.enter(Phase::Switching, None);
    }

    /// The tasks of the plan version before are gone, and the next incarnation is being written to the log.
    pub(super) fn switched(&mut self) {
        self.enter(Phase::Starting, None);
    }

    /// A task does nothing any more.
    pub(super) fn gone(&mut self, task: TaskId) {
        self.alive.remove(&task);
    }

    pub(super) fn all_gone(&self) -> bool {
        self.alive.is_empty()
    }

    /// Something has failed. Returns whether the tasks must be cancelled.
    pub(super) fn failed(&mut self, now: Nanos, cause: Cause, retry: bool) -> bool {
        if !self.phase.is_active() {
            if self.phase == Phase::Cancelling && !retry && !self.undoes {
                self.verdict.get_or_insert(cause);
            }
            return false;
        }
        if self.running_since.is_some_and(|since| now >= since.plus(self.restart.forget_after)) {
            self.attempts = 0;
        }
        self.attempts += 1;
        self.verdict = (!retry || self.attempts > self.restart.attempts_max).then_some(cause);
        self.enter(Phase::Cancelling, Some(now.plus(self.cancel_timeout)));
        true
    }

    /// A worker is lost, and whatever else fails in this incarnation may follow from that.
    pub(super) fn lost(&mut self) {
        self.is_lost = true;
    }

    /// The next incarnation is of the plan version before: whatever has failed, that one may succeed.
    pub(super) fn undo(&mut self) {
        (self.verdict, self.undoes) = (None, true);
    }

    /// Nothing can be written any more. Returns whether the tasks must be cancelled; without tasks the job
    /// has failed.
    pub(super) fn give_up(&mut self, now: Nanos, cause: Cause) -> bool {
        match self.phase {
            Phase::Starting | Phase::Pausing | Phase::Ending => {
                self.enter(Phase::Failed, None);
                false
            }
            _ => self.failed(now, cause, false),
        }
    }

    /// Every task has ended by itself; the entry that says so is still to be written.
    pub(super) fn ending(&mut self) {
        self.enter(Phase::Ending, None);
    }

    /// Ends the job.
    pub(super) fn end(&mut self, phase: Phase) {
        self.enter(phase, None);
    }

    /// What is due now.
    pub(super) fn due(&mut self, now: Nanos) -> Option<Due> {
        let over = self.deadline.is_some_and(|at| at <= now);
        match self.phase {
            Phase::Restoring if over => Some(Due::StartTimeout),
            Phase::Cancelling if over || self.alive.is_empty() => match self.verdict {
                Some(cause) => {
                    self.enter(Phase::Failed, None);
                    Some(Due::Fail(cause))
                }
                None => {
                    self.enter(Phase::Pausing, Some(now.plus(self.pause())));
                    None
                }
            },
            Phase::Pausing if over => {
                self.enter(Phase::Starting, None);
                Some(Due::Begin)
            }
            _ => None,
        }
    }

    /// The pause before the current attempt; it grows with each attempt, up to the longest. A lost worker
    /// does not come back, so there is nothing to wait for.
    fn pause(&self) -> Duration {
        if self.is_lost {
            return self.restart.pause_start.min(self.restart.pause_max);
        }
        let grown = (1..self.attempts).try_fold(self.restart.pause_start, |pause, _| {
            pause.checked_mul(self.restart.pause_factor).filter(|pause| *pause < self.restart.pause_max)
        });
        grown.unwrap_or(self.restart.pause_max).min(self.restart.pause_max)
    }
}
