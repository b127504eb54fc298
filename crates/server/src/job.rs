//! A running job as its user sees it: one life, though its tasks may be started several times.

use std::time::Duration;

use anabranch_model::{Notices, Result, TaskMetrics};
use anabranch_runtime::{Committed, Coordination, JobHandle, Summary};

/// A job.
pub struct Job {
    job: anabranch_runtime::Job,
    handle: JobHandle,
}

impl Job {
    pub(crate) fn new(job: anabranch_runtime::Job) -> Job {
        Job { handle: job.handle(), job }
    }

    /// Whether the job had ended before it was started this time, as its checkpoints say: then nothing is done.
    #[must_use]
    pub fn had_ended(&self) -> bool {
        self.job.had_ended()
    }

    /// Asks the job to stop at the end of an epoch: what was read is processed, open windows stay open.
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// Takes a checkpoint now, whatever the interval, and waits until it is committed.
    pub fn checkpoint_now(&self) -> Result<Committed> {
        self.handle.checkpoint_now()
    }

    /// Waits until the job has ended, at most for `timeout`. Whether it has.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        self.handle.wait_timeout(timeout)
    }

    /// Waits for the end of the job: all sources exhausted, the stop carried out, or a failure that is not to be repaired.
    pub fn wait(self) -> Result<Summary> {
        self.job.wait()
    }

    /// A reading of every task, in order of stages.
    #[must_use]
    pub fn metrics(&self) -> Vec<TaskMetrics> {
        self.handle.metrics()
    }

    /// The coordination so far: groups granted, their size now, what it costs.
    #[must_use]
    pub fn coordination(&self) -> Coordination {
        self.handle.coordination()
    }

    /// Forgets the latencies recorded so far: what a measurement calls after its warm-up.
    pub fn reset_latencies(&self) {
        self.handle.reset_latencies();
    }

    /// What the job has to say to its user while it runs: failures that it survived, what it waits for.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        self.handle.notices()
    }

    /// Failures after which the job was started again, oldest first.
    #[must_use]
    pub fn restarts(&self) -> Vec<String> {
        self.handle.restarts()
    }
}
