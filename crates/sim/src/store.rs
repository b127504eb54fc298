//! What outlives every process: the log, the objects, and the table that the sinks write.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::{Epoch, Incarnation};
use anabranch_protocol::coordinator::{Answer, Entry};

use crate::Mutation;
use crate::event::Handle;
use crate::task::State;

/// What a sink prepared at the end of an epoch, with a unique name by which it is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Committable {
    pub(crate) epoch: Epoch,
    pub(crate) incarnation: Incarnation,
    pub(crate) task: u32,
}

/// The durable data.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) log: BTreeMap<u64, Entry<Handle>>,
    /// What each checkpoint that was ever in the log refers to.
    referred: BTreeMap<(Epoch, Incarnation), BTreeSet<Handle>>,
    /// Snapshots; `None` are those written in part.
    pub(crate) objects: BTreeMap<Handle, Option<State>>,
    next_object: Handle,
    prepared: BTreeMap<Committable, Vec<(u8, u64)>>,
    committed: BTreeSet<Committable>,
    /// The rows that a reader of the sink's table sees.
    pub(crate) visible: Vec<(u8, u64)>,
    pub(crate) repeated_commits: u64,
}

impl Store {
    /// Writes an entry if there is none of this number, nor a later one. With
    /// [`Mutation::LateWriteAccepted`], writes it in any case; with [`Mutation::FreedNumberTaken`], also
    /// where an entry was removed.
    pub(crate) fn put(&mut self, sequence: u64, entry: &Entry<Handle>, mutation: Option<Mutation>) -> Answer<Handle> {
        if self.log.contains_key(&sequence) && mutation != Some(Mutation::LateWriteAccepted) {
            return Answer::Taken;
        }
        if self.is_passed(sequence) && mutation != Some(Mutation::FreedNumberTaken) {
            return Answer::Passed;
        }
        if let Entry::Checkpoint(checkpoint) = entry {
            let objects = checkpoint.tasks.values().copied().collect();
            self.referred.insert((checkpoint.epoch, checkpoint.incarnation), objects);
        }
        self.log.insert(sequence, entry.clone());
        Answer::Appended
    }

    /// Reads the entry with a number, unless there are later ones.
    pub(crate) fn read(&self, sequence: u64) -> Answer<Handle> {
        match self.is_passed(sequence) {
            true => Answer::Passed,
            false => Answer::Entry(self.log.get(&sequence).cloned()),
        }
    }

    fn is_passed(&self, sequence: u64) -> bool {
        self.log.range(sequence + 1..).next().is_some()
    }

    /// A name that was never used.
    pub(crate) fn name(&mut self) -> Handle {
        self.next_object += 1;
        self.next_object
    }

    pub(crate) fn prepare(&mut self, committable: Committable, rows: Vec<(u8, u64)>) {
        self.prepared.insert(committable, rows);
    }

    /// Makes a committable's rows visible, once; returns the rows that became visible. `None`: never
    /// prepared.
    pub(crate) fn commit(&mut self, committable: Committable, again: bool) -> Option<Vec<(u8, u64)>> {
        let rows = self.prepared.get(&committable)?;
        if !self.committed.insert(committable) {
            self.repeated_commits += 1;
            if !again {
                return Some(Vec::new());
            }
        }
        self.visible.extend(rows);
        Some(rows.clone())
    }

    /// Deletes the objects of a checkpoint that no other one in the log refers to.
    pub(crate) fn forget(&mut self, epoch: Epoch, incarnation: Incarnation) {
        let Some(gone) = self.referred.get(&(epoch, incarnation)) else { return };
        let mut needed = BTreeSet::new();
        for entry in self.log.values() {
            if let Entry::Checkpoint(checkpoint) = entry {
                needed.extend(checkpoint.tasks.values().copied());
            }
        }
        for object in gone.difference(&needed) {
            self.objects.remove(object);
        }
    }
}
