//! Changes of a state since its last snapshot, and since its tables were written to the disk.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::Int64Array;

/// Ids, each once.
#[derive(Default)]
struct IdSet {
    flags: Vec<bool>,
    ids: Vec<usize>,
}

impl IdSet {
    fn add(&mut self, id: usize) {
        if self.flags.len() <= id {
            self.flags.resize(id + 1, false);
        }
        if !std::mem::replace(&mut self.flags[id], true) {
            self.ids.push(id);
        }
    }

    fn take(&mut self) -> Vec<usize> {
        self.flags.clear();
        std::mem::take(&mut self.ids)
    }

    fn has(&self, id: usize) -> bool {
        self.flags.get(id).copied().unwrap_or(false)
    }

    fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        self.take().into_iter().filter_map(number).for_each(|id| self.add(id));
    }

    fn size_bytes(&self) -> usize {
        self.flags.capacity() + self.ids.capacity() * size_of::<usize>()
    }
}

/// Ids that have changed.
#[derive(Default)]
pub(crate) struct Changes {
    /// Whether changes are noted. The first snapshot contains everything, so none are noted before it.
    noted: bool,
    /// Since the last snapshot.
    changed: IdSet,
    /// Since the tables were written to the disk, if they are.
    unwritten: Option<IdSet>,
    /// While state is restored: for each id the snapshot of its row.
    versions: Vec<i64>,
}

/// Which rows are taken from the tables of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Those that have changed since the last snapshot.
    Changed,
    /// Those that have changed since the tables were written to the disk.
    Unwritten,
    /// Those that exist.
    All,
}

impl Extent {
    /// The part of the tables that a snapshot contains.
    pub(super) fn of_snapshot(complete: bool, on_disk: bool) -> Extent {
        match (complete, on_disk) {
            (false, _) => Extent::Changed,
            (true, true) => Extent::Unwritten,
            (true, false) => Extent::All,
        }
    }
}

impl Changes {
    pub(crate) fn add(&mut self, id: usize) {
        if self.noted {
            self.changed.add(id);
            self.unwritten.iter_mut().for_each(|unwritten| unwritten.add(id));
        }
    }

    /// Upper bound of the number of noted changes.
    pub(crate) fn len(&self) -> usize {
        self.changed.ids.len() + self.unwritten.as_ref().map_or(0, |unwritten| unwritten.ids.len())
    }

    /// Whether a change of an id is noted.
    pub(crate) fn has(&self, id: usize) -> bool {
        self.changed.has(id) || self.unwritten.as_ref().is_some_and(|unwritten| unwritten.has(id))
    }

    /// Gives ids new numbers, or removes them.
    pub(crate) fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        self.changed.renumber(&number);
        self.unwritten.iter_mut().for_each(|unwritten| unwritten.renumber(&number));
    }

    /// Whether changes are kept: a snapshot was taken, or the tables are written to the disk.
    pub(crate) fn are_noted(&self) -> bool {
        self.noted
    }

    /// Takes the ids of this part. From now on, changes until the next snapshot are noted. `all`: all ids
    /// that exist.
    pub(crate) fn take(&mut self, part: Extent, all: impl FnOnce() -> Vec<usize>) -> Vec<usize> {
        self.noted = true;
        let changed = self.changed.take();
        match part {
            Extent::Changed => changed,
            Extent::Unwritten => self.unwritten.as_ref().map(|unwritten| unwritten.ids.clone()).unwrap_or_default(),
            Extent::All => all(),
        }
    }

    /// The indices of the rows that are later than any row that was restored before for the same id.
    pub(crate) fn latest(&mut self, ids: &[usize], versions: &Int64Array) -> Vec<usize> {
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

    pub(crate) fn size_bytes(&self) -> usize {
        let unwritten = self.unwritten.as_ref().map_or(0, IdSet::size_bytes);
        self.changed.size_bytes() + unwritten + self.versions.capacity() * size_of::<i64>()
    }
}

/// Notes changes of the rows of a state.
pub(crate) trait Noted {
    /// Begins to note changes. None are noted before the first snapshot, which contains everything.
    fn begin_noting(&mut self);

    /// Begins to note changes for the disk. Forgets the changes that were noted before.
    fn for_disk(&mut self);

    /// Ends the restore.
    fn restored(&mut self);

    /// Whether there are no pending changes, neither for the next snapshot nor for the disk.
    fn is_empty(&self) -> bool;
}

impl Noted for Changes {
    fn begin_noting(&mut self) {
        self.noted = true;
    }

    fn for_disk(&mut self) {
        *self = Changes { noted: true, unwritten: Some(IdSet::default()), ..Changes::default() };
    }

    fn restored(&mut self) {
        self.versions = Vec::new();
    }

    fn is_empty(&self) -> bool {
        self.changed.ids.is_empty() && self.unwritten.as_ref().is_none_or(|unwritten| unwritten.ids.is_empty())
    }
}

/// Changed rows, identified by their values: for rows without ids.
pub(crate) struct ChangedRows<K> {
    noted: bool,
    changed: BTreeSet<K>,
    unwritten: Option<BTreeSet<K>>,
    versions: BTreeMap<K, i64>,
}

impl<K> Default for ChangedRows<K> {
    fn default() -> ChangedRows<K> {
        ChangedRows { noted: false, changed: BTreeSet::new(), unwritten: None, versions: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> ChangedRows<K> {
    pub(crate) fn add(&mut self, row: &K) {
        if self.noted {
            self.changed.insert(row.clone());
            self.unwritten.iter_mut().for_each(|unwritten| _ = unwritten.insert(row.clone()));
        }
    }

    /// Number of rows in memory. A row may count several times.
    pub(crate) fn len(&self) -> usize {
        self.changed.len() + self.unwritten.as_ref().map_or(0, BTreeSet::len) + self.versions.len()
    }

    /// Whether changes are kept.
    pub(crate) fn are_noted(&self) -> bool {
        self.noted
    }

    /// Takes the rows of this part. From now on, changes until the next snapshot are noted. `None`: all that
    /// exist.
    pub(crate) fn take(&mut self, part: Extent) -> Option<Vec<K>> {
        self.noted = true;
        let changed = std::mem::take(&mut self.changed);
        match part {
            Extent::Changed => Some(changed.into_iter().collect()),
            Extent::Unwritten => Some(self.unwritten.iter().flatten().cloned().collect()),
            Extent::All => None,
        }
    }

    /// Whether a restored row is later than the row that was restored before under this identity.
    pub(crate) fn is_latest(&mut self, row: &K, version: i64) -> bool {
        let is_latest = self.versions.get(row).is_none_or(|earlier| *earlier < version);
        if is_latest {
            self.versions.insert(row.clone(), version);
        }
        is_latest
    }
}

impl<K: Ord + Clone> Noted for ChangedRows<K> {
    fn begin_noting(&mut self) {
        self.noted = true;
    }

    fn for_disk(&mut self) {
        *self = ChangedRows { noted: true, unwritten: Some(BTreeSet::new()), ..ChangedRows::default() };
    }

    fn restored(&mut self) {
        self.versions.clear();
    }

    fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.unwritten.as_ref().is_none_or(BTreeSet::is_empty)
    }
}
