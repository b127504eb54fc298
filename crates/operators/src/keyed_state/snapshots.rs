//! What the snapshots of a state contained, and whether the next one is complete.

use std::sync::Arc;

use anabranch_model::Result;
use anabranch_state::Run;
use arrow::array::Int64Array;

use super::{Extent, OnDisk};

/// A snapshot is complete when the rows emitted since the last complete one exceed its rows by this factor.
const CHANGES_PER_STATE: usize = 4;

/// The runs of each table that is on the disk.
pub(crate) type RunsOfTables = Vec<Vec<Arc<Run>>>;

/// The rows of the snapshots so far.
#[derive(Default)]
pub(crate) struct Snapshots {
    /// Rows of the last complete snapshot; `None` before the first.
    complete_rows: Option<usize>,
    /// Rows of the snapshots of changes since.
    changed_rows: usize,
    /// Rows of the snapshots that were restored.
    restored_rows: usize,
    /// Fewer changed rows than this are not worth a complete snapshot.
    changed_rows_min: usize,
    /// The operator has taken over the state of a former plan version, and has taken no snapshot since. The
    /// change is final with the first snapshot, which must be quick: it is not complete only because the
    /// state has grown.
    has_succeeded: bool,
    /// Number of the last snapshot.
    pub(crate) number: i64,
}

impl Snapshots {
    pub(crate) fn new(changed_rows_min: usize) -> Snapshots {
        Snapshots { changed_rows_min, ..Snapshots::default() }
    }

    /// Takes over the state of a former plan version.
    pub(crate) fn succeed(self) -> Snapshots {
        Snapshots { has_succeeded: true, ..self }
    }

    /// Continues the restored snapshots: the state now has this number of rows.
    pub(crate) fn go_on(&mut self, rows: usize) {
        self.complete_rows = Some(rows);
        self.changed_rows = self.restored_rows.saturating_sub(rows);
    }

    /// Whether the next snapshot contains the whole state.
    pub(crate) fn is_complete(&self, adds: bool) -> bool {
        let outgrown = |rows: usize| self.changed_rows > self.changed_rows_min.max(CHANGES_PER_STATE * rows);
        self.complete_rows.is_none_or(|rows| !adds && !self.has_succeeded && outgrown(rows))
    }

    /// Begins a snapshot. Returns whether it is complete, the part of the tables in memory that it contains,
    /// and the files of each table on the disk.
    pub(crate) fn begin(&self, disk: Option<&mut OnDisk>, adds: bool) -> Result<(bool, Extent, RunsOfTables)> {
        let on_disk = disk.is_some();
        let (complete, files) = match disk {
            Some(disk) => disk.snapshot(adds, self)?,
            None => (self.is_complete(adds), Vec::new()),
        };
        Ok((complete, Extent::of_snapshot(complete, on_disk), files))
    }

    /// Notes the numbers of the snapshots of restored rows.
    pub(crate) fn restoring(&mut self, versions: &Int64Array) {
        self.number = self.number.max(versions.values().iter().copied().max().unwrap_or(0));
        self.restoring_rows(versions.len());
    }

    /// Notes the number of restored rows.
    pub(crate) fn restoring_rows(&mut self, rows: usize) {
        self.restored_rows += rows;
    }

    pub(crate) fn emitted(&mut self, complete: bool, rows: usize) {
        self.has_succeeded = false;
        match complete {
            true => (self.complete_rows, self.changed_rows) = (Some(rows), 0),
            false => self.changed_rows += rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of the plan waits for the first snapshot after it.
    #[test]
    fn state_that_has_grown_is_written_as_a_whole_but_not_by_the_first_snapshot_after_a_change() {
        let mut snapshots = Snapshots::new(0);
        assert!(snapshots.is_complete(true), "the first one");
        snapshots.emitted(true, 10);
        snapshots.emitted(false, 40);
        assert!(!snapshots.is_complete(false));
        snapshots.emitted(false, 1);
        assert!(snapshots.is_complete(false) && !snapshots.is_complete(true));
        let mut snapshots = snapshots.succeed();
        assert!(!snapshots.is_complete(false));
        snapshots.emitted(false, 1);
        assert!(snapshots.is_complete(false));
        assert!(Snapshots::new(0).succeed().is_complete(false), "there was none before");
    }
}
