//! Partitions that are on a local disk.

use std::collections::BTreeSet;

use anabranch_model::Result;

use super::{Changes, Rank};
use crate::key_table::KeyTable;
use crate::keyed_state::Part;

impl Rank {
    /// Reads the partitions of a batch that have come into the table, as their ids from `known` on say. False if that is too much at
    /// once.
    pub(super) fn load(&mut self, known: usize, ids: &[usize], hashes: &[u64]) -> Result<bool> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(true) };
        let new = ids.iter().zip(hashes).filter(|(id, _)| **id >= known).map(|(_, hash)| *hash).collect();
        let Some(tables) = disk.look_up(new)? else { return Ok(false) };
        for rows in tables {
            let (keys, copies) = self.rows_of(&rows)?;
            let groups: Vec<usize> = keys.iter().map(|(group, _)| *group as usize).collect();
            let living = self.times.as_ref().map(|times| times.are_living(&groups, &rows)).transpose()?;
            for (row, (key, copies)) in keys.into_iter().zip(copies.values()).enumerate() {
                // Another key with the same hash may be in memory, where it is later.
                if key.0 as usize >= known && living.as_ref().is_none_or(|living| living.value(row)) {
                    self.set(key, |_| *copies);
                }
            }
        }
        Ok(true)
    }

    /// Writes what has changed to the disk, and starts again with empty tables.
    pub(super) fn put_away(&mut self) -> Result<()> {
        let rows = self.take_rows(Part::Unwritten)?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&[rows]))?;
        let types = self.spec.schema.fields().iter().take(self.spec.keys).map(|field| field.data_type().clone());
        self.keys = KeyTable::by_id(types.collect())?;
        self.rows.clear();
        (self.sizes, self.live, self.bytes) = (Vec::new(), 0, 0);
        self.times.iter_mut().for_each(|times| times.keep(&[]));
        self.note_for_disk();
        Ok(())
    }

    /// Notes what changes from now on, if it will be written to a disk.
    pub(super) fn note_for_disk(&mut self) {
        if self.disk.is_some() {
            self.changes = Changes { noted: true, unwritten: Some(BTreeSet::new()), ..Changes::default() };
        }
    }
}
