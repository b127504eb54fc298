//! Partitions that are on a local disk.

use anabranch_model::Result;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use super::{FirstRows, Touched};
use crate::key_table::KeyTable;
use crate::keyed_state::{Part, numbers};

impl FirstRows {
    /// Reads the partitions of a batch that have come into the table, as their ids from `known` on say. False if that is too much at
    /// once.
    pub(super) fn load(&mut self, known: usize, groups: &[usize], hashes: &[u64]) -> Result<bool> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(true) };
        let windows = self.windows.as_ref();
        let placed = |id: &usize, hash: &u64| windows.map_or(*hash, |windows| windows.hash(*id, *hash));
        let new = groups.iter().zip(hashes).filter(|(id, _)| **id >= known);
        let Some(tables) = disk.look_up(new.map(|(id, hash)| placed(id, hash)).collect())? else { return Ok(false) };
        tables.iter().try_for_each(|rows| self.load_rows(rows, known))?;
        Ok(true)
    }

    /// Takes rows of the disk into the partitions from the id `known` on, which have no others.
    pub(super) fn load_rows(&mut self, rows: &RecordBatch, known: usize) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let mut groups = self.groups_of(rows)?;
        // Another key with the same hash may be in memory, where it is later.
        let is_new: BooleanArray = groups.iter().map(|group| Some(*group >= known)).collect();
        let rows = filter_record_batch(rows, &is_new)?;
        groups.retain(|group| *group >= known);
        let (mut groups, rows) = match &self.times {
            Some(times) => times.living(groups, &rows)?,
            None => (groups, rows),
        };
        let ids = self.intern(&rows, &groups)?;
        let copies = numbers(rows.columns(), self.spec.schema.fields().len())?;
        for (id, copies) in ids.iter().zip(copies.values()) {
            self.copies[*id] = self.copies_of(*copies);
        }
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            let partition = &mut self.partitions[group];
            // An earlier version has written more than the first rows.
            partition.settle(&mut self.copies, self.spec.limit);
            self.live += usize::from(partition.rows() > 0);
            self.live_rows += partition.entries().len();
            self.partition_bytes += partition.size_bytes();
        }
        Ok(())
    }

    /// Writes what has changed to the disk, and starts again with empty tables.
    pub(super) fn put_away(&mut self) -> Result<()> {
        let rows = self.take_rows(Part::Unwritten)?;
        self.disk.as_mut().map_or(Ok(()), |disk| disk.put(&[rows]))?;
        let partitions = &self.partitions;
        self.windows.iter_mut().for_each(|windows| windows.put_away(|group| partitions[group].rows() > 0));
        self.clear()?;
        self.changes.written();
        Ok(())
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) -> Result<()> {
        let types = self.spec.schema.fields().iter().take(self.spec.keys).map(|field| field.data_type().clone());
        self.keys = KeyTable::by_id(types.collect())?;
        self.rows.clear()?;
        (self.partitions, self.touched) = (Vec::new(), Touched::default());
        (self.groups, self.copies) = (Vec::new(), Vec::new());
        (self.live, self.live_rows, self.partition_bytes) = (0, 0, 0);
        self.times.iter_mut().for_each(|times| times.keep(&[]));
        self.windows.iter_mut().for_each(|windows| windows.keep(&[]));
        Ok(())
    }
}
