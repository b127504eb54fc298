//! Partitions that have no more rows for long are forgotten. A row that comes later is the first one of its partition, as in Flink. What
//! event time ends needs no such time.

use anabranch_model::Result;

use super::Over;

impl Over {
    /// These partitions have rows.
    pub(super) fn write(&mut self, groups: &[u32]) {
        let Some(times) = &mut self.times else { return };
        let mut last = None;
        for group in groups.iter().map(|group| *group as usize) {
            if last.replace(group) == Some(group) || !times.write(group) {
                continue;
            }
            // What there is of it has an earlier time, on the disk too.
            self.history.lists[group].stored = 0;
            if self.changes.are_noted() {
                self.outdated.push(group);
            }
        }
    }

    /// Forgets partitions whose time is over.
    pub(super) fn forget_partitions(&mut self, wall_ms: i64) -> Result<()> {
        if !self.times.as_mut().is_some_and(|times| times.advance(wall_ms)) {
            return Ok(());
        }
        self.settle()?;
        if self.disk.is_some() {
            // What is in memory has a time there too.
            self.put_away()?;
            self.forget_on_disk();
            return Ok(());
        }
        let over = self.times.as_ref().map(|times| times.over(0..self.keys.len())).unwrap_or_default();
        if over.is_empty() {
            return Ok(());
        }
        for group in &over {
            while self.history.pop(*group).is_some() {}
        }
        let live: Vec<usize> = (0..self.keys.len()).filter(|group| over.binary_search(group).is_err()).collect();
        self.keep(&live)?;
        self.history.tidy()
    }

    /// The partitions that have another time since the last snapshot, each once.
    pub(super) fn take_outdated(&mut self) -> Vec<usize> {
        let mut outdated = std::mem::take(&mut self.outdated);
        outdated.sort_unstable();
        outdated.dedup();
        outdated
    }

    /// All values of partitions that have another time now are written with it.
    pub(super) fn renew_values(&mut self, outdated: &[usize]) -> Result<()> {
        if outdated.is_empty() {
            return Ok(());
        }
        let mut is_outdated = vec![false; self.keys.len()];
        outdated.iter().for_each(|group| is_outdated[*group] = true);
        let mut entries = self.functions.calls.iter_mut().filter_map(|call| call.accumulator.entries());
        entries.try_for_each(|entries| entries.renew(&is_outdated))
    }
}
