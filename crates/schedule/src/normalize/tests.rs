use super::*;
use crate::tests::{each_seed, unit};

const SCALES: [Scale; 3] = [Scale::Linear, Scale::Logarithmic, Scale::Ladder];
const NICE: Range = Range { worst: 19, best: -20 };
const NICE_MODERATE: Range = Range { worst: 10, best: -10 };
const SHARES: Range = Range { worst: 2, best: 262_144 };
const WEIGHT: Range = Range { worst: 1, best: 10_000 };
const RANGES: [Range; 4] = [NICE, NICE_MODERATE, SHARES, WEIGHT];

#[test]
fn nothing_to_compare_gives_the_middle() {
    for scale in SCALES {
        for equal in [&[][..], &[5.0], &[3.0, 3.0, 3.0], &[0.0, -0.0], &[f64::NAN], &[f64::NAN, 2.0]] {
            let all = normalize(equal, NICE_MODERATE, scale);
            assert_eq!(all, vec![0; equal.len()], "{equal:?} {scale:?}");
        }
        for endless in [f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(normalize(&[endless, endless], NICE_MODERATE, scale), [0, 0]);
        }
    }
}

#[test]
fn min_max_takes_the_whole_range() {
    assert_eq!(normalize(&[0.0, 50.0, 100.0], NICE, Scale::Linear), [19, -1, -20]);
    assert_eq!(normalize(&[-4.0, 0.0, 4.0], NICE_MODERATE, Scale::Linear), [10, 0, -10]);
    assert_eq!(normalize(&[1.0, 2.0], WEIGHT, Scale::Linear), [1, 10_000]);
    assert_eq!(normalize(&[1.0, 10.0, 100.0], NICE_MODERATE, Scale::Logarithmic), [10, 0, -10]);
}

#[test]
fn the_ladder_gives_shares_in_the_ratio_of_priorities() {
    // 1.25 to the power of 5 is 3.05, of 10 is 9.3.
    assert_eq!(normalize(&[1.0, 3.05, 9.31], NICE, Scale::Ladder), [-10, -15, -20]);
    assert_eq!(normalize(&[1.0, 3.05, 9.31], NICE_MODERATE, Scale::Ladder), [0, -5, -10]);
    // 1.25 to the power of 39 is 6019: one more does not fit.
    assert_eq!(normalize(&[1.0, 6000.0], NICE, Scale::Ladder), [19, -20]);
    assert_eq!(normalize(&[1.0, 1e6, 1e12], NICE_MODERATE, Scale::Ladder), [10, 0, -10]);
}

#[test]
fn unknown_and_infinite_and_not_positive_priorities_have_a_place() {
    let nice = |priorities: &[f64], scale| normalize(priorities, NICE_MODERATE, scale);
    assert_eq!(nice(&[1.0, f64::NAN, 3.0], Scale::Linear), [10, 0, -10]);
    assert_eq!(nice(&[f64::INFINITY, 1.0, 3.0, f64::NEG_INFINITY], Scale::Linear), [-10, 10, -10, 10]);
    assert_eq!(nice(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN], Scale::Linear), [-10, 10, 0]);
    assert_eq!(nice(&[0.0, -7.0, 5.0], Scale::Logarithmic), [10, 10, -10], "zero and below are less than any");
    assert_eq!(nice(&[0.0, 5.0], Scale::Ladder), [-9, -10], "one step less");
    assert_eq!(nice(&[0.0, -7.0], Scale::Logarithmic), [-10, 10], "linear if none is positive");
    assert_eq!(nice(&[f64::MAX, f64::MIN, 0.0], Scale::Linear), [-10, 10, 0]);
    assert_eq!(nice(&[5e-324, 0.0, f64::MAX], Scale::Ladder).len(), 3);
}

#[test]
fn the_order_stays_all_are_in_the_range_and_places_do_not_matter() {
    each_seed(500, |rng| {
        let mut priorities: Vec<f64> = (0..rng.below(12))
            .map(|_| match rng.below(12) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => 0.0,
                4 => -unit(rng),
                5 => 1e200 * unit(rng),
                _ => 10_f64.powf(8.0 * unit(rng) - 4.0),
            })
            .collect();
        for (range, scale) in RANGES.iter().flat_map(|range| SCALES.map(|scale| (*range, scale))) {
            let integers = normalize(&priorities, range, scale);
            let context = format!("{priorities:?} -> {integers:?} {range:?} {scale:?}");
            let goodness = |integer: i64| (integer - range.worst) * (range.best - range.worst).signum();
            let (low, high) = (range.worst.min(range.best), range.worst.max(range.best));
            assert!(integers.iter().all(|integer| (low..=high).contains(integer)), "{context}");
            for (a, left) in priorities.iter().zip(&integers) {
                for (b, right) in priorities.iter().zip(&integers) {
                    assert!(a >= b || a.is_nan() || b.is_nan() || goodness(*left) <= goodness(*right), "{context}");
                    assert!(a != b || left == right, "{context}");
                }
            }
            priorities.reverse();
            let mut turned = normalize(&priorities, range, scale);
            turned.reverse();
            priorities.reverse();
            assert_eq!(turned, integers, "{context}");
        }
    });
}

#[test]
fn a_linear_map_of_priorities_changes_nothing_and_a_power_nothing_of_logarithms() {
    each_seed(200, |rng| {
        let priorities: Vec<f64> = (0..8).map(|_| 0.5 + unit(rng)).collect();
        let mapped: Vec<f64> = priorities.iter().map(|priority| 8.0 * priority + 32.0).collect();
        let near = |a: &[i64], b: &[i64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1);
        let linear = |priorities: &[f64]| normalize(priorities, NICE, Scale::Linear);
        assert!(near(&linear(&priorities), &linear(&mapped)));
        let powers: Vec<f64> = priorities.iter().map(|priority| 4.0 * priority.powi(3)).collect();
        let logarithmic = |priorities: &[f64]| normalize(priorities, NICE, Scale::Logarithmic);
        assert!(near(&logarithmic(&priorities), &logarithmic(&powers)));
    });
}
