//! Groups that are on a local disk.

use anabranch_model::Result;
use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;

use super::{GroupAggregate, Groups, Scratch};
use crate::keyed_state::{OnDisk, Part};

impl GroupAggregate {
    /// Reads the groups of the batch that have come into the table, as their ids from `known` on say. False if that is too much at once.
    pub(super) fn load(&mut self, known: usize) -> Result<bool> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(true) };
        let Scratch { hashes, ids, .. } = &self.scratch;
        let windows = self.groups.windows.as_ref();
        let placed = |id: &usize, hash: &u64| windows.map_or(*hash, |windows| windows.hash(*id, *hash));
        let new = ids.iter().zip(hashes).filter(|(id, _)| **id >= known).map(|(id, hash)| placed(id, hash)).collect();
        let Some(tables) = disk.look_up(new)? else { return Ok(false) };
        for (table, rows) in tables.into_iter().enumerate().filter(|(_, rows)| rows.num_rows() > 0) {
            let mut ids = self.groups.intern(&rows)?;
            // Another key with the same hash may be in memory, where it is later.
            let is_new: BooleanArray = ids.iter().map(|id| Some(*id >= known)).collect();
            let rows = filter_record_batch(&rows, &is_new)?;
            ids.retain(|id| *id >= known);
            let (ids, rows) = match self.groups.times.as_ref().filter(|_| table > 0) {
                Some(times) => times.living(ids, &rows)?,
                None => (ids, rows),
            };
            self.groups.take_in(table, &ids, &rows, None)?;
        }
        Ok(true)
    }

    /// Writes what has changed to the disk, and starts again with empty tables.
    pub(super) fn put_away(&mut self) -> Result<()> {
        let rows = self.take_rows(Part::Unwritten)?;
        let Groups { windows, emitted, rows: counts, .. } = &mut self.groups;
        windows.iter_mut().for_each(|windows| windows.put_away(|group| counts[group] > 0 && !emitted[group]));
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&rows))?;
        self.scratch.stamps = Vec::new();
        self.groups.clear()
    }
}

impl Groups {
    /// Whether the tables are written to a disk when they are full.
    pub(super) fn for_disk(&mut self, disk: Option<&OnDisk>) {
        if disk.is_some() {
            self.changes.for_disk();
            self.entries().for_each(|entries| entries.changes.for_disk());
        }
    }

    /// Removes all groups.
    pub(super) fn clear(&mut self) -> Result<()> {
        self.rows.fill(0);
        self.remove_dead()?;
        self.live = 0;
        self.changes.written();
        self.entries().for_each(|entries| entries.changes.written());
        Ok(())
    }
}
