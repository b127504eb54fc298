//! Join of two streams.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::{Expr, weight_field};

/// Join of two streams by equal keys, over all rows so far.
///
/// Input: rows of two ports, the keys first, with a weight if they are updating.
/// Output: the columns `output` of the left columns followed by the right ones, without weights; then the weight, unless rows stay: those
/// of an inner or semi join of append-only streams do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamJoinSpec {
    /// Kind.
    pub kind: StreamJoinKind,
    /// Number of key columns, the first ones of both sides.
    pub keys: usize,
    /// NULL equals NULL. Otherwise, a row with a NULL among its keys matches none.
    pub nulls_equal: bool,
    /// Further condition over the left columns followed by the right ones, without weights.
    pub filter: Option<Expr>,
    /// The left side.
    pub left: StreamSideSpec,
    /// The right side.
    pub right: StreamSideSpec,
    /// Output columns as indexes into the left columns followed by the right ones, without weights.
    pub output: Vec<usize>,
}

/// One side of a join of streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSideSpec {
    /// Columns, without the weight.
    pub schema: SchemaRef,
    /// The rows have a weight, as the last column.
    pub updating: bool,
}

/// Kinds of joins of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamJoinKind {
    /// Matches only.
    Inner,
    /// Matches, and left rows without one.
    Left,
    /// Matches, and right rows without one.
    Right,
    /// Matches, and rows of both sides without one.
    Full,
    /// Left rows that have a match.
    LeftSemi,
    /// Left rows that have no match.
    LeftAnti,
}

impl StreamJoinKind {
    /// Whether the output has columns of both sides.
    #[must_use]
    pub fn gives_pairs(self) -> bool {
        !matches!(self, StreamJoinKind::LeftSemi | StreamJoinKind::LeftAnti)
    }

    /// Whether rows of the left and of the right side appear with NULL for the columns of the other.
    #[must_use]
    pub fn pads(self) -> (bool, bool) {
        use StreamJoinKind::{Full, Left, Right};
        (matches!(self, Left | Full), matches!(self, Right | Full))
    }
}

impl StreamJoinSpec {
    /// Whether the output has weights.
    #[must_use]
    pub fn is_updating(&self) -> bool {
        self.left.updating
            || self.right.updating
            || !matches!(self.kind, StreamJoinKind::Inner | StreamJoinKind::LeftSemi)
    }

    /// Columns of the left side followed by those of the right one, which may be NULL where their side is missing.
    #[must_use]
    pub fn joined_schema(&self) -> Schema {
        let (pads_left, pads_right) = self.kind.pads();
        let nullable = |field: &Arc<Field>, padded: bool| {
            Arc::new(field.as_ref().clone().with_nullable(padded || field.is_nullable()))
        };
        let left = self.left.schema.fields().iter().map(|field| nullable(field, pads_right));
        let right = self.right.schema.fields().iter().map(|field| nullable(field, pads_left));
        Schema::new(left.chain(right).collect::<Vec<_>>())
    }

    /// Columns of the output.
    #[must_use]
    pub fn output_schema(&self) -> Schema {
        let joined = self.joined_schema();
        let columns = self.output.iter().map(|column| joined.field(*column).clone());
        Schema::new(columns.chain(self.is_updating().then(weight_field)).collect::<Vec<_>>())
    }
}

impl fmt::Display for StreamJoinSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "join {:?} on ", self.kind)?;
        for key in 0..self.keys {
            write!(f, "{}left #{key} = right #{key}", if key == 0 { "" } else { " AND " })?;
        }
        if self.keys == 0 {
            f.write_str("nothing")?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " where {filter}")?;
        }
        f.write_str(": [")?;
        let (left, right) = (self.left.schema.fields(), self.right.schema.fields());
        for (i, column) in self.output.iter().enumerate() {
            let name = left.get(*column).or_else(|| right.get(column - left.len())).map_or("", |field| field.name());
            write!(f, "{}#{column} {name}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}
