//! What a part of a plan keeps, as checkpoints know it. A part with state of another version of the plan is
//! the same if its key is.

use std::fmt;

use anabranch_model::{HASH_SEED, hash_bytes};
use arrow_schema::{FieldRef, Schema};
use serde::{Deserialize, Serialize};

use crate::{
    AggregateSpec, Expr, Frame, NamedExpr, Ordering, StreamJoinKind, StreamSideSpec, TypeName, Window, duration_text,
};

/// Identifies what a part keeps: all that decides its content, and nothing else. The expressions that feed an
/// aggregate may change, for instance, and so may which columns leave a join.
///
/// Its serialized form belongs to the format of manifests. It is frozen: a fixture has each kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are those of the specifications")]
pub enum PartKey {
    /// A source or a sink.
    Table { table: String, connector: String },
    /// The specification is a [`WindowAggregateSpec`](crate::WindowAggregateSpec).
    WindowAggregate {
        window: Window,
        keys: Vec<KeyColumn>,
        functions: Vec<KeyFunction>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<String>,
    },
    /// A [`GroupAggregateSpec`](crate::GroupAggregateSpec).
    GroupAggregate {
        groups: Groups,
        keys: Vec<KeyColumn>,
        functions: Vec<KeyFunction>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<String>,
    },
    /// A [`StreamJoinSpec`](crate::StreamJoinSpec).
    StreamJoin {
        join: StreamJoinKind,
        keys: usize,
        left: KeySide,
        right: KeySide,
        nulls_equal: bool,
        /// The column of the right side from whose time on its rows are valid.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        versions: Option<usize>,
        /// Only where rows have the numbers of their matches, which depend on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<Expr>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<String>,
    },
    /// A [`MultiJoinSpec`](crate::MultiJoinSpec).
    MultiJoin { keys: usize, inputs: Vec<KeyInput>, nulls_equal: bool },
    /// A [`RankSpec`](crate::RankSpec).
    Rank {
        limit: u64,
        updating: bool,
        columns: Vec<KeyColumn>,
        keys: usize,
        order: Vec<Ordering>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<usize>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<String>,
    },
    /// A [`DeduplicateSpec`](crate::DeduplicateSpec).
    Deduplicate { columns: Vec<KeyColumn>, keys: usize, time: Option<usize> },
    /// An [`OverSpec`](crate::OverSpec).
    Over { frame: Frame, time: Option<usize>, columns: Vec<KeyColumn>, keys: usize, functions: Vec<KeyFunction> },
    /// A [`SortSpec`](crate::SortSpec).
    Sort { time: Option<usize>, columns: Vec<KeyColumn> },
    /// A [`LimitSpec`](crate::LimitSpec).
    Limit { skip: u64 },
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

/// A column that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub data_type: TypeName,
}

/// A function whose state is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFunction {
    /// Its name.
    pub name: String,
    /// Of different values.
    pub distinct: bool,
    /// The type of its result.
    #[serde(rename = "type")]
    pub data_type: TypeName,
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

/// An input of a join of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyInput {
    /// Keys without a row of it appear.
    pub outer: bool,
    /// Its rows.
    pub side: KeySide,
}

impl PartKey {
    /// A short text that is the same for equal keys, and for others most likely another: a hash of the
    /// serialized form.
    #[must_use]
    pub fn digest(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{:016x}", hash_bytes(HASH_SEED, text.as_bytes()))
    }
}

impl KeyColumn {
    pub(crate) fn all(fields: &[FieldRef]) -> Vec<KeyColumn> {
        let column = |field: &FieldRef| KeyColumn { name: field.name().clone(), data_type: field.data_type().into() };
        fields.iter().map(column).collect()
    }

    pub(crate) fn of_schema(schema: &Schema) -> Vec<KeyColumn> {
        KeyColumn::all(schema.fields())
    }

    pub(crate) fn computed(exprs: &[NamedExpr]) -> Vec<KeyColumn> {
        let column = |of: &NamedExpr| KeyColumn { name: of.name.clone(), data_type: (&of.data_type).into() };
        exprs.iter().map(column).collect()
    }
}

impl KeyFunction {
    pub(crate) fn all(calls: &[AggregateSpec]) -> Vec<KeyFunction> {
        let function = |of: &AggregateSpec| KeyFunction {
            name: of.function.clone(),
            distinct: of.distinct,
            data_type: (&of.data_type).into(),
        };
        calls.iter().map(function).collect()
    }
}

