//! Where tasks and the writer of a connection meet: frames that have credit wait here to be written.
//!
//! A task whose channel has no credit waits with its frame. So what is queued here is at most the sum of the limits that
//! the receiver has set.

use std::collections::VecDeque;

use anabranch_model::Clock;

use super::credit::SendCredit;
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The frames of all channels, in the order in which they are written.
#[derive(Debug)]
pub(crate) struct Outbox<T> {
    state: Mutex<State<T>>,
    /// A task waits for credit.
    credit: Condvar,
    /// The writer waits for frames.
    readable: Condvar,
}

#[derive(Debug)]
struct State<T> {
    limits: Vec<SendCredit>,
    queue: VecDeque<T>,
    tasks_wait: usize,
    writer_waits: bool,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// What is queued is still written.
    Finished,
    Closed,
}

/// The connection takes nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl<T> Outbox<T> {
    pub(crate) fn new(channels: usize) -> Self {
        let limits = (0..channels).map(|_| SendCredit::default()).collect();
        let (queue, phase) = (VecDeque::new(), Phase::Open);
        let state = State { limits, queue, tasks_wait: 0, writer_waits: false, phase };
        Outbox { state: Mutex::new(state), credit: Condvar::new(), readable: Condvar::new() }
    }

    /// The state is consistent after each statement, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit of a channel, which the receiver sets when the connection begins.
    pub(crate) fn limit(&self, channel: usize) -> Result<u64, Closed> {
        let mut state = self.lock();
        while state.phase == Phase::Open {
            if let Some(limit) = state.limits[channel].limit() {
                return Ok(limit);
            }
            state.tasks_wait += 1;
            state = self.credit.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.tasks_wait -= 1;
        }
        Err(Closed)
    }

    /// Adds a frame of `bytes`, after waiting for credit. Returns the nanoseconds waited.
    pub(crate) fn send(&self, channel: usize, bytes: u64, frame: T, clock: &dyn Clock) -> Result<u64, Closed> {
        let mut state = self.lock();
        let mut waited_ns = 0;
        if state.phase == Phase::Open && !state.limits[channel].charge(bytes) {
            let start = clock.now();
            state.tasks_wait += 1;
            loop {
                state = self.credit.wait(state).unwrap_or_else(PoisonError::into_inner);
                if state.phase != Phase::Open || state.limits[channel].charge(bytes) {
                    break;
                }
            }
            state.tasks_wait -= 1;
            waited_ns = clock.now().since(start);
        }
        if state.phase != Phase::Open {
            return Err(Closed);
        }
        state.queue.push_back(frame);
        if std::mem::take(&mut state.writer_waits) {
            self.readable.notify_one();
        }
        Ok(waited_ns)
    }

    /// The receiver sets the limit of a channel.
    pub(crate) fn open(&self, channel: usize, bytes: u64) -> Result<(), &'static str> {
        self.change(channel, |limit| limit.open(bytes))
    }

    /// The receiver returns credit of a channel.
    pub(crate) fn returned(&self, channel: usize, bytes: u64) -> Result<(), &'static str> {
        self.change(channel, |limit| limit.returned(bytes))
    }

    fn change(
        &self,
        channel: usize,
        change: impl FnOnce(&mut SendCredit) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        let mut state = self.lock();
        change(state.limits.get_mut(channel).ok_or("it names a channel that does not exist")?)?;
        if state.tasks_wait > 0 {
            self.credit.notify_all();
        }
        Ok(())
    }

    /// Waits for frames, and exchanges them for the empty queue given. False if there are none and none will come.
    pub(crate) fn take(&self, frames: &mut VecDeque<T>) -> bool {
        let mut state = self.lock();
        loop {
            if state.phase == Phase::Closed {
                return false;
            }
            if !state.queue.is_empty() {
                std::mem::swap(&mut state.queue, frames);
                return true;
            }
            if state.phase == Phase::Finished {
                return false;
            }
            state.writer_waits = true;
            state = self.readable.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Bytes of a channel that are queued, on their way, or not yet taken by the receiving task.
    pub(crate) fn outstanding(&self, channel: usize) -> u64 {
        self.lock().limits[channel].outstanding()
    }

    /// Nothing more is sent. What is queued is still taken.
    pub(crate) fn finish(&self) {
        self.end(Phase::Finished);
    }

    /// Drops what is queued, and wakes all threads.
    pub(crate) fn close(&self) {
        self.end(Phase::Closed);
    }

    fn end(&self, phase: Phase) {
        let mut state = self.lock();
        if state.phase != Phase::Closed {
            state.phase = phase;
        }
        if phase == Phase::Closed {
            state.queue.clear();
        }
        self.credit.notify_all();
        self.readable.notify_all();
    }
}
