//! Functions over the rows before each row.

use std::fmt;

use arrow_schema::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::key::in_order;
use crate::list::{List, columns, places};
use crate::{AggregateSpec, Growth, KeyColumn, KeyFunction, PartKey, StateBound, Stateful, duration_text};

/// For each row, functions over it and rows before it in its partition.
///
/// Input: the keys of the partition, then other columns, among them the event time if rows are ordered by it.
/// Output: the columns `output` of the input, then one column per function. With event time, a row is emitted
/// when the watermark reaches its time; rows of equal time stay in the order in which they came. Otherwise it
/// is emitted at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverSpec {
    /// Number of key columns.
    pub keys: usize,
    /// Index of the event time. `None`: rows count in the order in which they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<usize>,
    /// Which rows before a row count.
    pub frame: Frame,
    /// How long a partition is kept that has no more rows, in milliseconds of processing time. `None`: for
    /// ever. What event time ends is kept until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_live_ms: Option<i64>,
    /// Functions over the input: aggregates, and [`LAG`]. Their arguments are columns and literals.
    pub functions: Vec<AggregateSpec>,
    /// Columns of the input.
    pub schema: SchemaRef,
    /// Output columns as indexes into `schema`.
    pub output: Vec<usize>,
}

/// Name of the function whose value is that of an earlier row. Arguments: the value, how many rows before (a
/// literal, at most as many as the frame has), and the value where there is no such row.
pub const LAG: &str = "lag";

/// The rows that count for a row. `None`: all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frame {
    /// The row, and so many before it.
    Rows {
        /// Number of rows.
        preceding: Option<u64>,
    },
    /// Rows of the same time, and those that are at most so much earlier.
    Range {
        /// Milliseconds.
        preceding_ms: Option<i64>,
    },
}

impl Frame {
    /// Whether all rows before a row count.
    #[must_use]
    pub fn is_unbounded(self) -> bool {
        matches!(self, Frame::Rows { preceding: None } | Frame::Range { preceding_ms: None })
    }

    /// Whether event time ends what is kept of it.
    #[must_use]
    pub fn ends_by_time(self) -> bool {
        matches!(self, Frame::Range { preceding_ms: Some(_) })
    }
}

impl OverSpec {
    /// Columns of the output.
    #[must_use]
    pub fn output_schema(&self) -> Schema {
        let columns = self.output.iter().map(|column| self.schema.field(*column).clone());
        let functions = self.functions.iter().map(AggregateSpec::field);
        Schema::new(columns.chain(functions).collect::<Vec<_>>())
    }
}

impl Frame {
    /// Writes lengths of time as given.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, ms: &dyn Fn(i64) -> String) -> fmt::Result {
        match self {
            Frame::Rows { preceding: Some(rows) } => write!(f, "it and {rows} rows before"),
            Frame::Rows { preceding: None } => f.write_str("it and all rows before"),
            Frame::Range { preceding_ms: Some(preceding) } => write!(f, "rows of up to {} before", ms(*preceding)),
            Frame::Range { preceding_ms: None } => f.write_str("all rows up to its time"),
        }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &|ms| format!("{ms} ms"))
    }
}

/// What checkpoints know an [`OverSpec`] by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specification")]
pub struct OverKey {
    pub frame: Frame,
    pub time: Option<usize>,
    pub columns: Vec<KeyColumn>,
    pub keys: usize,
    pub functions: Vec<KeyFunction>,
}

impl Stateful for OverSpec {
    fn key(&self) -> PartKey {
        PartKey::Over(OverKey {
            frame: self.frame,
            time: self.time,
            columns: KeyColumn::of_schema(&self.schema),
            keys: self.keys,
            functions: KeyFunction::all(&self.functions),
        })
    }

    fn kept(&self) -> StateBound {
        let keeps_all = self.functions.iter().any(AggregateSpec::keeps_all);
        let kept = match self.frame {
            Frame::Rows { preceding: Some(rows) } => format!("{rows} rows of each partition"),
            Frame::Range { preceding_ms: Some(ms) } => {
                format!("the rows of the last {} of event time", duration_text(ms))
            }
            _ if keeps_all => "all values of each partition".to_owned(),
            _ => "a row for each partition".to_owned(),
        };
        let growth = match self.frame {
            frame if frame.ends_by_time() => Growth::Bounded,
            frame if frame.is_unbounded() && keeps_all => Growth::WithRows,
            _ if self.keys == 0 => Growth::Bounded,
            _ => Growth::WithKeys,
        };
        StateBound::new(kept, growth)
    }

    fn time_to_live_ms(&self) -> Option<i64> {
        self.time_to_live_ms
    }

    fn waits_for_event_time(&self) -> bool {
        self.time.is_some()
    }

    fn remedy(&self) -> &'static str {
        match self.time_to_live_ms {
            None => "SET 'table.exec.state.ttl', or bound the frame: ROWS BETWEEN 100 PRECEDING AND CURRENT ROW",
            Some(_) => "bound the frame: ROWS BETWEEN 100 PRECEDING AND CURRENT ROW",
        }
    }
}

impl fmt::Display for OverSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "over {}, ", self.frame)?;
        match self.time {
            Some(time) => write!(f, "in the order of #{time}")?,
            None => f.write_str("as they come")?,
        }
        write!(f, ", by [{}]: [", places(0..self.keys))?;
        let functions = self.functions.iter().map(ToString::to_string);
        write!(f, "{}", List(columns(&self.output, &self.schema).0.chain(functions)))?;
        f.write_str("]")?;
        crate::spec::time_to_live(f, "partitions", self.time_to_live_ms)
    }
}

impl fmt::Display for OverKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("over ")?;
        self.frame.write(f, &duration_text)?;
        let (time, columns, functions) = (in_order(self.time), List(&self.columns), List(&self.functions));
        write!(f, ", {time}, of [{columns}], {} keys: [{functions}]", self.keys)
    }
}
