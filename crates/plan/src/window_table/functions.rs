//! The functions of windows, an entry each. Calls, keys of GROUP BY, reserved names and completion follow
//! from these entries.

use std::fmt;

use anabranch_dataflow::Window;

/// The lengths that a call gives, in milliseconds. A length that its function does not take is 0.
/// `size_ms` is the length of a window, or the gap that ends a session.
pub(crate) struct Lengths {
    pub(crate) size_ms: i64,
    pub(crate) step_ms: i64,
    pub(crate) offset_ms: i64,
}

/// A function that assigns rows to windows.
pub(crate) struct WindowFunction {
    /// In capitals.
    pub(crate) name: &'static str,
    /// The parameter before the size: how far apart windows begin, or how much longer each is.
    pub(crate) step: Option<&'static str>,
    /// The parameter with the length of windows, or with the gap that ends a session.
    pub(crate) size: &'static str,
    pub(crate) has_offset: bool,
    /// Whether each key has windows of its own: the keys of PARTITION BY, or the others of GROUP BY.
    pub(crate) has_keys: bool,
    /// Whether a call of a column and of the lengths can be a key of GROUP BY.
    pub(crate) in_group_by: bool,
    pub(crate) window: fn(Lengths) -> Window,
}

static WINDOW_FUNCTIONS: [WindowFunction; 4] = [
    WindowFunction {
        name: "TUMBLE",
        step: None,
        size: "SIZE",
        has_offset: true,
        has_keys: false,
        in_group_by: true,
        window: |of| Window::Tumble { size_ms: of.size_ms, offset_ms: of.offset_ms },
    },
    WindowFunction {
        name: "HOP",
        step: Some("SLIDE"),
        size: "SIZE",
        has_offset: true,
        has_keys: false,
        in_group_by: true,
        window: |of| Window::Hop { size_ms: of.size_ms, slide_ms: of.step_ms, offset_ms: of.offset_ms },
    },
    WindowFunction {
        name: "CUMULATE",
        step: Some("STEP"),
        size: "SIZE",
        has_offset: true,
        has_keys: false,
        in_group_by: false,
        window: |of| Window::Cumulate { step_ms: of.step_ms, max_ms: of.size_ms, offset_ms: of.offset_ms },
    },
    WindowFunction {
        name: "SESSION",
        step: None,
        size: "GAP",
        has_offset: false,
        has_keys: true,
        in_group_by: true,
        window: |of| Window::Session { gap_ms: of.size_ms },
    },
];

/// The suffixes of functions that name a column of a window of GROUP BY, with the column's index.
const AUXILIARY: [(&str, usize); 4] = [("_START", 0), ("_END", 1), ("_ROWTIME", 2), ("_PROCTIME", 2)];

impl WindowFunction {
    /// The function with a name in capitals.
    pub(crate) fn named(name: &str) -> Option<&'static WindowFunction> {
        WINDOW_FUNCTIONS.iter().find(|function| function.name == name)
    }

    /// The function for which an auxiliary function, `TUMBLE_START` for example, names a column, and the
    /// column's index.
    pub(crate) fn of_auxiliary(name: &str) -> Option<(&'static WindowFunction, usize)> {
        let mut functions = WINDOW_FUNCTIONS.iter().filter(|function| function.in_group_by);
        functions.find_map(|function| {
            let suffix = name.strip_prefix(function.name)?;
            AUXILIARY.iter().find(|(auxiliary, _)| *auxiliary == suffix).map(|(_, column)| (function, *column))
        })
    }

    /// The parameters of lengths that each call needs, in their order.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.step.into_iter().chain([self.size])
    }

    /// All parameters in their order.
    pub(crate) fn parameters(&self) -> Vec<&'static str> {
        let offset = self.has_offset.then_some("OFFSET");
        ["DATA", "TIMECOL"].into_iter().chain(self.lengths()).chain(offset).collect()
    }

    /// How to write a call, for messages.
    pub(crate) fn usage(&self) -> String {
        let keys = if self.has_keys { " PARTITION BY (a, b)" } else { "" };
        match self.step {
            Some(step) => format!(
                "write {self}(TABLE t{keys}, DESCRIPTOR(ts), {}, size), the lengths as INTERVAL '10' SECOND",
                step.to_lowercase()
            ),
            None => format!("write {self}(TABLE t{keys}, DESCRIPTOR(ts), INTERVAL '10' SECOND)"),
        }
    }
}

impl fmt::Display for WindowFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The names of the functions of windows, in capitals.
pub fn window_functions() -> impl Iterator<Item = &'static str> {
    WINDOW_FUNCTIONS.iter().map(|function| function.name)
}

/// The names of all functions, for messages.
pub(crate) fn table_functions() -> String {
    listed(&window_functions().collect::<Vec<_>>(), "and")
}

/// The names of the functions that can be keys of GROUP BY, for messages.
pub(crate) fn group_functions() -> String {
    let functions = WINDOW_FUNCTIONS.iter().filter(|function| function.in_group_by);
    listed(&functions.map(|function| function.name).collect::<Vec<_>>(), "or")
}

fn listed(names: &[&str], before_last: &str) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} {before_last} {last}", others.join(", ")),
        _ => names.concat(),
    }
}
