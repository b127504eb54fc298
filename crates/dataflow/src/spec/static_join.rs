//! Join with a static table.

use std::fmt;

use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::Expr;

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

impl JoinKind {
    /// Whether the output has columns of both sides.
    #[must_use]
    pub fn gives_pairs(self) -> bool {
        match self {
            JoinKind::Inner | JoinKind::Left => true,
            JoinKind::LeftSemi | JoinKind::LeftAnti => false,
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
