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
/// opinion changes nothing where `worst * best` is the square of the default. By the ladder, ratios of
/// priorities become ratios of values as long as they fit.
pub(super) fn spread(priorities: &[f64], (worst, best): (f64, f64), scale: Scale) -> Vec<f64> {
    let place = |step: i64| worst * (best / worst).powf(step as f64 / PLACES as f64);
    let known = || priorities.iter().copied().filter(|priority| priority.is_finite());
    let (least, greatest) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
    let fits = least > 0.0 && least < greatest && greatest / least <= best / worst;
    if scale == Scale::Ladder && fits {
        let exact = |priority: f64| best * priority.clamp(least, greatest) / greatest;
        return priorities.iter().map(|p| if p.is_nan() { place(PLACES / 2) } else { exact(*p) }).collect();
    }
    let steps = Range { worst: 0, best: PLACES };
    normalize(priorities, steps, without_ladder(scale)).into_iter().map(place).collect()
}

/// The scale for places that are no steps of nice values.
pub(super) fn without_ladder(scale: Scale) -> Scale {
    match scale {
        Scale::Ladder => Scale::Logarithmic,
        scale @ (Scale::Linear | Scale::Logarithmic) => scale,
    }
}

/// Whether a value is so far from the present one that it is worth a write.
pub(super) fn differs(present: f64, wanted: f64) -> bool {
    let ratio = wanted / present;
    !(1.0 / RATIO_MIN..=RATIO_MIN).contains(&ratio) && present != wanted
}
