//! The job's log, which outlives every process.

use std::collections::BTreeMap;

use anabranch_protocol::coordinator::{Answer, Entry};

use crate::Mutation;
use crate::task::End;

/// Entries by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Log(pub(crate) BTreeMap<u64, Entry<End>>);

impl Log {
    /// Writes an entry if there is none of this number, nor a later one. With
    /// [`Mutation::LateWriteAccepted`], writes it in any case; with [`Mutation::FreedNumberTaken`], also
    /// where an entry was removed.
    pub(crate) fn put(&mut self, sequence: u64, entry: &Entry<End>, mutation: Option<Mutation>) -> Answer<End> {
        if self.0.contains_key(&sequence) && mutation != Some(Mutation::LateWriteAccepted) {
            return Answer::Taken;
        }
        if self.is_passed(sequence) && mutation != Some(Mutation::FreedNumberTaken) {
            return Answer::Passed;
        }
        self.0.insert(sequence, entry.clone());
        Answer::Appended
    }

    /// Reads the entry with a number, unless there are later ones.
    pub(crate) fn read(&self, sequence: u64) -> Answer<End> {
        match self.is_passed(sequence) {
            true => Answer::Passed,
            false => Answer::Entry(self.0.get(&sequence).cloned()),
        }
    }

    fn is_passed(&self, sequence: u64) -> bool {
        self.0.range(sequence + 1..).next().is_some()
    }
}
