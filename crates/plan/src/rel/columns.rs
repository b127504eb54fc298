//! The columns of a relation.

use std::sync::{Arc, OnceLock};

use anabranch_model::Error;
use arrow::datatypes::{FieldRef, Fields};
use datafusion_common::{Column, DFSchema, ExprSchema, Result, TableReference, plan_err};
use datafusion_expr::Expr;

use crate::place::through;

/// Columns in their order. A column is found by its identity in logarithmic time.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    relations: Vec<Option<TableReference>>,
    fields: Fields,
    /// The places in the order of the names, and equal names in the order of the places.
    by_name: OnceLock<Vec<usize>>,
}

impl Columns {
    /// # Errors
    /// Two columns have one identity. A column without a relation has that of any other of its name.
    pub(crate) fn new(columns: Vec<(Option<TableReference>, FieldRef)>) -> Result<Arc<Self>> {
        let (relations, fields): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let columns = Columns { relations, fields: fields.into(), by_name: OnceLock::new() };
        let mut start = 0;
        let by_name = columns.by_name();
        while let Some(first) = by_name.get(start) {
            let same = by_name[start..].partition_point(|place| columns.name(*place) == columns.name(*first));
            let named = &by_name[start..start + same];
            for (index, place) in named.iter().enumerate() {
                let relation = &columns.relations[*place];
                let is_same = |other: &usize| {
                    let other = &columns.relations[*other];
                    relation.is_none() || other.is_none() || relation == other
                };
                if named[..index].iter().any(is_same) {
                    return Err(through(Error::internal(format!("two columns are '{}'", columns.id(*place)))));
                }
            }
            start += same;
        }
        Ok(Arc::new(columns))
    }

    /// The columns of a relation of this name.
    pub(crate) fn of_relation(name: &str, fields: impl IntoIterator<Item = FieldRef>) -> Result<Arc<Self>> {
        let relation = TableReference::bare(name);
        Columns::new(fields.into_iter().map(|field| (Some(relation.clone()), field)).collect())
    }

    /// The columns of several relations. Of two with one identity it is the first.
    pub(crate) fn merged(of: &[Arc<Columns>]) -> Arc<Self> {
        let mut all: Vec<(Option<TableReference>, FieldRef)> = Vec::new();
        for (place, columns) in of.iter().enumerate() {
            let known = |id: &Column| of[..place].iter().any(|before| before.has(id));
            let own = columns.ids().into_iter().zip(columns.to_vec());
            all.extend(own.filter(|(id, _)| !known(id)).map(|(_, column)| column));
        }
        let (relations, fields): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        Arc::new(Columns { relations, fields: fields.into(), by_name: OnceLock::new() })
    }

    fn name(&self, place: usize) -> &str {
        self.fields[place].name()
    }

    fn by_name(&self) -> &[usize] {
        self.by_name.get_or_init(|| {
            let mut places: Vec<usize> = (0..self.fields.len()).collect();
            places.sort_by_key(|place| self.name(*place));
            places
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    pub(crate) fn field(&self, place: usize) -> &FieldRef {
        &self.fields[place]
    }

    /// The identity of a column.
    pub(crate) fn id(&self, place: usize) -> Column {
        Column::new(self.relations[place].clone(), self.name(place))
    }

    pub(crate) fn ids(&self) -> Vec<Column> {
        (0..self.len()).map(|place| self.id(place)).collect()
    }

    /// The relation that gives each column, and the column's name and type.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (Option<&TableReference>, &FieldRef)> {
        self.relations.iter().map(Option::as_ref).zip(self.fields.iter())
    }

    /// The same, owned.
    pub(crate) fn to_vec(&self) -> Vec<(Option<TableReference>, FieldRef)> {
        self.iter().map(|(relation, field)| (relation.cloned(), Arc::clone(field))).collect()
    }

    /// Some of the columns.
    pub(crate) fn selected(&self, places: &[usize]) -> Result<Arc<Self>> {
        let column = |place: &usize| (self.relations[*place].clone(), Arc::clone(&self.fields[*place]));
        Columns::new(places.iter().map(column).collect())
    }

    /// These columns, and others after them.
    pub(crate) fn with(
        &self,
        added: impl IntoIterator<Item = (Option<TableReference>, FieldRef)>,
    ) -> Result<Arc<Self>> {
        let mut all = self.to_vec();
        all.extend(added);
        Columns::new(all)
    }

    /// The place of a column. One without a relation is the first of its name.
    pub(crate) fn find(&self, column: &Column) -> Option<usize> {
        let by_name = self.by_name();
        let start = by_name.partition_point(|place| self.name(*place) < column.name.as_str());
        let named = by_name[start..].iter().copied().take_while(|place| self.name(*place) == column.name);
        let is_match = |place: &usize| {
            #[cfg(test)]
            tests::COMPARED.with(|count| count.set(count.get() + 1));
            match (&column.relation, &self.relations[*place]) {
                (Some(wanted), Some(given)) => wanted.resolved_eq(given),
                (Some(_), None) => false,
                (None, _) => true,
            }
        };
        named.into_iter().find(is_match)
    }

    pub(crate) fn has(&self, column: &Column) -> bool {
        self.find(column).is_some()
    }

    /// The place of a column.
    ///
    /// # Errors
    /// There is no such column.
    pub(crate) fn place(&self, column: &Column) -> anabranch_model::Result<usize> {
        self.find(column).ok_or_else(|| {
            let known: Vec<String> = self.ids().iter().map(Column::flat_name).collect();
            Error::internal(format!("there is no column {}; the columns are: {}", column.flat_name(), known.join(", ")))
        })
    }

    /// The columns that expressions read, for the library.
    pub(crate) fn schema_of(&self, exprs: &[&Expr]) -> Result<DFSchema> {
        let mut read: Vec<usize> =
            exprs.iter().flat_map(|expr| expr.column_refs()).filter_map(|id| self.find(id)).collect();
        read.sort_unstable();
        read.dedup();
        self.selected(&read)?.to_schema()
    }

    /// All columns for the library, which asks for types of expressions by its own kind of schema.
    pub(crate) fn to_schema(&self) -> Result<DFSchema> {
        DFSchema::new_with_metadata(self.to_vec(), Default::default())
    }
}

/// Lets the library find the types of expressions.
impl ExprSchema for Columns {
    fn field_from_column(&self, column: &Column) -> Result<&FieldRef> {
        match self.find(column) {
            Some(place) => Ok(self.field(place)),
            None => plan_err!("there is no column {}", column.flat_name()),
        }
    }
}

#[cfg(test)]
mod tests;
