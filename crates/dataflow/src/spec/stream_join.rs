//! Join of two streams.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::key::nulls;
use crate::list::List;
use crate::{Expr, Growth, KeyColumn, PartKey, StateBound, Stateful, weight_field};

/// Join of two streams by equal keys, over all rows so far.
///
/// Input: rows of two ports, the keys first, with a weight if they are updating. With `versions`, a left row
/// has one match at most: the version of its key that is valid at the left row's event time. It waits until
/// both event times have reached its own, which `left.expiry` says; right rows stay until a newer version is
/// valid. A right row with a negative weight ends the one before: nothing is valid from its time on.
///
/// Output: the columns `output` of the left columns followed by the right ones, without weights; then the
/// weight, unless rows stay: those of an inner or semi join of append-only streams do, and rows without a
/// match that wait for the end of their time.
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
    /// How far the watermark that leaves the join is behind the one that enters it, in milliseconds: an event
    /// time of the output is that of a row that may have waited so long for its match.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: i64,
    /// Right rows are versions of the row of their key, from the event time in this column of the right side
    /// on. The kind is inner or left, and left rows stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<usize>,
    /// See [`Stateful::zone`](crate::Stateful::zone).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

fn is_zero(ms: &i64) -> bool {
    *ms == 0
}

/// One side of a join of streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSideSpec {
    /// Columns, without the weight.
    pub schema: SchemaRef,
    /// The rows have a weight, as the last column.
    pub updating: bool,
    /// From when on its rows match none that follows. `None`: never. Only if neither side is updating, or the
    /// right one has versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<ExpirySpec>,
    /// For how many milliseconds of processing time a row is kept after it came last. `None`: not bounded so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_to_live_ms: Option<i64>,
}

/// The end of a row's time in a join: when the watermark has reached the row's event time plus a length. No
/// row of the other side that follows can match it, and the join forgets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpirySpec {
    /// Column of the side, of a timestamp type. A row with NULL matches none.
    pub time: usize,
    /// The length in milliseconds; may be negative.
    pub after_ms: i64,
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
        match self {
            StreamJoinKind::Inner | StreamJoinKind::Left | StreamJoinKind::Right | StreamJoinKind::Full => true,
            StreamJoinKind::LeftSemi | StreamJoinKind::LeftAnti => false,
        }
    }

    /// Whether rows of the left and of the right side appear without a match.
    #[must_use]
    pub fn gives_unmatched(self) -> (bool, bool) {
        match self {
            StreamJoinKind::Inner | StreamJoinKind::LeftSemi => (false, false),
            StreamJoinKind::Left | StreamJoinKind::LeftAnti => (true, false),
            StreamJoinKind::Right => (false, true),
            StreamJoinKind::Full => (true, true),
        }
    }

    /// Whether rows of the left and of the right side appear with NULL for the columns of the other.
    #[must_use]
    pub fn pads(self) -> (bool, bool) {
        let (left, right) = self.gives_unmatched();
        (left && self.gives_pairs(), right && self.gives_pairs())
    }
}

impl StreamJoinSpec {
    /// Whether the output has weights.
    #[must_use]
    pub fn is_updating(&self) -> bool {
        let (left_waits, right_waits) = self.kind.gives_unmatched();
        let appears_early = |waits: bool, side: &StreamSideSpec| waits && side.expiry.is_none();
        if self.versions.is_some() {
            return false;
        }
        self.left.updating
            || self.right.updating
            || appears_early(left_waits, &self.left)
            || appears_early(right_waits, &self.right)
    }

