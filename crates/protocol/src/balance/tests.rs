use anabranch_model::{KeyGroups, Rng};

use super::*;

fn even(groups: u16, tasks: u32) -> Vec<KeyGroupRange> {
    (0..tasks).map(|task| KeyGroups(groups).share(task, tasks)).collect()
}

/// All divisions of `groups` key groups among `tasks` tasks that have at least one each.
fn divisions(first: u16, groups: u16, tasks: usize) -> Vec<Vec<KeyGroupRange>> {
    if tasks == 1 {
        return vec![vec![KeyGroupRange { first, end: groups }]];
    }
    let with = |end: u16| {
        let rest = divisions(end, groups, tasks - 1).into_iter();
        rest.map(move |rest| [vec![KeyGroupRange { first, end }], rest].concat()).collect::<Vec<_>>()
    };
    (first + 1..groups).filter(|end| usize::from(groups - end) >= tasks - 1).flat_map(with).collect()
}

fn moving(from: &[KeyGroupRange], to: &[KeyGroupRange]) -> u32 {
    moves(from, to).iter().map(|of| len(of.groups)).sum()
}

fn drawn(rng: &mut Rng, groups: u16) -> Vec<u64> {
    // Some key groups are much hotter than others, and some have nothing.
    let rows = |rng: &mut Rng| match rng.below(4) {
        0 => 0,
        1 => 1000 + rng.below(100_000),
        _ => rng.below(2000),
    };
    (0..groups).map(|_| rows(rng)).collect()
}

#[test]
fn no_division_is_better_by_load_and_none_as_good_moves_fewer_key_groups() {
    let mut rng = Rng::new(7);
    for _ in 0..3000 {
        let groups = 2 + rng.below(8) as u16;
        let tasks = 2 + rng.below(u64::from(groups) - 1) as usize;
        let all = divisions(0, groups, tasks);
        let present = all[rng.below(all.len() as u64) as usize].clone();
        let rows = drawn(&mut rng, groups);
        let best = all.iter().map(|ranges| (largest(&loads(&rows, ranges)), moving(&present, ranges))).min();
        let found = divide(&rows, &present);
        assert_eq!(
            best,
            Some((largest(&loads(&rows, &found)), moving(&present, &found))),
            "{rows:?} {present:?} {found:?}"
        );
        assert!(all.contains(&found), "{found:?}");
    }
}

#[test]
fn a_balance_is_better_by_what_it_says_and_has_all_key_groups() {
    let mut rng = Rng::new(11);
    let mut verdicts = std::collections::BTreeSet::new();
    for _ in 0..300 {
        let tasks = 1 + rng.below(9) as u32;
        let (rows, present) = (drawn(&mut rng, 128), even(128, tasks));
        let rows = match rng.below(4) {
            0 => vec![rng.below(20); 128],
            1 => {
                let mut one = vec![1; 128];
                // Key group 0 is the hot one of the first task, which can give others away.
                one[rng.below(128) as usize] = 1_000_000;
                one
            }
            _ => rows,
        };
        let Balance { verdict, ranges, before, after, moved, hot } = balance(&rows, &present);
        verdicts.insert(format!("{verdict:?}"));
        assert_eq!((before, after), (loads(&rows, &present), loads(&rows, &ranges)));
        assert_eq!((ranges == present, moved.is_empty()), (verdict != Verdict::Moves, verdict != Verdict::Moves));
        let sizes: Vec<u16> = ranges.iter().map(|range| range.end - range.first).collect();
        assert_eq!(KeyGroups(128).ranges(&sizes), Some(ranges.clone()));
        assert_eq!(moved, moves(&present, &ranges));
        let total: u64 = rows.iter().sum();
        assert!(hot.iter().all(|(group, of)| rows[usize::from(*group)] == *of && of * u64::from(tasks) > total));
    }
    assert_eq!(verdicts.len(), 5, "all are drawn: {verdicts:?}");
}

#[test]
fn what_is_even_is_left_and_one_hot_key_group_is_named() {
    let present = even(4, 2);
    let of = |rows: [u64; 4]| balance(&rows, &present);
    assert_eq!(of([1000, 1000, 900, 900]).verdict, Verdict::Even);
    assert_eq!(of([100, 100, 0, 0]).verdict, Verdict::TooFewRows);
    assert_eq!(of([9000, 0, 100, 0]).verdict, Verdict::NoBetter);
    assert_eq!(balance(&[5000, 1, 1, 1], &even(4, 1)).verdict, Verdict::OneTask);
    let skewed = of([6000, 2000, 1000, 1000]);
    assert_eq!((skewed.verdict, skewed.hot), (Verdict::Moves, vec![(0, 6000)]));
    assert_eq!((skewed.before, skewed.after), (vec![8000, 2000], vec![6000, 4000]));
    let groups = KeyGroupRange { first: 1, end: 2 };
    assert_eq!(skewed.moved, [Move { groups, from: 0, to: 1 }]);
}
