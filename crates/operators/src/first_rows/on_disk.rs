//! Partitions that are on a local disk.

use anabranch_model::Result;
use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;

use super::{FirstRows, Touched};
use crate::key_table::KeyTable;
use crate::keyed_state::{Part, numbers};

impl FirstRows {
    /// Reads the partitions of a batch that have come into the table, as their ids from `known` on say. False if that is too much at
    /// once.
    pub(super) fn load(&mut self, known: usize, groups: &[usize], hashes: &[u64]) -> Result<bool> {
        let Some(disk) = self.disk.as_ref().filter(|disk| !disk.is_empty()) else { return Ok(true) };
        let new = groups.iter().zip(hashes).filter(|(id, _)| **id >= known).map(|(_, hash)| *hash).collect();
        let Some(tables) = disk.look_up(new)? else { return Ok(false) };
        for rows in tables.into_iter().filter(|rows| rows.num_rows() > 0) {
            let mut groups = self.groups_of(&rows)?;
            // Another key with the same hash may be in memory, where it is later.
            let is_new: BooleanArray = groups.iter().map(|group| Some(*group >= known)).collect();
            let rows = filter_record_batch(&rows, &is_new)?;
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
                self.live += usize::from(partition.rows > 0);
                self.live_rows += partition.entries().len();
                self.partition_bytes += partition.size_bytes();
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
        self.rows.clear()?;
        (self.partitions, self.touched) = (Vec::new(), Touched::default());
        (self.groups, self.copies) = (Vec::new(), Vec::new());
        (self.live, self.live_rows, self.partition_bytes) = (0, 0, 0);
        self.times.iter_mut().for_each(|times| times.keep(&[]));
        self.changes.written();
        Ok(())
    }
}
