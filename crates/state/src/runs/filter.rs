//! A filter over the hashes of keys. It recognizes nearly all hashes that were not added, and never takes an
//! added one for such a hash.
//!
//! A Bloom filter in blocks (Putze, Sanders and Singler, 2007): all bits of a hash are in one block of 32
//! bytes, one in each of its words. So a lookup costs one access to memory, and words can be compared side by
//! side.

const WORDS: usize = 8;
/// About one of a hundred hashes that were not added passes.
const BITS_PER_KEY: usize = 10;
/// Odd numbers without a pattern: each chooses a bit of its word.
const FACTORS: [u32; WORDS] = factors();
/// Spreads bits that tasks have in common, those of the key group, over the whole hash.
const SPREAD: u64 = 0xd1b5_4a32_d192_ed03;

const fn factors() -> [u32; WORDS] {
    let (mut factors, mut state, mut place) = ([0; WORDS], SPREAD, 0);
    while place < WORDS {
        state = (state ^ (state >> 29)).wrapping_mul(SPREAD);
        factors[place] = (state >> 32) as u32 | 1;
        place += 1;
    }
    factors
}

/// A set of hashes.
pub(super) struct Filter {
    blocks: Vec<[u32; WORDS]>,
}

impl Filter {
    /// Bytes of a filter for this number of hashes.
    pub(super) fn bytes_for(hashes: usize) -> usize {
        blocks_for(hashes) * size_of::<[u32; WORDS]>()
    }

    /// A filter for this number of hashes.
    pub(super) fn new(hashes: usize) -> Filter {
        Filter { blocks: vec![[0; WORDS]; blocks_for(hashes)] }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.blocks.len() * size_of::<[u32; WORDS]>()
    }

    pub(super) fn add(&mut self, hash: u64) {
        let (block, bits) = self.place(hash);
        self.blocks[block].iter_mut().zip(bits).for_each(|(word, bit)| *word |= bit);
    }

    /// Whether a hash may have been added.
    pub(super) fn has(&self, hash: u64) -> bool {
        let (block, bits) = self.place(hash);
        self.blocks[block].iter().zip(bits).fold(true, |has, (word, bit)| has & (word & bit != 0))
    }

    #[inline]
    fn place(&self, hash: u64) -> (usize, [u32; WORDS]) {
        let spread = hash.wrapping_mul(SPREAD);
        let block = ((spread >> 32) * self.blocks.len() as u64) >> 32;
        (block as usize, FACTORS.map(|factor| 1 << ((spread as u32).wrapping_mul(factor) >> 27)))
    }
}

fn blocks_for(hashes: usize) -> usize {
    (hashes * BITS_PER_KEY).div_ceil(WORDS * 32).max(1)
}

#[cfg(test)]
mod tests {
    use anabranch_model::{HASH_SEED, hash_u64};

    use super::*;

    /// Also of a task with few key groups, whose hashes begin alike.
    #[test]
    fn all_that_was_added_passes_and_little_else() {
        for shift in [0, 7] {
            let hash = |n: u64| hash_u64(HASH_SEED, n) >> shift;
            let mut filter = Filter::new(20_000);
            assert_eq!(filter.size_bytes(), Filter::bytes_for(20_000));
            (0..20_000).for_each(|n| filter.add(hash(n)));
            assert!((0..20_000).all(|n| filter.has(hash(n))));
            let wrong = (20_000..120_000).filter(|n| filter.has(hash(*n))).count();
            assert!(wrong < 2_000, "{wrong} of 100,000 pass");
        }
    }
}
