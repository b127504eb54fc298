//! Rows that are on a local disk.

use anabranch_model::Result;
use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;

use super::{Divided, StreamJoin};
use crate::key_table::KeyTable;
use crate::keyed_state::Part;

impl StreamJoin {
    /// Reads the rows of both sides whose keys have come into the table, as their ids from `known` on say. False if these are too many
    /// at once.
    pub(super) fn load(&mut self, known: usize, keys: &[usize]) -> Result<bool> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(true) };
        let new = keys.iter().zip(&self.hashes).filter(|(id, _)| **id >= known).map(|(_, hash)| *hash).collect();
        let Some(tables) = disk.look_up(new)? else { return Ok(false) };
        for (table, rows) in tables.into_iter().enumerate().filter(|(_, rows)| rows.num_rows() > 0) {
            let mut keys = self.keys_of(&rows)?;
            // Another key with the same hash may be in memory, where it is later.
            let is_new: BooleanArray = keys.iter().map(|id| Some(*id >= known)).collect();
            let rows = filter_record_batch(&rows, &is_new)?;
            keys.retain(|id| *id >= known);
            self.take_rows_in(table, &keys, &rows, None)?;
        }
        Ok(true)
    }

    /// What is in memory makes room, and half of the rows need fewer keys.
    pub(super) fn divide(&mut self, (of, columns, mut weights): Divided) -> Result<()> {
        self.put_away()?;
        let half = weights.len() / 2;
        let part = |first: usize, len: usize| columns.iter().map(|column| column.slice(first, len)).collect::<Vec<_>>();
        let (before, after) = (part(0, half), part(half, weights.len() - half));
        self.divided.push_front((of, after, weights.split_off(half)));
        self.divided.push_front((of, before, weights));
        Ok(())
    }

    /// Writes what has changed to the disk, and starts again with empty tables. No batch is being joined.
    pub(super) fn put_away(&mut self) -> Result<()> {
        let tables = self.take_rows(Part::Unwritten)?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&tables))?;
        self.keys = KeyTable::by_id(self.key_types.clone())?;
        self.left.clear()?;
        self.right.clear()
    }

    /// Notes what changes from now on, if it will be written to a disk.
    pub(super) fn note_for_disk(&mut self) {
        if self.disk.is_some() {
            self.left.changes.for_disk();
            self.right.changes.for_disk();
        }
    }
}
