//! Removes obsolete local copies of state files, at a worker whose coordinator is in another process.
//!
//! The coordinator removes the files themselves. Removing a copy too early costs only a download. Workers of
//! one machine may share a directory: a worker removes copies of its own tasks, and copies of past
//! incarnations.

use std::collections::BTreeSet;

use anabranch_model::{Epoch, Incarnation};
use anabranch_protocol::coordinator::Checkpoint;
use anabranch_state::{Store, TaskState};

/// The copies of one job.
#[derive(Default)]
pub(crate) struct Collector {
    /// Files of this worker's tasks, each with the epoch of the first snapshot that no longer refers to it.
    dropped: Vec<(Epoch, String)>,
    /// Whether there may be copies from before this incarnation.
    has_earlier: bool,
    /// Of these copies, the files that present snapshots may still refer to.
    kept: BTreeSet<String>,
}

impl Collector {
    /// An incarnation starts from this checkpoint: of earlier incarnations only the checkpoint's files are
    /// needed. `goes_on`: its first snapshots are incremental, because state was handed over or loaded ahead.
    pub(crate) fn start(
        &mut self,
        store: &Store,
        incarnation: Incarnation,
        from: Option<&Checkpoint<TaskState>>,
        goes_on: bool,
    ) {
        let tasks = from.iter().flat_map(|from| from.tasks.values());
        let files = tasks.flat_map(|task| &task.operators).flat_map(|operator| &operator.files);
        let needed: BTreeSet<String> = files.map(|file| file.blob.name.clone()).collect();
        store.keep_copies(|name| needed.contains(name) || !is_before(name, incarnation));
        let kept = if goes_on { needed } else { BTreeSet::new() };
        *self = Collector { dropped: Vec::new(), has_earlier: true, kept };
    }

    /// Snapshots no longer refer to these files.
    pub(crate) fn dropped(&mut self, dropped: &[(Epoch, String)]) {
        self.dropped.extend_from_slice(dropped);
    }

    /// A checkpoint is complete. Of the copies from before its incarnation, it needs at most those of state
    /// that was handed over or loaded ahead.
    pub(crate) fn checkpoint_done(&mut self, store: &Store, incarnation: Incarnation, epoch: Epoch) {
        if std::mem::take(&mut self.has_earlier) {
            store.keep_copies(|name| self.kept.contains(name) || !is_before(name, incarnation));
        }
        self.dropped.extract_if(.., |(since, _)| *since <= epoch).for_each(|(_, name)| store.delete_copy(&name));
    }
}

/// Whether a state file is from before an incarnation.
fn is_before(name: &str, own: Incarnation) -> bool {
    let incarnation = name.rsplit('/').next().and_then(|file| file.split_once('-'));
    incarnation
        .and_then(|(incarnation, _)| incarnation.parse().ok())
        .is_some_and(|incarnation: u64| incarnation < own.0)
}
