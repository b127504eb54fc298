//! Specifications of operators and sinks: which kinds there are, and a file for each of the larger ones.

mod deduplicate;
mod group_aggregate;
mod key;
mod lookup_join;
mod multi_join;
mod over;
mod rank;
mod rows;
mod sort;
mod static_join;
mod stream_join;
mod window_aggregate;

use std::collections::BTreeMap;
use std::fmt;

use anabranch_model::{HASH_SEED, hash_bytes};
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

pub use self::deduplicate::{DeduplicateKey, DeduplicateSpec};
pub use self::group_aggregate::{EmissionSpec, GroupAggregateKey, GroupAggregateSpec, Groups, WEIGHT, weight_field};
pub use self::key::{KeyColumn, KeyFunction};
pub use self::lookup_join::{LookupCache, LookupJoinSpec, LookupKey, PartialCache};
pub use self::multi_join::{ChainSide, JoinChain, JoinCondition, JoinInputSpec, KeyInput, MultiJoinKey, MultiJoinSpec};
pub use self::over::{Frame, LAG, OverKey, OverSpec};
pub use self::rank::{Ordering, RankKey, RankSpec};
pub use self::rows::{ExpandSpec, Grouping, ORDINALITY, RepeatSpec, UnnestSpec, ValuesSpec};
pub use self::sort::{LimitKey, LimitSpec, SortKey, SortSpec};
pub use self::static_join::{JoinKind, StaticJoinSpec};
pub use self::stream_join::{ExpirySpec, KeySide, StreamJoinKey, StreamJoinKind, StreamJoinSpec, StreamSideSpec};
pub use self::window_aggregate::{AggregatePhase, AggregateSpec, Window, WindowAggregateKey, WindowAggregateSpec};
use crate::list::List;
use crate::{ConnectorSpec, Expr, NamedExpr, Stateful, Visibility, duration_text};

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
    /// When its rows can be seen.
    #[serde(default, skip_serializing_if = "Visibility::is_by_epoch")]
    pub visibility: Visibility,
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
            visibility: Visibility::ByEpoch,
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
    /// The operator's state. `None` if it keeps none. A static join's table is read again at every start.
    #[must_use]
    pub fn stateful(&self) -> Option<&dyn Stateful> {
        Some(match self {
            OperatorSpec::WindowAggregate(spec) if spec.phase != AggregatePhase::Partial => spec,
            OperatorSpec::GroupAggregate(spec) => spec,
            OperatorSpec::StreamJoin(spec) => spec,
            OperatorSpec::MultiJoin(spec) => spec.as_ref(),
            OperatorSpec::Rank(spec) => spec,
            OperatorSpec::Deduplicate(spec) => spec,
            OperatorSpec::Over(spec) => spec,
            OperatorSpec::Sort(spec) => spec,
            OperatorSpec::Limit(spec) => spec,
            OperatorSpec::Filter { .. }
            | OperatorSpec::Project { .. }
            | OperatorSpec::StaticJoin(_)
            | OperatorSpec::LookupJoin(_)
            | OperatorSpec::NotNull(_)
            | OperatorSpec::Values(_)
            | OperatorSpec::Expand(_)
            | OperatorSpec::Unnest(_)
            | OperatorSpec::Repeat(_)
            | OperatorSpec::WindowAssign(_)
            | OperatorSpec::WindowAggregate(_) => return None,
        })
    }

    /// The zone of [`Stateful::zone`]. The first half of an aggregation, which keeps nothing across epochs,
    /// has one too.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        match self {
            OperatorSpec::WindowAggregate(spec) => spec.zone.as_deref(),
            other => other.stateful()?.zone(),
        }
    }
}

/// Identifies what a part of a plan keeps: all that decides its content, and nothing else. A part of another
/// version of the plan is the same if its key is. The expressions that feed an aggregate may change, for
/// instance, and so may which columns leave a join.
///
/// Its serialized form belongs to the format of manifests. It is frozen: a fixture has each kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are those of the specifications")]
pub enum PartKey {
    /// A source or a sink.
    Table {
        table: String,
        connector: String,
    },
    WindowAggregate(WindowAggregateKey),
    GroupAggregate(GroupAggregateKey),
    StreamJoin(StreamJoinKey),
    MultiJoin(MultiJoinKey),
    Rank(RankKey),
    Deduplicate(DeduplicateKey),
    Over(OverKey),
    Sort(SortKey),
    Limit(LimitKey),
}

impl PartKey {
    /// A short text that is the same for equal keys, and for others most likely another: a hash of the
    /// serialized form.
    #[must_use]
    pub fn digest(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{:016x}", hash_bytes(HASH_SEED, text.as_bytes()))
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
    write!(f, "[{}]", List(columns.iter().map(|column| format!("{} AS {}", column.expr, column.name))))
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

/// For people.
impl fmt::Display for PartKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartKey::Table { table, connector } => write!(f, "{table} ({connector})"),
            PartKey::WindowAggregate(key) => write!(f, "{key}"),
            PartKey::GroupAggregate(key) => write!(f, "{key}"),
            PartKey::StreamJoin(key) => write!(f, "{key}"),
            PartKey::MultiJoin(key) => write!(f, "{key}"),
            PartKey::Rank(key) => write!(f, "{key}"),
            PartKey::Deduplicate(key) => write!(f, "{key}"),
            PartKey::Over(key) => write!(f, "{key}"),
            PartKey::Sort(key) => write!(f, "{key}"),
            PartKey::Limit(key) => write!(f, "{key}"),
        }
    }
}
