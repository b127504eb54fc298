//! A running job as its user sees it: one life, though its tasks may be started several times.
//!
//! A job with checkpoints that fails for a reason that may pass is started again from its newest checkpoint, after a pause
//! that doubles with each failure; a job that has run well for a while is given all its attempts again.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Error, ErrorKind, Result, TaskMetrics};
use anabranch_runtime::{JobHandle, Summary};

use crate::Engine;

/// Pause before the first restart, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A job that has run so long without failing is well.
const WELL: Duration = Duration::from_secs(60);

/// A job.
pub struct Job {
    shared: Arc<Shared>,
    life: Life,
}

enum Life {
    /// Without checkpoints: a failure is its end.
    Once(Option<anabranch_runtime::Job>),
    /// With checkpoints.
    Supervised(Option<JoinHandle<Result<Summary>>>),
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stopping: AtomicBool,
    dropped: AtomicBool,
}

struct State {
    current: JobHandle,
    ended: bool,
    restarts: Vec<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    pub(crate) fn new(first: anabranch_runtime::Job, engine: &Engine, plan: &Plan) -> Result<Job> {
        let state = State { current: first.handle(), ended: false, restarts: Vec::new() };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            dropped: AtomicBool::new(false),
        });
        if plan.options.checkpoints.is_none() {
            return Ok(Job { shared, life: Life::Once(Some(first)) });
        }
        let supervisor = Supervisor { shared: Arc::clone(&shared), engine: engine.clone(), plan: plan.clone() };
        let run = move || {
            let outcome = supervisor.run(first);
            supervisor.shared.lock().ended = true;
            supervisor.shared.changed.notify_all();
            outcome
        };
        let thread = std::thread::Builder::new().name("supervisor".into()).spawn(run);
        let thread = thread.map_err(|error| {
            Error::outside(format!("cannot start a thread: {error}")).remedy("raise the limit of threads (ulimit -u)")
        })?;
        Ok(Job { shared, life: Life::Supervised(Some(thread)) })
    }

    /// Asks the job to stop at the end of an epoch: what was read is processed, open windows stay open.
    pub fn stop(&self) {
        self.shared.stopping.store(true, SeqCst);
        self.shared.lock().current.stop();
        self.shared.changed.notify_all();
    }

    /// Waits until the job has ended, at most for `timeout`. Whether it has.
    #[must_use]
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        if let Life::Once(_) = self.life {
            let current = self.shared.lock().current.clone();
            return current.wait_timeout(timeout);
        }
        let waited = self.shared.changed.wait_timeout_while(self.shared.lock(), timeout, |state| !state.ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    /// Waits for the end of the job: all sources exhausted, the stop carried out, or a failure that is not to be repaired.
    pub fn wait(mut self) -> Result<Summary> {
        let outcome = match &mut self.life {
            Life::Once(job) => job.take().map(anabranch_runtime::Job::wait),
            Life::Supervised(thread) => thread.take().and_then(|thread| thread.join().ok()),
        };
        outcome.unwrap_or_else(|| Err(Error::internal("the job's supervisor panicked")))
    }

    /// A reading of every task, in order of stages.
    #[must_use]
    pub fn metrics(&self) -> Vec<TaskMetrics> {
        let current = self.shared.lock().current.clone();
        current.metrics()
    }

    /// Forgets the latencies recorded so far: what a measurement calls after its warm-up.
    pub fn reset_latencies(&self) {
        let current = self.shared.lock().current.clone();
        current.reset_latencies();
    }

    /// Failures after which the job was started again, oldest first.
    #[must_use]
    pub fn restarts(&self) -> Vec<String> {
        self.shared.lock().restarts.clone()
    }
}

/// A job that is dropped without [`Job::wait`] is torn down; no thread outlives it.
impl Drop for Job {
    fn drop(&mut self) {
        if let Life::Supervised(thread) = &mut self.life
            && let Some(thread) = thread.take()
        {
            self.shared.dropped.store(true, SeqCst);
            self.shared.lock().current.cancel();
            self.shared.changed.notify_all();
            let _ = thread.join();
        }
    }
}

struct Supervisor {
    shared: Arc<Shared>,
    engine: Engine,
    plan: Plan,
}

impl Supervisor {
    fn run(&self, first: anabranch_runtime::Job) -> Result<Summary> {
        let attempts = self.plan.options.checkpoints.as_ref().map_or(0, |checkpoints| checkpoints.restart_attempts);
        let clock = self.engine.clock();
        let (mut job, mut failures) = (Ok(first), 0);
        loop {
            let started = clock.now();
            let error = match job.and_then(anabranch_runtime::Job::wait) {
                Ok(summary) => return Ok(summary),
                Err(error) => error,
            };
            if clock.now().since(started) > WELL.as_nanos() as u64 {
                failures = 0;
            }
            // What the user has to mend does not pass by itself.
            if error.kind() == ErrorKind::User || failures >= attempts || !self.pause(failures) {
                return Err(error);
            }
            failures += 1;
            self.shared.lock().restarts.push(error.to_string());
            job = self.engine.start_once(&self.plan);
            if let Ok(job) = &job {
                self.shared.lock().current = job.handle();
                // Asked meanwhile, or before the tasks were there to be told.
                if self.shared.dropped.load(SeqCst) {
                    job.handle().cancel();
                } else if self.shared.stopping.load(SeqCst) {
                    job.handle().stop();
                }
            }
        }
    }

    /// Waits before a restart. False if the job is not wanted any more.
    fn pause(&self, failures: u32) -> bool {
        let pause = PAUSE.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX);
        let unwanted = || self.shared.stopping.load(SeqCst) || self.shared.dropped.load(SeqCst);
        drop(self.shared.changed.wait_timeout_while(self.shared.lock(), pause, |_| !unwanted()));
        !unwanted()
    }
}
