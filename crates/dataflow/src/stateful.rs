//! Operators that keep state between batches.

use std::fmt::Write as _;

use crate::{OperatorSpec, PartKey, Plan, duration_text};

/// The specification of an operator that keeps state between batches, which belongs into every checkpoint.
pub trait Stateful {
    /// What it keeps, as checkpoints know it.
    fn key(&self) -> PartKey;

    /// What it keeps, and how that grows, if no time to live ends it.
    fn kept(&self) -> StateBound;

    /// For how many milliseconds everything is kept at most after its last change. `None`: for ever, or until
    /// event time ends it.
    fn time_to_live_ms(&self) -> Option<i64> {
        None
    }

    /// Its time to live is that of a row. Otherwise it is that of a key with all that is kept of it.
    fn lives_by_row(&self) -> bool {
        false
    }

    /// Whether it holds rows until event time has passed them or their windows, or until all rows have come.
    fn waits_for_event_time(&self) -> bool {
        false
    }

    /// Whether a row that comes after event time has passed it is left out, or misses rows that event time
    /// has freed. A change that adds such rows is refused unless the user allows it.
    fn misses_late_rows(&self) -> bool {
        self.waits_for_event_time()
    }

    /// The time zone in which times of windows are local times. Watermarks are instants; the operator gets
    /// them as local times. `None`: the times are those that watermarks speak of.
    fn zone(&self) -> Option<&str> {
        None
    }

    /// What users can do about state that grows.
    fn remedy(&self) -> &'static str {
        "aggregate or rank in windows"
    }
}

/// How the state of an operator grows over a stream that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Event time frees it.
    Bounded,
    /// With the number of different keys.
    WithKeys,
    /// With every row.
    WithRows,
}

/// What an operator keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateBound {
    /// In words.
    pub kept: String,
    /// How that grows.
    pub growth: Growth,
}

impl StateBound {
    pub(crate) fn new(kept: impl Into<String>, growth: Growth) -> StateBound {
        StateBound { kept: kept.into(), growth }
    }
}

impl dyn Stateful + '_ {
    /// What it keeps, and how that grows.
    #[must_use]
    pub fn bound(&self) -> StateBound {
        let StateBound { kept, growth } = self.kept();
        let Some(time) = self.time_to_live_ms().map(duration_text) else { return StateBound { kept, growth } };
        if growth == Growth::WithRows && !self.lives_by_row() {
            return StateBound::new(format!("{kept}, or for {time} after the last change of their key"), growth);
        }
        StateBound::new(format!("{kept}, for {time} after its last change"), Growth::Bounded)
    }
}

impl Plan {
    /// The state of each operator and how it grows, with warnings; empty if there is none.
    #[must_use]
    pub fn state_report(&self) -> String {
        let mut report = String::new();
        let mut watermarks = self.stages.iter().filter_map(|stage| stage.source.as_ref()?.watermark.as_ref());
        let at_end = watermarks.any(|watermark| watermark.at_end);
        for stage in &self.stages {
            for operator in &stage.operators {
                if let OperatorSpec::LookupJoin(lookup) = operator {
                    let _ = writeln!(report, "{}, {}: {}", stage.id, stage.name, lookup.kept());
                }
            }
            for state in stage.operators.iter().filter_map(OperatorSpec::stateful) {
                let StateBound { kept, growth } = state.bound();
                let growth = match growth {
                    Growth::Bounded if at_end => {
                        "bounded, but for what waits for event time: it goes on when the tables end"
                    }
                    Growth::Bounded => "bounded",
                    Growth::WithKeys => "grows with the number of keys",
                    Growth::WithRows => "warning: grows with every row",
                };
                let _ = writeln!(report, "{}, {}: {kept}; {growth}", stage.id, stage.name);
                if growth.starts_with("warning") {
                    let _ = writeln!(report, "  help: {}", state.remedy());
                }
            }
        }
        report
    }
}
