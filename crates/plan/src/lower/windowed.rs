//! How the rows of a stream belong to windows.

use anabranch_dataflow::{Expr, NamedExpr, Window};
use arrow::datatypes::DataType;

/// The columns of a window, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowColumn {
    Start,
    End,
    Time,
}

/// How rows belong to windows.
#[derive(Clone, Debug)]
pub(super) struct Windowed {
    /// Windows of `time` that distinguish the windows of the rows.
    pub(super) window: Window,
    /// Over the physical columns.
    pub(super) time: Expr,
    /// Type of `time` and of the window columns.
    pub(super) time_type: DataType,
    /// What divides the rows into sessions, over the physical columns.
    pub(super) partition: Vec<NamedExpr>,
    /// How much earlier than in `window` the rows' window begins.
    pub(super) earlier_ms: i64,
    /// Whether the window columns have values: the rows are already results of a window.
    pub(super) settled: bool,
    /// The rows are not results: each has the columns of its window.
    pub(super) assigned: bool,
}

impl Windowed {
    /// Rows that are assigned to windows when needed.
    pub(super) fn lazily(window: Window, time: Expr, time_type: DataType, partition: Vec<NamedExpr>) -> Self {
        Windowed { window, time, time_type, partition, earlier_ms: 0, settled: false, assigned: false }
    }

    /// Rows that contain their window's columns. `window_time`, in steps of the slide, distinguishes the windows.
    pub(super) fn settled(window: Window, window_time: Expr, time_type: DataType) -> Self {
        let (window, earlier_ms) = match window {
            Window::Hop { size_ms, slide_ms, offset_ms } => {
                (Window::Tumble { size_ms: slide_ms, offset_ms }, size_ms - slide_ms)
            }
            Window::Cumulate { step_ms, offset_ms, .. } => (Window::Tumble { size_ms: step_ms, offset_ms }, 0),
            Window::Session { .. } => (Window::Tumble { size_ms: 1, offset_ms: 0 }, 0),
            other => (other, 0),
        };
        Windowed {
            window,
            time: window_time,
            time_type,
            partition: Vec::new(),
            earlier_ms,
            settled: true,
            assigned: false,
        }
    }
}

impl Windowed {
    /// How far the window columns of rows that follow may be behind the watermark, in milliseconds. `None`: nothing is known.
    pub(super) fn lag_ms(&self, column: WindowColumn) -> Option<i64> {
        let start_lag_ms = match self.window {
            Window::Tumble { size_ms, .. } | Window::Hop { size_ms, .. } => Some(size_ms + self.earlier_ms - 1),
            Window::Cumulate { max_ms, .. } => Some(max_ms - 1),
            Window::Session { .. } => None,
            Window::Global => return None,
        };
        // The end of a window that has not fired is at least two milliseconds later than the watermark.
        match column {
            WindowColumn::Start => start_lag_ms,
            WindowColumn::End => Some(-1),
            WindowColumn::Time => Some(0),
        }
    }
}

impl WindowColumn {
    pub(super) const ALL: [WindowColumn; 3] = [WindowColumn::Start, WindowColumn::End, WindowColumn::Time];

    /// The same column once it has values. The start of a cumulating window and of a session is then an ordinary column: it does not
    /// follow from the window's end.
    pub(super) fn settled(self, window: Window) -> Option<WindowColumn> {
        let is_fixed = !matches!(window, Window::Cumulate { .. } | Window::Session { .. });
        Some(self).filter(|column| is_fixed || *column != WindowColumn::Start)
    }
}
