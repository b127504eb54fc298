//! Specifications of operators and sinks.

use std::collections::BTreeMap;
use std::fmt;

use arrow_schema::{DataType, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::{
    ConnectorSpec, DeduplicateSpec, ExpandSpec, Expr, GroupAggregateSpec, Growth, KeyColumn, KeyFunction, LimitSpec,
    LookupJoinSpec, MultiJoinSpec, NamedExpr, OverSpec, PartKey, RankSpec, RepeatSpec, SortSpec, StateBound, Stateful,
    StreamJoinKind, StreamJoinSpec, UnnestSpec, ValuesSpec, duration_text,
};

/// A table to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SinkSpec {
    /// Name of the table.
    pub table: String,
    /// The location of its records.
    pub connector: ConnectorSpec,
    /// Columns, in the order of the rows that arrive.
    pub schema: SchemaRef,
    /// Indexes of the columns of the table's primary key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<usize>,
    /// The rows have a weight after the columns of `schema`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub updating: bool,
    /// Columns that records have beside their content, and the connector's keys for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<usize, String>,
    /// See [`TableTraits::ignores_epochs`](crate::TableTraits::ignores_epochs).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignores_epochs: bool,
}

impl SinkSpec {
    /// A table without a key, for rows that stay.
    #[must_use]
    pub fn new(table: impl Into<String>, connector: ConnectorSpec, schema: SchemaRef) -> SinkSpec {
        SinkSpec {
            table: table.into(),
            connector,
            schema,
            key: Vec::new(),
            updating: false,
            metadata: BTreeMap::new(),
            ignores_epochs: false,
        }
    }
}

/// One operator of a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum OperatorSpec {
    /// Keeps the rows for which the predicate is true.
    Filter {
        /// Predicate over the input columns.
        predicate: Expr,
        /// The columns that it passes on, in their order; `None`: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<Vec<usize>>,
    },
    /// Computes columns.
    Project {
        /// Output columns.
        columns: Vec<NamedExpr>,
    },
    /// Joins rows with a static table.
    StaticJoin(StaticJoinSpec),
    /// Joins rows with a table that is asked for their keys. The first operator of its chain.
    LookupJoin(Box<LookupJoinSpec>),
    /// Appends `window_start`, `window_end`, `window_time`; with hopping windows a row appears once per
    /// window.
    WindowAssign(WindowAssignSpec),
    /// Groups by keys and window, and aggregates.
    WindowAggregate(WindowAggregateSpec),
    /// Groups by keys, and aggregates all rows so far.
    GroupAggregate(GroupAggregateSpec),
    /// Joins two streams. The first operator of its chain.
    StreamJoin(StreamJoinSpec),
    /// Joins several streams at once. The first operator of its chain.
    MultiJoin(Box<MultiJoinSpec>),
    /// The first rows of each partition.
    Rank(RankSpec),
    /// The first row of each key, once and for all.
    Deduplicate(DeduplicateSpec),
    /// Functions over the rows before each row.
    Over(OverSpec),
    /// Rows in an order.
    Sort(SortSpec),
    /// The first rows that come.
    Limit(LimitSpec),
    /// Enforces NOT NULL of a sink's columns.
    NotNull(NotNullSpec),
    /// Gives constant rows in place of each row of the input.
    Values(ValuesSpec),
    /// Each row once for each grouping.
    Expand(ExpandSpec),
    /// Each row once for each element of an array or a map.
    Unnest(UnnestSpec),
    /// Each row as often as it counts.
    Repeat(RepeatSpec),
}

impl OperatorSpec {
    /// Whether it holds rows until event time has passed them or their windows, or until all rows have come.
    #[must_use]
    pub fn waits_for_event_time(&self) -> bool {
        match self {
            OperatorSpec::WindowAggregate(spec) => spec.phase != AggregatePhase::Partial,
            OperatorSpec::GroupAggregate(spec) => spec.emission.is_some(),
            OperatorSpec::StreamJoin(spec) => {
                let at_once = [StreamJoinKind::Inner, StreamJoinKind::LeftSemi].contains(&spec.kind);
                let expires = spec.left.expiry.is_some() || spec.right.expiry.is_some();
                spec.versions.is_some() || (expires && !at_once)
            }
            OperatorSpec::Rank(spec) => spec.window.is_some(),
            OperatorSpec::Deduplicate(spec) => spec.time.is_some(),
            OperatorSpec::Over(spec) => spec.time.is_some(),
            OperatorSpec::Sort(_) => true,
            _ => false,
        }
    }
}

/// Columns of a sink that take no NULL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotNullSpec {
    /// The sink's table, for messages.
    pub table: String,
    /// Indexes of the columns.
    pub columns: Vec<usize>,
    /// Drop rows with NULL in one of them; otherwise they stop the job.
    pub drop_rows: bool,
}

/// Join of the main input (probe) with a static table (build) that is read to its end first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StaticJoinSpec {
    /// Kind.
    pub kind: JoinKind,
    /// Keys over the main input.
    pub probe_keys: Vec<Expr>,
    /// Keys over the static table, of the same types.
    pub build_keys: Vec<Expr>,
    /// Further condition over probe columns followed by build columns.
    pub filter: Option<Expr>,
    /// Columns of the main input.
    pub probe_schema: SchemaRef,
    /// Columns of the static table.
    pub build_schema: SchemaRef,
    /// Output columns as indexes into probe columns followed by build columns.
    pub output: Vec<usize>,
}

