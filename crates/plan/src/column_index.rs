//! The columns of a plan by name.
//!
//! The library looks for a column from the first one on, so looking for each column of a wide table would take a time that
//! grows with the square of their number.

use std::collections::BTreeMap;

use anabranch_model::Result;
use arrow::datatypes::FieldRef;
use datafusion_common::{Column, DFSchema, ExprSchema};

use crate::place::planning_error;

/// Finds what [`DFSchema::index_of_column`] finds.
#[derive(Debug)]
pub(crate) struct ColumnIndex<'a> {
    schema: &'a DFSchema,
    /// The places of the columns of each name, in ascending order.
    places: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> ColumnIndex<'a> {
    pub(crate) fn of(schema: &'a DFSchema) -> Self {
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, field) in schema.fields().iter().enumerate() {
            places.entry(field.name()).or_default().push(place);
        }
        ColumnIndex { schema, places }
    }

    /// The place of a column, or an error if there is none.
    #[expect(clippy::disallowed_methods, reason = "once, for the error")]
    pub(crate) fn place(&self, column: &Column) -> Result<usize> {
        match self.find(column) {
            Some(place) => Ok(place),
            // The library's error names similar columns.
            None => self.schema.index_of_column(column).map_err(planning_error),
        }
    }

    /// The place of a column.
    pub(crate) fn find(&self, column: &Column) -> Option<usize> {
        let is_match = |place: &usize| {
            #[cfg(test)]
            tests::COMPARED.with(|count| count.set(count.get() + 1));
            match (&column.relation, self.schema.qualified_field(*place).0) {
                (Some(wanted), Some(given)) => wanted.resolved_eq(given),
                (Some(_), None) => false,
                (None, _) => true,
            }
        };
        self.places.get(column.name.as_str())?.iter().copied().find(is_match)
    }
}

/// Lets the library find the types of expressions.
impl ExprSchema for ColumnIndex<'_> {
    fn field_from_column(&self, column: &Column) -> datafusion_common::Result<&FieldRef> {
        match self.find(column) {
            Some(place) => Ok(self.schema.field(place)),
            None => self.schema.field_from_column(column),
        }
    }
}

#[cfg(test)]
mod tests;
