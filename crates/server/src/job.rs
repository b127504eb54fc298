//! A running job as its user sees it, across restarts of its tasks.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_model::{Notices, Result, TaskMetrics};
use anabranch_plan::fitted_to;
use anabranch_runtime::{Committed, Coordination, JobHandle, Reconfigure, Reconfigured, Status, Summary};

use crate::cluster::LocalWorkers;
use crate::http::{
    ChangeHistories, Embedded, EmbeddedJob, History, Jobs, Listener, Running, Script, ServedJob as _, Server,
};
use crate::threads::lock;
use crate::why::{Look, Why, why};

/// A job.
pub struct Job {
    job: anabranch_runtime::Job,
    handle: JobHandle,
    running: Arc<Running>,
    /// They end after the job.
    workers: Option<LocalWorkers>,
    /// What was read for [`Job::why`] before.
    history: Mutex<History>,
}

impl Job {
    pub(crate) fn new(job: anabranch_runtime::Job, running: Running, workers: Option<LocalWorkers>) -> Job {
        Job { handle: job.handle(), job, running: Arc::new(running), workers, history: Mutex::default() }
    }

    /// Serves the job over HTTP until the server is dropped.
    pub fn serve(&self, listener: Listener) -> Result<Server> {
        self.serve_as(listener, None)
    }

    /// Serves the job over HTTP until the server is dropped. Clients can change what it was planned from.
    pub fn serve_script(&self, listener: Listener, script: Script) -> Result<Server> {
        self.serve_as(listener, Some(script))
    }

    fn serve_as(&self, listener: Listener, script: Option<Script>) -> Result<Server> {
        let embedded = self.embedded(listener.address(), script);
        listener.serve(Arc::new(embedded))
    }

    /// The job for an export of its metrics.
    #[must_use]
    pub fn served(&self) -> Arc<dyn Jobs> {
        Arc::new(self.embedded(SocketAddr::from(([127, 0, 0, 1], 0)), None))
    }

    /// Why the job gives no results, or where it waits. Shares of time are those since it was asked before.
    #[must_use]
    pub fn why(&self) -> Why {
        let served = self.embedded_job();
        let (reading, notices, plan) = (served.reading(), served.notices(), served.plan());
        let mut history = lock(&self.history);
        let rates = history.rates(&reading);
        history.push(&reading);
        why(&Look { plan: &plan, reading: &reading, rates: &rates, notices: &notices })
    }

    fn embedded_job(&self) -> EmbeddedJob {
        let members = self.workers.as_ref().and_then(LocalWorkers::members);
        EmbeddedJob { running: Arc::clone(&self.running), handle: self.handle.clone(), members }
    }

    fn embedded(&self, address: SocketAddr, script: Option<Script>) -> Embedded {
        let job = Arc::new(self.embedded_job());
        let engine = script.as_ref().map(|script| script.engine.clone());
        Embedded { job, address, script: script.map(Mutex::new), engine, histories: ChangeHistories::default() }
    }

    /// Whether the job had ended before it was started this time, according to its checkpoints: then it does
    /// nothing.
    #[must_use]
    pub fn had_ended(&self) -> bool {
        self.job.had_ended()
    }

    /// Stops the job at the end of an epoch: rows that were read are processed, and open windows stay open.
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// Ends the job at once, as a crash would.
    pub fn cancel(&self) {
        self.handle.cancel_by_request();
    }

    /// Takes a checkpoint now, whatever the interval, and waits until it is committed.
    pub fn checkpoint_now(&self) -> Result<Committed> {
        self.handle.checkpoint_now()
    }

    /// Changes the job's plan, or the workers of its tasks, at the end of an epoch. Waits until a checkpoint
    /// by the new version is committed. If anything fails before, the job continues unchanged, and the error
    /// says why.
    pub fn reconfigure(&self, request: Reconfigure) -> Result<Reconfigured> {
        self.handle.reconfigure(request, fitted_to)
    }

    /// Waits until the job has ended, at most for `timeout`. Returns whether it has.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.handle.wait_timeout(timeout)
    }

    /// Waits for the end of the job: all sources exhausted, the stop carried out, or a failure without
    /// restart.
    pub fn wait(self) -> Result<Summary> {
        let outcome = self.job.wait();
        drop(self.workers);
        outcome
    }

    /// A reading of every task, in order of stages.
    #[must_use]
    pub fn metrics(&self) -> Vec<TaskMetrics> {
        self.handle.metrics()
    }

    /// Where the job is in its life, and its checkpoints in numbers.
    #[must_use]
    pub fn status(&self) -> Status {
        self.handle.status()
    }

    /// The coordination so far: groups granted, their current size, their cost.
    #[must_use]
    pub fn coordination(&self) -> Coordination {
        self.handle.coordination()
    }

    /// Removes the latencies recorded so far: for measurements, after the warm-up.
    pub fn reset_latencies(&self) {
        self.handle.reset_latencies();
    }

    /// The job's notices for its user: failures that it survived, and what it waits for.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        self.handle.notices()
    }

    /// Failures after which the job restarted, oldest first.
    #[must_use]
    pub fn restarts(&self) -> Vec<String> {
        self.handle.restarts().into_iter().map(|restart| restart.failure).collect()
    }
}
