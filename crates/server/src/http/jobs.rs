//! What the API serves: the jobs and the workers that one process knows. The embedded engine has one of each;
//! a coordinator may have many.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use anabranch_dataflow::Plan;
use anabranch_model::{Error, ErrorKind, Nanos, Notice, Result, StageId, TaskMetrics};
use anabranch_protocol::membership::Process;
use anabranch_runtime::{Coordination, Reconfigured, Restart, Status};
use anabranch_state::{Savepoint, Store};
use schemars::JsonSchema;
use serde::Serialize;

use super::autoscale::ScalingRecords;
use super::documents::Worker;
use super::functions::{FunctionJob, FunctionOrder};
use super::histories::ChangeHistories;
use super::orders::JobOrder;
use super::reconfigure::ReconfigureOrder;
use crate::Engine;
use crate::functions::FunctionRefusal;

/// The jobs and the workers that a process knows.
pub trait Jobs: Send + Sync {
    /// All jobs, in the order in which they are listed.
    fn jobs(&self) -> Vec<Arc<dyn ServedJob>>;
    /// All workers.
    fn workers(&self) -> Vec<Worker>;
    /// Whether it takes new jobs: then it is ready, whatever its jobs do.
    fn takes_jobs(&self) -> bool {
        false
    }
    /// The address of the leader, if this coordinator stands by.
    fn elsewhere(&self) -> Option<String> {
        None
    }
    /// Takes a new job, and starts it. May wait.
    fn submit(&self, order: JobOrder) -> Result<(), Refusal>;
    /// Changes a running job. Waits until the change is settled.
    fn reconfigure(&self, job: &str, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal>;
    /// Replaces functions in all running jobs that use them. Waits until the changes are settled.
    fn replace_functions(&self, order: &FunctionOrder) -> Result<Vec<FunctionJob>, FunctionRefusal>;
    /// The changes of its jobs.
    fn histories(&self) -> &ChangeHistories;
    /// The decisions on the numbers of tasks of its jobs; `None` if these do not follow the load.
    fn scaling(&self) -> Option<&ScalingRecords> {
        None
    }
    /// What a job runs: its text and settings.
    fn script(&self, job: &str) -> Result<JobOrder, Refusal>;
    /// What plans statements here.
    fn engine(&self) -> Option<Engine>;
    /// The job of the demonstration, if this process is to start it by request.
    fn demo(&self) -> Option<JobOrder> {
        None
    }
    /// Removes a job that is over from the list, and with it its checkpoints, unless the job has a place of
    /// its own for them. The state of a job that could resume is discarded only if `discards_state`. May
    /// wait.
    fn remove(&self, job: &str, discards_state: bool) -> Result<(), Refusal>;
    /// Excludes the worker from jobs that start, or includes it again. Tasks that it has stay. Returns
    /// whether it was excluded before.
    fn drain(&self, worker: &str, is_drained: bool) -> Result<bool, Refusal>;
}

/// Why a job was not taken or not changed.
#[derive(Debug)]
pub enum Refusal {
    /// Its order or its SQL is wrong, or something outside failed.
    Wrong(Error),
    /// It cannot be taken or changed now, or not here.
    Conflict(Error),
    /// There is no such job or worker.
    Unknown(Error),
    /// The change has begun and failed: the job runs as before.
    Undone(Error),
}

impl Refusal {
    /// The refusal of a change by this error: the job has refused it, or the change has failed.
    pub(crate) fn of_change(error: Error) -> Refusal {
        match error.kind() {
            ErrorKind::User => Refusal::Conflict(error),
            _ => Refusal::Undone(error),
        }
    }

    /// The same with another error.
    pub(crate) fn map(self, change: impl FnOnce(Error) -> Error) -> Refusal {
        match self {
            Refusal::Wrong(error) => Refusal::Wrong(change(error)),
            Refusal::Conflict(error) => Refusal::Conflict(change(error)),
            Refusal::Unknown(error) => Refusal::Unknown(change(error)),
            Refusal::Undone(error) => Refusal::Undone(change(error)),
        }
    }

    /// The reason.
    #[must_use]
    pub fn error(&self) -> &Error {
        match self {
            Refusal::Wrong(error) | Refusal::Conflict(error) | Refusal::Unknown(error) | Refusal::Undone(error) => {
                error
            }
        }
    }
}

/// The error of a name that no job has.
pub(crate) fn no_job(name: &str) -> Error {
    Error::user(format!("there is no job '{name}'"))
}

/// A job as the API serves it. No method but [`ServedJob::savepoint`] waits.
pub trait ServedJob: Send + Sync {
    /// Its name, unique among the jobs of the process.
    fn name(&self) -> &str;
    /// The plan that it runs.
    fn plan(&self) -> Arc<Plan>;
    /// Everything that is measured.
    fn reading(&self) -> Reading;
    /// Name of the worker that has this process, or had it.
    fn worker_name(&self, process: Process) -> String;
    /// The rows of each key group that reached the stages whose tasks divide them by keys, since the tasks
    /// began.
    fn key_groups(&self) -> BTreeMap<StageId, Vec<u64>>;
    /// Notices for its user that are kept, oldest first.
    fn notices(&self) -> Vec<Notice>;
    /// The place of its checkpoints, if it takes any.
    fn store(&self) -> Option<Store>;
    /// Stops it at the end of an epoch.
    fn stop(&self);
    /// Ends it at once, as a crash would.
    fn cancel(&self);
    /// The change that is being prepared is not carried out.
    fn abort_change(&self) -> Result<()>;
    /// Why no savepoint can be taken, if none can.
    fn refuses_savepoint(&self) -> Option<anabranch_model::Error>;
    /// Takes a savepoint to this place, and waits for it. Gives up when `closing` returns true.
    fn savepoint(&self, place: &str, closing: &dyn Fn() -> bool) -> Result<Savepoint>;
}

/// A job at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When, by the job's clock.
    pub at: Nanos,
    /// When, in milliseconds since 1970.
    pub wall_ms: i64,
    /// When the job started in this process, in milliseconds since 1970.
    pub started_ms: i64,
    /// Where it is in its life.
    pub status: Status,
    /// Its coordination in numbers.
    pub coordination: Coordination,
    /// Failures after which its tasks were started again: the newest ones.
    pub failures: Vec<Restart>,
    /// The place of its checkpoints, if it takes any.
    pub checkpoints: Option<String>,
    /// Its tasks, in the order of their stages.
    pub tasks: Vec<Placed>,
}

