//! A job as its users see it: they start it, watch it, stop it and wait for its end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Clock, Epoch, Error, Incarnation, Nanos, Notices, Result, StageId, TaskMetrics};
use anabranch_operators::Connectors;
use anabranch_protocol::Coordinator;
use anabranch_protocol::coordinator::{Checkpoint, Config, Owner, Tasks};
use anabranch_protocol::membership::Process;
use anabranch_protocol::worker;
use anabranch_state::{Store, TaskState};

use crate::change::reconfiguration::{Fit, Reconfigure, Reconfigured};
use crate::durable::journal::in_memory;
use crate::durable::origin::Origin;
use crate::durable::scribe::{self, Scribe};
use crate::durable::settings::{config, progress_interval, tasks};
use crate::durable::takeover::{Begun, Check, Checkpointing, Running, TakenOver, begin, begin_with};
use crate::network::wiring::Network;
use crate::shell::adoption::{Hosted, running};
use crate::shell::coordinator::{Durable, Message, Requested, Shell};
use crate::shell::deployment::{Checkpoints, Deployment};
use crate::shell::mailbox::Mailbox;
use crate::shell::messages::FromWorker;
use crate::shell::occupancy::Occupancy;
use crate::shell::remote::{RemoteWorker, Remotes, stages_here};
use crate::shell::running::Drive;
use crate::shell::shared::{Restart, Shared};
use crate::shell::status::Status;
use crate::shell::worker::{WorkerMail, WorkerShell};
use crate::task::threads::{no_thread, panicked};

/// A job that this process coordinates. The value owns the job's threads in this process.
pub struct Job {
    handle: JobHandle,
    had_ended: bool,
}

/// A handle of a job, for any number of observers.
#[derive(Clone)]
pub struct JobHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) mailbox: Arc<Mailbox>,
    keeps_checkpoints: bool,
}

/// How a job uses workers in other processes.
pub struct Workers {
    /// Number of the job, unique among all jobs of these workers.
    pub job: u64,
    /// Where the worker in this process listens to the others.
    pub endpoint: Arc<dyn Network>,
    /// Number of workers that must have joined before tasks are placed.
    pub awaited: usize,
    /// The slots of all jobs of these workers.
    pub occupancy: Arc<Occupancy>,
    /// The tasks of the job that workers have already. If these are all tasks, this process adopts them.
    pub hosted: Box<dyn Fn() -> Vec<(Process, Hosted)>>,
    /// How long to wait for workers that have tasks of the job.
    pub patience: Duration,
    /// How the checkpoint to resume from is checked.
    pub check: Check,
    /// Called before the job is taken over: another coordinator may have it by now.
    pub is_wanted: Box<dyn Fn() -> bool>,
    /// Receives the job before its tasks are placed: from then on it must be told of workers and their
    /// messages.
    pub register: Box<dyn FnOnce(JobHandle)>,
}

/// What a finished job did.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Last reading of every task.
    pub tasks: Vec<TaskMetrics>,
    /// From the start to the end of the last task.
    pub elapsed: Duration,
    /// The result of its coordination.
    pub coordination: Coordination,
    /// The job had ended before it was started this time, so it did nothing.
    pub had_ended: bool,
}

/// The coordination of a job in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coordination {
    /// Groups of epochs that were granted.
    pub groups: u64,
    /// Epochs of the next group.
    pub group_epochs: u64,
    /// Share of the groups' time that coordination took, 0 to 1, averaged exponentially; `None` before the
    /// second group.
    pub overhead: Option<f64>,
}

/// A checkpoint that is in the job's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The incarnation that committed it.
    pub incarnation: Incarnation,
    /// The epoch at whose end it was taken.
    pub epoch: Epoch,
}

impl Job {
    /// Starts a plan: one thread per task, and one that coordinates them. With `checkpointing` the job
    /// resumes from the newest checkpoint, takes checkpoints, and restarts its tasks from them after failures
    /// that may be temporary. Without, it starts from the beginning, leaves nothing, and ends with its first
    /// failure. A job without a checkpoint starts from `origin`, if given.
    pub fn start(
        plan: &Plan,
        connectors: &Connectors,
        clock: Arc<dyn Clock>,
        checkpointing: Option<&Checkpointing>,
        origin: Option<&Origin>,
    ) -> Result<Job> {
        Job::start_at(plan, connectors, clock, checkpointing, origin, None)
    }

