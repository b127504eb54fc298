//! Rounds of loading, while the tasks of the present version run.

use std::collections::BTreeSet;

use anabranch_model::Epoch;

use super::message::{Copied, Next};
use crate::membership::Process;

/// Rounds at most.
const ROUNDS_MAX: u32 = 8;

/// The rounds of one change.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    /// Processes that load state.
    pub(super) loading: BTreeSet<Process>,
    /// Processes that know of the change: those that have the state now too.
    pub(super) told: BTreeSet<Process>,
    /// Processes that have not loaded their part of the last round.
    pub(super) awaited: BTreeSet<Process>,
    /// The last epoch that was granted before snapshots only add.
    pub(super) after: Epoch,
    /// All rounds that have begun.
    pub(super) copied: Copied,
    /// Bytes of the last one, and of the one before.
    last_bytes: u64,
    former_bytes: u64,
    little_bytes: u64,
}

impl Rounds {
    pub(super) fn new(next: Next) -> Rounds {
        let Next { loading, present, granted, little_bytes, .. } = next;
        Rounds {
            told: &loading | &present,
            loading,
            awaited: BTreeSet::new(),
            after: granted,
            copied: Copied::default(),
            last_bytes: 0,
            former_bytes: 0,
            little_bytes,
        }
    }

    /// The next round loads this number of bytes.
    pub(super) fn loads(&mut self, bytes: u64) {
        (self.former_bytes, self.last_bytes) = (self.last_bytes, bytes);
        self.copied.rounds += 1;
        self.copied.bytes += bytes;
    }

    /// Whether so much was added while the last round ran that another one is worth it.
    pub(super) fn goes_on(&self) -> bool {
        let rounds = self.copied.rounds;
        let shrinks = rounds == 1 || self.last_bytes < self.former_bytes / 2;
        self.last_bytes > self.little_bytes && shrinks && rounds < ROUNDS_MAX
    }
}