/// A task and its worker.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Name of the worker that runs it.
    pub worker: String,
    /// The task.
    pub metrics: TaskMetrics,
}

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum JobState {
    /// It waits for slots of workers.
    Waiting,
    /// Its tasks start for the first time.
    Starting,
    /// Its tasks restore their state.
    Restoring,
    /// Its tasks run.
    Running,
    /// Its tasks go over to another version of its plan.
    Changing,
    /// Its tasks start again.
    Restarting,
    /// Its tasks end.
    Stopping,
    /// It was stopped, and can resume.
    Stopped,
    /// It has read all of its input.
    Ended,
    /// It has failed, and can resume.
    Failed,
    /// It was cancelled, and can resume.
    Cancelled,
}

impl JobState {
    /// All of them.
    pub(crate) const ALL: [JobState; 11] = {
        use JobState::*;
        [Waiting, Starting, Restoring, Running, Changing, Restarting, Stopping, Stopped, Ended, Failed, Cancelled]
    };
}

/// As in documents.
impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Reading {
    /// Whether every task runs: state is restored, static tables are read.
    pub(crate) fn is_ready(&self) -> bool {
        let tasks = || self.tasks.iter().map(|task| &task.metrics);
        self.state() == JobState::Running
            && tasks().all(|task| task.is_prepared)
            && tasks().any(|task| task.thread.is_some())
    }

    /// The state for users.
    pub(crate) fn state(&self) -> JobState {
        use anabranch_protocol::coordinator::Phase;
        let Status { phase, stopping, ended, failure, waits_for, cancelled, .. } = &self.status;
        match phase {
            _ if failure.is_some() => JobState::Failed,
            _ if *ended && *cancelled => JobState::Cancelled,
            _ if *ended && *stopping => JobState::Stopped,
            _ if *ended => JobState::Ended,
            _ if *stopping => JobState::Stopping,
            _ if waits_for.is_some() => JobState::Waiting,
            Phase::Restoring => JobState::Restoring,
            Phase::Running => JobState::Running,
            Phase::Starting if self.status.restarts == 0 => JobState::Starting,
            Phase::Switching => JobState::Changing,
            Phase::Starting if self.status.changing.is_some() => JobState::Changing,
            Phase::Starting | Phase::Cancelling | Phase::Pausing => JobState::Restarting,
            Phase::Stopping | Phase::Ending | Phase::Finished | Phase::Failed | Phase::Fenced => JobState::Stopping,
        }
    }

    /// A moment of the job's clock, in milliseconds since 1970.
    pub(super) fn wall_ms_of(&self, at: Nanos) -> i64 {
        self.wall_ms - i64::try_from(self.at.since(at) / 1_000_000).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_protocol::coordinator::Phase;

    use super::*;

    #[test]
    fn the_state_follows_the_phase_and_what_was_requested() {
        let state = |phase, change: fn(&mut Status)| {
            let mut status = Status { phase, ..Status::default() };
            change(&mut status);
            let (coordination, failures, tasks) = (Coordination::default(), Vec::new(), Vec::new());
            let (at, wall_ms, started_ms, checkpoints) = (Nanos(0), 0, 0, None);
            let reading = Reading { at, wall_ms, started_ms, status, coordination, failures, checkpoints, tasks };
            assert!(!reading.is_ready(), "without a task");
            assert!(JobState::ALL.contains(&reading.state()), "metrics have a sample for each state");
            reading.state()
        };
        let none: fn(&mut Status) = |_| {};
        assert_eq!(state(Phase::Starting, none), JobState::Starting);
        assert_eq!(state(Phase::Restoring, none), JobState::Restoring);
        assert_eq!(state(Phase::Running, none), JobState::Running);
        assert_eq!(state(Phase::Starting, |status| status.restarts = 1), JobState::Restarting);
        assert_eq!(state(Phase::Switching, none), JobState::Changing);
        assert_eq!(state(Phase::Pausing, none), JobState::Restarting);
        assert_eq!(state(Phase::Ending, none), JobState::Stopping);
        assert_eq!(state(Phase::Running, |status| status.stopping = true), JobState::Stopping);
        assert_eq!(state(Phase::Finished, |status| status.ended = true), JobState::Ended);
        assert_eq!(state(Phase::Finished, |status| (status.ended, status.stopping) = (true, true)), JobState::Stopped);
        assert_eq!(state(Phase::Restoring, |status| status.waits_for = Some("2 slots".into())), JobState::Waiting);
        // A job that is ended at once stays in its phase.
        let failed: fn(&mut Status) = |status| (status.ended, status.failure) = (true, Some("lost".into()));
        assert_eq!(state(Phase::Running, failed), JobState::Failed);
        let cancelled: fn(&mut Status) = |status| (status.ended, status.cancelled) = (true, true);
        assert_eq!(state(Phase::Running, cancelled), JobState::Cancelled);
        assert_eq!(
            state(Phase::Running, |status| status.cancelled = true),
            JobState::Running,
            "as long as its tasks end"
        );
    }
}
