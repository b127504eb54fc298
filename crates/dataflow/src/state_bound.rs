//! How much state an operator keeps, as `EXPLAIN` shows it.

use std::fmt::Write as _;

use crate::{
    AggregateSpec, DeduplicateSpec, Frame, OperatorSpec, OverSpec, Plan, StateSpec, StreamSideSpec, Window,
    duration_text,
};

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

/// Whether the result is a list of values, or needs one.
fn keeps_all(of: &AggregateSpec) -> bool {
    of.distinct || matches!(of.function.as_str(), "array_agg" | "string_agg")
}

/// Whether the next value must be known when one is taken back.
fn has_extreme(of: &AggregateSpec) -> bool {
    matches!(of.function.as_str(), "min" | "max" | "first_value" | "last_value")
}

/// What functions over the rows before each row keep of them.
fn of_over(spec: &OverSpec) -> (String, Growth) {
    (
        match spec.frame {
            Frame::Rows { preceding: Some(rows) } => format!("{rows} rows of each partition"),
            Frame::Range { preceding_ms: Some(ms) } => {
                format!("the rows of the last {} of event time", duration_text(ms))
            }
            _ if spec.functions.iter().any(keeps_all) => "all values of each partition".to_owned(),
            _ => "a row for each partition".to_owned(),
        },
        match spec.frame {
            frame if frame.ends_by_time() => Growth::Bounded,
            frame if frame.is_unbounded() && spec.functions.iter().any(keeps_all) => Growth::WithRows,
            _ if spec.keys == 0 => Growth::Bounded,
            _ => Growth::WithKeys,
        },
    )
}

/// What is kept of keys that have had a row, and of rows that wait.
fn of_first_rows(spec: &DeduplicateSpec) -> (String, Growth) {
    let keys = spec
        .time_to_live_ms
        .map_or_else(|| "each key".to_owned(), |ms| format!("each key for {} after its first row", duration_text(ms)));
    let growth = if spec.keys == 0 || spec.time_to_live_ms.is_some() { Growth::Bounded } else { Growth::WithKeys };
    match spec.time {
        Some(_) => (format!("{keys}, and the rows that event time has not reached"), growth),
        None => (keys, growth),
    }
}

