//! Groups that no row changes for long are forgotten, with their values. Their results stay where they were emitted, as in Flink: a row
//! that comes later begins the group anew.

use anabranch_model::Result;
use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::compute::take;

use super::{GroupAggregate, Groups};

impl GroupAggregate {
    /// Forgets groups whose time is over.
    pub(super) fn forget(&mut self, wall_ms: i64) -> Result<()> {
        let Some(times) = &mut self.groups.times else { return Ok(()) };
        if !times.advance(wall_ms) {
            return Ok(());
        }
        if self.disk.is_none() {
            return self.groups.forget();
        }
        // What is in memory has a time there too.
        self.put_away()?;
        if let (Some(disk), Some(times)) = (&mut self.disk, &self.groups.times) {
            disk.forget_all_before(times.first_needed());
        }
        Ok(())
    }

    /// Which rows of a batch count, unless all of them do: a row that takes back what is forgotten does not.
    pub(super) fn rows_of_known(&self, weights: Option<&[i64]>) -> Option<BooleanArray> {
        let weights =
            weights.filter(|weights| self.groups.times.is_some() && weights.iter().any(|weight| *weight < 0))?;
        let mut rows = std::collections::HashMap::new();
        let counts = self.scratch.ids.iter().zip(weights).map(|(group, weight)| {
            let rows = rows.entry(*group).or_insert(self.groups.rows[*group]);
            let counts = *rows + weight >= 0;
            *rows += if counts { *weight } else { 0 };
            Some(counts)
        });
        let counts: BooleanArray = counts.collect();
        (counts.true_count() < counts.len()).then_some(counts)
    }
}

impl Groups {
    /// Groups are changed.
    pub(super) fn write(&mut self, groups: &[usize]) {
        let Some(times) = &mut self.times else { return };
        for group in groups {
            if times.write(*group) && self.changes.are_noted() {
                self.outdated.push(*group);
            }
        }
    }

    /// All values of a group that has another time now are written with it.
    pub(super) fn renew_values(&mut self) -> Result<()> {
        let outdated = std::mem::take(&mut self.outdated);
        if outdated.is_empty() {
            return Ok(());
        }
        let mut is_outdated = vec![false; self.rows.len()];
        outdated.into_iter().for_each(|group| is_outdated[group] = true);
        self.entries().try_for_each(|entries| entries.renew(&is_outdated))
    }

    fn forget(&mut self) -> Result<()> {
        let Some(times) = &self.times else { return Ok(()) };
        let over = times.over((0..self.rows.len()).filter(|group| self.rows[*group] != 0));
        self.forget_groups(&over)
    }

    /// Forgets groups, without taking their results back.
    pub(super) fn forget_groups(&mut self, over: &[usize]) -> Result<()> {
        if over.is_empty() {
            return Ok(());
        }
        let mut is_over = vec![false; self.rows.len()];
        for group in over {
            self.live -= usize::from(self.rows[*group] != 0);
            (self.rows[*group], is_over[*group]) = (0, true);
            self.changes.add(*group);
        }
        for call in &mut self.calls {
            let changed = call.accumulator.entries().map(|entries| entries.forget(&is_over)).transpose()?;
            if let Some(changed) = changed {
                call.accumulator.entries_restored(&changed)?;
            }
            // The state of a group that has no rows yet.
            call.accumulator.resize(is_over.len() + 1);
            let first = UInt64Array::from(vec![0; over.len()]);
            let fresh = call.accumulator.state(&[is_over.len()])?;
            let fresh: Vec<ArrayRef> = fresh.iter().map(|state| take(state, &first, None)).collect::<Result<_, _>>()?;
            call.accumulator.restore(over, &fresh)?;
            call.accumulator.resize(is_over.len());
        }
        Ok(())
    }
}
