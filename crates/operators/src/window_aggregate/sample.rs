//! How many groups change between two snapshots, estimated from a few: the states of every 64th group, as two
//! complete snapshots have them. So rows can go directly into the groups, and the groups that they touch need
//! not be counted.

use std::collections::BTreeMap;

use anabranch_model::Result;
use arrow::array::{ArrayRef, UInt64Array, make_comparator};
use arrow::compute::{SortOptions, take};

use super::groups::Grouped;

/// One in this number of groups is in the sample.
const STEP: usize = if cfg!(test) { 2 } else { 64 };

/// For each pane: the number of groups in the sample, and the columns of their states.
#[derive(Default)]
pub(super) struct Sample {
    panes: BTreeMap<i64, (usize, Vec<ArrayRef>)>,
}

impl Sample {
    /// Takes a sample of a complete snapshot. Returns whether most of its groups have another state than in
    /// the sample before, or are new.
    pub(super) fn follow(&mut self, panes: &[(i64, Grouped)]) -> Result<bool> {
        let before = std::mem::take(self);
        let (mut groups, mut changed) = (0, 0);
        for (start, states) in panes {
            let at: UInt64Array = (0..states.len as u64).step_by(STEP).collect();
            let columns = states.values.iter().flatten();
            let now = columns.map(|column| Ok(take(column, &at, None)?)).collect::<Result<Vec<ArrayRef>>>()?;
            groups += at.len();
            changed += match before.panes.get(start) {
                Some((known, before)) => {
                    changed_groups((*known).min(at.len()), before, &now)? + at.len().saturating_sub(*known)
                }
                None => at.len(),
            };
            self.panes.insert(*start, (at.len(), now));
        }
        Ok(changed * 2 > groups)
    }
}

/// How many of the first `known` groups have another state. Groups keep their indices in a pane, and new ones
/// come at the end.
fn changed_groups(known: usize, before: &[ArrayRef], now: &[ArrayRef]) -> Result<usize> {
    let pairs = before.iter().zip(now).map(|(before, now)| make_comparator(before, now, SortOptions::default()));
    let pairs = pairs.collect::<std::result::Result<Vec<_>, _>>()?;
    let differs = |group: &usize| pairs.iter().any(|compare| compare(*group, *group).is_ne());
    Ok((0..known).filter(differs).count())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;

    use super::*;

    fn pane(start: i64, counts: Vec<i64>) -> (i64, Grouped) {
        let column: ArrayRef = Arc::new(Int64Array::from(counts));
        (start, Grouped { len: column.len(), keys: vec![Arc::clone(&column)], values: vec![vec![column]] })
    }

    #[test]
    fn most_groups_have_changed_when_more_than_half_are_new_or_have_another_state() {
        let mut sample = Sample::default();
        let mut follow = |panes: &[(i64, Grouped)]| sample.follow(panes).expect("states");
        assert!(follow(&[pane(0, vec![1; 8])]), "all are new");
        assert!(!follow(&[pane(0, vec![1; 8])]));
        assert!(!follow(&[pane(0, vec![2, 9, 2, 9, 1, 9, 1, 9])]), "two of four");
        assert!(follow(&[pane(0, vec![3, 9, 3, 9, 2, 9, 1, 9])]), "three of four");
        assert!(!follow(&[pane(0, [vec![3, 9, 3, 9, 2, 9, 1, 9], vec![1; 8]].concat())]), "four new ones of eight");
        assert!(follow(&[pane(0, vec![1; 8]), pane(10, vec![1; 2])]), "another pane, and fewer groups");
        assert!(!follow(&[]), "nothing");
        let keys = |len: usize| (0, Grouped { len, ..Grouped::default() });
        assert!(follow(&[keys(4)]) && !follow(&[keys(8)]) && follow(&[keys(18)]), "new groups without a state");
    }
}