    /// Starts a plan like [`Job::start`], with its tasks at workers in other processes. Waits for these
    /// workers.
    #[expect(clippy::needless_pass_by_value, reason = "callers have no further use for their handle of the clock")]
    pub fn start_at(
        plan: &Plan,
        connectors: &Connectors,
        clock: Arc<dyn Clock>,
        checkpointing: Option<&Checkpointing>,
        origin: Option<&Origin>,
        workers: Option<Workers>,
    ) -> Result<Job> {
        let places = (checkpointing, origin);
        let (handle, prepared) = prepare(plan, connectors, &clock, places, workers, Drive::Threads)?;
        let Some(Prepared { mut shell, scribe }) = prepared else {
            handle.shared.end(Ok(()));
            return Ok(Job { handle, had_ended: true });
        };
        if let Some((scribe, to_do)) = scribe {
            let (answers, (ends, ended)) = (Arc::clone(&handle.mailbox), channel());
            let run = move || {
                let _ends: Sender<()> = ends;
                let ran = catch_unwind(AssertUnwindSafe(|| scribe.run(&to_do, |message| answers.send(message.into()))));
                // Without the scribe there would be no further checkpoint, and nobody would report that.
                ran.unwrap_or_else(|panic| answers.send(Message::Cancel(panicked(panic.as_ref()))));
            };
            let thread = std::thread::Builder::new().name("checkpoints".into()).spawn(run);
            shell.wait_for(thread.map_err(|error| no_thread(&error))?, ended);
        }
        shell.wait_open();
        if !shell.was_open {
            shell.end()?;
            return Err(Error::internal("a job has ended before its tables were open"));
        }
        handle.mailbox.set_shell(shell);
        let job = Job { handle, had_ended: false };
        if checkpointing.is_some() {
            // The coordinator must watch the log, even if no task reports anything.
            job.handle.mailbox.start();
        }
        Ok(job)
    }

    /// Whether the job had ended before it was started this time, and did nothing.
    #[must_use]
    pub fn had_ended(&self) -> bool {
        self.had_ended
    }

    /// The job for observers.
    #[must_use]
    pub fn handle(&self) -> JobHandle {
        self.handle.clone()
    }

    /// Waits for the end of the job: all sources exhausted, the stop carried out, or a failure without
    /// restart.
    pub fn wait(self) -> Result<Summary> {
        let JobHandle { shared, mailbox, .. } = &self.handle;
        let (elapsed, outcome) = shared.wait();
        mailbox.join();
        outcome.unwrap_or(Ok(()))?;
        let (tasks, coordination) = (self.handle.metrics(), self.handle.coordination());
        Ok(Summary { tasks, elapsed, coordination, had_ended: self.had_ended })
    }
}

/// A job whose tables are being opened.
pub(crate) struct Prepared {
    pub(crate) shell: Shell,
    /// For a job with checkpoints.
    pub(crate) scribe: Option<(Scribe, Receiver<scribe::Task>)>,
}

/// Takes a job over, if it has checkpoints, and starts its tasks. `None`: it had ended before.
pub(crate) fn prepare(
    plan: &Plan,
    connectors: &Connectors,
    clock: &Arc<dyn Clock>,
    (checkpointing, origin): (Option<&Checkpointing>, Option<&Origin>),
    workers: Option<Workers>,
    drive: Drive,
) -> Result<(JobHandle, Option<Prepared>)> {
    plan.check()?;
    let (sender, received) = channel();
    let shared = Shared::new(Arc::clone(clock));
    shared.set_plan(Arc::new(plan.clone()));
    shared.life.named(&plan.options.job_name);
    let mailbox = Mailbox::new(sender, Arc::clone(&shared));
    let handle = JobHandle { shared, mailbox, keeps_checkpoints: checkpointing.is_some() };
    let (config, all) = (config(plan, checkpointing), tasks(plan));
    let (running, found) = match &workers {
        Some(Workers { hosted, patience, .. }) => running(&all, hosted, *patience, clock.as_ref()),
        None => (None, BTreeMap::new()),
    };
    let places = (checkpointing, origin);
    let check = workers.as_ref().map_or(Check::Content, |workers| workers.check);
    if workers.as_ref().is_some_and(|workers| !(workers.is_wanted)()) {
        return Err(Error::cancelled());
    }
    let Some(taken) = take_over(plan, (config, &all), clock, places, (running, check), &handle.shared)? else {
        return Ok((handle, None));
    };
    let Taken { coordinator, incarnation, from, adopts, deployment, log } = taken;
    handle.shared.set_plan(Arc::clone(&deployment.plan));
    let epoch_interval = plan.options.epoch_interval;
    let (durable, scribe) = match log {
        Some((store, scribe)) => {
            let (sender, to_do) = channel();
            (Some(Durable { store, scribe: sender, epoch_interval }), Some((scribe, to_do)))
        }
        None => (None, None),
    };
    let mail: Arc<dyn WorkerMail> = Arc::<Mailbox>::clone(&handle.mailbox);
    // A coordinator in the same process is never silent.
    let config = worker::Config { lease: Duration::MAX, ..worker::Config::default() };
    let seen = (Arc::clone(&handle.shared), mail);
    let (mut remotes, mut network) = (None, None);
    if let Some(Workers { job, endpoint, awaited, occupancy, register, .. }) = workers {
        let here = stages_here(&deployment.plan, connectors)?;
        remotes = Some(Remotes::new(Arc::clone(&deployment.plan), endpoint.peer(), here, awaited, (job, occupancy)));
        network = Some((endpoint, job));
        register(handle.clone());
    }
    let worker = WorkerShell::new(config, deployment, connectors.clone(), seen, network, drive);
    let here = (worker, remotes);
    let all = Tasks { version: coordinator.version(), ..all };
    let mut shell = Shell::new(coordinator, all, here, received, Arc::clone(&handle.shared), durable);
    match adopts {
        true => shell.adopt(incarnation, from.as_ref(), found),
        false => shell.begin(incarnation, from),
    }
    Ok((handle, Some(Prepared { shell, scribe })))
}

