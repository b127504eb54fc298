//! Aggregation by keys without a window: an updating stream of results.

use std::fmt;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::list::List;
use crate::{AggregateSpec, Growth, KeyColumn, KeyFunction, NamedExpr, PartKey, StateBound, Stateful};

/// Column after all others of an updating stream: how often the row counts, BIGINT NOT NULL. A row that is
/// taken back comes again with the opposite number.
pub const WEIGHT: &str = "$weight";

/// The column [`WEIGHT`].
#[must_use]
pub fn weight_field() -> Field {
    Field::new(WEIGHT, DataType::Int64, false)
}

/// Aggregation by keys over all rows so far.
///
/// Input: any columns, with a weight if it is updating. Output: keys, one column per aggregate, then the
/// weight. After each batch, the former result of each group that has changed is taken back, and the new one
/// follows. Without aggregates over an append-only input, a group never changes: the output is append-only
/// too, without a weight. So are results of windows that are emitted once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupAggregateSpec {
    /// Grouping keys over the input.
    pub keys: Vec<NamedExpr>,
    /// Aggregates over the input.
    pub aggregates: Vec<AggregateSpec>,
    /// Index of the input's weight; `None` if the input is append-only.
    pub weight: Option<usize>,
    /// Columns of the input.
    pub input_schema: SchemaRef,
    /// For how many milliseconds a group is kept that no row changes. `None`: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_live_ms: Option<i64>,
    /// Until the end of an epoch, so many rows are gathered before their groups are changed. `None`: each
    /// batch is taken as it comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mini_batch_rows: Option<u64>,
    /// The groups are of windows. `None`: they are not, and results are emitted at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emission: Option<EmissionSpec>,
    /// See [`Stateful::zone`](crate::Stateful::zone).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// When results of groups of windows are emitted, and until when they may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmissionSpec {
    /// Which of the keys is the last instant of the group's window, of a timestamp type.
    pub time: usize,
    /// For how many milliseconds of event time after that rows may change the group. Later ones are dropped.
    pub lateness_ms: i64,
    /// Results are emitted before the window ends, as they change. Otherwise the first one comes when event
    /// time has reached its end.
    pub early: bool,
}

impl EmissionSpec {
    /// Whether a result is emitted when its window ends and does not change then.
    #[must_use]
    pub fn is_once(&self) -> bool {
        !self.early && self.lateness_ms == 0
    }
}

impl GroupAggregateSpec {
    /// Whether the output has weights.
    #[must_use]
    pub fn is_updating(&self) -> bool {
        match self.emission {
            Some(emission) => !emission.is_once(),
            None => self.weight.is_some() || !self.aggregates.is_empty(),
        }
    }

    /// Columns of the output.
    #[must_use]
    pub fn output_schema(&self) -> Schema {
        let keys = self.keys.iter().map(NamedExpr::field);
        let aggregates = self.aggregates.iter().map(AggregateSpec::field);
        let weight = self.is_updating().then(weight_field);
        Schema::new(keys.chain(aggregates).chain(weight).collect::<Vec<_>>())
    }
}

/// What checkpoints know a [`GroupAggregateSpec`] by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specification")]
pub struct GroupAggregateKey {
    pub groups: Groups,
    pub keys: Vec<KeyColumn>,
    pub functions: Vec<KeyFunction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// What an aggregate without a window keeps of its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Groups {
    /// Of rows that stay.
    Rows,
    /// The same, for windows.
    Windows,
    /// Of rows that may be taken back: their values are kept.
    UpdatedRows,
}

impl Stateful for GroupAggregateSpec {
    fn key(&self) -> PartKey {
        let groups = match (self.weight.is_some(), self.emission.is_some()) {
            (true, _) => Groups::UpdatedRows,
            (false, true) => Groups::Windows,
            (false, false) => Groups::Rows,
        };
        PartKey::GroupAggregate(GroupAggregateKey {
            groups,
            keys: KeyColumn::computed(&self.keys),
            functions: KeyFunction::all(&self.aggregates),
            zone: self.zone.clone(),
        })
    }

    fn kept(&self) -> StateBound {
        // The next value must be known when one is taken back.
        let has_next = |of: &AggregateSpec| {
            let is_extreme = matches!(of.function.as_str(), "min" | "max" | "first_value" | "last_value");
            self.weight.is_some() && is_extreme
        };
        if self.emission.is_some() {
            StateBound::new("the groups of windows until no row may change them", Growth::Bounded)
        } else if self.aggregates.iter().any(|of| of.keeps_all() || has_next(of)) {
            StateBound::new("the values of each key, until they are taken back", Growth::WithRows)
        } else if self.keys.is_empty() {
            StateBound::new("one row", Growth::Bounded)
        } else {
            StateBound::new("a row for each key", Growth::WithKeys)
        }
    }

    fn time_to_live_ms(&self) -> Option<i64> {
        self.time_to_live_ms
    }

    fn waits_for_event_time(&self) -> bool {
        self.emission.is_some()
    }

    fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    fn remedy(&self) -> &'static str {
        match self.time_to_live_ms {
            None => "SET 'table.exec.state.ttl', or aggregate in windows",
            Some(_) => "aggregate or rank in windows",
        }
    }
}

impl fmt::Display for GroupAggregateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_once = self.emission.is_some_and(|emission| emission.is_once());
        f.write_str(if is_once { "aggregate of updated rows, by " } else { "updating aggregate, by " })?;
        crate::spec::named(f, &self.keys)?;
        write!(f, ": [{}]", List(&self.aggregates))?;
        self.weight.map_or(Ok(()), |weight| write!(f, ", weight #{weight}"))?;
        crate::spec::time_to_live(f, "groups", self.time_to_live_ms)?;
        if let Some(EmissionSpec { time, .. }) = self.emission.filter(EmissionSpec::is_once) {
            write!(f, ", emitted at the end of window #{time}")?;
        } else if let Some(EmissionSpec { time, lateness_ms, early }) = self.emission {
            let from = if early { "from the start" } else { "from the end" };
            write!(f, ", emitted {from} of window #{time}, until {lateness_ms} ms later")?;
        }
        crate::spec::in_zone(f, self.zone.as_deref())?;
        self.mini_batch_rows.map_or(Ok(()), |rows| write!(f, ", in batches of {rows} rows"))
    }
}

impl fmt::Display for GroupAggregateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.groups {
            Groups::UpdatedRows => "updating aggregate of an updating stream",
            Groups::Windows => "updating aggregate of windows",
            Groups::Rows => "updating aggregate",
        })?;
        write!(f, ", by [{}]: [{}]", List(&self.keys), List(&self.functions))?;
        super::in_zone(f, self.zone.as_deref())
    }
}
