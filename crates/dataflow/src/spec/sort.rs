//! Rows in an order, all of them or the first ones that come.

use std::fmt;

use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::list::List;
use crate::{Growth, KeyColumn, Ordering, PartKey, StateBound, Stateful};

/// Rows in the order of event time, or all rows in an order. A single task has them.
///
/// With a time, a row is emitted when the watermark reaches its time. Otherwise all rows are emitted when the
/// input ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SortSpec {
    /// Index of the event time, which comes first in the order, ascending.
    pub time: Option<usize>,
    /// Columns of the order, behind the time, and how each is ordered. Rows that are equal in them stay as
    /// they came.
    pub order: Vec<(usize, Ordering)>,
    /// Columns of the rows.
    pub schema: SchemaRef,
}

/// The first rows that come. A single task has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSpec {
    /// Rows that are left out before.
    pub skip: u64,
    /// How many rows.
    pub fetch: u64,
}

/// What checkpoints know a [`SortSpec`] by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specification")]
pub struct SortKey {
    pub time: Option<usize>,
    pub columns: Vec<KeyColumn>,
}

/// What checkpoints know a [`LimitSpec`] by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specification")]
pub struct LimitKey {
    pub skip: u64,
}

impl Stateful for SortSpec {
    fn key(&self) -> PartKey {
        PartKey::Sort(SortKey { time: self.time, columns: KeyColumn::of_schema(&self.schema) })
    }

    fn kept(&self) -> StateBound {
        match self.time {
            Some(_) => StateBound::new("the rows that event time has not reached", Growth::Bounded),
            None => StateBound::new("all rows, until the input ends", Growth::WithRows),
        }
    }

    fn waits_for_event_time(&self) -> bool {
        true
    }

    fn remedy(&self) -> &'static str {
        "add LIMIT for the first rows"
    }
}

impl Stateful for LimitSpec {
    fn key(&self) -> PartKey {
        PartKey::Limit(LimitKey { skip: self.skip })
    }

    fn kept(&self) -> StateBound {
        StateBound::new("how many rows have come", Growth::Bounded)
    }
}

impl fmt::Display for SortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sort by [")?;
        self.time.map_or(Ok(()), |time| write!(f, "#{time} as event time reaches it"))?;
        for (i, (column, ordering)) in self.order.iter().enumerate() {
            write!(f, "{}#{column}{ordering}", if i == 0 && self.time.is_none() { "" } else { ", " })?;
        }
        f.write_str(if self.time.is_none() { "] at the end of the input" } else { "]" })
    }
}

impl fmt::Display for LimitSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the first {} rows", self.fetch)?;
        if self.skip > 0 { write!(f, " after {}", self.skip) } else { Ok(()) }
    }
}

impl fmt::Display for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sort ")?;
        self.time.map_or(Ok(()), |time| write!(f, "by event time {time} "))?;
        write!(f, "of [{}]", List(&self.columns))
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "first rows after {}", self.skip)
    }
}
