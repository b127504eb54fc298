//! The first row of each key, once and for all.

use std::fmt;

use arrow_schema::{FieldRef, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::key::in_order;
use crate::list::{List, columns, places};
use crate::{Growth, KeyColumn, PartKey, StateBound, Stateful, duration_text};

/// Of rows that stay, the first one of each key. It stays, and the others are left out.
///
/// Input: the keys, then other columns, among them the event time if the first row is the earliest one.
/// Output: the columns `output`. With event time, a row is emitted when the watermark reaches its time; of
/// rows of equal time, the one that came first. Otherwise it is the row that comes first, at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeduplicateSpec {
    /// Number of key columns.
    pub keys: usize,
    /// Index of the event time. `None`: rows count in the order in which they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<usize>,
    /// Columns of the input.
    pub schema: SchemaRef,
    /// Output columns as indexes into `schema`.
    pub output: Vec<usize>,
    /// For how many milliseconds a key is known after its first row. `None`: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_live_ms: Option<i64>,
}

impl DeduplicateSpec {
    /// The columns that are kept: of rows that wait all, otherwise the keys.
    #[must_use]
    pub fn kept_columns(&self) -> &[FieldRef] {
        if self.time.is_some() { self.schema.fields() } else { &self.schema.fields()[..self.keys] }
    }

    /// Columns of the output.
    #[must_use]
    pub fn output_schema(&self) -> Schema {
        let columns = self.output.iter().map(|column| self.schema.field(*column).clone());
        Schema::new(columns.collect::<Vec<_>>())
    }
}

/// What checkpoints know a [`DeduplicateSpec`] by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specification")]
pub struct DeduplicateKey {
    pub columns: Vec<KeyColumn>,
    pub keys: usize,
    pub time: Option<usize>,
}

impl Stateful for DeduplicateSpec {
    fn key(&self) -> PartKey {
        let columns = KeyColumn::all(self.kept_columns());
        PartKey::Deduplicate(DeduplicateKey { columns, keys: self.keys, time: self.time })
    }

    /// Its time to live is that of a key after its first row, and is among the words.
    fn kept(&self) -> StateBound {
        let time_to_live = self.time_to_live_ms.map(duration_text);
        let keys =
            time_to_live.map_or_else(|| "each key".into(), |time| format!("each key for {time} after its first row"));
        let is_bounded = self.keys == 0 || self.time_to_live_ms.is_some();
        let growth = if is_bounded { Growth::Bounded } else { Growth::WithKeys };
        match self.time {
            Some(_) => StateBound::new(format!("{keys}, and the rows that event time has not reached"), growth),
            None => StateBound::new(keys, growth),
        }
    }

    fn waits_for_event_time(&self) -> bool {
        self.time.is_some()
    }

    fn remedy(&self) -> &'static str {
        "SET 'table.exec.state.ttl', or deduplicate in windows"
    }
}

impl fmt::Display for DeduplicateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deduplicate by [")?;
        write!(f, "{}", places(0..self.keys))?;
        match self.time {
            Some(time) => write!(f, "], the first in the order of #{time}")?,
            None => f.write_str("], the first that comes")?,
        }
        write!(f, ": [{}]", columns(&self.output, &self.schema))?;
        crate::spec::time_to_live(f, "keys", self.time_to_live_ms)
    }
}

impl fmt::Display for DeduplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deduplicate [{}], {} keys, {}", List(&self.columns), self.keys, in_order(self.time))
    }
}