impl From<&StreamSideSpec> for KeySide {
    fn from(side: &StreamSideSpec) -> KeySide {
        KeySide { updating: side.updating, columns: KeyColumn::of_schema(&side.schema) }
    }
}

/// Items with commas between them.
struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let item = |(i, item): (usize, &T)| write!(f, "{}{item}", if i == 0 { "" } else { ", " });
        self.0.iter().enumerate().try_for_each(item)
    }
}

impl fmt::Display for KeyColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.data_type)
    }
}

impl fmt::Display for KeyFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}) {}", self.name, if self.distinct { "distinct " } else { "" }, self.data_type)
    }
}

impl fmt::Display for KeySide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", if self.updating { "updating " } else { "" }, List(&self.columns))
    }
}

impl fmt::Display for KeyInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.outer { "outer " } else { "" }, self.side)
    }
}

/// For people.
impl fmt::Display for PartKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartKey::Table { table, connector } => write!(f, "{table} ({connector})"),
            PartKey::WindowAggregate { window, keys, functions, zone } => {
                f.write_str("aggregate, window ")?;
                window.write(f, &duration_text)?;
                write!(f, ", by [{}]: [{}]", List(keys), List(functions))?;
                in_zone(f, zone.as_deref())
            }
            PartKey::GroupAggregate { groups, keys, functions, zone } => {
                f.write_str(match groups {
                    Groups::UpdatedRows => "updating aggregate of an updating stream",
                    Groups::Windows => "updating aggregate of windows",
                    Groups::Rows => "updating aggregate",
                })?;
                write!(f, ", by [{}]: [{}]", List(keys), List(functions))?;
                in_zone(f, zone.as_deref())
            }
            PartKey::StreamJoin { join, keys, left, right, nulls_equal, versions, filter, zone } => {
                write!(f, "join {join:?} by {keys} columns of {left} and {right}{}", nulls(*nulls_equal))?;
                versions.map_or(Ok(()), |time| write!(f, ", versions by #{time}"))?;
                filter.as_ref().map_or(Ok(()), |filter| write!(f, ", where {filter}"))?;
                in_zone(f, zone.as_deref())
            }
            PartKey::MultiJoin { keys, inputs, nulls_equal } => {
                write!(f, "join by {keys} columns of ")?;
                for (i, input) in inputs.iter().enumerate() {
                    write!(f, "{}{input}", if i == 0 { "" } else { " and " })?;
                }
                f.write_str(nulls(*nulls_equal))
            }
            PartKey::Rank { limit, updating, columns, keys, order, window, zone } => {
                let kind = if *updating { "updating " } else { "" };
                write!(f, "first {limit} of {kind}[{}], {keys} keys, ", List(columns))?;
                for (i, of) in order.iter().enumerate() {
                    let name = match (of.descending, of.nulls_first) {
                        (false, false) => "ascending",
                        (false, true) => "ascending, NULL first",
                        (true, false) => "descending, NULL last",
                        (true, true) => "descending",
                    };
                    write!(f, "{}{name}", if i == 0 { "" } else { "; " })?;
                }
                window.map_or(Ok(()), |key| write!(f, ", windows by key {key}"))?;
                in_zone(f, zone.as_deref())
            }
            PartKey::Deduplicate { columns, keys, time } => {
                write!(f, "deduplicate [{}], {keys} keys, {}", List(columns), in_order(*time))
            }
            PartKey::Over { frame, time, columns, keys, functions } => {
                f.write_str("over ")?;
                frame.write(f, &duration_text)?;
                let (time, columns, functions) = (in_order(*time), List(columns), List(functions));
                write!(f, ", {time}, of [{columns}], {keys} keys: [{functions}]")
            }
            PartKey::Sort { time: None, columns } => write!(f, "sort of [{}]", List(columns)),
            PartKey::Sort { time: Some(time), columns } => {
                write!(f, "sort by event time {time} of [{}]", List(columns))
            }
            PartKey::Limit { skip } => write!(f, "first rows after {skip}"),
        }
    }
}

fn in_zone(f: &mut fmt::Formatter<'_>, zone: Option<&str>) -> fmt::Result {
    zone.map_or(Ok(()), |zone| write!(f, ", in the time zone {zone}"))
}

fn in_order(time: Option<usize>) -> String {
    time.map_or_else(|| "as they come".to_owned(), |time| format!("by column {time}"))
}

fn nulls(are_equal: bool) -> &'static str {
    if are_equal { ", NULL equals NULL" } else { "" }
}

#[cfg(test)]
mod tests;
