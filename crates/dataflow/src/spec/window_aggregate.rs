//! Aggregation by keys and window.

use std::fmt;

use arrow_schema::{DataType, Field, SchemaRef};
use serde::{Deserialize, Serialize};

use super::{in_zone, named};
use crate::list::List;
use crate::{Expr, Growth, KeyColumn, KeyFunction, NamedExpr, PartKey, StateBound, Stateful, duration_text};

/// Windows of event time, aligned to the Unix epoch plus `offset_ms`. All lengths are positive milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the lengths say it")]
pub enum Window {
    /// One window per row.
    Tumble { size_ms: i64, offset_ms: i64 },
    /// `size / slide` windows per row.
    Hop { size_ms: i64, slide_ms: i64, offset_ms: i64 },
    /// Windows that begin every `max`, each with one of length `step`, of `2 * step`, and so on up to `max`,
    /// a multiple of `step`.
    Cumulate { step_ms: i64, max_ms: i64, offset_ms: i64 },
    /// For each value of the keys, rows that follow each other by `gap` at most. A window ends `gap` after
    /// its last row.
    Session { gap_ms: i64 },
    /// One window over everything, which ends with the stream.
    Global,
}

/// Aggregation by keys and window.
///
/// Input: any columns (`Complete`, `Partial`), or the output of `Partial` (`Final`). Output of `Partial`:
/// `pane_start` (Timestamp ms) unless the window is global, keys, then the state columns of each aggregate in
/// order. Output of `Complete` and `Final`: keys, then `window_start`, `window_end`, `window_time` unless the
/// window is global, then one column per aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowAggregateSpec {
    /// Which half of a two-phase aggregation, or the whole.
    pub phase: AggregatePhase,
    /// Windows.
    pub window: Window,
    /// Event time over the input, of a timestamp type; `None` if the window is global. Not read by `Final`.
    pub time: Option<Expr>,
    /// Type of the window columns.
    pub time_type: DataType,
    /// Grouping keys over the input. `Final` takes them by position.
    pub keys: Vec<NamedExpr>,
    /// Aggregates over the input. `Final` takes their states by position.
    pub aggregates: Vec<AggregateSpec>,
    /// Columns of the rows before aggregation, over which keys and aggregates are typed.
    pub input_schema: SchemaRef,
    /// See [`Stateful::zone`](crate::Stateful::zone).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// Half of a two-phase aggregation, or the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AggregatePhase {
    /// Rows in, results out.
    Complete,
    /// Rows in, states per pane out, before the shuffle.
    Partial,
    /// States per pane in, results out.
    Final,
}

/// One aggregate function call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AggregateSpec {
    /// Output column.
    pub name: String,
    /// Name in the function registry: `count`, `sum`, `min`, `max`, `avg`, `first_value`, `last_value`, ...
    pub function: String,
    /// Arguments.
    pub args: Vec<Expr>,
    /// `DISTINCT`.
    pub distinct: bool,
    /// `FILTER (WHERE ...)`.
    pub filter: Option<Expr>,
    /// Type of the result.
    pub data_type: DataType,
    /// Whether the result can be null.
    pub nullable: bool,
}

impl AggregateSpec {
    /// The output column.
    #[must_use]
    pub fn field(&self) -> Field {
        Field::new(&self.name, self.data_type.clone(), self.nullable)
    }
}

impl Window {
    /// Whether the rows decide where windows begin and end: among fewer rows, a row may be in another window.
    #[must_use]
    pub fn follows_rows(&self) -> bool {
        match self {
            Window::Session { .. } => true,
            Window::Tumble { .. } | Window::Hop { .. } | Window::Cumulate { .. } | Window::Global => false,
        }
    }

    /// Writes lengths of time as given.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, ms: &dyn Fn(i64) -> String) -> fmt::Result {
        let offset_ms = match *self {
            Window::Tumble { size_ms, offset_ms } => {
                write!(f, "tumble {}", ms(size_ms))?;
                offset_ms
            }
            Window::Hop { size_ms, slide_ms, offset_ms } => {
                write!(f, "hop {} every {}", ms(size_ms), ms(slide_ms))?;
                offset_ms
            }
            Window::Cumulate { step_ms, max_ms, offset_ms } => {
                write!(f, "cumulate {} up to {}", ms(step_ms), ms(max_ms))?;
                offset_ms
            }
            Window::Session { gap_ms } => return write!(f, "session with gap {}", ms(gap_ms)),
            Window::Global => return f.write_str("global"),
        };
        if offset_ms == 0 { Ok(()) } else { write!(f, " offset {}", ms(offset_ms)) }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &|ms| format!("{ms} ms"))
    }
}

impl AggregateSpec {
    /// Whether the result is a list of values, or needs one.
    pub(crate) fn keeps_all(&self) -> bool {
        self.distinct || matches!(self.function.as_str(), "array_agg" | "string_agg")
    }
}

/// What checkpoints know a [`WindowAggregateSpec`] by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specification")]
pub struct WindowAggregateKey {
    pub window: Window,
    pub keys: Vec<KeyColumn>,
    pub functions: Vec<KeyFunction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Stateful for WindowAggregateSpec {
    fn key(&self) -> PartKey {
        PartKey::WindowAggregate(WindowAggregateKey {
            window: self.window,
            keys: KeyColumn::computed(&self.keys),
            functions: KeyFunction::all(&self.aggregates),
            zone: self.zone.clone(),
        })
    }

    fn kept(&self) -> StateBound {
        if self.window == Window::Global {
            return StateBound::new("a row for each key, until the input ends", Growth::WithKeys);
        }
        let has_lists = self.aggregates.iter().any(|of| of.function == "array_agg");
        let kept = if has_lists { "all values" } else { "the groups" };
        StateBound::new(format!("{kept} of windows that have not ended"), Growth::Bounded)
    }

    fn waits_for_event_time(&self) -> bool {
        self.phase != AggregatePhase::Partial
    }

    fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }
}

impl fmt::Display for WindowAggregateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} aggregate, window {}", self.phase, self.window)?;
        if let Some(time) = self.time.as_ref().filter(|_| self.phase != AggregatePhase::Final) {
            write!(f, " over {time}")?;
        }
        in_zone(f, self.zone.as_deref())?;
        f.write_str(", by ")?;
        named(f, &self.keys)?;
        write!(f, ": [{}]", List(&self.aggregates))
    }
}

impl fmt::Display for AggregateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        write!(f, "{}({distinct}{})", self.function, List(&self.args))?;
        if let Some(filter) = &self.filter {
            write!(f, " FILTER (WHERE {filter})")?;
        }
        write!(f, " AS {}", self.name)
    }
}

impl fmt::Display for WindowAggregateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("aggregate, window ")?;
        self.window.write(f, &duration_text)?;
        write!(f, ", by [{}]: [{}]", List(&self.keys), List(&self.functions))?;
        in_zone(f, self.zone.as_deref())
    }
}
