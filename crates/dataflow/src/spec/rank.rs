//! The first rows of each partition, in an order.

use std::fmt;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::list::{List, columns, places};
use crate::{Growth, KeyColumn, PartKey, StateBound, Stateful, weight_field};

/// The first rows of each partition, in an order, of all rows so far.
///
/// Input: the keys of the partition, then the columns of the order, then others; a weight if it is updating.
/// With windows, rows of a partition are of one window, and its first rows are emitted when that ends. They
/// stay, without a weight. Output: the columns `output` of the input, the number of the row in its partition
/// from 1 on if asked for, and the weight. Rows that are equal in the order are in the order of their other
/// columns, unless the last one is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankSpec {
    /// Number of key columns.
    pub keys: usize,
    /// How the columns after the keys are ordered.
    pub order: Vec<Ordering>,
    /// How many rows of each partition.
    pub limit: u64,
    /// Of rows that are equal in the order, which has one column, the one that came last is first. Only for
    /// one row of each partition, of rows that stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latest: bool,
    /// Columns of the input, without the weight.
    pub schema: SchemaRef,
    /// The rows have a weight, as the last column.
    pub updating: bool,
    /// Output columns as indexes into `schema`.
    pub output: Vec<usize>,
    /// Name of the column with the number of the row.
    pub number: Option<String>,
    /// Which of the keys is the last instant of the row's window, if rows wait for the end of their windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// For how many milliseconds a partition is kept whose rows do not change. `None`: for ever, or until its
    /// window ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_live_ms: Option<i64>,
    /// See [`Stateful::zone`](crate::Stateful::zone).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// The order of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordering {
    /// The greatest value comes first.
    pub descending: bool,
    /// NULL comes before all values.
    pub nulls_first: bool,
}

impl RankSpec {
    /// Columns of the output.
    #[must_use]
    pub fn output_schema(&self) -> Schema {
        let columns = self.output.iter().map(|column| self.schema.field(*column).clone());
        let number = self.number.iter().map(|name| Field::new(name, DataType::Int64, false));
        let weight = self.window.is_none().then(weight_field);
        Schema::new(columns.chain(number).chain(weight).collect::<Vec<_>>())
    }
}

/// What checkpoints know a [`RankSpec`] by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specification")]
pub struct RankKey {
    pub limit: u64,
    pub updating: bool,
    pub columns: Vec<KeyColumn>,
    pub keys: usize,
    pub order: Vec<Ordering>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Stateful for RankSpec {
    fn key(&self) -> PartKey {
        PartKey::Rank(RankKey {
            limit: self.limit,
            updating: self.updating,
            columns: KeyColumn::of_schema(&self.schema),
            keys: self.keys,
            order: self.order.clone(),
            window: self.window,
            zone: self.zone.clone(),
        })
    }

    fn kept(&self) -> StateBound {
        let first = format!("{} rows of each partition", self.limit);
        match self.updating {
            _ if self.window.is_some() => {
                StateBound::new(format!("{first} of windows that have not ended"), Growth::Bounded)
            }
            true => StateBound::new("all rows, until they are taken back", Growth::WithRows),
            false => StateBound::new(first, Growth::WithKeys),
        }
    }

    fn time_to_live_ms(&self) -> Option<i64> {
        self.time_to_live_ms
    }

    fn waits_for_event_time(&self) -> bool {
        self.window.is_some()
    }

    fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    fn remedy(&self) -> &'static str {
        match self.time_to_live_ms {
            None => "SET 'table.exec.state.ttl', or rank in windows",
            Some(_) => "aggregate or rank in windows",
        }
    }
}

impl fmt::Display for Ordering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.descending, self.nulls_first) {
            (false, false) => "",
            (false, true) => ", NULL first",
            (true, false) => " DESC, NULL last",
            (true, true) => " DESC",
        })
    }
}

impl fmt::Display for RankSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first {} by [{}]", self.limit, places(0..self.keys))?;
        self.window.map_or(Ok(()), |window| write!(f, " when their window #{window} ends"))?;
        let order = self.order.iter().zip(self.keys..).map(|(ordering, place)| format!("#{place}{ordering}"));
        write!(f, ", in the order of [{}", List(order))?;
        f.write_str(if self.latest { ", the last to come" } else { "" })?;
        write!(f, "]: [{}", columns(&self.output, &self.schema))?;
        self.number.as_ref().map_or(Ok(()), |name| write!(f, ", number AS {name}"))?;
        f.write_str("]")?;
        crate::spec::in_zone(f, self.zone.as_deref())?;
        crate::spec::time_to_live(f, "partitions", self.time_to_live_ms)
    }
}

impl fmt::Display for RankKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.updating { "updating " } else { "" };
        write!(f, "first {} of {kind}[{}], {} keys, ", self.limit, List(&self.columns), self.keys)?;
        for (i, of) in self.order.iter().enumerate() {
            let name = match (of.descending, of.nulls_first) {
                (false, false) => "ascending",
                (false, true) => "ascending, NULL first",
                (true, false) => "descending, NULL last",
                (true, true) => "descending",
            };
            write!(f, "{}{name}", if i == 0 { "" } else { "; " })?;
        }
        self.window.map_or(Ok(()), |key| write!(f, ", windows by key {key}"))?;
        super::in_zone(f, self.zone.as_deref())
    }
}
