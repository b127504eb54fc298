//! Event time of rows, and the arithmetic of windows.

use anabranch_dataflow::{Window, sql_name};
use anabranch_model::{Error, Result};
use arrow::array::{Array, ArrayRef, Int64Array, make_array};
use arrow::datatypes::{DataType, TimeUnit};
use std::borrow::Cow;
use std::ops::Range;

use crate::key_hash::timestamp_values;

/// Milliseconds of a timestamp column, rounded down. For null rows the value is unspecified.
pub fn event_times(column: &ArrayRef) -> Result<Cow<'_, [i64]>> {
    let DataType::Timestamp(unit, _) = column.data_type() else {
        return Err(Error::internal(format!("event time has the type {}", column.data_type())));
    };
    let values = timestamp_values(column, *unit);
    Ok(match unit {
        TimeUnit::Millisecond => Cow::Borrowed(values),
        TimeUnit::Second => values.iter().map(|v| v.saturating_mul(1000)).collect(),
        TimeUnit::Microsecond => values.iter().map(|v| v.div_euclid(1000)).collect(),
        TimeUnit::Nanosecond => values.iter().map(|v| v.div_euclid(1_000_000)).collect(),
    })
}

/// The latest of these times. `None` if there are none.
#[must_use]
pub fn latest_time(times: &[i64]) -> Option<i64> {
    // Several maxima in parallel: with a single one, each comparison would wait for the one before.
    #[inline(always)]
    fn latest(times: &[i64], first: i64) -> i64 {
        let mut most = [first; 8];
        let chunks = times.chunks_exact(most.len());
        let rest = chunks.remainder().iter().fold(first, |most, time| most.max(*time));
        for chunk in chunks {
            most.iter_mut().zip(chunk).for_each(|(most, time)| *most = (*most).max(*time));
        }
        most.into_iter().fold(rest, i64::max)
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn latest_avx2(times: &[i64], first: i64) -> i64 {
        latest(times, first)
    }

    let first = *times.first()?;
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor was checked for the instructions that the function is compiled to.
        return Some(unsafe { latest_avx2(times, first) });
    }
    Some(latest(times, first))
}

/// Whether all of these times are at or after `from` and at or before `to`. `to` must not be before `from`,
/// and must be less than 2^63 after it.
pub(crate) fn all_within(times: &[i64], from: i64, to: i64) -> bool {
    // A negative difference sets the sign. For a time outside, one difference is negative. If it wraps to a
    // positive number, the other difference is at least 2^63, and wraps to a negative one.
    let outside = times.iter().fold(0, |outside, t| outside | t.wrapping_sub(from) | to.wrapping_sub(*t));
    outside >= 0
}

/// A column of milliseconds as the given timestamp type, rounded down.
pub(crate) fn time_column(mut millis: Vec<i64>, data_type: &DataType) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, _) = data_type else {
        return Err(Error::internal(format!("event time has the type {data_type}")));
    };
    let per_milli = match unit {
        TimeUnit::Second => {
            millis.iter_mut().for_each(|value| *value = value.div_euclid(1000));
            1
        }
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1_000_000,
    };
    if per_milli > 1 {
        for value in &mut millis {
            let wide = value.checked_mul(per_milli).ok_or_else(|| {
                Error::user(format!(
                    "a window bound of {value} ms since 1970 does not fit into {}",
                    sql_name(data_type)
                ))
                .remedy("use a TIMESTAMP(3) as event time, or exclude rows with such times")
            })?;
            *value = wide;
        }
    }
    let values = Int64Array::from(millis).into_data().into_builder().data_type(data_type.clone()).build()?;
    Ok(make_array(values))
}

/// Windows as starts, ends and panes, in milliseconds. A pane is as long as the greatest common divisor of
/// size and slide. So all times of a pane belong to the same windows, and hopping windows share their panes
/// (Li et al., "No pane, no gain", 2005).
///
/// A window is named by its start. A cumulating window is named by its end minus the greatest size instead:
/// then ends grow with the names in steps of the slide, as those of hopping windows do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowTimes {
    pub(crate) size: i64,
    pub(crate) slide: i64,
    pub(crate) pane: i64,
    offset: i64,
    /// The length of the longest cumulating window. Cumulating windows start at the offset plus a multiple of
    /// this length.
    cumulates: Option<i64>,
}

