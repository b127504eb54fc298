//! How the rows of a stream belong to windows.

use anabranch_dataflow::{Expr, NamedExpr, Place, Window};
use arrow::datatypes::DataType;

use crate::zones::{physical_instant, physical_local_time, without_zone};

/// The columns of a window, in order.
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
    /// The keys of sessions, over the physical columns.
    pub(super) partition: Vec<NamedExpr>,
    /// How much earlier the rows' windows begin than `window`.
    pub(super) earlier_ms: i64,
    /// Whether the window columns have values.
    pub(super) has_columns: bool,
    /// Whether the rows are input rows with the columns of their windows, and not results.
    pub(super) assigned: bool,
    /// The time zone in which `time` is a local time. `None`: watermarks and `time` use the same scale.
    pub(super) zone: Option<String>,
    /// Where the text defines the windows.
    pub(super) places: Vec<Place>,
}

impl Windowed {
    /// Rows whose windows are assigned when needed.
    pub(super) fn lazily(
        window: Window,
        time: Expr,
        time_type: DataType,
        partition: Vec<NamedExpr>,
        zone: Option<&str>,
        places: Vec<Place>,
    ) -> Self {
        let (time, time_type) = match zone {
            Some(zone) => (physical_local_time(time, &time_type, zone), without_zone(&time_type)),
            None => (time, time_type),
        };
        let zone = zone.map(str::to_owned);
        Windowed {
            window,
            time,
            time_type,
            partition,
            earlier_ms: 0,
            has_columns: false,
            assigned: false,
            zone,
            places,
        }
    }

    /// Rows that have the columns of their windows. `window_time`, in steps of the slide, distinguishes the
    /// windows.
    pub(super) fn with_columns(&self, window_time: Expr) -> Self {
        let (window, earlier_ms) = match self.window {
            Window::Hop { size_ms, slide_ms, offset_ms } => {
                (Window::Tumble { size_ms: slide_ms, offset_ms: offset_ms + size_ms % slide_ms }, size_ms - slide_ms)
            }
            Window::Cumulate { step_ms, offset_ms, .. } => (Window::Tumble { size_ms: step_ms, offset_ms }, 0),
            Window::Session { .. } => (Window::Tumble { size_ms: 1, offset_ms: 0 }, 0),
            window @ (Window::Tumble { .. } | Window::Global) => (window, 0),
        };
        Windowed {
            window,
            time: window_time,
            time_type: self.time_type.clone(),
            partition: Vec::new(),
            earlier_ms,
            has_columns: true,
            assigned: false,
            zone: self.zone.clone(),
            places: self.places.clone(),
        }
    }

    /// The value of a window column in the plan, from its value in operators. In the plan, `window_time` is
    /// an instant, also for windows of local time.
    pub(super) fn value(&self, column: WindowColumn, value: Expr, data_type: &DataType) -> Expr {
        match &self.zone {
            Some(zone) if column == WindowColumn::Time => physical_instant(value, data_type, zone),
            _ => value,
        }
    }
}

impl Windowed {
    /// The lag of a window column: how far later rows may be behind the watermark, in milliseconds. `None`:
    /// it has no bound.
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

    /// The column once it has values. The start of a cumulating window and of a session is then an ordinary
    /// column, because the window's end does not determine it.
    pub(super) fn with_values(self, window: Window) -> Option<WindowColumn> {
        let is_fixed = match window {
            Window::Tumble { .. } | Window::Hop { .. } | Window::Global => true,
            Window::Cumulate { .. } | Window::Session { .. } => false,
        };
        Some(self).filter(|column| is_fixed || *column != WindowColumn::Start)
    }
}
