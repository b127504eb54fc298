//! Integer keys for the keyed count: uniform over a number of distinct values.

use anabranch_model::Rng;
use arrow::array::Int64Array;

use super::BLOCK_ROWS;

/// Blocks of keys.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Number of distinct values that keys are drawn from.
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
        let mut blocks = Vec::new();
        let mut left = count;
        while left > 0 {
            let rows = left.min(BLOCK_ROWS as u64);
            blocks.push((0..rows).map(|_| rng.below(distinct).cast_signed()).collect::<Vec<_>>().into());
            left -= rows;
        }
        Keys { distinct, blocks, count }
    }
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
    }
}
