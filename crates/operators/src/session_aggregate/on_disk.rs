//! Sessions that are on a local disk. Timers say when they end.

use anabranch_model::Result;
use arrow::array::RecordBatch;

use super::{Changes, Session, SessionAggregate};
use crate::event_time::event_times;
use crate::hash_keys;
use crate::key_table::KeyTable;
use crate::keyed_state::{Part, narrow, numbers};

impl SessionAggregate {
    /// Reads the sessions of keys of a batch that have come into the table, as their ids from `known` on say. False if that is too much at
    /// once.
    pub(super) fn load(&mut self, known: usize, keys: &[usize], hashes: &[u64]) -> Result<bool> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(true) };
        let new = keys.iter().zip(hashes).filter(|(id, _)| **id >= known).map(|(_, hash)| *hash).collect();
        let Some(tables) = disk.look_up(new)? else { return Ok(false) };
        tables.iter().try_for_each(|rows| self.load_rows(rows, known))?;
        Ok(true)
    }

    /// Reads the sessions of the next keys of which one may have ended. Returns false if there are none.
    pub(super) fn load_due(&mut self) -> Result<bool> {
        self.keep_to_size()?;
        let (Some(disk), Some(timers)) = (&self.disk, &mut self.timers) else { return Ok(false) };
        let next = self.due.pop().map_or_else(|| timers.next(), |hashes| Ok(Some(hashes)))?;
        let Some(mut hashes) = next else { return Ok(false) };
        match disk.look_up(hashes.clone())? {
            Some(tables) => {
                let known = self.table.len();
                tables.iter().try_for_each(|rows| self.load_rows(rows, known))?;
            }
            None => {
                // What is in memory makes room, and half of the keys have less.
                let half = hashes.split_off(hashes.len() / 2);
                self.due.extend([half, hashes]);
                self.put_away()?;
            }
        }
        Ok(true)
    }

    /// Takes the sessions of keys with an id from `known` on, which have no others.
    fn load_rows(&mut self, rows: &RecordBatch, known: usize) -> Result<()> {
        let (keys, columns) = rows.columns().split_at(self.shape.keys.end);
        let (ids, _) = self.intern(keys, rows.num_rows())?;
        let (starts, ends) = (event_times(&columns[0])?, event_times(&columns[2])?);
        // Another key with the same hash may be in memory, where it is later.
        let new: Vec<usize> = (0..ids.len()).filter(|row| ids[*row] >= known).collect();
        let pieces = self.pieces_of(columns, &new)?;
        for (row, piece) in new.into_iter().zip(pieces) {
            self.keep((narrow(ids[row])?, starts[row]), Session { end: ends[row], pieces: vec![piece] });
        }
        Ok(())
    }

    /// Writes what has changed to the disk, and starts again with empty tables.
    pub(super) fn put_away(&mut self) -> Result<()> {
        let rows = self.take_rows(Part::Unwritten)?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&[rows]))?;
        let keys: Vec<usize> = self.sessions.keys().map(|(key, _)| *key as usize).collect();
        let mut hashes = Vec::new();
        hash_keys(&self.table.keys_of(&keys)?, keys.len(), &mut hashes)?;
        let timers = self.sessions.values().map(|session| session.end).zip(hashes).collect();
        self.timers.as_mut().map_or(Ok(()), |all| all.put(timers))?;
        self.table = KeyTable::by_id(self.key_types.clone())?;
        (self.of_keys, self.live_keys) = (Vec::new(), 0);
        self.sessions.clear();
        self.ends.clear();
        self.pieces.clear();
        self.changes = Changes::for_disk();
        Ok(())
    }

    /// Rows of a snapshot go to the disk.
    pub(super) fn restore_away(&mut self, rows: RecordBatch) -> Result<()> {
        let (keys, columns) = rows.columns().split_at(self.shape.keys.end);
        let mut hashes = Vec::new();
        hash_keys(keys, rows.num_rows(), &mut hashes)?;
        let (are_there, ends) = (numbers(columns, 1)?, event_times(&columns[2])?);
        let there = (0..rows.num_rows()).filter(|row| are_there.value(*row) != 0);
        let timers: Vec<(i64, u64)> = there.map(|row| (ends[row], hashes[row])).collect();
        self.timers.as_mut().map_or(Ok(()), |all| all.put(timers))?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.restore(0, rows))
    }
}
