//! Partitions whose rows do not change for long are forgotten. Their rows stay where they were emitted, as in Flink: a row that comes
//! later begins the partition anew.

use anabranch_model::Result;

use super::FirstRows;

impl FirstRows {
    /// Forgets partitions whose time is over.
    pub(super) fn forget(&mut self, wall_ms: i64) -> Result<()> {
        if self.times.is_none() {
            return Ok(());
        }
        self.settle();
        if !self.times.as_mut().is_some_and(|times| times.advance(wall_ms)) {
            return Ok(());
        }
        let Some(times) = &self.times else { return Ok(()) };
        if self.disk.is_some() {
            // What is in memory has a time there too.
            let first = times.first_needed();
            self.put_away()?;
            self.disk.iter_mut().for_each(|disk| disk.forget_before(0, first));
            return Ok(());
        }
        for group in times.over((0..self.partitions.len()).filter(|group| self.partitions[*group].rows() > 0)) {
            self.forget_partition(group);
        }
        self.remove_dead()
    }
    /// Forgets the rows of a partition, without taking them back.
    pub(super) fn forget_partition(&mut self, group: usize) {
        let partition = std::mem::take(&mut self.partitions[group]);
        self.partition_bytes -= partition.size_bytes();
        self.live -= usize::from(partition.rows() > 0);
        self.live_rows -= partition.entries().len();
        for entry in partition.entries() {
            self.copies[entry.kept()] = 0;
            self.changes.add(entry.kept());
        }
    }
}
