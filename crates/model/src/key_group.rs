//! Key groups: the unit in which keyed state is partitioned, snapshotted and moved.

use serde::{Deserialize, Serialize};

/// One key group, `0..count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroup(pub u16);

/// How many key groups a job has: fixed for its life, an upper bound on its parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyGroups(pub u16);

impl KeyGroups {
    /// The key group of a key, from the high bits of its hash (tables of groups use the low bits).
    #[inline]
    #[must_use]
    pub fn of(self, hash: u64) -> KeyGroup {
        KeyGroup(((u128::from(hash) * u128::from(self.0)) >> 64) as u16)
    }

    /// The task, of `parallelism`, that owns a key group. Each task owns one contiguous range.
    #[inline]
    #[must_use]
    pub fn owner(self, group: KeyGroup, parallelism: u32) -> u32 {
        u32::from(group.0) * parallelism / u32::from(self.0)
    }

    /// The key groups that a task owns, as a range.
    #[must_use]
    pub fn owned(self, task: u32, parallelism: u32) -> std::ops::Range<u16> {
        let first = |task: u32| (task * u32::from(self.0)).div_ceil(parallelism) as u16;
        first(task)..first(task + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_and_owned_agree_for_every_parallelism() {
        for count in [1, 7, 128, 1024] {
            let groups = KeyGroups(count);
            for parallelism in 1..=u32::from(count).min(130) {
                for task in 0..parallelism {
                    for group in groups.owned(task, parallelism) {
                        assert_eq!(groups.owner(KeyGroup(group), parallelism), task);
                    }
                }
                let total: usize = (0..parallelism).map(|t| groups.owned(t, parallelism).len()).sum();
                assert_eq!(total, usize::from(count));
            }
        }
    }
}
