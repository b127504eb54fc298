//! What the tasks of a job and its driver tell each other outside of the channels: grants, stop, failure.
//!
//! The decisions are `protocol`'s; this is the embedded engine's way to carry them: a lock held for a few lines, taken
//! once per epoch and task, and numbers that tasks read without it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock, Epoch, Error, TaskId};
use anabranch_protocol::{CheckpointCommand, CheckpointConfig, Checkpoints, Command, Grants, Input};
use anabranch_state::TaskState;

use crate::inbox::Inbox;

/// The tasks of a job.
pub(crate) struct Members {
    pub(crate) sources: Vec<TaskId>,
    pub(crate) sinks: Vec<TaskId>,
    pub(crate) all: Vec<TaskId>,
}

/// A checkpoint that every task has acknowledged.
pub(crate) struct Commit {
    pub(crate) epoch: Epoch,
    pub(crate) tasks: BTreeMap<TaskId, TaskState>,
}

/// Shared by all tasks of a job.
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
    granted: AtomicU64,
    stop_after: AtomicU64,
    /// The epoch that ends, or ended, with the last checkpoint that was granted.
    checkpoint: AtomicU64,
    done: AtomicU64,
    none_done: AtomicBool,
    cancelled: AtomicBool,
    inboxes: Mutex<Vec<Arc<Inbox>>>,
    clock: Arc<dyn Clock>,
}

struct State {
    grants: Grants,
    /// `None`: the job has no checkpoints, and an epoch is done when every sink has handed it over.
    checkpoints: Option<Checkpoints<TaskState>>,
    failure: Option<Error>,
    running: usize,
}

impl Control {
    /// For these tasks, which go on behind the epoch `after`.
    pub(crate) fn new(
        members: Members,
        group_epochs: u64,
        checkpoints: Option<CheckpointConfig>,
        after: Epoch,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let now = clock.now();
        let Members { sources, sinks, all } = members;
        let running = all.len();
        let checkpoints = checkpoints.map(|config| Checkpoints::new(config, all, after, now));
        let grants = Grants::new(sources, sinks, group_epochs, after);
        let state = State { grants, checkpoints, failure: None, running };
        let control = Control {
            state: Mutex::new(state),
            changed: Condvar::new(),
            granted: AtomicU64::new(0),
            stop_after: AtomicU64::new(u64::MAX),
            checkpoint: AtomicU64::new(0),
            done: AtomicU64::new(after.0),
            none_done: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            inboxes: Mutex::new(Vec::new()),
            clock,
        };
        control.carry_out(&mut control.lock());
        Arc::new(control)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inboxes to close when the job fails.
    pub(crate) fn watch(&self, inboxes: impl IntoIterator<Item = Arc<Inbox>>) {
        self.inboxes().extend(inboxes);
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
                Command::Grant(group) => {
                    let now = self.clock.now();
                    if state.checkpoints.as_mut().is_some_and(|checkpoints| checkpoints.begin(group.last, now)) {
                        self.checkpoint.store(group.last.0, SeqCst);
                    }
                    self.granted.store(group.last.0, SeqCst);
                }
                Command::StopAfter(epoch) => self.stop_after.store(epoch.0, SeqCst),
                Command::EpochDone(epoch) if state.checkpoints.is_none() => self.done.store(epoch.0, SeqCst),
                Command::EpochDone(_) => {}
                Command::NoneDone => self.none_done.store(true, SeqCst),
            }
            self.changed.notify_all();
        }
    }

    /// A task's snapshot has been stored. What is to be committed now, if it was the last one.
    pub(crate) fn acknowledge(&self, epoch: Epoch, snapshot: TaskState) -> Option<Commit> {
        // Rows were dropped before the tasks' positions: nothing may go on from there.
        if self.none_done.load(SeqCst) {
            return None;
        }
        let mut state = self.lock();
        let (task, finished) = (snapshot.task, snapshot.finished);
        let command = state.checkpoints.as_mut()?.acknowledge(task, epoch, finished, snapshot);
        self.carry_out_checkpoint(&mut state, command)
    }

    /// A commit went so. What is to be committed next, if anything.
    pub(crate) fn committed(&self, epoch: Epoch, durable: bool) -> Option<Commit> {
        let mut state = self.lock();
        let commands = state.checkpoints.as_mut()?.committed(epoch, durable);
        commands.into_iter().filter_map(|command| self.carry_out_checkpoint(&mut state, Some(command))).last()
    }

    /// Gives up a checkpoint that takes too long.
    pub(crate) fn look_at_checkpoint(&self) {
        let mut state = self.lock();
        let now = self.clock.now();
        let command = state.checkpoints.as_mut().and_then(|checkpoints| checkpoints.look(now));
        self.carry_out_checkpoint(&mut state, command);
    }

    fn carry_out_checkpoint(&self, state: &mut State, command: Option<CheckpointCommand<TaskState>>) -> Option<Commit> {
        match command? {
            CheckpointCommand::Commit { epoch, tasks } => return Some(Commit { epoch, tasks }),
            CheckpointCommand::Done(epoch) => {
                self.done.store(epoch.0, SeqCst);
                self.changed.notify_all();
                self.inboxes().iter().for_each(|inbox| inbox.wake());
            }
            CheckpointCommand::Fail => {
                let error = Error::outside("checkpoints fail or take too long, several in a row")
                    .remedy("look at the place where they are kept, or allow more time ('checkpoint-timeout')");
                self.fail_locked(state, error);
            }
        }
        None
    }

    /// Whether this epoch ends with a checkpoint.
    pub(crate) fn is_checkpoint(&self, epoch: Epoch) -> bool {
        self.checkpoint.load(SeqCst) == epoch.0
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

    /// The last epoch that every sink has handed over; with checkpoints the last one that a checkpoint covers.
    pub(crate) fn done(&self) -> Epoch {
        Epoch(self.done.load(SeqCst))
    }

    /// Whether the job has failed.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }

    /// Whether every sink has handed over `epoch`, or it is clear that they will not.
    pub(crate) fn is_settled(&self, epoch: Epoch) -> bool {
        self.done() >= epoch || self.none_done.load(SeqCst) || self.is_cancelled()
    }

    /// Waits until every sink has handed over `epoch`, or it is clear that they will not. Whether it was handed over.
    pub(crate) fn wait_done(&self, epoch: Epoch) -> bool {
        let mut state = self.lock();
        while !self.is_settled(epoch) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.done() >= epoch
    }

    /// The first failure counts; all tasks then end as soon as they look.
    pub(crate) fn fail(&self, error: Error) {
        self.fail_locked(&mut self.lock(), error);
    }

    fn fail_locked(&self, state: &mut State, error: Error) {
        state.failure.get_or_insert(error);
        self.cancelled.store(true, SeqCst);
        self.inboxes().iter().for_each(|inbox| inbox.close());
        self.changed.notify_all();
    }

    fn inboxes(&self) -> MutexGuard<'_, Vec<Arc<Inbox>>> {
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner)
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
