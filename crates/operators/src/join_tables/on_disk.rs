//! Rows that are on a local disk.

use anabranch_model::Result;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use super::Tables;
use crate::hash_keys;
use crate::key_table::KeyTable;
use crate::keyed_state::Part;

impl Tables {
    /// Reads the rows of all sides whose keys have come into the table, as their ids from `known` on say. False if these are too many
    /// at once.
    pub(super) fn load(&mut self, known: usize, keys: &[usize]) -> Result<bool> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(true) };
        let new = keys.iter().zip(&self.hashes).filter(|(id, _)| **id >= known).map(|(_, hash)| *hash).collect();
        let Some(tables) = disk.look_up(new)? else { return Ok(false) };
        self.load_rows(&tables, known)?;
        Ok(true)
    }

    /// Takes rows of keys with an id from `known` on, which have no others.
    fn load_rows(&mut self, tables: &[RecordBatch], known: usize) -> Result<()> {
        for (table, rows) in tables.iter().enumerate().filter(|(_, rows)| rows.num_rows() > 0) {
            let mut keys = self.keys_of(rows)?;
            // Another key with the same hash may be in memory, where it is later.
            let is_new: BooleanArray = keys.iter().map(|id| Some(*id >= known)).collect();
            let rows = filter_record_batch(rows, &is_new)?;
            keys.retain(|id| *id >= known);
            self.take_rows_in(table, &keys, &rows, None)?;
        }
        Ok(())
    }

    /// Reads the rows of the next keys of which some may appear. Returns false if there are none. There is room for them.
    pub(crate) fn load_due(&mut self) -> Result<bool> {
        let (Some(disk), Some(timers)) = (&self.disk, &mut self.timers) else { return Ok(false) };
        let next = self.due.pop().map_or_else(|| timers.next(), |hashes| Ok(Some(hashes)))?;
        let Some(mut hashes) = next else { return Ok(false) };
        match disk.look_up(hashes.clone())? {
            Some(tables) => self.load_rows(&tables, self.keys.len())?,
            None => {
                // What is in memory makes room, and half of the keys have less.
                let half = hashes.split_off(hashes.len() / 2);
                self.due.extend([half, hashes]);
                self.put_away()?;
            }
        }
        Ok(true)
    }

    /// Rows that were restored go to the disk.
    pub(super) fn restore_away(&mut self, table: usize, rows: RecordBatch) -> Result<()> {
        let side = &self.sides[table];
        if let (Some(timers), Some(expiry)) = (&mut self.timers, side.expiry.as_ref().filter(|_| side.waits())) {
            hash_keys(&rows.columns()[..self.key_types.len()], rows.num_rows(), &mut self.hashes)?;
            timers.put(expiry.ends_of(rows.columns())?.into_iter().zip(self.hashes.iter().copied()).collect())?;
        }
        self.disk.as_mut().map_or(Ok(()), |disk| disk.restore(table, rows))
    }

    /// Sets timers for the rows in memory that wait for the end of their time.
    fn set_timers(&mut self) -> Result<()> {
        let Some(timers) = &mut self.timers else { return Ok(()) };
        for side in &self.sides {
            let Some(expiry) = side.expiry.as_ref().filter(|_| side.waits()) else { continue };
            let rows: Vec<usize> = (0..side.len()).filter(|row| side.weight(*row) != 0).collect();
            let keys = self.keys.keys_of(&side.rows.keys_of(&rows)?)?;
            hash_keys(&keys, rows.len(), &mut self.hashes)?;
            timers.put(rows.iter().map(|row| expiry.end(*row)).zip(self.hashes.iter().copied()).collect())?;
        }
        Ok(())
    }

    /// Writes what has changed to the disk, and starts again with empty tables. No batch is being joined.
    pub(crate) fn put_away(&mut self) -> Result<()> {
        self.set_timers()?;
        let tables = self.take_rows(Part::Unwritten)?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&tables))?;
        self.keys = KeyTable::by_id(self.key_types.clone())?;
        self.sides.iter_mut().try_for_each(super::Side::clear)
    }

    /// Notes what changes from now on, if it will be written to a disk.
    pub(super) fn note_for_disk(&mut self) {
        if self.disk.is_some() {
            self.sides.iter_mut().for_each(|side| side.changes.for_disk());
        }
    }
}
