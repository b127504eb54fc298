//! What a worker orders the tasks of an incarnation to do, as numbers that only grow or flags.

use anabranch_model::Epoch;

use crate::task::sync::atomic::{AtomicBool, AtomicU64};

/// The worker writes these, on its own thread, as the coordinator's orders arrive. Tasks read them on their threads, and never write.
pub(crate) struct Orders {
    /// The last epoch that sources may cut.
    pub(crate) granted: AtomicU64,
    /// When all sources have cut this epoch, the coordinator grants the next group.
    pub(crate) turn: AtomicU64,
    /// Sources cut all epochs up to this one at once.
    pub(crate) at_once: AtomicU64,
    /// Sources end after this epoch. The largest number: no stop was requested.
    pub(crate) stop_after: AtomicU64,
    /// What the tasks have is for those of the next plan version.
    pub(crate) leaves_parts: AtomicBool,
    /// Snapshots only add to those before.
    pub(crate) adds: AtomicBool,
    /// The epoch that ends, or ended, with the last checkpoint that was granted.
    pub(crate) checkpoint: AtomicU64,
    /// The last epoch whose checkpoint was given up.
    pub(crate) aborted: AtomicU64,
    /// The last epoch that every sink has written; with checkpoints, the last one that a checkpoint covers.
    pub(crate) done: AtomicU64,
    /// No later epoch will be done.
    pub(crate) none_done: AtomicBool,
    /// All tasks end at once.
    pub(crate) cancelled: AtomicBool,
    /// Sinks at other workers are full.
    pub(crate) held_by_others: AtomicBool,
}

impl Orders {
    /// For tasks that resume after this epoch.
    pub(crate) fn after(epoch: Epoch) -> Self {
        let (number, flag) = (|| AtomicU64::new(epoch.0), || AtomicBool::new(false));
        Orders {
            granted: number(),
            turn: number(),
            at_once: number(),
            stop_after: AtomicU64::new(u64::MAX),
            leaves_parts: flag(),
            adds: flag(),
            checkpoint: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            done: number(),
            none_done: flag(),
            cancelled: flag(),
            held_by_others: flag(),
        }
    }
}
