//! Rows that did not come again, and whose matches did not change, for long are forgotten. What was emitted of them stays, as in Flink.

use anabranch_model::Result;

use super::StreamJoin;
use super::side::Side;

impl StreamJoin {
    /// Forgets rows whose time is over. No batch is being joined.
    pub(super) fn forget(&mut self, wall_ms: i64) -> Result<()> {
        let is_time = |side: &mut Side| side.times.as_mut().is_some_and(|times| times.advance(wall_ms));
        if !(is_time(&mut self.left) | is_time(&mut self.right)) {
            return Ok(());
        }
        if self.disk.is_none() {
            self.left.forget();
            self.right.forget();
            return self.remove_dead();
        }
        // What is in memory has a time there too.
        self.put_away()?;
        let shapes = self.shapes();
        for (table, side) in [&self.left, &self.right].into_iter().enumerate() {
            if let (Some(disk), Some(times)) = (&mut self.disk, &side.times) {
                disk.forget_before(table, times.first_time(&shapes[table].schema)?);
            }
        }
        Ok(())
    }
}