/// A job that belongs to this process.
struct Taken {
    coordinator: Coordinator<TaskState>,
    incarnation: Incarnation,
    from: Option<Checkpoint<TaskState>>,
    /// Its tasks are running.
    adopts: bool,
    deployment: Deployment,
    log: Option<(Store, Scribe)>,
}

/// Takes a job over, or begins one that no other process knows. `None`: it had ended before.
fn take_over(
    plan: &Plan,
    (config, all): (Config, &Tasks),
    clock: &Arc<dyn Clock>,
    (checkpointing, origin): (Option<&Checkpointing>, Option<&Origin>),
    found: (Option<Running>, Check),
    shared: &Shared,
) -> Result<Option<Taken>> {
    let (placement, peers) = (BTreeMap::new(), BTreeMap::new());
    let Some(checkpointing) = checkpointing else {
        let mut coordinator = Coordinator::new(clock.now(), config, Owner(0), [], all.clone(), None);
        let begun = begin(&mut coordinator, clock.as_ref(), |command| Ok(in_memory(&command)))?;
        let Begun::Start(incarnation, from) = begun else {
            return Err(Error::internal("a job without a log does not begin"));
        };
        let (plan, origin) = (Arc::new(begin_with(origin, plan)?), origin.cloned());
        let deployment = Deployment { plan, origin, checkpoints: None, retries_opening: false, placement, peers };
        return Ok(Some(Taken { coordinator, incarnation, from, adopts: false, deployment, log: None }));
    };
    let Some(taken) = checkpointing.take_over(plan, &config, all, clock, origin, found)? else { return Ok(None) };
    let TakenOver { plan, coordinator, incarnation, from, adopts, commits, scribe, job, former, notices } = taken;
    notices.into_iter().for_each(|notice| shared.notify(notice));
    let progress_interval = progress_interval(checkpointing.timeout);
    let store = checkpointing.store.clone();
    let checkpoints = Some(Checkpoints { store: store.clone(), job, former, progress_interval });
    let (plan, origin) = (Arc::new(plan), origin.cloned());
    // A process that has lost the job may interfere with this one's commit while both open their sinks.
    let deployment = Deployment { plan, origin, checkpoints, retries_opening: commits, placement, peers };
    Ok(Some(Taken { coordinator, incarnation, from, adopts, deployment, log: Some((store, scribe)) }))
}

impl JobHandle {
    /// Stops the job at the end of an epoch: rows that were read are processed, and open windows stay open.
    pub fn stop(&self) {
        self.mailbox.send(Message::Stop);
    }

    /// Ends the job at once, as a crash would.
    pub fn cancel(&self) {
        self.abort(Error::user("the job was dropped"));
    }

    /// Ends the job at once for a user: it counts as cancelled, not as failed.
    pub fn cancel_by_request(&self) {
        self.shared.life.cancelled();
        self.abort(Error::user("the job was cancelled by a request"));
    }

    /// Ends the job at once, as a crash would. It fails with the error `why`.
    pub fn abort(&self, why: Error) {
        self.mailbox.send(Message::Cancel(why));
    }

    /// Leaves the job to another coordinator: its tasks at workers continue.
    pub fn leave(&self) {
        self.mailbox.send(Message::Leave);
    }