/// Kinds of static join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinKind {
    /// Matches only.
    Inner,
    /// Matches, and rows of the main input without one, with nulls.
    Left,
    /// Rows of the main input that have a match.
    LeftSemi,
    /// Rows of the main input that have no match.
    LeftAnti,
}

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

/// Window columns for rows that are not aggregated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowAssignSpec {
    /// Windows: any but sessions and the global one.
    pub window: Window,
    /// Index of the event-time column.
    pub time: usize,
    /// Input columns to keep, before the three window columns.
    pub keep: Vec<usize>,
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

impl fmt::Display for SinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.table, self.connector)
    }
}

/// Shows for how long something is kept, if that is bounded.
pub(crate) fn time_to_live(f: &mut fmt::Formatter<'_>, what: &str, ms: Option<i64>) -> fmt::Result {
    ms.map_or(Ok(()), |ms| write!(f, ", {what} kept for {}", duration_text(ms)))
}

/// Shows the time zone of windows.
pub(crate) fn in_zone(f: &mut fmt::Formatter<'_>, zone: Option<&str>) -> fmt::Result {
    zone.map_or(Ok(()), |zone| write!(f, ", in the time zone {zone}"))
}

pub(crate) fn named(f: &mut fmt::Formatter<'_>, columns: &[NamedExpr]) -> fmt::Result {
    f.write_str("[")?;
    for (i, column) in columns.iter().enumerate() {
        write!(f, "{}{} AS {}", if i == 0 { "" } else { ", " }, column.expr, column.name)?;
    }
    f.write_str("]")
}

impl fmt::Display for OperatorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperatorSpec::Filter { predicate, keep: None } => write!(f, "filter {predicate}"),
            OperatorSpec::Filter { predicate, keep: Some(keep) } => {
                let keep: Vec<String> = keep.iter().map(|column| format!("#{column}")).collect();
                write!(f, "filter {predicate}, keep [{}]", keep.join(", "))
            }
            OperatorSpec::Project { columns } => {
                f.write_str("project ")?;
                named(f, columns)
            }
            OperatorSpec::StaticJoin(spec) => write!(f, "{spec}"),
            OperatorSpec::LookupJoin(spec) => write!(f, "{spec}"),
            OperatorSpec::WindowAssign(spec) => write!(f, "window assign {} over #{}", spec.window, spec.time),
            OperatorSpec::WindowAggregate(spec) => write!(f, "{spec}"),
            OperatorSpec::GroupAggregate(spec) => write!(f, "{spec}"),
            OperatorSpec::StreamJoin(spec) => write!(f, "{spec}"),
            OperatorSpec::MultiJoin(spec) => write!(f, "{spec}"),
            OperatorSpec::Rank(spec) => write!(f, "{spec}"),
            OperatorSpec::Deduplicate(spec) => write!(f, "{spec}"),
            OperatorSpec::Over(spec) => write!(f, "{spec}"),
            OperatorSpec::Sort(spec) => write!(f, "{spec}"),
            OperatorSpec::Limit(spec) => write!(f, "{spec}"),
            OperatorSpec::NotNull(spec) => {
                let fate = if spec.drop_rows { "drop" } else { "require" };
                write!(f, "{fate} not null")?;
                spec.columns.iter().try_for_each(|column| write!(f, " #{column}"))
            }
            OperatorSpec::Values(spec) => write!(f, "{spec}"),
            OperatorSpec::Expand(spec) => write!(f, "{spec}"),
            OperatorSpec::Unnest(spec) => write!(f, "{spec}"),
            OperatorSpec::Repeat(spec) => match spec.weight {
                None => write!(f, "repeat by #{}", spec.copies),
                Some(weight) => write!(f, "weigh by #{}, weight #{weight}", spec.copies),
            },
        }
    }
}

impl fmt::Display for StaticJoinSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "static join {:?} on ", self.kind)?;
        self.write_keys(f)
    }
}

impl StaticJoinSpec {
    /// The condition.
    pub(crate) fn write_keys(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (probe, build)) in self.probe_keys.iter().zip(&self.build_keys).enumerate() {
            write!(f, "{}{probe} = build {build}", if i == 0 { "" } else { " AND " })?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " where {filter}")?;
        }
        Ok(())
    }
}

impl Window {
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

impl Stateful for WindowAggregateSpec {
    fn key(&self) -> PartKey {
        PartKey::WindowAggregate {
            window: self.window,
            keys: KeyColumn::computed(&self.keys),
            functions: KeyFunction::all(&self.aggregates),
            zone: self.zone.clone(),
        }
    }

    fn kept(&self) -> StateBound {
        if self.window == Window::Global {
            return StateBound::new("a row for each key, until the input ends", Growth::WithKeys);
        }
        let has_lists = self.aggregates.iter().any(|of| of.function == "array_agg");
        let kept = if has_lists { "all values" } else { "the groups" };
        StateBound::new(format!("{kept} of windows that have not ended"), Growth::Bounded)
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
        f.write_str(": [")?;
        for (i, aggregate) in self.aggregates.iter().enumerate() {
            write!(f, "{}{aggregate}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for AggregateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}", self.function, if self.distinct { "DISTINCT " } else { "" })?;
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(")")?;
        if let Some(filter) = &self.filter {
            write!(f, " FILTER (WHERE {filter})")?;
        }
        write!(f, " AS {}", self.name)
    }
}
