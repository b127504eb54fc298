//! Brings priorities into a range in which ratios count: weights, slices, quotas.

use anabranch_schedule::{NICE_RATIO, Range, Scale, normalize};

/// Places that are distinguished within a range.
const PLACES: i64 = 10_000;
/// A value that is nearer to the present one than this ratio is not written: readings vary by more from
/// period to period.
const RATIO_MIN: f64 = 1.05;

/// The share that a thread of this nice value has, relative to one of nice 0.
pub(super) fn share_of_nice(nice: i32) -> f64 {
    NICE_RATIO.powi(-nice)
}

/// The value of each priority, from `worst` to `best` (both above 0, in either order). Equal steps of the
/// scale become equal ratios, so that the middle of the range is its geometric mean: a policy without an
/// opinion changes nothing where `worst * best` is the square of the default.
pub(super) fn spread(priorities: &[f64], (worst, best): (f64, f64), scale: Scale) -> Vec<f64> {
    let place = |step: i64| worst * (best / worst).powf(step as f64 / PLACES as f64);
    normalize(priorities, Range { worst: 0, best: PLACES }, scale).into_iter().map(place).collect()
}

/// Whether a value is so far from the present one that it is worth a write.
pub(super) fn differs(present: f64, wanted: f64) -> bool {
    let ratio = wanted / present;
    !(1.0 / RATIO_MIN..=RATIO_MIN).contains(&ratio) && present != wanted
}
