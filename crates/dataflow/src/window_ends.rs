//! When the windows of a stage end, which says how far event time is from the next result.

use anabranch_model::EventTime;

use crate::{OperatorSpec, Stage, Window};

/// When windows end: at multiples of `step_ms` since 1970, and `offset_ms` after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowEnds {
    /// Time between two ends, above zero.
    pub step_ms: i64,
    /// At least zero, below the step.
    pub offset_ms: i64,
}

impl Window {
    /// When such windows end, if that follows from the clock of the rows alone.
    #[must_use]
    pub fn ends(&self) -> Option<WindowEnds> {
        let (step_ms, offset_ms) = match *self {
            Window::Tumble { size_ms, offset_ms } => (size_ms, offset_ms),
            // A window ends its size after its start, and starts a slide after the one before.
            Window::Hop { size_ms, slide_ms, offset_ms } => (slide_ms, offset_ms.saturating_add(size_ms)),
            Window::Cumulate { step_ms, offset_ms, .. } => (step_ms, offset_ms),
            Window::Session { .. } | Window::Global => return None,
        };
        Some(WindowEnds { step_ms, offset_ms: offset_ms.checked_rem_euclid(step_ms)? })
    }
}

impl WindowEnds {
    /// From a point of event time to the next end after it.
    #[must_use]
    pub fn until_next_ms(self, time: EventTime) -> i64 {
        self.step_ms - time.0.saturating_sub(self.offset_ms).rem_euclid(self.step_ms)
    }
}

impl Stage {
    /// When the shortest windows of its operators end, if it has some whose ends follow from the clock of the
    /// rows alone.
    #[must_use]
    pub fn window_ends(&self) -> Option<WindowEnds> {
        let windows = self.operators.iter().filter_map(|operator| match operator {
            OperatorSpec::WindowAggregate(spec) => spec.window.ends(),
            OperatorSpec::WindowAssign(spec) => spec.window.ends(),
            _ => None,
        });
        windows.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_where_their_kind_says() {
        let at = |window: Window, ms: i64| window.ends().map(|ends| ends.until_next_ms(EventTime(ms)));
        assert_eq!(at(Window::Tumble { size_ms: 10, offset_ms: 0 }, 3), Some(7));
        assert_eq!(at(Window::Tumble { size_ms: 10, offset_ms: 0 }, 10), Some(10), "the next one");
        assert_eq!(at(Window::Tumble { size_ms: 10, offset_ms: 2 }, 3), Some(9));
        assert_eq!(at(Window::Tumble { size_ms: 10, offset_ms: -2 }, -3), Some(1));
        // Starts at 0, 4, 8 and so on: ends at 10, 14, 18.
        assert_eq!(at(Window::Hop { size_ms: 10, slide_ms: 4, offset_ms: 0 }, 11), Some(3));
        assert_eq!(at(Window::Cumulate { step_ms: 5, max_ms: 20, offset_ms: 0 }, 12), Some(3));
        assert_eq!(at(Window::Session { gap_ms: 5 }, 12), None);
        assert_eq!(at(Window::Global, 12), None);
        assert_eq!(at(Window::Tumble { size_ms: 10, offset_ms: 0 }, i64::MIN), Some(8));
    }
}
