//! Partitions whose rows do not change for long are forgotten. Their rows stay where they were emitted, as in Flink: a row that comes
//! later begins the partition anew.

use anabranch_model::Result;

use super::{Rank, RowOf};
use crate::keyed_state::narrow;

impl Rank {
    /// Forgets partitions whose time is over.
    pub(super) fn forget(&mut self, wall_ms: i64) -> Result<()> {
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
        for group in times.over((0..self.sizes.len()).filter(|group| self.sizes[*group] > 0)) {
            for row in self.rows_of_partition(narrow(group)?) {
                self.changes.add(&row);
                self.set(row, |_| 0);
            }
        }
        if self.changes.noted { Ok(()) } else { self.remove_dead() }
    }

    /// A partition is changed. All of its rows are written anew if they have an earlier time.
    pub(super) fn write(&mut self, group: u32) {
        let is_outdated = self.times.as_mut().is_some_and(|times| times.write(group as usize));
        if is_outdated && self.changes.noted {
            for row in self.rows_of_partition(group) {
                self.changes.add(&row);
            }
        }
    }

    /// Whether a row takes back what is forgotten: it does not count.
    pub(super) fn takes_back_forgotten(&self, row: &RowOf, weight: i64) -> bool {
        self.times.is_some() && weight < 0 && self.rows.get(row).copied().unwrap_or(0) + weight < 0
    }

    fn rows_of_partition(&self, group: u32) -> Vec<RowOf> {
        let rows = self.rows.range((group, Box::default())..).take_while(|((of, _), _)| *of == group);
        rows.map(|(row, _)| row.clone()).collect()
    }
}