    /// Columns of the left side followed by those of the right one, which may be NULL where their side is
    /// missing.
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

/// What users can do about the state of a join that grows.
pub(super) const JOIN_REMEDY: &str = "SET 'table.exec.state.ttl', bound how far event times are apart (a.ts BETWEEN \
    b.ts - INTERVAL '1' HOUR AND b.ts), join the same windows, or join versions FOR SYSTEM_TIME AS OF";

/// What checkpoints know a [`StreamJoinSpec`] by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specification")]
pub struct StreamJoinKey {
    pub join: StreamJoinKind,
    pub keys: usize,
    pub left: KeySide,
    pub right: KeySide,
    pub nulls_equal: bool,
    /// The column of the right side from whose time on its rows are valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<usize>,
    /// Only where rows have the numbers of their matches, which depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Expr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A side of a join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySide {
    /// Its rows may be taken back.
    pub updating: bool,
    /// Its columns.
    pub columns: Vec<KeyColumn>,
}

impl From<&StreamSideSpec> for KeySide {
    fn from(side: &StreamSideSpec) -> KeySide {
        KeySide { updating: side.updating, columns: KeyColumn::of_schema(&side.schema) }
    }
}

impl Stateful for StreamJoinSpec {
    fn key(&self) -> PartKey {
        // Rows have the numbers of the matches that satisfy the condition.
        let counts = self.kind != StreamJoinKind::Inner && self.versions.is_none();
        PartKey::StreamJoin(StreamJoinKey {
            join: self.kind,
            keys: self.keys,
            left: KeySide::from(&self.left),
            right: KeySide::from(&self.right),
            nulls_equal: self.nulls_equal,
            versions: self.versions,
            filter: self.filter.clone().filter(|_| counts),
            zone: self.zone.clone(),
        })
    }

    fn kept(&self) -> StateBound {
        let bound = StateBound::new;
        if self.versions.is_some() {
            let kept = "left rows until event time has reached theirs, and of right ones the valid version of each key";
            return bound(kept, Growth::WithKeys);
        }
        match (self.left.expiry, self.right.expiry) {
            (Some(_), Some(_)) => bound("the rows of both sides, while later ones may match them", Growth::Bounded),
            (Some(_), None) => bound("all right rows, and left ones while later ones may match them", Growth::WithRows),
            (None, Some(_)) => bound("all left rows, and right ones while later ones may match them", Growth::WithRows),
            (None, None) => bound("all rows of both sides", Growth::WithRows),
        }
    }

    fn time_to_live_ms(&self) -> Option<i64> {
        let of = |side: &StreamSideSpec| side.time_to_live_ms.or(side.expiry.map(|_| 0));
        Some(of(&self.left)?.max(of(&self.right)?)).filter(|ms| *ms > 0)
    }

    fn lives_by_row(&self) -> bool {
        true
    }

    fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    fn waits_for_event_time(&self) -> bool {
        let gives_unmatched = self.kind.gives_unmatched() != (false, false);
        let expires = self.left.expiry.is_some() || self.right.expiry.is_some();
        self.versions.is_some() || (expires && gives_unmatched)
    }

    fn misses_late_rows(&self) -> bool {
        self.versions.is_some() || self.left.expiry.is_some() || self.right.expiry.is_some()
    }

    fn remedy(&self) -> &'static str {
        JOIN_REMEDY
    }
}

impl fmt::Display for StreamJoinSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "join {:?} on ", self.kind)?;
        if let Some(time) = self.versions {
            write!(f, "the version from right #{time} on, by ")?;
        }
        for key in 0..self.keys {
            write!(f, "{}left #{key} = right #{key}", if key == 0 { "" } else { " AND " })?;
        }
        if self.keys == 0 {
            f.write_str("nothing")?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " where {filter}")?;
        }
        for (name, side) in [("left", &self.left), ("right", &self.right)] {
            if let Some(ExpirySpec { time, after_ms }) = side.expiry {
                write!(f, ", {name} until #{time} {after_ms:+} ms")?;
            }
            crate::spec::time_to_live(f, &format!("{name} rows"), side.time_to_live_ms)?;
        }
        crate::spec::in_zone(f, self.zone.as_deref())?;
        if self.delay_ms != 0 {
            write!(f, ", watermark {:+} ms", -self.delay_ms)?;
        }
        let (left, right) = (self.left.schema.fields(), self.right.schema.fields());
        let column = |column: &usize| {
            let name = left.get(*column).or_else(|| right.get(column - left.len())).map_or("", |field| field.name());
            format!("#{column} {name}")
        };
        write!(f, ": [{}]", List(self.output.iter().map(column)))
    }
}

impl fmt::Display for StreamJoinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamJoinKey { join, keys, left, right, nulls_equal, versions, filter, zone } = self;
        write!(f, "join {join:?} by {keys} columns of {left} and {right}{}", nulls(*nulls_equal))?;
        versions.map_or(Ok(()), |time| write!(f, ", versions by #{time}"))?;
        filter.as_ref().map_or(Ok(()), |filter| write!(f, ", where {filter}"))?;
        super::in_zone(f, zone.as_deref())
    }
}

impl fmt::Display for KeySide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", if self.updating { "updating " } else { "" }, List(&self.columns))
    }
}
