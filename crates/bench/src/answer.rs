//! The hash of an answer: the sum of its rows' hashes. It is a sum because programs return their rows in
//! different orders and in several parts. The rows of an answer are distinct, so none cancel out.

use anabranch_model::{HASH_SEED, hash_bytes, hash_u64};

/// Hash of the rows so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    sum: u64,
}

/// The aggregates of a group of the shapes.
pub(crate) struct Aggregates {
    /// Number of events.
    pub(crate) count: u64,
    pub(crate) id_max: i64,
    pub(crate) price_max: Option<f64>,
}

impl Answer {
    /// A row of the main job: views of a campaign in the window that starts at `window_start_ms`.
    pub(crate) fn add_views(&mut self, campaign: &str, window_start_ms: i64, views: u64) {
        let hash = hash_bytes(HASH_SEED, campaign.as_bytes());
        let hash = hash_u64(hash, window_start_ms.cast_unsigned());
        self.sum = self.sum.wrapping_add(hash_u64(hash, views));
    }

    /// A group of the shapes.
    pub(crate) fn add_group(
        &mut self,
        page: &str,
        kind: &str,
        window_start_ms: i64,
        Aggregates { count, id_max, price_max }: Aggregates,
    ) {
        let hash = hash_bytes(hash_bytes(HASH_SEED, page.as_bytes()), kind.as_bytes());
        let hash = hash_u64(hash_u64(hash, window_start_ms.cast_unsigned()), count);
        let hash = hash_u64(hash, id_max.cast_unsigned());
        self.sum = self.sum.wrapping_add(hash_u64(hash, price_max.map_or(u64::MAX, f64::to_bits)));
    }

    /// A row of the keyed count.
    pub(crate) fn add_key(&mut self, key: i64, count: u64) {
        let hash = hash_u64(HASH_SEED, key.cast_unsigned());
        self.sum = self.sum.wrapping_add(hash_u64(hash, count));
    }

    /// A line that matched. Equal lines are separate rows: the sum counts them.
    pub(crate) fn add_line(&mut self, line: &[u8]) {
        self.sum = self.sum.wrapping_add(hash_bytes(HASH_SEED, line));
    }

    /// Adds the rows of another part.
    pub(crate) fn merge(&mut self, other: Answer) {
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The hash.
    pub(crate) fn hash(self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_parts_do_not_matter_but_every_field_does() {
        let of = |rows: &[(&str, i64, u64)]| {
            let mut answer = Answer::default();
            rows.iter().for_each(|(campaign, start, views)| answer.add_views(campaign, *start, *views));
            answer
        };
        let whole = of(&[("a", 0, 1), ("b", 10, 2)]);
        assert_eq!(whole, of(&[("b", 10, 2), ("a", 0, 1)]));
        let mut parts = of(&[("a", 0, 1)]);
        parts.merge(of(&[("b", 10, 2)]));
        assert_eq!(whole, parts);
        for other in [[("a", 0, 2), ("b", 10, 1)], [("b", 0, 1), ("a", 10, 2)], [("a", 10, 1), ("b", 0, 2)]] {
            assert_ne!(whole, of(&other), "{other:?}");
        }
    }
}
