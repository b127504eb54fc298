//! The first row of each key, once and for all.

use std::fmt;

use arrow_schema::{FieldRef, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

/// Of rows that stay, the first one of each key. It stays, and the others are left out.
///
/// Input: the keys, then other columns, among them the event time if the first row is the earliest one. Output: the columns `output`.
/// With event time, a row is emitted when the watermark reaches its time; of rows of equal time, the one that came first. Otherwise it is
/// the row that comes first, at once.
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
    pub fn kept(&self) -> &[FieldRef] {
        if self.time.is_some() { self.schema.fields() } else { &self.schema.fields()[..self.keys] }
    }

    /// Columns of the output.
    #[must_use]
    pub fn output_schema(&self) -> Schema {
        let columns = self.output.iter().map(|column| self.schema.field(*column).clone());
        Schema::new(columns.collect::<Vec<_>>())
    }
}

impl fmt::Display for DeduplicateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deduplicate by [")?;
        (0..self.keys).try_for_each(|key| write!(f, "{}#{key}", if key == 0 { "" } else { ", " }))?;
        match self.time {
            Some(time) => write!(f, "], the first in the order of #{time}")?,
            None => f.write_str("], the first that comes")?,
        }
        f.write_str(": [")?;
        for (i, column) in self.output.iter().enumerate() {
            write!(f, "{}#{column} {}", if i == 0 { "" } else { ", " }, self.schema.field(*column).name())?;
        }
        f.write_str("]")?;
        crate::spec::time_to_live(f, "keys", self.time_to_live_ms)
    }
}
