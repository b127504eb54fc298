//! What has changed since the last snapshot, and which of several restored rows is the latest.

use anabranch_model::{Error, Result};
use arrow::array::Int64Array;

/// Ids that have changed, each once.
#[derive(Default)]
pub(super) struct Changes {
    /// Nothing is noted before the first snapshot, which contains everything.
    noted: bool,
    flags: Vec<bool>,
    ids: Vec<usize>,
    /// While state is restored: the snapshot that the row of each id is from.
    versions: Vec<i64>,
}

impl Changes {
    pub(super) fn add(&mut self, id: usize) {
        if !self.noted {
            return;
        }
        if self.flags.len() <= id {
            self.flags.resize(id + 1, false);
        }
        if !std::mem::replace(&mut self.flags[id], true) {
            self.ids.push(id);
        }
    }

    /// Whether no change must be kept for the next snapshot.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Notes changes from now on.
    pub(super) fn note(&mut self) {
        self.noted = true;
    }

    /// Returns what has changed, and starts anew.
    pub(super) fn take(&mut self) -> Vec<usize> {
        self.noted = true;
        self.flags.clear();
        std::mem::take(&mut self.ids)
    }

    /// Rows of these ids are restored: those that are later than what was restored before. Ids are not repeated.
    pub(super) fn latest(&mut self, ids: &[usize], versions: &Int64Array) -> Vec<usize> {
        let len = ids.iter().max().map_or(0, |id| id + 1).max(self.versions.len());
        self.versions.resize(len, i64::MIN);
        let mut rows = Vec::new();
        for (row, (id, version)) in ids.iter().zip(versions.values()).enumerate() {
            if *version > self.versions[*id] {
                self.versions[*id] = *version;
                rows.push(row);
            }
        }
        rows
    }

    /// Everything was restored.
    pub(super) fn restored(&mut self) {
        self.versions = Vec::new();
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.flags.capacity() + self.ids.capacity() * size_of::<usize>() + self.versions.capacity() * size_of::<i64>()
    }
}

/// An id as it is stored.
pub(super) fn narrow(id: usize) -> Result<u32> {
    u32::try_from(id).map_err(|_| {
        Error::user("an aggregate has more than 4,294,967,295 groups in one task").remedy("raise the parallelism")
    })
}
