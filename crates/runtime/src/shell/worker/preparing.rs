//! Loads state of the next plan version at a worker while the tasks of the present one run.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use anabranch_dataflow::Plan;
use anabranch_model::{Error, Nanos, PlanVersion, Result, TaskId};
use anabranch_protocol::coordinator::Checkpoint;
use anabranch_protocol::message::Upward;
use anabranch_state::TaskState;

use super::{FromThread, WorkerShell};
use crate::change::preparation::{Preparation, Share, passed_on, states};
use crate::shell::running::Drive;
use crate::task::job_state::JobState;
use crate::task::processor::set_nice;
use crate::task::threads::{no_thread, panicked};

/// The nice value of the thread that loads state: tasks get most of a core that they share with it.
const NICE: i32 = 10;

/// Loading is given up after this time without a piece of state: the store does not answer.
const NO_PROGRESS_MAX: Duration = Duration::from_secs(120);

/// The preparation of a plan version.
pub(super) struct Preparing {
    version: PlanVersion,
    /// When the last piece of state was loaded, in nanoseconds by the job's clock.
    progress: Arc<AtomicU64>,
    /// `None` while state is being loaded.
    preparation: Option<Box<Preparation>>,
    /// The preparation is no longer needed.
    given_up: Arc<AtomicBool>,
}

impl Drop for Preparing {
    fn drop(&mut self) {
        self.given_up.store(true, SeqCst);
    }
}

impl WorkerShell {
    /// Prepares these tasks of the next plan version. From now on snapshots are incremental.
    pub(crate) fn prepare(&mut self, plan: &Plan, tasks: &BTreeSet<TaskId>) {
        let version = plan.version;
        match Preparation::new(Arc::new(plan.clone()), tasks, &self.shares_here(plan)) {
            Ok(preparation) => {
                let (preparation, given_up) = (Some(Box::new(preparation)), Arc::default());
                let progress = Arc::default();
                self.preparing = Some(Preparing { version, progress, preparation, given_up });
            }
            Err(error) => self.send_input(Upward::Loaded { version, error: Some(error) }),
        }
        self.add_only();
    }

    /// The plan is about to change: snapshots are incremental from now on.
    pub(crate) fn add_only(&self) {
        self.running.iter().for_each(|running| running.control.set_adds(true));
    }

    /// Loads the additions of this checkpoint of the present version, on a thread of its own.
    pub(crate) fn load(&mut self, version: PlanVersion, from: &Checkpoint<TaskState>) {
        let preparing = self.preparing.as_mut().filter(|preparing| preparing.version == version);
        let store = self.deployment.checkpoints.as_ref().map(|checkpoints| checkpoints.store.clone());
        let (Some(preparing), Some(store)) = (preparing, store) else {
            let error = Error::outside("a worker does not know of the change, or cannot open the checkpoint storage");
            self.send_input(Upward::Loaded { version, error: Some(error) });
            return;
        };
        // The thread will report when it has finished its present load.
        let Some(mut preparation) = preparing.preparation.take() else { return };
        let (given_up, mail) = (Arc::clone(&preparing.given_up), Arc::clone(&self.mail));
        let (progress, clock) = (Arc::clone(&preparing.progress), Arc::clone(&self.clock));
        progress.store(clock.now().0, SeqCst);
        let state = JobState::from_tasks(&store, from.tasks.values());
        let load = move |threads| {
            let wanted = || {
                progress.store(clock.now().0, SeqCst);
                !given_up.load(SeqCst)
            };
            let loaded = catch_unwind(AssertUnwindSafe(|| preparation.load(&state, &wanted, threads)));
            let loaded = loaded.unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
            mail.send_from_thread(FromThread::Loaded(preparation, given_up, loaded));
        };
        match self.drive {
            Drive::Steps => load(1),
            Drive::Threads => {
                let thread = std::thread::Builder::new().name("loading".into()).spawn(move || {
                    // Threads inherit this priority.
                    set_nice(0, NICE);
                    load(std::thread::available_parallelism().map_or(1, NonZero::get));
                });
                let failed = thread.map_err(|error| no_thread(&error)).err();
                failed.into_iter().for_each(|error| self.send_input(Upward::Loaded { version, error: Some(error) }));
            }
        }
    }

    /// State of a checkpoint is loaded, or cannot be. `given_up` identifies the preparation that this belongs
    /// to.
    pub(super) fn loaded(&mut self, preparation: Box<Preparation>, given_up: &Arc<AtomicBool>, loaded: Result<()>) {
        let version = preparation.plan.version;
        if let Some(preparing) = self.preparing.as_mut().filter(|present| Arc::ptr_eq(&present.given_up, given_up)) {
            preparing.preparation = Some(preparation);
            self.send_input(Upward::Loaded { version, error: loaded.err() });
        }
    }

