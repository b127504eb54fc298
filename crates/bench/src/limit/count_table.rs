//! Counts per integer key: linear probing over packed slots of key and count.
//!
//! A block is processed in short runs of keys. The first pass over a run reads each key's home slot. Those
//! reads are independent of each other, so the processor has many cache misses in flight. The second pass
//! counts.

use anabranch_model::{HASH_SEED, hash_u64};

use crate::answer::Answer;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: i64,
    /// 0 marks an empty slot.
    count: u64,
}

const RUN: usize = 32;
const SLOTS_MIN: usize = 1024;

/// Hash table of counts, at most half full.
#[derive(Debug)]
pub(crate) struct CountTable {
    slots: Vec<Slot>,
    shift: u32,
    keys: usize,
}

impl CountTable {
    /// No counts yet.
    pub(crate) fn new() -> Self {
        Self::with_slots(SLOTS_MIN)
    }

    fn with_slots(size: usize) -> Self {
        CountTable { slots: vec![Slot::default(); size], shift: 64 - size.trailing_zeros(), keys: 0 }
    }

    /// Counts each of the keys once.
    pub(crate) fn count(&mut self, keys: &[i64]) {
        for run in keys.chunks(RUN) {
            if (self.keys + run.len()) * 2 > self.slots.len() {
                self.grow();
            }
            let mut homes = [0; RUN];
            let mut warm = 0;
            for (home, key) in homes.iter_mut().zip(run) {
                *home = self.home(*key);
                warm |= self.slots[*home].count;
            }
            std::hint::black_box(warm);
            for (home, key) in homes.iter().zip(run) {
                self.add(*home, *key, 1);
            }
        }
    }

    #[inline]
    fn home(&self, key: i64) -> usize {
        (hash_u64(HASH_SEED, key.cast_unsigned()) >> self.shift) as usize
    }

    #[inline]
    fn add(&mut self, home: usize, key: i64, by: u64) {
        let mask = self.slots.len() - 1;
        let mut at = home & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.count == 0 {
                *slot = Slot { key, count: by };
                self.keys += 1;
                return;
            }
            if slot.key == key {
                slot.count += by;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let grown = Self::with_slots(self.slots.len() * 4);
        let old = std::mem::replace(self, grown);
        for slot in old.slots.iter().filter(|slot| slot.count > 0) {
            self.add(self.home(slot.key), slot.key, slot.count);
        }
    }

    /// The counts.
    pub(crate) fn answer(&self) -> Answer {
        let mut answer = Answer::default();
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            answer.add_key(slot.key, slot.count);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use anabranch_model::Rng;

    use super::*;

    #[test]
    fn agrees_with_an_ordered_map_through_growth() {
        for distinct in [1, 100, 50_000] {
            let mut rng = Rng::new(distinct);
            // Negative keys and zero are keys like any other.
            let keys: Vec<i64> = (0..100_000).map(|_| rng.below(distinct).cast_signed() - 20).collect();
            let mut table = CountTable::new();
            keys.chunks(1000).for_each(|block| table.count(block));
            let mut expected: BTreeMap<i64, u64> = BTreeMap::new();
            keys.iter().for_each(|key| *expected.entry(*key).or_default() += 1);
            let mut answer = Answer::default();
            expected.iter().for_each(|(key, count)| answer.add_key(*key, *count));
            assert_eq!(table.answer(), answer, "{distinct} keys");
            assert_eq!(table.keys, expected.len());
        }
    }
}