impl WindowTimes {
    /// `None` for the global window, which has no times.
    pub(crate) fn new(window: Window) -> Result<Option<Self>> {
        let (size, slide, offset, cumulates) = match window {
            Window::Session { .. } => return Err(Error::internal("sessions have no fixed times")),
            Window::Global => return Ok(None),
            Window::Tumble { size_ms, offset_ms } => (size_ms, size_ms, offset_ms, None),
            Window::Hop { size_ms, slide_ms, offset_ms } => (size_ms, slide_ms, offset_ms, None),
            Window::Cumulate { step_ms, max_ms, offset_ms } => (max_ms, step_ms, offset_ms, Some(max_ms)),
        };
        if size <= 0 || slide <= 0 {
            return Err(Error::user(format!(
                "the size ({size} ms) and the slide ({slide} ms) of a window must be positive"
            ))
            .remedy("use positive intervals"));
        }
        let pane = gcd(size, slide);
        let offset = offset.rem_euclid(cumulates.unwrap_or(slide));
        Ok(Some(WindowTimes { size, slide, pane, offset, cumulates }))
    }

    /// Refuses a pane so far from 1970 that the bounds of its windows cannot be computed.
    pub(crate) fn check(&self, pane: i64) -> Result<()> {
        let room = self.size.saturating_add(self.slide);
        if pane.checked_add(room).is_some() && pane.checked_sub(room).is_some() {
            return Ok(());
        }
        Err(Error::user(format!(
            "an event time near {pane} ms since 1970 is out of range for windows of {} ms",
            self.size
        ))
        .remedy("exclude such rows with WHERE, or correct the event-time expression"))
    }

    /// Start of the pane that holds a time.
    #[inline]
    pub(crate) fn pane_of(&self, time: i64) -> i64 {
        time.saturating_sub(time.saturating_sub(self.offset).rem_euclid(self.pane))
    }

    /// Start of the last window that holds a time.
    #[inline]
    pub(crate) fn last_start(&self, time: i64) -> i64 {
        time.saturating_sub(time.saturating_sub(self.offset).rem_euclid(self.cumulates.unwrap_or(self.slide)))
    }

    /// Start of the first window that holds a time.
    pub(crate) fn first_start(&self, time: i64) -> i64 {
        if self.cumulates.is_some() {
            return self.pane_of(time).saturating_add(self.slide - self.size);
        }
        let last = self.last_start(time);
        let before = last.saturating_add(self.size - 1).saturating_sub(time).div_euclid(self.slide);
        last.saturating_sub(before * self.slide)
    }

    /// The first window that holds a pane and does not start before `from`.
    pub(crate) fn next_start(&self, pane: i64, from: i64) -> Option<i64> {
        Some(self.first_start(pane).max(from)).filter(|start| *start <= self.last_start(pane))
    }

    /// The range of the pane starts of the window that is named by `start`.
    pub(crate) fn span(&self, start: i64) -> Range<i64> {
        let end = start.saturating_add(self.size);
        match self.cumulates {
            Some(_) => self.last_start(end.saturating_sub(1))..end,
            None => start..end,
        }
    }

    /// The common start of all windows of a pane, if they have one.
    pub(crate) fn common_start(&self, pane: i64) -> Option<i64> {
        self.cumulates.map(|_| self.last_start(pane))
    }

    /// The last instant of the last window that holds the pane: once the watermark is there, the pane is
    /// late.
    pub(crate) fn expiry(&self, pane: i64) -> i64 {
        self.last_start(pane).saturating_add(self.size - 1)
    }

