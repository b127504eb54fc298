//! When windows end, as far as the plan tells: the size or slide of a window over event time is in the
//! description of its operator.

use anabranch_model::parse_duration;

/// How the plan describes windows: what stands before the numbers, and which of the numbers is the time
/// between two ends.
const FORMS: [(&str, Step); 7] = [
    ("TumblingEventTimeWindows(", Step::LastMs),
    ("SlidingEventTimeWindows(", Step::LastMs),
    ("TumblingGroupWindow(", Step::LastMs),
    ("SlidingGroupWindow(", Step::LastMs),
    ("TUMBLE(", Step::Named("size=[")),
    ("HOP(", Step::Named("slide=[")),
    ("CUMULATE(", Step::Named("step=[")),
];

#[derive(Clone, Copy)]
enum Step {
    /// The last number within the parentheses, in milliseconds.
    LastMs,
    /// A duration after these characters: `size=[10 s]`.
    Named(&'static str),
}

/// Milliseconds between two ends of windows. None: there are none over event time, or the plan does not tell.
pub(super) fn step_ms(description: &str) -> Option<i64> {
    let step = |(form, step): &(&str, Step)| {
        let (_, rest) = description.split_once(form)?;
        match step {
            Step::LastMs => {
                let inner = rest.split_once(')')?.0;
                inner.rsplit(',').next()?.trim().parse().ok()
            }
            Step::Named(name) => {
                let step = parse_duration(rest.split_once(name)?.1.split_once(']')?.0, None)?;
                i64::try_from(step.as_millis()).ok()
            }
        }
    };
    FORMS.iter().find_map(step).filter(|step: &i64| *step > 0)
}

/// Milliseconds until the next end of a window: windows are taken to start at multiples of their step.
pub(super) fn until_end_ms(step_ms: i64, watermark_ms: i64) -> i64 {
    step_ms - watermark_ms.rem_euclid(step_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_tells_when_windows_end() {
        for (description, step) in [
            ("Window(TumblingEventTimeWindows(2000), EventTimeTrigger, Jobs$$Lambda, PassThrough)", Some(2_000)),
            ("Window(SlidingEventTimeWindows(10000, 500), EventTimeTrigger)", Some(500)),
            ("Window(TumblingProcessingTimeWindows(2000), ProcessingTimeTrigger)", None),
            (
                "[5]:GlobalWindowAggregate(window=[TUMBLE(slice_end=[$slice_end], size=[10 s])], select=[..])",
                Some(10_000),
            ),
            ("WindowAggregate(window=[HOP(time_col=[ts], size=[1 min], slide=[500 ms])])", Some(500)),
            ("WindowAggregate(window=[CUMULATE(time_col=[ts], max_size=[1 h], step=[5 min])])", Some(300_000)),
            ("Window(TumblingEventTimeWindows(0), x)", None),
            ("TUMBLE(size=[10 parsecs])", None),
            ("TUMBLE(", None),
            ("Map", None),
        ] {
            assert_eq!(step_ms(description), step, "{description}");
        }
    }

    #[test]
    fn the_next_end_is_after_the_watermark() {
        assert_eq!(until_end_ms(2_000, 24_027), 1_973);
        assert_eq!(until_end_ms(2_000, 24_000), 2_000);
        assert_eq!(until_end_ms(2_000, -1), 1);
    }
}
