//! Specification of a join with a table outside that is asked while the job runs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{OperatorSpec, SourceSpec, StaticJoinSpec};

/// Join of rows with what a table outside answers when their task asks for their keys. The first operator of
/// its chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookupJoinSpec {
    /// The join of the main input (probe) with the answers (build).
    pub join: StaticJoinSpec,
    /// The table. Answers are rows of its decoded columns.
    pub table: SourceSpec,
    /// Filters and projections of the answers, from the decoded columns to the build side of the join.
    pub operators: Vec<OperatorSpec>,
    /// The columns by which the table is asked.
    pub keys: Vec<LookupKey>,
    /// What is kept of the answers.
    pub cache: LookupCache,
    /// How often a failed call is repeated before the job fails.
    pub max_retries: u32,
}

/// A column by which a table is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupKey {
    /// Index into the decoded columns of the table.
    pub column: usize,
    /// Index into the keys of the join.
    pub key: usize,
}

/// What a task keeps of a table's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LookupCache {
    /// Nothing: each batch of rows asks for its keys.
    #[default]
    None,
    /// The answers for the keys that were asked for last.
    Partial(PartialCache),
    /// The whole table, which is read again in the background.
    Full {
        /// Pause between two readings.
        interval_ms: u64,
    },
}

/// Bounds of a cache of answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialCache {
    /// Rows that it holds at most; a key without rows counts as one.
    pub rows_max: Option<u64>,
    /// How long an answer is used at most.
    pub expire_after_write_ms: Option<u64>,
    /// How long an answer is kept that nobody has used.
    pub expire_after_access_ms: Option<u64>,
    /// Whether it also keeps that a key has no row.
    pub keeps_missing: bool,
}

impl fmt::Display for LookupJoinSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lookup join {:?} with {} ({}) on ", self.join.kind, self.table.table, self.table.connector)?;
        self.join.write_keys(f)?;
        f.write_str(", asked by ")?;
        for (number, key) in self.keys.iter().enumerate() {
            let column = self.table.projection.get(key.column).map(|column| self.table.declared.field(*column).name());
            let name = column.map_or("?", String::as_str);
            write!(f, "{}{name}", if number == 0 { "" } else { ", " })?;
        }
        write!(f, ", {}", self.cache)?;
        self.operators.iter().try_for_each(|operator| write!(f, "; answers: {operator}"))
    }
}

impl fmt::Display for LookupCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookupCache::None => f.write_str("no cache"),
            LookupCache::Full { interval_ms } => write!(f, "the whole table, read again every {interval_ms} ms"),
            LookupCache::Partial(cache) => {
                f.write_str("cache")?;
                let mut separator = " of";
                let mut part = |f: &mut fmt::Formatter<'_>, text: String| {
                    write!(f, "{separator} {text}")?;
                    separator = ",";
                    Ok(())
                };
                cache.rows_max.map_or(Ok(()), |rows| part(f, format!("{rows} rows")))?;
                cache.expire_after_write_ms.map_or(Ok(()), |ms| part(f, format!("{ms} ms after write")))?;
                cache.expire_after_access_ms.map_or(Ok(()), |ms| part(f, format!("{ms} ms after access")))?;
                if cache.keeps_missing { Ok(()) } else { part(f, "found keys only".to_owned()) }
            }
        }
    }
}

impl LookupJoinSpec {
    /// What a task keeps in memory, in words.
    #[must_use]
    pub fn kept(&self) -> String {
        let table = &self.table.table;
        match &self.cache {
            LookupCache::None => format!("nothing of {table}: it is asked for the keys of each batch"),
            LookupCache::Full { .. } => format!("all rows of {table}, in each task, read again at every start"),
            LookupCache::Partial(PartialCache { rows_max: Some(rows), .. }) => {
                format!("answers of {table}, at most {rows} rows in each task, not in checkpoints")
            }
            LookupCache::Partial(_) => format!("answers of {table} until they expire, not in checkpoints"),
        }
    }
}
