//! Integer keys for the keyed count: uniform over a number of distinct values, or over values that are in use
//! for a while.

use anabranch_model::Rng;
use arrow::array::Int64Array;

use super::BLOCK_ROWS;

/// Blocks of keys.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Number of distinct values of the keys.
    pub(crate) distinct: u64,
    /// The keys, in blocks of [`BLOCK_ROWS`].
    pub(crate) blocks: Vec<Int64Array>,
    /// Number of keys.
    pub(crate) count: u64,
}

impl Keys {
    /// Draws `count` keys from `distinct` values.
    pub(crate) fn generate(count: u64, distinct: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Keys { distinct, blocks: blocks(count, |_| rng.below(distinct)), count }
    }

    /// Draws `count` keys, each from the values that are in use at its time: `near` values for `near * times`
    /// keys, then the next ones.
    pub(crate) fn moving(count: u64, near: u64, times: u64, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let blocks = blocks(count, |at| at / (near * times) * near + rng.below(near));
        Keys { distinct: count.div_ceil(times), blocks, count }
    }

    /// Every value below `count` once, in order.
    pub(crate) fn each(count: u64) -> Self {
        Keys { distinct: count, blocks: blocks(count, |at| at), count }
    }
}

fn blocks(count: u64, mut key: impl FnMut(u64) -> u64) -> Vec<Int64Array> {
    let starts = (0..count).step_by(BLOCK_ROWS);
    let rows = |start: u64| start..count.min(start + BLOCK_ROWS as u64);
    starts.map(|start| rows(start).map(|at| key(at).cast_signed()).collect::<Vec<_>>().into()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn draws_from_all_values_and_no_others() {
        let keys = Keys::generate(BLOCK_ROWS as u64 + 1, 100, 5);
        assert_eq!(keys.blocks.iter().map(|b| b.values().len()).collect::<Vec<_>>(), [BLOCK_ROWS, 1]);
        let seen: BTreeSet<i64> = keys.blocks.iter().flat_map(|b| b.values().iter().copied()).collect();
        assert_eq!(seen, (0..100).collect());
        let moving = Keys::moving(1000, 10, 5, 1);
        let keys: Vec<i64> = moving.blocks.iter().flat_map(|b| b.values().iter().copied()).collect();
        assert!(keys.iter().enumerate().all(|(at, key)| (0..10).contains(&(key - at as i64 / 50 * 10))));
        assert_eq!(Keys::each(3).blocks[0].values(), &[0, 1, 2]);
    }
}
