//! From priorities to the integers of a mechanism (section 5.3 of the paper).
//!
//! For all scales: the order of priorities stays; NaN, which means unknown, becomes the middle of the range;
//! priorities that are all equal, or only one, become the middle as well, so that a policy without an opinion
//! changes little; infinite ones become the same as the greatest or least finite one.

/// The integers that a mechanism takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// What the lowest priority becomes: nice 19, or the least weight.
    pub worst: i64,
    /// What the highest priority becomes: nice -20, or the greatest weight.
    pub best: i64,
}

/// How priorities of a policy compare with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Differences count: min-max.
    Linear,
    /// Ratios count: min-max of the logarithms.
    Logarithmic,
    /// Ratios of priorities are ratios of the shares of a core: a step of nice values multiplies the share by
    /// [`NICE_RATIO`]. If the range has too few steps for that, as [`Scale::Logarithmic`].
    Ladder,
}

/// The ratio of the shares of two threads whose nice values differ by one (section 2 of the paper, and the
/// kernel's table `sched_prio_to_weight`).
pub const NICE_RATIO: f64 = 1.25;

impl Range {
    /// The integer that is nearest a place in the range: 0 is the worst, 1 the best.
    fn at(self, place: f64) -> i64 {
        let (worst, best) = (self.worst as f64, self.best as f64);
        (worst + place * (best - worst)).round() as i64
    }
}

/// The integer of each priority, in the order of `priorities`. A greater priority never becomes a worse
/// integer.
///
/// For [`Scale::Logarithmic`] and [`Scale::Ladder`], priorities of zero and below are the least positive one
/// divided by [`NICE_RATIO`]; if none is positive, the scale is linear.
#[must_use]
pub fn normalize(priorities: &[f64], range: Range, scale: Scale) -> Vec<i64> {
    let values = bounded(priorities);
    match extremes(&values) {
        Some((least, greatest)) if least < greatest => match scale {
            Scale::Logarithmic if greatest > 0.0 => min_max(&logarithms(&values), range),
            Scale::Ladder if greatest > 0.0 => ladder(&logarithms(&values), range),
            _ => min_max(&values, range),
        },
        _ => vec![range.at(0.5); priorities.len()],
    }
}

/// Infinite values become the extreme finite ones. If there is no finite one, the lower infinity becomes 0
/// and the upper one 1.
fn bounded(priorities: &[f64]) -> Vec<f64> {
    let finite: Vec<f64> = priorities.iter().copied().filter(|value| value.is_finite()).collect();
    let (least, greatest) = extremes(&finite).unwrap_or((0.0, 1.0));
    priorities.iter().map(|value| if value.is_nan() { f64::NAN } else { value.clamp(least, greatest) }).collect()
}

/// The least and the greatest value, without NaN. None if there is no other.
fn extremes(values: &[f64]) -> Option<(f64, f64)> {
    values.iter().filter(|value| !value.is_nan()).fold(None, |found, value| {
        let (least, greatest) = found.unwrap_or((*value, *value));
        Some((least.min(*value), greatest.max(*value)))
    })
}

/// Natural logarithms of values of which at least one is positive.
fn logarithms(values: &[f64]) -> Vec<f64> {
    let least = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min).ln();
    let below = least - NICE_RATIO.ln();
    values.iter().map(|value| if *value <= 0.0 { below } else { value.ln() }).collect()
}

fn min_max(values: &[f64], range: Range) -> Vec<i64> {
    let (least, greatest) = extremes(values).unwrap_or((0.0, 0.0));
    // Halves, because the difference of the greatest numbers is infinite.
    let width = greatest / 2.0 - least / 2.0;
    let place = |value: f64| if width > 0.0 { (value / 2.0 - least / 2.0) / width } else { 0.5 };
    values.iter().map(|value| range.at(if value.is_nan() { 0.5 } else { place(*value) })).collect()
}

/// Section 5.3: n = n_max + (log p_max - log p) / log 1.25 for nice. Min-max of the logarithms if the lowest
/// priority does not fit into the range.
fn ladder(logarithms: &[f64], range: Range) -> Vec<i64> {
    let (least, greatest) = extremes(logarithms).unwrap_or((0.0, 0.0));
    let (worst, best) = (range.worst as f64, range.best as f64);
    let steps = |value: f64| (greatest - value) / NICE_RATIO.ln();
    if steps(least) > (worst - best).abs() {
        return min_max(logarithms, range);
    }
    let exact = |value: f64| (best + (worst - best).signum() * steps(value)).round() as i64;
    logarithms.iter().map(|value| if value.is_nan() { range.at(0.5) } else { exact(*value) }).collect()
}

#[cfg(test)]
mod tests;
