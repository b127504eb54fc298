//! What the keys of parts are made of: [`PartKey`](super::PartKey).

use std::fmt;

use arrow_schema::{FieldRef, Schema};
use serde::{Deserialize, Serialize};

use crate::{AggregateSpec, NamedExpr, TypeName};

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

impl KeyColumn {
    pub(super) fn all(fields: &[FieldRef]) -> Vec<KeyColumn> {
        let column = |field: &FieldRef| KeyColumn { name: field.name().clone(), data_type: field.data_type().into() };
        fields.iter().map(column).collect()
    }

    pub(super) fn of_schema(schema: &Schema) -> Vec<KeyColumn> {
        KeyColumn::all(schema.fields())
    }

    pub(super) fn computed(exprs: &[NamedExpr]) -> Vec<KeyColumn> {
        let column = |of: &NamedExpr| KeyColumn { name: of.name.clone(), data_type: (&of.data_type).into() };
        exprs.iter().map(column).collect()
    }
}

impl KeyFunction {
    pub(super) fn all(calls: &[AggregateSpec]) -> Vec<KeyFunction> {
        let function = |of: &AggregateSpec| KeyFunction {
            name: of.function.clone(),
            distinct: of.distinct,
            data_type: (&of.data_type).into(),
        };
        calls.iter().map(function).collect()
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

/// How people see the order of rows.
pub(super) fn in_order(time: Option<usize>) -> String {
    time.map_or_else(|| "as they come".to_owned(), |time| format!("by column {time}"))
}

/// How people see that NULL equals NULL.
pub(super) fn nulls(are_equal: bool) -> &'static str {
    if are_equal { ", NULL equals NULL" } else { "" }
}

#[cfg(test)]
mod tests;
