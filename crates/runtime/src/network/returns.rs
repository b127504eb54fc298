//! Where tasks and the writer of credits meet at the receiver: bytes that were taken wait here to be returned.

use super::credit::ReceiveCredit;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The limits of all channels of a connection.
#[derive(Debug)]
pub(crate) struct Returns {
    state: Mutex<State>,
    due: Condvar,
}

#[derive(Debug)]
struct State {
    limits: Vec<ReceiveCredit>,
    /// Channels with bytes to return, each once.
    due: Vec<usize>,
    is_due: Vec<bool>,
    writer_waits: bool,
    ended: bool,
}

/// Holds the bytes of a received frame. Drop it when the task has taken what it was for: the sender gets them back.
#[derive(Debug)]
pub struct Permit {
    returns: Arc<Returns>,
    channel: usize,
    bytes: u64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.returns.taken(self.channel, self.bytes);
    }
}

impl Returns {
    pub(crate) fn new(limits: impl Iterator<Item = u64>) -> Arc<Self> {
        let limits: Vec<ReceiveCredit> = limits.map(ReceiveCredit::new).collect();
        let is_due = vec![false; limits.len()];
        let state = State { limits, due: Vec::new(), is_due, writer_waits: false, ended: false };
        Arc::new(Returns { state: Mutex::new(state), due: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit of each channel.
    pub(crate) fn limits(&self) -> Vec<u64> {
        self.lock().limits.iter().map(ReceiveCredit::limit).collect()
    }

    /// A frame has come.
    pub(crate) fn received(self: &Arc<Self>, channel: usize, bytes: u64) -> Result<Permit, &'static str> {
        let mut state = self.lock();
        let limit = state.limits.get_mut(channel).ok_or("it names a channel that does not exist")?;
        limit.received(bytes)?;
        drop(state);
        Ok(Permit { returns: Arc::clone(self), channel, bytes })
    }

    fn taken(&self, channel: usize, bytes: u64) {
        let mut state = self.lock();
        if !state.limits[channel].taken(bytes) || state.ended {
            return;
        }
        if !std::mem::replace(&mut state.is_due[channel], true) {
            state.due.push(channel);
        }
        if std::mem::take(&mut state.writer_waits) {
            self.due.notify_one();
        }
    }

    /// Waits for bytes to return, and adds them by channel. False if none will be returned.
    pub(crate) fn take(&self, credits: &mut Vec<(usize, u64)>) -> bool {
        let mut state = self.lock();
        while !state.ended {
            let due = std::mem::take(&mut state.due);
            if !due.is_empty() {
                for channel in due {
                    state.is_due[channel] = false;
                    credits.push((channel, state.limits[channel].take_due()));
                }
                return true;
            }
            state.writer_waits = true;
            state = self.due.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        false
    }

    /// The sender needs no credit any more.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.due.notify_all();
    }
}