impl StateSpec<'_> {
    /// What the operator keeps.
    #[must_use]
    pub fn bound(&self) -> StateBound {
        let (kept, growth) = match self {
            StateSpec::WindowAggregate(spec) if spec.window == Window::Global => {
                ("a row for each key, until the input ends".to_owned(), Growth::WithKeys)
            }
            StateSpec::WindowAggregate(spec) if spec.aggregates.iter().any(|of| of.function == "array_agg") => {
                ("all values of windows that have not ended".to_owned(), Growth::Bounded)
            }
            StateSpec::WindowAggregate(_) => ("the groups of windows that have not ended".to_owned(), Growth::Bounded),
            StateSpec::GroupAggregate(spec) if spec.emission.is_some() => {
                ("the groups of windows until no row may change them".to_owned(), Growth::Bounded)
            }
            StateSpec::GroupAggregate(spec)
                if spec.aggregates.iter().any(keeps_all)
                    || spec.weight.is_some() && spec.aggregates.iter().any(has_extreme) =>
            {
                ("the values of each key, until they are taken back".to_owned(), Growth::WithRows)
            }
            StateSpec::GroupAggregate(spec) if spec.keys.is_empty() => ("one row".to_owned(), Growth::Bounded),
            StateSpec::GroupAggregate(_) => ("a row for each key".to_owned(), Growth::WithKeys),
            StateSpec::Rank(spec) => match spec.updating {
                _ if spec.window.is_some() => {
                    (format!("{} rows of each partition of windows that have not ended", spec.limit), Growth::Bounded)
                }
                true => ("all rows, until they are taken back".to_owned(), Growth::WithRows),
                false => (format!("{} rows of each partition", spec.limit), Growth::WithKeys),
            },
            StateSpec::Deduplicate(spec) => of_first_rows(spec),
            StateSpec::Over(spec) => of_over(spec),
            StateSpec::Sort(spec) if spec.time.is_some() => {
                ("the rows that event time has not reached".to_owned(), Growth::Bounded)
            }
            StateSpec::Sort(_) => ("all rows, until the input ends".to_owned(), Growth::WithRows),
            StateSpec::Limit(_) => ("how many rows have come".to_owned(), Growth::Bounded),
            StateSpec::MultiJoin(spec) => (format!("all rows of its {} inputs", spec.inputs.len()), Growth::WithRows),
            StateSpec::StreamJoin(spec) if spec.versions.is_some() => (
                "left rows until event time has reached theirs, and of right ones the valid version of each key"
                    .to_owned(),
                Growth::WithKeys,
            ),
            StateSpec::StreamJoin(spec) => match (spec.left.expiry, spec.right.expiry) {
                (Some(_), Some(_)) => {
                    ("the rows of both sides, while later ones may match them".to_owned(), Growth::Bounded)
                }
                (Some(_), None) => {
                    ("all right rows, and left ones while later ones may match them".to_owned(), Growth::WithRows)
                }
                (None, Some(_)) => {
                    ("all left rows, and right ones while later ones may match them".to_owned(), Growth::WithRows)
                }
                (None, None) => ("all rows of both sides".to_owned(), Growth::WithRows),
            },
        };
        match self.time_to_live_ms().map(duration_text) {
            // A group or partition lives as a whole.
            Some(time)
                if growth == Growth::WithRows
                    && !matches!(self, StateSpec::StreamJoin(_) | StateSpec::MultiJoin(_)) =>
            {
                StateBound { kept: format!("{kept}, or for {time} after the last change of their key"), growth }
            }
            Some(time) => {
                StateBound { kept: format!("{kept}, for {time} after its last change"), growth: Growth::Bounded }
            }
            None => StateBound { kept, growth },
        }
    }

    /// For how long everything is kept at most.
    fn time_to_live_ms(&self) -> Option<i64> {
        match self {
            StateSpec::GroupAggregate(spec) => spec.time_to_live_ms,
            StateSpec::Rank(spec) => spec.time_to_live_ms,
            StateSpec::Over(spec) => spec.time_to_live_ms,
            StateSpec::StreamJoin(spec) => {
                let of = |side: &StreamSideSpec| side.time_to_live_ms.or(side.expiry.map(|_| 0));
                Some(of(&spec.left)?.max(of(&spec.right)?)).filter(|ms| *ms > 0)
            }
            StateSpec::MultiJoin(spec) => {
                let of_inputs = spec.inputs.iter().map(|input| input.side.time_to_live_ms);
                of_inputs.reduce(|of, next| Some(of?.max(next?))).flatten()
            }
            StateSpec::WindowAggregate(_) | StateSpec::Deduplicate(_) | StateSpec::Sort(_) | StateSpec::Limit(_) => {
                None
            }
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            StateSpec::StreamJoin(_) | StateSpec::MultiJoin(_) => {
                "SET 'table.exec.state.ttl', bound how far event times are apart (a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts), join the same windows, or join versions \
                 FOR SYSTEM_TIME AS OF"
            }
            StateSpec::GroupAggregate(spec) if spec.time_to_live_ms.is_none() => {
                "SET 'table.exec.state.ttl', or aggregate in windows"
            }
            StateSpec::Rank(spec) if spec.time_to_live_ms.is_none() => "SET 'table.exec.state.ttl', or rank in windows",
            StateSpec::Over(spec) if spec.time_to_live_ms.is_none() => {
                "SET 'table.exec.state.ttl', or bound the frame: ROWS BETWEEN 100 PRECEDING AND CURRENT ROW"
            }
            StateSpec::Over(_) => "bound the frame: ROWS BETWEEN 100 PRECEDING AND CURRENT ROW",
            StateSpec::Deduplicate(_) => "SET 'table.exec.state.ttl', or deduplicate in windows",
            StateSpec::Sort(_) => "add LIMIT for the first rows",
            _ => "aggregate or rank in windows",
        }
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
            for state in stage.operators.iter().filter_map(OperatorSpec::state) {
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
