//! Identifies, in a query that has changed, the parts that a job, a checkpoint or a savepoint has state of.
//!
//! A part with state is the same if its key is. If several parts have the same key, those between the same
//! tables and other states belong together, and of these the ones whose rows are computed in the same way. If
//! that does not decide either, the parts are indistinguishable: a guess could give wrong results silently.

use std::collections::BTreeMap;

use crate::KeptPart;

/// Which part of a savepoint is which part of a plan, by their indices.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// From a part of the savepoint to the part of the plan.
    pub pairs: BTreeMap<usize, usize>,
    /// Parts of the savepoint that could be one of several now, or that share their possible part of the plan
    /// with others.
    pub undecided: Vec<usize>,
}

/// Which parts of the lineage must be the same, one pass after the other: where rows come from, what they
/// pass through, where they go. Each pass first considers parts whose rows are computed in the same way.
const PASSES: [(bool, bool, bool); 7] = [
    (true, true, true),
    (true, true, false),
    (true, false, true),
    (false, true, false),
    (true, false, false),
    (false, false, true),
    (false, false, false),
];

/// Pairs the parts of the savepoint with those of the plan.
#[must_use]
pub fn pair(then: &[KeptPart], now: &[KeptPart]) -> Matching {
    let mut matching = Matching::default();
    let digests_of = |parts: &[KeptPart]| parts.iter().map(|part| part.key.digest()).collect::<Vec<_>>();
    let digests = (digests_of(then), digests_of(now));
    for ((from, through, to), how) in PASSES.into_iter().flat_map(|pass| [(pass, true), (pass, false)]) {
        let mut groups: BTreeMap<_, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        let taken: Vec<usize> = matching.pairs.values().copied().collect();
        let key = |part: &KeptPart, digest: &String| {
            let lineage = part.lineage.clone();
            let known = !(how && lineage.how.is_empty());
            let around = (from.then_some(lineage.from), through.then_some(lineage.through), to.then_some(lineage.to));
            known.then(|| (part.id.kind, digest.clone(), around, how.then_some(lineage.how)))
        };
        for (index, part) in then.iter().enumerate().filter(|(index, _)| !matching.pairs.contains_key(index)) {
            let key = key(part, &digests.0[index]);
            key.into_iter().for_each(|key| groups.entry(key).or_default().0.push(index));
        }
        for (index, part) in now.iter().enumerate().filter(|(index, _)| !taken.contains(index)) {
            let key = key(part, &digests.1[index]);
            key.into_iter().for_each(|key| groups.entry(key).or_default().1.push(index));
        }
        for (then, now) in groups.into_values().filter(|(then, now)| (then.len(), now.len()) == (1, 1)) {
            matching.pairs.extend(then.into_iter().zip(now));
        }
    }
    let taken: Vec<usize> = matching.pairs.values().copied().collect();
    for (index, part) in then.iter().enumerate().filter(|(index, _)| !matching.pairs.contains_key(index)) {
        let alike = |(place, other): (usize, &KeptPart)| {
            !taken.contains(&place) && (other.id.kind, &other.key) == (part.id.kind, &part.key)
        };
        if now.iter().enumerate().any(alike) {
            matching.undecided.push(index);
        }
    }
    matching
}

#[cfg(test)]
mod tests {
    use anabranch_model::{OperatorId, OperatorKind};

    use super::*;
    use crate::{Lineage, PartKey};

    /// `count events > results`: what it keeps, the tables before it, other states, the tables after it; and
    /// how rows are computed, if known.
    fn of(texts: &[&str]) -> Vec<KeptPart> {
        let part = |(number, text): (u32, &&str)| {
            let words: Vec<&str> = text.split(' ').collect();
            let list = |at: usize| vec![words[at].to_owned()];
            let how = words.get(4).map_or_else(String::new, ToString::to_string);
            let lineage = Lineage { from: list(1), through: list(2), to: list(3), how };
            let id = OperatorId { kind: OperatorKind::State, number };
            let key = PartKey::Table { table: words[0].to_owned(), connector: "x".into() };
            KeptPart { id, key, lineage }
        };
        (0..).zip(texts).map(part).collect()
    }

    fn check(then: &[&str], now: &[&str], pairs: &[(usize, usize)], undecided: &[usize]) {
        let found = pair(&of(then), &of(now));
        let expected = Matching { pairs: pairs.iter().copied().collect(), undecided: undecided.to_vec() };
        assert_eq!(found, expected, "{then:?} {now:?}");
    }

    #[test]
    fn parts_are_identified_by_their_key_and_their_tables() {
        check(&["count e > r"], &["count e > r"], &[(0, 0)], &[]);
        // Others are added before it, or removed.
        check(&["count e > r"], &["sum e > s", "count e > r"], &[(0, 1)], &[]);
        check(&["sum e > s", "count e > r"], &["count e > r"], &[(1, 0)], &[]);
        // An identical one is added, or removed.
        check(&["count e > r"], &["count e > s", "count e > r"], &[(0, 1)], &[]);
        check(&["count e > r", "count e > s"], &["count e > s"], &[(1, 0)], &[]);
        // A renamed sink, a renamed source, both.
        check(&["count e > r"], &["count e > s"], &[(0, 0)], &[]);
        check(&["count e > r", "count f > r"], &["count g > r", "count f > r"], &[(0, 0), (1, 1)], &[]);
        check(&["count e > r"], &["count f > s"], &[(0, 0)], &[]);
        check(&["count e > r", "count e > s"], &["count e > x", "count e > s"], &[(0, 0), (1, 1)], &[]);
        // One is removed and another's sink is renamed, but the operators between distinguish them.
        check(&["e e count r", "e e sum s", "e e max t"], &["e e count r", "e e max x"], &[(0, 0), (2, 1)], &[]);
        // Changed.
        check(&["count e > r"], &["sum e > r"], &[], &[]);
    }

    #[test]
    fn identical_parts_are_distinguished_by_how_their_rows_are_computed() {
        let (ab, ba) = (["count e > r a", "count e > r b"], ["count e > r b", "count e > r a"]);
        check(&ab, &ab, &[(0, 0), (1, 1)], &[]);
        check(&ab, &ba, &[(0, 1), (1, 0)], &[]);
        // One is changed, one is removed, another one is added.
        check(&ab, &["count e > r c", "count e > r a"], &[(0, 1), (1, 0)], &[]);
        check(&ab, &["count e > r b"], &[(1, 0)], &[]);
        check(&["count e > r b"], &ab, &[(0, 1)], &[]);
        // Tables come before that.
        check(&["count e > r a", "count e > s b"], &["count e > r b", "count e > s a"], &[(0, 0), (1, 1)], &[]);
        check(&ab, &["count e > s b", "count e > s a"], &[(0, 1), (1, 0)], &[]);
        // Both are changed; both are the same; it is not known of one side.
        check(&ab, &["count e > r c", "count e > r d"], &[], &[0, 1]);
        check(&["count e > r a", "count e > r a"], &["count e > r a", "count e > r a"], &[], &[0, 1]);
        check(&["count e > r", "count e > r"], &ab, &[], &[0, 1]);
    }

    #[test]
    fn indistinguishable_parts_are_not_guessed() {
        check(&["count e > r"], &["count e > x", "count e > y"], &[], &[0]);
        check(&["count e > r", "count e > r"], &["count e > r"], &[], &[0, 1]);
        // Nor by their order: they may have changed places.
        check(&["count e > r", "count e > r"], &["count e > r", "count e > r"], &[], &[0, 1]);
    }
}