    /// Rows below this time are late: all of their windows have fired.
    pub(crate) fn late_below(&self, watermark: i64) -> i64 {
        // A row is late when last_start(time) + size - 1 <= watermark, that is last_start(time) <= watermark
        // + 1 - size.
        match watermark.checked_add(1).and_then(|w| w.checked_sub(self.size)) {
            Some(limit) => self.last_start(limit).saturating_add(self.cumulates.unwrap_or(self.slide)),
            None if watermark > 0 => i64::MAX,
            None => i64::MIN,
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_panes_and_lateness_agree_with_the_definition() {
        for (size, slide, offset) in [(10, 10, 0), (10, 5, 0), (10, 3, 1), (7, 7, 3), (4, 10, 0), (12, 8, -5)] {
            let window = Window::Hop { size_ms: size, slide_ms: slide, offset_ms: offset };
            let times = WindowTimes::new(window).expect("valid").expect("not global");
            for time in -40..40_i64 {
                let all: Vec<i64> = (-200..200)
                    .map(|n| offset + n * slide)
                    .filter(|start| (*start..start + size).contains(&time))
                    .collect();
                if let (Some(first), Some(last)) = (all.first(), all.last()) {
                    assert_eq!((times.first_start(time), times.last_start(time)), (*first, *last), "{window:?} {time}");
                }
                let pane = times.pane_of(time);
                assert!(pane <= time && time < pane + times.pane);
                for watermark in -40..40 {
                    let late = all.iter().all(|start| start + size - 1 <= watermark);
                    if !all.is_empty() {
                        assert_eq!(time < times.late_below(watermark), late, "{window:?} {time} at {watermark}");
                    }
                }
            }
        }
    }

    #[test]
    fn cumulating_windows_agree_with_the_definition() {
        for (step, max, offset) in [(5, 15, 0), (3, 3, 1), (1, 4, -5), (2, 12, 15)] {
            let window = Window::Cumulate { step_ms: step, max_ms: max, offset_ms: offset };
            let times = WindowTimes::new(window).expect("valid").expect("not global");
            let starts = (-100..100).map(|n| offset + n * max);
            let windows: Vec<(i64, i64)> =
                starts.flat_map(|start| (1..=max / step).map(move |n| (start, start + n * step))).collect();
            for time in -40..40_i64 {
                let all: Vec<(i64, i64)> = windows.iter().filter(|(s, e)| (*s..*e).contains(&time)).copied().collect();
                let named = (times.first_start(time)..=times.last_start(time)).step_by(times.slide as usize);
                let spans: Vec<(i64, i64)> =
                    named.map(|start| times.span(start)).map(|span| (span.start, span.end)).collect();
                assert_eq!(spans, all, "{window:?} {time}");
                let pane = times.pane_of(time);
                assert_eq!((times.expiry(pane), times.common_start(pane)), (all[0].0 + max - 1, Some(all[0].0)));
                for watermark in -40..40 {
                    let late = all.iter().all(|(_, end)| end - 1 <= watermark);
                    assert_eq!(time < times.late_below(watermark), late, "{window:?} {time} at {watermark}");
                }
                for from in -40..40 {
                    let next = all.iter().find(|(_, end)| end - max >= from && (from - end).rem_euclid(step) == 0);
                    if (from - offset).rem_euclid(step) == 0 {
                        assert_eq!(times.next_start(pane, from), next.map(|(_, end)| end - max), "{window:?} {time}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_latest_time_and_the_limits_are_those_of_all() {
        assert_eq!(latest_time(&[]), None);
        let mut rng = anabranch_model::Rng::new(7);
        for len in 1..40 {
            let mut times: Vec<i64> = (0..len).map(|_| rng.below(1000).cast_signed() - 500).collect();
            if rng.below(4) == 0 {
                times[rng.below(len) as usize] = [i64::MIN, i64::MAX][rng.below(2) as usize];
            }
            assert_eq!(latest_time(&times), times.iter().max().copied(), "{times:?}");
            for (from, to) in [(-500, 499), (-400, 400), (0, 0), (i64::MAX - 9, i64::MAX), (i64::MIN, i64::MIN + 9)] {
                let expected = times.iter().all(|time| (from..=to).contains(time));
                assert_eq!(all_within(&times, from, to), expected, "{times:?} in {from}..={to}");
            }
        }
    }

    #[test]
    fn window_bounds_before_1970_are_rounded_down_and_never_wrapped() {
        let column = |millis: i64, unit| time_column(vec![millis], &DataType::Timestamp(unit, None));
        for (unit, expected) in [
            (TimeUnit::Second, -1),
            (TimeUnit::Millisecond, -1),
            (TimeUnit::Microsecond, -1000),
            (TimeUnit::Nanosecond, -1_000_000),
        ] {
            let values = column(-1, unit).expect("fits");
            assert_eq!(timestamp_values(&values, unit), [expected], "{unit:?}");
            let back = event_times(&values).expect("times").to_vec();
            assert_eq!(back, [if unit == TimeUnit::Second { -1000 } else { -1 }]);
        }
        let error = column(i64::MAX / 1000, TimeUnit::Nanosecond).expect_err("too large");
        assert!(error.to_string().contains("does not fit into"), "{error}");
        let zone = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        assert_eq!(time_column(vec![5], &zone).expect("fits").data_type(), &zone);
    }

    #[test]
    fn nothing_is_late_at_first_and_everything_at_the_end() {
        let times = WindowTimes::new(Window::Tumble { size_ms: 10, offset_ms: 0 }).expect("valid").expect("times");
        assert!(times.late_below(i64::MIN) < -1_000_000_000_000);
        assert!(times.late_below(i64::MAX) > 1_000_000_000_000);
    }
}
