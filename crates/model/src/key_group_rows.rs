//! How many rows each key group had: counted where rows are divided among the tasks of a stage.
//!
//! All rows of small batches count, and of large ones every seventeenth batch, seventeen times. Counting
//! costs about a nanosecond for a row that is counted: a load, an addition and a store, by the one thread
//! that writes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::{KeyGroup, KeyGroups, StageId, TaskId};

/// Batches with more rows are not counted each time. A smaller one costs more than its rows.
const SMALL_ROWS: usize = 512;
/// One in this number of large batches is counted. It is prime, because operators emit their rows in series
/// of batches.
const COUNTED_OF: u64 = 17;

/// The rows of each key group that one task has sent to a stage.
#[derive(Debug)]
pub struct KeyGroupRows {
    groups: KeyGroups,
    rows: Box<[AtomicU64]>,
}

/// Decides which batches count. It belongs to the thread that sends them.
#[derive(Debug, Default)]
pub struct Sampler {
    passed: u64,
}

impl Sampler {
    /// How often each row of the next batch counts; 0: the batch is not counted.
    #[inline]
    pub fn weight(&mut self, rows: usize) -> u64 {
        if rows <= SMALL_ROWS {
            return 1;
        }
        self.passed += 1;
        if self.passed % COUNTED_OF == 1 { COUNTED_OF } else { 0 }
    }
}

impl KeyGroupRows {
    /// No rows yet.
    #[must_use]
    pub fn new(groups: KeyGroups) -> KeyGroupRows {
        KeyGroupRows { groups, rows: (0..groups.0).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts the rows with these hashes. Only one thread may do so.
    pub fn add(&self, hashes: &[u64], weight: u64) {
        for hash in hashes {
            let KeyGroup(group) = self.groups.of(*hash);
            let counter = &self.rows[usize::from(group)];
            counter.store(counter.load(Relaxed) + weight, Relaxed);
        }
    }

    /// The rows of each key group so far, about.
    #[must_use]
    pub fn read(&self) -> Vec<u64> {
        self.rows.iter().map(|rows| rows.load(Relaxed)).collect()
    }
}

/// The rows of each key group that one task has sent to a stage so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyGroupReading {
    /// The task.
    pub from: TaskId,
    /// The stage.
    pub to: StageId,
    /// Of each key group.
    pub rows: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn each_small_batch_counts_and_large_ones_about_as_often_as_they_come() {
        let (groups, mut sampler, mut rng) = (KeyGroups(4), Sampler::default(), Rng::new(3));
        let rows = KeyGroupRows::new(groups);
        let mut sent = 0;
        for batch in 0..1700 {
            // Half of the hashes are of the first key group.
            let hash = |rng: &mut Rng| if rng.below(2) == 0 { 0 } else { rng.next_u64() };
            let hashes: Vec<u64> = (0..if batch % 2 == 0 { 100 } else { 1000 }).map(|_| hash(&mut rng)).collect();
            sent += hashes.len() as u64;
            match sampler.weight(hashes.len()) {
                0 => assert!(hashes.len() > SMALL_ROWS),
                weight => rows.add(&hashes, weight),
            }
        }
        let read = rows.read();
        assert_eq!(read.iter().sum::<u64>(), sent, "850 large batches are 50 times 17");
        assert!(read[0] > 3 * read[1] && read[1] > 0, "{read:?}");
    }
}
