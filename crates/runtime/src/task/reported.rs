//! Numbers that the tasks of an incarnation at one worker report to each other and to the worker.

use anabranch_model::Epoch;

use crate::task::hold_back::Foremost;
use crate::task::sync::atomic::{AtomicU64, AtomicUsize};

/// Tasks write these on their threads, each for all of them together. The worker writes only `grant_wait_ns`,
/// when it takes it for its next summary. Each field names its readers.
pub(crate) struct Reported {
    /// Number of tasks whose tables are not open yet. Read by the tasks, which wait for the last one.
    pub(crate) unopened: AtomicUsize,
    /// The newest epoch in which a source has reported output. Read by the sources, so that one report is
    /// enough.
    pub(crate) told_active: AtomicU64,
    /// The last epoch whose time is over at any source. Read by the sources, which cut together, and by the
    /// worker.
    pub(crate) foremost: AtomicU64,
    /// When the time of the next epoch is over. Read by the sources.
    pub(crate) next_cut: AtomicU64,
    /// The furthest event time of any partition at this worker. Read by the sources.
    pub(crate) foremost_time: Foremost,
    /// Number of sinks that cannot take more rows before a checkpoint covers those that they hold. Read by
    /// the sources, which wait meanwhile.
    pub(crate) full_sinks: AtomicUsize,
    /// How many checkpoints sinks have requested. Read by the sources, which end an epoch early if not all
    /// were granted, and by the worker.
    pub(crate) requests: AtomicU64,
    /// The longest time that a source waited for a grant since the last reading. Read by the worker.
    pub(crate) grant_wait_ns: AtomicU64,
}

impl Reported {
    /// For this number of tasks, which resume after this epoch.
    pub(crate) fn after(epoch: Epoch, tasks: usize) -> Self {
        Reported {
            unopened: AtomicUsize::new(tasks),
            told_active: AtomicU64::new(epoch.0),
            foremost: AtomicU64::new(epoch.0),
            next_cut: AtomicU64::new(0),
            foremost_time: Foremost::default(),
            full_sinks: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            grant_wait_ns: AtomicU64::new(0),
        }
    }
}
