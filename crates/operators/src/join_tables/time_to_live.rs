//! Rows that did not come again, and whose matches did not change, for long are forgotten. What was emitted of them stays, as in Flink.

use anabranch_model::Result;

use super::{Side, Tables};

impl Tables {
    /// Forgets rows whose time is over. No batch is being joined. Returns whether some may be forgotten.
    pub(crate) fn forget(&mut self, wall_ms: i64) -> Result<bool> {
        let mut is_time = false;
        for times in self.sides.iter_mut().filter_map(|side| side.times.as_mut()) {
            is_time |= times.advance(wall_ms);
        }
        if !is_time {
            return Ok(false);
        }
        if self.disk.is_none() {
            self.sides.iter_mut().for_each(Side::forget);
            return Ok(true);
        }
        // What is in memory has a time there too.
        self.put_away()?;
        for (table, side) in self.sides.iter().enumerate() {
            if let (Some(disk), Some(times)) = (&mut self.disk, &side.times) {
                disk.forget_before(table, times.first_needed());
            }
        }
        Ok(true)
    }
}
