//! Limits the memory of an exactly-once writer: rows that no checkpoint covers yet, and rows that are
//! prepared and not committed.
//!
//! The writer cannot block its own input: the marker that ends the epoch may be behind rows in its task's
//! inbox. So it acts on the sources. At an eighth of its limit it requests a checkpoint, which in most jobs
//! frees the memory in time. At half of the limit it stops the sources. They end their epochs early, and rows
//! in flight arrive. When the checkpoint is committed, the sources continue. A spill to disk would not bound
//! the size of a checkpoint and its transaction.
//!
//! The rows of one epoch cannot be divided: a writer fails if these alone exceed the limit. Rows in flight
//! when the sources stop also belong to the epoch, so an epoch may always take [`EPOCH_LEAST`].

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::Host;

/// The share of the limit at which a checkpoint is requested.
const REQUEST_SHARE: u64 = 8;
/// The share of the limit at which sources are held.
const FULL_SHARE: u64 = 2;

/// Bytes that the rows of one epoch may always take: a batch of a reader, and full channels.
const EPOCH_LEAST: u64 = 64 << 20;

/// The memory of one writer. All sizes are in bytes.
pub(crate) struct Room {
    host: Arc<dyn Host>,
    bound: u64,
    /// Limit of the rows of one epoch.
    epoch_max: u64,
    held: u64,
    /// Bytes held when the present epoch began, or when its input paused.
    held_before: u64,
    /// Bytes prepared for these epochs and not committed, oldest first.
    prepared: VecDeque<(Epoch, u64)>,
    /// Whether a checkpoint was requested for the held rows.
    has_requested: bool,
    is_full: bool,
}

impl Room {
    pub(crate) fn new(host: Arc<dyn Host>, bound: u64) -> Room {
        let prepared = VecDeque::new();
        let epoch_max = bound.max(EPOCH_LEAST);
        Room { host, bound, epoch_max, held: 0, held_before: 0, prepared, has_requested: false, is_full: false }
    }

    /// Rows were added; `held` is the size of all held rows now.
    pub(crate) fn wrote(&mut self, held: u64) -> Result<()> {
        self.held = held;
        if held.saturating_sub(self.held_before) > self.epoch_max {
            return Err(Error::user(format!("the records of one epoch take more than {} bytes", self.epoch_max))
                .remedy(
                    "raise 'sink.buffer-bytes' (the results of one window are never divided), \
                 or write them as they come: 'sink.delivery-guarantee' = 'at-least-once'",
                ));
        }
        self.check_bounds();
        Ok(())
    }

    /// An epoch has ended that no checkpoint covers, or the input pauses.
    pub(crate) fn flushed(&mut self) {
        self.held_before = self.held;
    }

    /// All held rows are prepared, for the checkpoint of this epoch.
    pub(crate) fn prepared(&mut self, epoch: Epoch) {
        if self.held > 0 {
            self.prepared.push_back((epoch, self.held));
        }
        (self.held, self.held_before, self.has_requested) = (0, 0, false);
        self.check_bounds();
    }

    /// The rows that were prepared up to this epoch are committed.
    pub(crate) fn committed(&mut self, epoch: Epoch) {
        while self.prepared.pop_front_if(|(prepared, _)| *prepared <= epoch).is_some() {}
        self.check_bounds();
    }

    fn check_bounds(&mut self) {
        let total = self.held + self.prepared.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let is_full = total >= self.bound / FULL_SHARE;
        if (is_full || self.held >= self.bound / REQUEST_SHARE) && !self.has_requested {
            self.has_requested = true;
            self.host.request_checkpoint();
        }
        if is_full != self.is_full {
            self.is_full = is_full;
            self.host.set_full(is_full);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.is_full {
            self.host.set_full(false);
        }
    }
}

#[cfg(test)]
mod tests;
