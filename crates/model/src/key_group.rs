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

    /// The share of one of `tasks` tasks, if each owns consecutive key groups and about as many as any other.
    #[must_use]
    pub fn share(self, task: u32, tasks: u32) -> KeyGroupRange {
        let first = |task: u32| (task * u32::from(self.0)).div_ceil(tasks) as u16;
        KeyGroupRange { first: first(task), end: first(task + 1) }
    }

    /// The ranges of tasks that own these numbers of key groups, one after the other. `None` if these are not
    /// all, or if a task has none.
    #[must_use]
    pub fn ranges(self, sizes: &[u16]) -> Option<Vec<KeyGroupRange>> {
        let mut end = 0_u16;
        let mut ranges = Vec::with_capacity(sizes.len());
        for size in sizes {
            let first = end;
            end = end.checked_add(*size).filter(|end| *end > first)?;
            ranges.push(KeyGroupRange { first, end });
        }
        (end == self.0).then_some(ranges)
    }

    /// All of them.
    #[must_use]
    pub fn all(self) -> KeyGroupRange {
        KeyGroupRange { first: 0, end: self.0 }
    }
}

/// Consecutive key groups: `first..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyGroupRange {
    /// The first one.
    pub first: u16,
    /// The one after the last.
    pub end: u16,
}

impl KeyGroupRange {
    /// None.
    pub const EMPTY: KeyGroupRange = KeyGroupRange { first: 0, end: 0 };

    /// Whether a key group is one of them.
    #[inline]
    #[must_use]
    pub fn contains(self, group: KeyGroup) -> bool {
        (self.first..self.end).contains(&group.0)
    }

    /// The key groups that are in both.
    #[must_use]
    pub fn and(self, other: KeyGroupRange) -> KeyGroupRange {
        let (first, end) = (self.first.max(other.first), self.end.min(other.end));
        if first < end { KeyGroupRange { first, end } } else { KeyGroupRange::EMPTY }
    }

    /// Whether any key group is in both.
    #[must_use]
    pub fn overlaps(self, other: KeyGroupRange) -> bool {
        self.first.max(other.first) < self.end.min(other.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_tasks_are_consecutive_about_equal_and_everything() {
        for count in [1, 7, 128, 1024] {
            let groups = KeyGroups(count);
            for tasks in 1..=u32::from(count).min(130) {
                let mut next = 0;
                for task in 0..tasks {
                    let share = groups.share(task, tasks);
                    assert_eq!(share.first, next);
                    let fair = u32::from(count) / tasks;
                    assert!((fair..=fair + 1).contains(&u32::from(share.end - share.first)), "{share:?}");
                    next = share.end;
                }
                assert_eq!(next, count);
            }
        }
    }

    #[test]
    fn numbers_of_key_groups_are_ranges_if_they_are_all() {
        let range = |first, end| KeyGroupRange { first, end };
        assert_eq!(KeyGroups(8).ranges(&[3, 5]), Some(vec![range(0, 3), range(3, 8)]));
        for wrong in [&[3, 4][..], &[3, 6], &[0, 8], &[8, 0], &[], &[65_535, 65_535, 8]] {
            assert_eq!(KeyGroups(8).ranges(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn ranges_overlap_if_a_key_group_is_in_both() {
        let range = |first, end| KeyGroupRange { first, end };
        let by_element = |a: KeyGroupRange, b: KeyGroupRange| (a.first..a.end).any(|group| b.contains(KeyGroup(group)));
        for (a, b) in [(0, 4), (4, 4), (2, 3)].into_iter().flat_map(|a| [(3, 9), (4, 5), (0, 0)].map(|b| (a, b))) {
            let (a, b) = (range(a.0, a.1), range(b.0, b.1));
            assert_eq!((a.overlaps(b), b.overlaps(a)), (by_element(a, b), by_element(a, b)), "{a:?} {b:?}");
        }
    }
}
