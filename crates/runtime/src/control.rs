//! What the tasks of a job and its driver tell each other outside of the channels: grants, stop, failure.
//!
//! The decisions are `protocol`'s; this is the embedded engine's way to carry them: a lock held for a few lines, taken
//! once per epoch and task, and numbers that tasks read without it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_model::{Epoch, Error, TaskId};
use anabranch_protocol::{Command, Grants, Input};

use crate::inbox::Inbox;

/// Epochs of one group.
const GROUP_EPOCHS: u64 = 10;

/// Shared by all tasks of a job.
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
    granted: AtomicU64,
    stop_after: AtomicU64,
    done: AtomicU64,
    none_done: AtomicBool,
    cancelled: AtomicBool,
    inboxes: Mutex<Vec<Arc<Inbox>>>,
}

struct State {
    grants: Grants,
    failure: Option<Error>,
    running: usize,
}

impl Control {
    pub(crate) fn new(sources: Vec<TaskId>, sinks: Vec<TaskId>, tasks: usize) -> Arc<Self> {
        let state = State { grants: Grants::new(sources, sinks, GROUP_EPOCHS), failure: None, running: tasks };
        let control = Control {
            state: Mutex::new(state),
            changed: Condvar::new(),
            granted: AtomicU64::new(0),
            stop_after: AtomicU64::new(u64::MAX),
            done: AtomicU64::new(0),
            none_done: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            inboxes: Mutex::new(Vec::new()),
        };
        control.carry_out(&mut control.lock());
        Arc::new(control)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inboxes to close when the job fails.
    pub(crate) fn watch(&self, inboxes: impl IntoIterator<Item = Arc<Inbox>>) {
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner).extend(inboxes);
    }

    /// Tells the protocol, and carries out what it commands.
    pub(crate) fn tell(&self, input: Input) {
        let mut state = self.lock();
        state.grants.handle(input);
        self.carry_out(&mut state);
    }

    fn carry_out(&self, state: &mut State) {
        while let Some(command) = state.grants.poll() {
            match command {
                Command::Grant(group) => self.granted.store(group.last.0, SeqCst),
                Command::StopAfter(epoch) => self.stop_after.store(epoch.0, SeqCst),
                Command::EpochDone(epoch) => self.done.store(epoch.0, SeqCst),
                Command::NoneDone => self.none_done.store(true, SeqCst),
            }
            self.changed.notify_all();
        }
    }

    /// The last epoch that sources may cut.
    pub(crate) fn granted(&self) -> Epoch {
        Epoch(self.granted.load(SeqCst))
    }

    /// The epoch after which sources end, once the job was asked to stop.
    pub(crate) fn stop_after(&self) -> Option<Epoch> {
        match self.stop_after.load(SeqCst) {
            u64::MAX => None,
            epoch => Some(Epoch(epoch)),
        }
    }

    /// The last epoch that every sink has handed over.
    pub(crate) fn done(&self) -> Epoch {
        Epoch(self.done.load(SeqCst))
    }

    /// Whether the job has failed.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    /// Waits until every sink has handed over `epoch`, or it is clear that they will not. Whether it was handed over.
    pub(crate) fn wait_done(&self, epoch: Epoch) -> bool {
        let mut state = self.lock();
        while self.done() < epoch && !self.none_done.load(SeqCst) && !self.is_cancelled() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.done() >= epoch
    }

    /// The first failure counts; all tasks then end as soon as they look.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        self.cancelled.store(true, SeqCst);
        for inbox in self.inboxes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            inbox.close();
        }
        self.changed.notify_all();
    }

    /// A task's thread ends.
    pub(crate) fn task_ended(&self) {
        self.lock().running -= 1;
        self.changed.notify_all();
    }

    /// Waits until all tasks have ended, at most for `timeout`. Whether they have.
    pub(crate) fn wait_ended(&self, timeout: Option<Duration>) -> bool {
        let mut state = self.lock();
        match timeout {
            None => {
                while state.running > 0 {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
            Some(timeout) => {
                let waited = self.changed.wait_timeout_while(state, timeout, |s| s.running > 0);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        state.running == 0
    }

    pub(crate) fn take_failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }
}
