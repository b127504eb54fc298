//! What is under way in one direction of a connection: it arrives in its order, some time after it was sent.

use std::collections::VecDeque;

use anabranch_model::Nanos;

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Lane<M> {
    queue: VecDeque<(Nanos, M)>,
    /// When the last of them arrives.
    last: Nanos,
    /// From when on the receiver knows that nothing follows.
    closed: Option<Nanos>,
}

impl<M> Default for Lane<M> {
    fn default() -> Self {
        Lane { queue: VecDeque::new(), last: Nanos(0), closed: None }
    }
}

impl<M> Lane<M> {
    /// Sends something that arrives then, and not before what was sent earlier.
    pub(super) fn push(&mut self, at: Nanos, message: M) {
        if self.closed.is_none() {
            self.last = self.last.max(at);
            self.queue.push_back((self.last, message));
        }
    }

    /// Takes what has arrived.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<M> {
        self.queue.pop_front_if(|(at, _)| *at <= now).map(|(_, message)| message)
    }

    /// Nothing follows. The receiver learns that then, and not before what was sent earlier.
    pub(super) fn close(&mut self, at: Nanos) {
        self.closed.get_or_insert(self.last.max(at));
    }

    /// What is under way is lost.
    pub(super) fn lose(&mut self) {
        self.queue.clear();
    }

    /// Whether the receiver has everything, and knows that nothing follows.
    pub(super) fn has_closed(&self, now: Nanos) -> bool {
        self.queue.is_empty() && self.closed.is_some_and(|at| at <= now)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }
}