    /// Takes a checkpoint now, whatever the interval and the present group of epochs. Waits until it is
    /// committed.
    pub fn checkpoint_now(&self) -> Result<Committed> {
        if !self.keeps_checkpoints {
            return Err(Error::user("the job keeps no checkpoints")
                .remedy("set a directory for them: SET 'checkpoint-directory' = '...'"));
        }
        let (answer, committed) = channel();
        self.mailbox.send(Message::Checkpoint(answer));
        committed.recv().map_err(|_| Error::outside("the job ended before the checkpoint was complete"))
    }

    /// Changes the job to another plan, or other workers for its tasks, from the end of an epoch on. Waits
    /// until a checkpoint of the new version is committed. If anything fails before, the job continues
    /// unchanged, and the error has the reason.
    ///
    /// `fit` chooses the form of the plan for the job's plan at that time.
    pub fn reconfigure(&self, request: Reconfigure, fit: Fit) -> Result<Reconfigured> {
        self.begin_to_reconfigure(request, fit)
            .recv()
            .unwrap_or_else(|_| Err(Error::outside("the job ended before it was changed")))
    }

    /// Like [`JobHandle::reconfigure`], without waiting: the channel will receive the answer, or close
    /// without one if the job ends before.
    #[must_use]
    pub fn begin_to_reconfigure(&self, request: Reconfigure, fit: Fit) -> Receiver<Result<Reconfigured>> {
        let (answer, answered) = channel();
        self.mailbox.send(Message::Reconfigure(Box::new(Requested { request, fit, answer })));
        answered
    }

    /// Aborts the change that is being prepared. An error if there is none, or if its tasks are already
    /// switching.
    pub fn abort_change(&self) -> Result<()> {
        let (answer, answered) = channel();
        self.mailbox.send(Message::AbortChange(answer));
        answered.recv().unwrap_or_else(|_| Err(Error::user("the job has ended")))
    }

    /// The plan that the job runs.
    #[must_use]
    pub fn plan(&self) -> Arc<Plan> {
        self.shared.plan()
    }

    /// Workers in other processes have joined: tasks can be placed at all of them.
    pub fn joined(&self, workers: Vec<RemoteWorker>) {
        self.mailbox.send(Message::Joined(workers));
    }

    /// A worker is silent, has left, or its connection is broken.
    pub fn lost(&self, process: Process, why: Error) {
        self.mailbox.send(Message::Lost(process, why));
    }

    /// Records when a worker sent its newest heartbeat, by its clock. The caller answers it, for all jobs of
    /// the process.
    pub fn heard(&self, process: Process, sent: Nanos) {
        self.shared.hearts.beat(process, sent);
    }

    /// A worker's message has arrived.
    pub fn from_worker(&self, process: Process, message: FromWorker) {
        self.mailbox.send(Message::Worker(process, message));
    }

    /// Waits until the job has ended, at most for `timeout`. Returns whether it has.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.shared.wait_timeout(timeout)
    }

    /// A reading of every task, in order of stages.
    #[must_use]
    pub fn metrics(&self) -> Vec<TaskMetrics> {
        self.shared.metrics()
    }

    /// Like [`JobHandle::metrics`], with the process of each task. Tasks in the process that started the job
    /// are at [`HERE`].
    #[must_use]
    pub fn placed(&self) -> Vec<(Process, TaskMetrics)> {
        self.shared.placed()
    }

    /// Number of rows of each key group that were sent to each stage with a hash exchange, since its tasks
    /// began. Rows of large batches are estimated from a sample. Workers report the numbers with their
    /// metrics.
    #[must_use]
    pub fn key_groups(&self) -> BTreeMap<StageId, Vec<u64>> {
        self.shared.key_groups(self.status().incarnation)
    }

    /// The phase of the job, and its checkpoints in numbers.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.life.status()
    }

    /// The coordination so far, in numbers.
    #[must_use]
    pub fn coordination(&self) -> Coordination {
        self.shared.coordination()
    }

    /// Restarts of the tasks after failures, oldest first; only the newest 100.
    #[must_use]
    pub fn restarts(&self) -> Vec<Restart> {
        self.shared.restarts()
    }

    /// The job's notices for its user.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        &self.shared.notices
    }

    /// Removes the latencies recorded so far: for measurements, after the warm-up.
    pub fn reset_latencies(&self) {
        let tasks = self.shared.tasks();
        for task in tasks.iter() {
            task.counters.latency.reset();
            task.counters.result_latency.reset();
        }
    }
}

/// A job that is dropped without [`Job::wait`] is torn down; no thread outlives it.
impl Drop for Job {
    fn drop(&mut self) {
        if !self.handle.wait_timeout(Duration::ZERO) {
            self.handle.cancel();
            self.handle.shared.wait();
        }
        self.handle.mailbox.join();
    }
}
