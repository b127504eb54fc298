//! How rows lie in runs: all in which the runs of keys and those of panes differ.

use std::ops::RangeInclusive;

/// Number of buckets. A bucket is a slice of the keys of a pane, by their hashes, that is merged in memory at
/// once, so a pane may be larger than the memory by this factor. Hashes are uniform: all buckets have about
/// the same size.
pub const BUCKETS: usize = 256;

/// Rows of a small block. Its bytes are bounded too.
const BLOCK_ROWS: usize = 128;
const BLOCK_BYTES: usize = 32 << 10;
/// Small blocks that a step of a merge reads, about.
const STEP_BLOCKS: usize = 64;

/// The places of rows in a run, and which of them are a block: what is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// A place is the hash of a key. Blocks are small, because some keys of a run are looked up.
    Keys,
    /// A place is a bucket, and a bucket is a block, because all rows are read.
    Buckets,
}

impl Layout {
    /// Number of runs of one level that are merged into one of the next. Rows are written again once per
    /// level, and a lookup reads all runs.
    pub(super) const fn fan_in(self) -> usize {
        match self {
            Layout::Keys => 4,
            Layout::Buckets => 8,
        }
    }

    /// Makes places of the hashes of keys.
    pub(super) fn place(self, hashes: &mut [u64]) {
        if self == Layout::Buckets {
            hashes.iter_mut().for_each(|hash| *hash = bucket_of(*hash));
        }
    }

    /// Where the block ends that begins with this row, of rows with these places and so many bytes each.
    pub(super) fn block_end(self, places: &[u64], begin: usize, row_bytes: usize) -> usize {
        match self {
            Layout::Keys => places.len().min(begin + (BLOCK_BYTES / row_bytes.max(1)).clamp(1, BLOCK_ROWS)),
            Layout::Buckets => begin + places[begin..].partition_point(|place| *place == places[begin]),
        }
    }

    /// The steps of a merge of runs whose blocks begin with these places: ranges of places, in order. Those
    /// of keys have as many blocks each, because the hashes of windows lie close together.
    pub(super) fn steps(self, mut firsts: Vec<u64>) -> Vec<RangeInclusive<u64>> {
        firsts.sort_unstable();
        match self {
            Layout::Keys => {
                let ends = firsts.chunks(STEP_BLOCKS).skip(1).map(|blocks| blocks[0].saturating_sub(1));
                let mut ends: Vec<u64> = ends.chain([u64::MAX]).collect();
                ends.dedup();
                let begins = [0].into_iter().chain(ends.iter().map(|end| end.saturating_add(1)));
                begins.zip(&ends).map(|(begin, end)| begin..=*end).collect()
            }
            Layout::Buckets => {
                firsts.dedup();
                firsts.into_iter().map(|bucket| bucket..=bucket).collect()
            }
        }
    }
}

/// Uses neither the highest bits of the hash, which choose a key group, nor the lowest, which choose a slot
/// of a table: keys of one task and one bucket differ in both.
fn bucket_of(hash: u64) -> u64 {
    (hash >> 32) % BUCKETS as u64
}