    /// When loading is given up unless it makes progress.
    pub(super) fn loading_deadline(&self) -> Option<Nanos> {
        let loading = self.preparing.as_ref().filter(|preparing| preparing.preparation.is_none())?;
        Some(Nanos(loading.progress.load(SeqCst)).plus(NO_PROGRESS_MAX))
    }

    /// Gives up loading that makes no progress. Its thread ends when the store answers.
    pub(super) fn check_loading(&mut self) {
        if self.loading_deadline().is_none_or(|deadline| self.clock.now() < deadline) {
            return;
        }
        if let Some(Preparing { version, .. }) = self.preparing {
            let seconds = NO_PROGRESS_MAX.as_secs();
            let error = Error::outside(format!("no state was loaded for {seconds} s: the store does not answer"));
            let error = Some(error.remedy("change the job again later"));
            self.send_input(Upward::Loaded { version, error });
        }
        self.give_up_preparing();
    }

    /// The present plan version continues.
    pub(crate) fn give_up_preparing(&mut self) {
        self.preparing = None;
        self.running.iter().for_each(|running| running.control.set_adds(false));
    }

    /// Whether tasks are being prepared here.
    pub(crate) fn is_preparing(&self) -> bool {
        self.preparing.is_some()
    }

    /// Takes the preparation for the tasks that start.
    pub(super) fn take_preparation(&mut self) -> Option<Preparation> {
        let mut preparing = self.preparing.take()?;
        let is_theirs = preparing.version == self.deployment.plan.version;
        preparing.preparation.take().filter(|_| is_theirs).map(|preparation| *preparation)
    }

    /// The operators here whose state can be handed over to a plan.
    fn shares_here(&self, next: &Plan) -> BTreeSet<Share> {
        let present = &self.deployment.plan;
        if self.running.is_none() {
            return BTreeSet::new();
        }
        let (passed_on, tasks) = (passed_on(present, next), self.shared.tasks());
        let same = states(present).into_iter().filter(|(id, _)| passed_on.contains(id));
        let shares = same.flat_map(|(id, (stage, _))| {
            let tasks = tasks.iter().filter(move |view| view.id.stage == stage);
            tasks.map(move |view| (id, present.assignment.of_task(view.id)))
        });
        shares.collect()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::JobOptions;
    use anabranch_model::{Clock as _, KeyGroups, ManualClock};
    use anabranch_protocol::worker::Config;

    use super::*;
    use crate::shell::deployment::Deployment;
    use crate::shell::messages::FromWorker;
    use crate::shell::shared::Shared;
    use crate::shell::worker::WorkerMail;
    use crate::task::mail::Unheard;

    impl WorkerMail for Unheard {
        fn send_from_thread(&self, _message: FromThread) {}
    }

    #[test]
    fn loading_without_progress_is_given_up() {
        let clock = Arc::new(ManualClock::default());
        let plan = Arc::new(Plan::new(KeyGroups(1), JobOptions::default(), Vec::new(), Vec::new()));
        let (placement, peers) = Default::default();
        let deployment = Deployment { plan, origin: None, checkpoints: None, retries_opening: false, placement, peers };
        let seen = (Shared::new(Arc::<ManualClock>::clone(&clock)), Arc::new(Unheard) as Arc<_>);
        let config = Config::default();
        let mut shell = WorkerShell::new(config, deployment, Default::default(), seen, None, Drive::Steps);
        let progress = Arc::<AtomicU64>::default();
        let given_up = Arc::<AtomicBool>::default();
        shell.preparing = Some(Preparing {
            version: PlanVersion(2),
            progress: Arc::clone(&progress),
            preparation: None,
            given_up: Arc::clone(&given_up),
        });
        clock.advance(NO_PROGRESS_MAX / 2);
        progress.store(clock.now().0, SeqCst);
        clock.advance(NO_PROGRESS_MAX * 3 / 4);
        shell.tick();
        assert!(shell.is_preparing(), "a piece came in between");
        assert_eq!(shell.next_deadline(), Some(Nanos(progress.load(SeqCst)).plus(NO_PROGRESS_MAX)));
        clock.advance(NO_PROGRESS_MAX);
        shell.tick();
        assert!(!shell.is_preparing() && given_up.load(SeqCst));
        assert_eq!(shell.next_deadline(), None);
        let told = std::iter::from_fn(|| shell.poll()).find_map(|message| match message {
            FromWorker::Protocol(message) => match *message {
                Upward::Loaded { version: PlanVersion(2), error } => error,
                _ => None,
            },
            _ => None,
        });
        assert!(told.is_some_and(|error| error.to_string().contains("no state was loaded for 120 s")));
    }
}
